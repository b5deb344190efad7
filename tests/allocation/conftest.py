"""A small cluster to allocate from: one node, one class for every device, and slices of a test."""

from __future__ import annotations

import pytest

from policies.devices.allocation.allocator import Allocator
from policies.devices.allocation.pools import SliceIndex
from tests.allocations import allocate, usage_of

DRIVER = "gpu.example.com"


class Cluster:
    def __init__(self):
        self.node = {"metadata": {"name": "node-a", "labels": {"zone": "z1", "slots": "8"}}}
        self.classes = [{"metadata": {"name": "any"}, "spec": {}}]
        self.slices = []
        self.known = {}

    def add(self, *devices, pool="node-a", driver=DRIVER, name=None, generation=1, count=1, **spec):
        where = {"nodeSelector", "allNodes", "perDeviceNodeSelection", "nodeName"} & spec.keys()
        documents = [{"name": device} if isinstance(device, str) else device for device in devices]
        self.slices.append(
            {
                "metadata": {"name": name or f"slice-{len(self.slices)}"},
                "spec": {
                    "driver": driver,
                    "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
                    **({"devices": documents} if documents else {}),
                    **({} if where else {"nodeName": "node-a"}),
                    **spec,
                },
            }
        )

    def ask(self, *claims, **known):
        return allocate(
            claims=claims, node=self.node, slices=self.slices, classes=self.classes, **{**self.known, **known}
        )

    def picked(self, *claims, **known):
        allocations = self.ask(*claims, **known)
        if allocations is None:
            return None
        return [
            f"{result['request']}={result['device']}"
            for allocation in allocations
            for result in allocation["devices"].get("results", [])
        ]

    def allocator(self, *claims, allocated=(), **settings):
        usage = usage_of(allocated)
        return Allocator(SliceIndex(self.slices), claims=claims, classes=self.classes, usage=usage, **settings)

    def pools(self):
        return self.allocator().pools(self.node)

    @staticmethod
    def claim(*requests, name="claim", **devices):
        return {"metadata": {"name": name}, "spec": {"devices": {"requests": list(requests), **devices}}}

    @staticmethod
    def request(name="gpu", *selectors, **exactly):
        return {"name": name, "exactly": Cluster.wanted(*selectors, **exactly)}

    @staticmethod
    def wanted(*selectors, **fields):
        return {
            "deviceClassName": "any",
            **({"selectors": [{"cel": {"expression": selector}} for selector in selectors]} if selectors else {}),
            **fields,
        }

    @staticmethod
    def device(name, capacity=None, **fields):
        attributes = fields.pop("attributes", {})
        return {
            "name": name,
            **({"attributes": attributes} if attributes else {}),
            **({"capacity": capacity} if capacity else {}),
            **fields,
        }


@pytest.fixture
def cluster():
    return Cluster()
