"""Kinds of devices, from nodes and ResourceSlices."""

from fractions import Fraction

import pytest

from policies.devices.published_devices import published_devices
from policies.fleet.offers.shown import ShownSharing
from policies.kubernetes.resourceslices import Device
from policies.kubernetes.view import UNKNOWN
from policies.quota.demands.device_kinds import Offer, node_kinds, published_kind, quota_device
from policies.rules.charges import DeviceKind
from policies.rules.settings.choices import Quotas
from tests.published import shared_device
from webhook.cluster.manifests import ManifestsView

MIB, GIB = 2**20, 2**30
A100, H100 = "NVIDIA-A100-SXM4-40GB", "NVIDIA-H100-80GB-HBM3"
WHOLE = DeviceKind(A100, memory=40960 * MIB)


def offers(document):
    return dict(kind_of(document).offers)


def kind_of(document):
    (kind,) = kinds_of(document).all
    return kind


def kinds_of(document):
    return node_kinds(ManifestsView([{"apiVersion": "v1", "kind": "Node", **document}]))


@pytest.mark.parametrize(
    ("fixture", "expected"),
    [
        ("f1", {"nvidia.com/gpu": Offer(WHOLE)}),
        (
            "f2",
            {
                "nvidia.com/mig-1g.5gb": Offer(DeviceKind(A100, "1g.5gb", Fraction(1, 7), 4864 * MIB)),
                "nvidia.com/mig-2g.10gb": Offer(DeviceKind(A100, "2g.10gb", Fraction(2, 7), 9984 * MIB)),
                "nvidia.com/mig-3g.20gb": Offer(DeviceKind(A100, "3g.20gb", Fraction(1, 2), 20096 * MIB)),
            },
        ),
        ("f3", {"nvidia.com/gpu": Offer(DeviceKind(A100, "1g.5gb", Fraction(1, 7), 4864 * MIB))}),
        (
            "f4",
            {"nvidia.com/gpu": Offer(DeviceKind(H100, memory=81559 * MIB), ShownSharing(4, "time-slicing"))},
        ),
        ("f5", {"nvidia.com/gpu": Offer(DeviceKind("Tesla-T4", memory=15360 * MIB), ShownSharing(4, "mps"))}),
    ],
)
def test_node_offers_what_its_labels_say(node, fixture, expected):
    assert offers(node(fixture)) == expected


def test_renamed_replicas_are_shared_though_the_product_does_not_say_so(node):
    shared = node("f4", labels={"nvidia.com/gpu.product": H100}, offers={"nvidia.com/gpu.shared": "32"})
    assert {name: offer.sharing.replicas for name, offer in offers(shared).items()} == {
        "nvidia.com/gpu": 1,
        "nvidia.com/gpu.shared": 4,
    }


def test_shared_mig_device_has_the_replicas_of_its_own_label(node):
    labels = {
        "nvidia.com/mig-1g.5gb.product": f"{A100}-MIG-1g.5gb-SHARED",
        "nvidia.com/mig-1g.5gb.replicas": "3",
        "nvidia.com/mig-1g.5gb.sharing-strategy": "time-slicing",
    }
    assert offers(node("f2", labels=labels))["nvidia.com/mig-1g.5gb"].sharing == ShownSharing(3, "time-slicing")


def test_zero_replicas_hide_shares_that_the_capacity_shows(node):
    hidden = node("f4", labels={"nvidia.com/gpu.replicas": "0"})
    assert offers(hidden)["nvidia.com/gpu"].sharing == ShownSharing(4, "time-slicing")


@pytest.mark.parametrize("replicas", [None, "", "-4", "four"])
def test_replicas_that_are_no_number_leave_a_device_whole(node, replicas):
    shared = node("f4", labels={"nvidia.com/gpu.replicas": replicas})
    assert offers(shared)["nvidia.com/gpu"].sharing.replicas == 1


def test_node_without_labels_offers_a_gpu_of_which_nothing_is_known():
    bare = {"metadata": {"name": "a"}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}}
    assert offers(bare) == {"nvidia.com/gpu": Offer(DeviceKind(""))}


def test_misconfigured_mig_counts_as_whole_gpus(node):
    product = {"nvidia.com/gpu.product": f"{A100}-MIG-INVALID", "nvidia.com/gpu.memory": "0"}
    assert offers(node("f3", labels=product)) == {"nvidia.com/gpu": Offer(DeviceKind(A100))}


def test_device_plugin_that_restarts_takes_no_kind_away(node):
    restarting = node("f1")
    restarting["status"]["allocatable"]["nvidia.com/gpu"] = "0"
    assert offers(restarting) == {"nvidia.com/gpu": Offer(WHOLE)}


@pytest.mark.parametrize(
    "document",
    [
        {},
        {
            "metadata": {"name": "a"},
            "status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": "many", "amd.com/gpu": 1}},
        },
    ],
    ids=["nothing", "no GPUs"],
)
def test_other_nodes_are_left_out(document):
    assert kinds_of(document).by_name == {}


def test_nodes_that_are_alike_are_one_kind(node, cluster):
    view = cluster(*(node("f1", f"a100-{number}", {"nvidia.com/gpu.machine": str(number)}) for number in range(50)))
    known = view.derive(node_kinds)
    assert (len(known.by_name), len(known.all)) == (50, 1)


def test_kinds_are_unknown_while_nodes_are():
    class Blind(ManifestsView):
        def derive_each(self, kind, function):
            return UNKNOWN

    assert node_kinds(Blind([])) is UNKNOWN


def test_devices_are_found_by_pool_and_name(example):
    known, driver = example().derive(published_devices), "gpu.nvidia.com"
    whole, mig = (
        known.find(driver, "gpu-a100-01", "gpu-1"),
        known.find(driver, "gpu-a100-mig-01", "gpu-0-mig-3g40gb-9-4"),
    )
    assert quota_device(whole).device == DeviceKind("NVIDIA-A100-SXM4-80GB", memory=80 * 2**30)
    assert quota_device(mig).device == DeviceKind("NVIDIA-A100-SXM4-80GB", "3g.40gb", Fraction(1, 2), 40192 * MIB)
    assert known.find(driver, "gpu-a100-01", "gpu-9") is known.find(driver, "gone", "gpu-0") is None
    assert known.find("other.example.com", "gpu-a100-01", "gpu-1") is None


def shared(shares, memory="16Gi"):
    """A T4 as the driver publishes it, which shares it so."""
    capacity = {"memory": {"value": memory}} if memory else {}
    attributes = {"type": {"string": "gpu"}, "productName": {"string": "Tesla T4"}}
    device = {"name": "gpu-0", "attributes": attributes, "capacity": capacity}
    return Device("gpu.nvidia.com", "a", "gpu-0", "a", shared_device(device, shares))


@pytest.mark.parametrize(
    ("shares", "requests", "gpus", "memory"),
    [
        ("4", None, "1/4", 4 * GIB),
        ("4", {"shares": "2"}, "1/2", 8 * GIB),
        ("4", {"shares": "1m"}, "1/4", 4 * GIB),
        ("4", {"shares": 1, "memory": "8Gi"}, "1/2", 8 * GIB),
        ("4", {"shares": 1, "memory": "1Mi"}, "1/4", 4 * GIB),
        ("memory", {"memory": "4Gi"}, "1/4", 4 * GIB),
        ("memory", {"memory": "4095.5Mi"}, "1/4", 4 * GIB),
        ("memory", {"memory": "0"}, "1/16384", MIB),
        ("memory", None, "1", 16 * GIB),
        ("", None, "1", 16 * GIB),
        ("", {"memory": "4Gi"}, "1", 16 * GIB),
    ],
)
def test_request_takes_its_part_of_a_shared_device(shares, requests, gpus, memory):
    taken = published_kind(shared(shares), requests, Quotas())
    assert taken == DeviceKind("Tesla-T4", gpus=Fraction(gpus), memory=memory)


@pytest.mark.parametrize(
    ("shares", "requests"),
    [
        ("4", {"shares": "5"}),
        ("4", {"gpu.nvidia.com/shares": "1"}),
        ("4", {"shares": "much"}),
        ("memory", {"shares": "1"}),
        ("memory", {"memory": "17Gi"}),
        ("unlimited", {"shares": "1"}),
        ("", {"shares": "1"}),
        ("", {"memory": "17Gi"}),
    ],
)
def test_device_that_the_allocator_does_not_give_to_a_request_counts_nothing(shares, requests):
    assert published_kind(shared(shares), requests, Quotas()) is None


@pytest.mark.parametrize(
    ("setting", "requests", "gpus", "memory"),
    [
        ("1/8", None, "1/8", 2 * GIB),
        ("0.5", None, "1/2", 8 * GIB),
        ("1", None, "1", 16 * GIB),
        ("4Gi", None, "1/4", 4 * GIB),
        ("80Gi", None, "1", 16 * GIB),
        ("1/8", {"memory": "4Gi"}, "1/4", 4 * GIB),
        ("1/8", {"memory": "1Mi"}, "1/8", 2 * GIB),
        ("4Gi", {"memory": "1Mi"}, "1/4", 4 * GIB),
    ],
)
def test_claim_counts_for_at_least_the_setting_where_gpus_are_shared_without_limit(setting, requests, gpus, memory):
    taken = published_kind(shared("unlimited"), requests, Quotas(unlimited_share=setting))
    assert taken == DeviceKind("Tesla-T4", gpus=Fraction(gpus), memory=memory)


@pytest.mark.parametrize("requests", [None, {"memory": "4Gi"}])
def test_claim_counts_as_a_whole_gpu_that_is_shared_without_limit_while_no_setting_says_its_share(requests):
    taken = published_kind(shared("unlimited"), requests, Quotas())
    assert taken == DeviceKind("Tesla-T4", memory=16 * GIB, shared_without_limit=True)


def test_share_that_is_memory_is_the_whole_device_where_its_memory_is_unknown():
    device, setting = shared("unlimited", memory=""), Quotas(unlimited_share="4Gi")
    assert published_kind(device, None, setting) == DeviceKind("Tesla-T4")


def test_mig_resource_of_an_unknown_profile_is_a_whole_gpu(node):
    assert offers(node("f2", offers={"nvidia.com/mig-half": "1"}))["nvidia.com/mig-half"] == Offer(DeviceKind(A100))
