"""Label conditions without an equivalent on a device are refused with their reason."""

import pytest

from policies.nvidia.labels import SharedGPUError, Subject, UntranslatableError, is_gpu_label, translate
from policies.nvidia.mig import MIGProfile

GPU = Subject("gpu")
SINGLE = Subject("mig-single")
MIXED = Subject("mig", MIGProfile(1, 5))
H100 = "NVIDIA-H100-80GB-HBM3"

OF_THE_NODE = "describes the node and not the GPU; no device has such an attribute"
ONLY_SINGLE = "exists only on nodes that hand out MIG devices as nvidia.com/gpu"
NO_EQUIVALENT = {
    "mig.capable": "tells whether some GPU of the node can do MIG; no device has such an attribute",
    "gpu.count": "counts the GPUs of the node; no device knows how many there are",
    "gpu.replicas": "counts how many pods share a GPU; a claim holds a GPU alone",
    "mps.capable": "tells whether the node shares GPUs by MPS; a claim holds a GPU alone",
    "gpu.mode": OF_THE_NODE,
    "gpu.machine": OF_THE_NODE,
    "gfd.timestamp": OF_THE_NODE,
    "gpu.clique": "names the node's NVLink domain, which no GPU attribute does; a ComputeDomain requests one",
    "vgpu.present": OF_THE_NODE,
    "vgpu.host-driver-version": OF_THE_NODE,
    "vgpu.host-driver-branch": OF_THE_NODE,
    "mig.config": "names a configuration of the MIG manager; request the MIG profile itself",
    "mig.config.state": "is the MIG manager's progress; no device has such an attribute",
    "gpu.deploy.device-plugin": "steers the GPU Operator's own pods; no device has such an attribute",
}


def refusal(label, operator, values, subject=GPU):
    with pytest.raises(UntranslatableError) as refused:
        translate(f"nvidia.com/{label}", operator, values, subject)
    return refused.value


@pytest.mark.parametrize(("label", "reason"), NO_EQUIVALENT.items())
@pytest.mark.parametrize("operator", ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
def test_label_that_no_attribute_equals(label, reason, operator):
    assert is_gpu_label(f"nvidia.com/{label}")
    for subject in (GPU, SINGLE, MIXED):
        assert str(refusal(label, operator, ["1"], subject)) == reason


@pytest.mark.parametrize(
    ("label", "operator", "value", "reason"),
    [
        (
            "gpu.product",
            "In",
            f"{H100}-MIG-INVALID",
            "names a node whose MIG devices are misconfigured; no wanted device is like that",
        ),
        (
            "gpu.product",
            "In",
            f"{H100}-MIG-1g.10gb",
            "names nodes that hand out MIG 1g.10gb devices as nvidia.com/gpu; the pod requests whole GPUs",
        ),
        ("gpu.product", "Gt", "1", "is not a number, so Gt and Lt never match it"),
        ("gpu.family", "Lt", "1", "is not a number, so Gt and Lt never match it"),
        ("gpu.family", "In", "undefined", 'is "undefined" on GPUs that GFD does not know; no architecture equals that'),
        (
            "gpu.family",
            "NotIn",
            "unknown",
            'is "undefined" on GPUs that GFD does not know; no architecture equals that',
        ),
        ("gpu.memory", "In", "80Gi", 'is a number of mebibytes on every node; "80Gi" is none'),
        ("gpu.memory", "In", "081559", 'is a number of mebibytes on every node; "081559" is none'),
        ("gpu.compute.major", "In", "", 'is a number on every node; "" is none'),
        ("gpu.compute.major", "In", "9.0", 'is a number on every node; "9.0" is none'),
        ("cuda.driver.major", "NotIn", "v580", 'is a number on every node; "v580" is none'),
        ("cuda.driver.minor", "In", "\u0665", 'is a number on every node; "\u0665" is none'),
        ("cuda.driver-version.full", "In", "580", 'is a version on every node; "580" is none'),
        ("cuda.driver-version.full", "In", "580.95.05.1", 'is a version on every node; "580.95.05.1" is none'),
        ("cuda.driver-version.full", "In", "580.x", 'is a version on every node; "580.x" is none'),
        ("cuda.driver-version.full", "Gt", "580", "is not a number, so Gt and Lt never match it"),
        ("gpu.present", "In", "false", '"false" contradicts the request of the pod; no node with such a device has it'),
        (
            "mig.strategy",
            "In",
            "mixed",
            "only tells how the device plugin names resources; no device has such an attribute",
        ),
        ("gpu.multiprocessors", "In", "132", ONLY_SINGLE),
        ("gpu.engines.copy", "Gt", "1", ONLY_SINGLE),
        ("gpu.slices.gi", "In", "1", ONLY_SINGLE),
        ("gpu.product", "Near", H100, 'has the unknown operator "Near"'),
        ("gpu.unheard-of", "In", "x", "is not a label of a GPU"),
    ],
)
def test_condition_on_a_whole_gpu(label, operator, value, reason):
    assert str(refusal(label, operator, [value])) == reason


@pytest.mark.parametrize(
    ("subject", "label", "operator", "value", "reason"),
    [
        (SINGLE, "gpu.product", "In", H100, "names nodes with whole GPUs; the pod requests MIG devices"),
        (
            SINGLE,
            "gpu.slices.gi",
            "Gt",
            "1",
            "is compared by Gt or Lt, and devices have it only as the text of their profile",
        ),
        (SINGLE, "gpu.slices.ci", "In", "many", 'is a number on every node; "many" is none'),
        (SINGLE, "gpu.multiprocessors", "In", "many", 'is a number on every node; "many" is none'),
        (
            MIXED,
            "gpu.product",
            "In",
            f"{H100}-MIG-1g.10gb",
            "names nodes that hand out MIG 1g.10gb devices as nvidia.com/gpu; the pod requests MIG devices by their profile",
        ),
        (MIXED, "gpu.memory", "Gt", "40000", "tells the memory of the whole GPU; a MIG device knows only its own"),
        (MIXED, "gpu.multiprocessors", "In", "14", ONLY_SINGLE),
        (MIXED, "mig-1g.5gb.count", "Gt", "3", "counts devices of the node; no device knows how many there are"),
        (MIXED, "mig-1g.5gb.replicas", "In", "1", "counts devices of the node; no device knows how many there are"),
        (
            MIXED,
            "mig-2g.10gb.memory",
            "Gt",
            "1",
            "says that the node has 2g.10gb devices, which this pod does not request; a device knows nothing of its neighbours",
        ),
        (
            GPU,
            "mig-1g.5gb.count",
            "Exists",
            "",
            "says that the node has 1g.5gb devices, which this pod does not request; a device knows nothing of its neighbours",
        ),
        (MIXED, "mig-1g.5gb.product", "In", H100, "names nodes with whole GPUs; the pod requests MIG devices"),
    ],
)
def test_condition_on_a_mig_device(subject, label, operator, value, reason):
    assert str(refusal(label, operator, [value], subject)) == reason


@pytest.mark.parametrize(
    ("subject", "label", "operator", "value", "reason"),
    [
        (
            GPU,
            "gpu.product",
            "In",
            f"{H100}-SHARED",
            "names GPUs that are shared between pods (suffix -SHARED); a claim gets a whole GPU",
        ),
        (
            SINGLE,
            "gpu.product",
            "In",
            f"{H100}-MIG-1g.10gb-SHARED",
            "names GPUs that are shared between pods (suffix -SHARED); a claim gets a whole GPU",
        ),
        (
            GPU,
            "gpu.sharing-strategy",
            "In",
            "mps",
            '"mps" selects GPUs that are shared between pods; a claim gets a whole GPU',
        ),
        (
            GPU,
            "gpu.sharing-strategy",
            "NotIn",
            "none",
            'without "none" selects GPUs that are shared between pods; a claim gets a whole GPU',
        ),
        (
            MIXED,
            "mig-1g.5gb.sharing-strategy",
            "In",
            "time-slicing",
            '"time-slicing" selects GPUs that are shared between pods; a claim gets a whole GPU',
        ),
    ],
)
def test_condition_that_selects_shared_gpus_is_reported_apart(subject, label, operator, value, reason):
    refused = refusal(label, operator, [value], subject)
    assert isinstance(refused, SharedGPUError)
    assert str(refused) == reason


def test_shared_product_among_whole_ones_selects_shared_gpus():
    assert isinstance(refusal("gpu.product", "In", [H100, f"{H100}-SHARED"]), SharedGPUError)


@pytest.mark.parametrize(
    ("subject", "label", "operator", "values"),
    [
        (GPU, "gpu.present", "DoesNotExist", []),
        (GPU, "gpu.present", "NotIn", ["true"]),
        (MIXED, "mig.strategy", "NotIn", ["mixed"]),
        (GPU, "gpu.sharing-strategy", "DoesNotExist", []),
    ],
)
def test_condition_that_no_device_meets(subject, label, operator, values):
    assert str(refusal(label, operator, values, subject)) == "excludes every node with such a device"


@pytest.mark.parametrize(
    "key",
    [
        *("", "nvidia.com/", "nvidia.com/gpu", "gpu.product", "example.com/gpu.product", "kubernetes.io/hostname"),
        *("nvidia.com/gpu.product.x", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-1g.5gb.", "nvidia.com/mig-small.count"),
        *("nvidia.com/mig-1g.5gb.color", "nvidia.com/mig-.count", "nvidia.com/gpu.workload.config"),
        *("nvidia.com/device-plugin.config", "feature.node.kubernetes.io/pci-10de.present", "NVIDIA.com/gpu.product"),
    ],
)
def test_label_that_does_not_describe_gpus(key):
    assert not is_gpu_label(key)
