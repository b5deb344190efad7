"""The leader's metrics of devices."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from policies.kubernetes.view import UNKNOWN
from policies.rules.settings import DEFAULTS
from tests.usage.usage_objects import NOTHING, PRODUCT, node, pod
from webhook.cluster.manifests import ManifestsView
from webhook.controllers.audit_round import DeviceRound


class ChangingView:
    """A view whose objects are replaced between two rounds."""

    def __init__(self, *objects):
        self.show(*objects)

    def show(self, *objects):
        self._view = ManifestsView([*NOTHING, *objects])

    def __getattr__(self, name):
        return getattr(self._view, name)


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def started(registry):
    """Start to count the devices of a view."""

    def start(view, **options):
        devices = DeviceRound(view, lambda: DEFAULTS, **options)
        registry.register(devices)
        return devices

    return start


def exported(registry):
    return {
        (*sample.labels.values(),): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "gpu_admission_devices"
    }


async def test_nothing_is_exported_before_the_first_round(registry, started):
    started(ChangingView(node(gpus=8)))
    assert exported(registry) == {}
    assert registry.get_sample_value("gpu_admission_devices_summed_nodes") is None


async def test_devices_are_exported_by_node_kind_and_state(registry, started):
    await started(ChangingView(node(gpus=8), pod(gpus=3))).round()
    assert exported(registry) == {
        ("node-1", PRODUCT, "", "1", "held"): 3,
        ("node-1", PRODUCT, "", "1", "free"): 5,
        ("node-1", PRODUCT, "", "1", "unusable"): 0,
        ("node-1", PRODUCT, "", "1", "over"): 0,
    }
    assert registry.get_sample_value("gpu_admission_devices_summed_nodes") == 0


async def test_mig_devices_and_shares_are_kinds_of_their_own(registry, started):
    shared = {
        "nvidia.com/gpu.replicas": "4",
        "nvidia.com/gpu.product": f"{PRODUCT}-SHARED",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
    }
    mig = node("node-2", gpus=7, resource="nvidia.com/mig-1g.10gb")
    await started(ChangingView(node(gpus=4, labels=shared), mig)).round()
    assert {key[:4] for key in exported(registry)} == {
        ("node-1", PRODUCT, "", "4"),
        ("node-2", PRODUCT, "1g.10gb", "1"),
    }


async def test_a_node_that_is_gone_is_not_exported_any_more(registry, started):
    view = ChangingView(node(gpus=8), node("node-2", gpus=8))
    devices = started(view)
    await devices.round()
    view.show(node("node-2", gpus=8))
    await devices.round()
    assert {name for name, *_ in exported(registry)} == {"node-2"}


async def test_unknown_amounts_are_not_exported(registry, started):
    view = ChangingView(node(gpus=8))
    view.list = lambda kind, namespace="": UNKNOWN if kind == "Pod" else view._view.list(kind, namespace)
    await started(view).round()
    assert exported(registry) == {}


async def test_nodes_are_summed_beyond_the_most_rows(registry, started):
    await started(ChangingView(node(gpus=8), node("node-2", gpus=8)), most_rows=1).round()
    assert exported(registry)["", PRODUCT, "", "1", "free"] == 16
    assert registry.get_sample_value("gpu_admission_devices_summed_nodes") == 2


async def test_devices_are_forgotten_with_the_lead(registry, started):
    devices = started(ChangingView(node(gpus=8)))
    await devices.round()
    devices.forget()
    assert exported(registry) == {}
