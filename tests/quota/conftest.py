"""Nodes with labels of GPU Feature Discovery, the cluster of the examples, and GPU requests."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from pathlib import Path

import pytest

from policies.kubernetes.pods import Pod
from testbed import libyaml
from webhook.cluster.manifests import ManifestsView

ROOT = Path(__file__).parents[2]
NODES = ROOT / "tests" / "placement" / "nodes"


@cache
def documents(path):
    found = [document for document in libyaml.load_all(path.read_text()) if document]
    return [item for each in found for item in (each["items"] if each["kind"] == "List" else [each])]


@pytest.fixture(scope="session")
def node():
    """A node of a fixture with changes to its labels and amounts; None takes one away: `node("f4", "name", {...})`."""

    def node(fixture, name=None, labels=None, offers=None):
        (path,) = NODES.glob(f"{fixture}*.yaml")
        document = deepcopy(documents(path)[0])
        document["metadata"]["name"] = name or document["metadata"]["name"]
        places = [document["metadata"]["labels"], document["status"]["allocatable"], document["status"]["capacity"]]
        for place, changes in zip(places, (labels, offers, offers), strict=True):
            place.update(changes or {})
            for key in [key for key, value in place.items() if value is None]:
                del place[key]
        return document

    return node


@pytest.fixture(scope="session")
def cluster(node):
    """A view of nodes by their fixtures, and of other objects: `cluster("f1", "f4", some_node)`."""

    def cluster(*parts):
        return ManifestsView([node(part) if isinstance(part, str) else part for part in parts])

    return cluster


@pytest.fixture(scope="session")
def example():
    """The cluster of examples/cluster, and other objects: some nodes with a device plugin, some with the DRA driver."""

    def example(*more):
        files = ("nodes", "deviceclasses", "resourceslices")
        known = [each for name in files for each in documents(ROOT / "examples" / "cluster" / f"{name}.yaml")]
        return ManifestsView([*known, *more])

    return example


@pytest.fixture(scope="session")
def pod():
    """A pod with one container: `pod({"nvidia.com/gpu": 1}, nodeSelector={...})`."""

    def pod(limits=None, **spec):
        container = {"name": "main", "image": "train", "resources": {"limits": limits or {}}}
        metadata = {"name": "train", "namespace": "team-a", "uid": "1"}
        return Pod.read(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}
        )

    return pod


@pytest.fixture(scope="session")
def claim():
    """A ResourceClaim with these requests."""

    def claim(*requests, version="v1", status=None):
        return {
            "apiVersion": f"resource.k8s.io/{version}",
            "kind": "ResourceClaim",
            "metadata": {"name": "gpus", "namespace": "team-a"},
            "spec": {"devices": {"requests": list(requests)}},
            **({"status": status} if status else {}),
        }

    return claim


@pytest.fixture(scope="session")
def template():
    """A ResourceClaimTemplate with these requests."""

    def template(*requests, name="gpus"):
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": name, "namespace": "team-a"},
            "spec": {"spec": {"devices": {"requests": list(requests)}}},
        }

    return template


@pytest.fixture(scope="session")
def request_for():
    """A request for devices of a class that match selectors: `request_for("gpu.nvidia.com", "device...", count=2)`."""

    def request_for(device_class="gpu.nvidia.com", *selectors, name="gpu", **fields):
        chosen = {"selectors": [{"cel": {"expression": text}} for text in selectors]} if selectors else {}
        return {"name": name, "exactly": {"deviceClassName": device_class, **chosen, **fields}}

    return request_for
