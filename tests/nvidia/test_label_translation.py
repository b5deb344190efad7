"""Translations of node labels to device conditions, in CEL and in Python."""

import pytest

from policies.nvidia.labels import Subject, UntranslatableError, is_gpu_label, translate
from policies.nvidia.mig import MIGProfile
from policies.nvidia.predicates import TRUE, Not, TextIn
from tests.published import published_device

A = 'device.attributes["gpu.nvidia.com"]'
C = 'device.capacity["gpu.nvidia.com"]'
GPU = Subject("gpu")
SINGLE = Subject("mig-single")
MIXED = Subject("mig", MIGProfile(1, 10, "+me"))
MEBI = 1024**2

COMMON = {
    "productName": "NVIDIA H100 80GB HBM3",
    "architecture": "Hopper",
    "cudaComputeCapability": "9.0.0",
    "driverVersion": "580.95.5",
    "cudaDriverVersion": "13.0.0",
}
MIG_CAPACITY = {
    "multiprocessors": 16,
    "copyEngines": 1,
    "decoders": 1,
    "encoders": 0,
    "jpegEngines": 1,
    "ofaEngines": 0,
}


def device(capacity, **attributes):
    return published_device({**COMMON, **attributes}, capacity)


H100 = device({"memory": 81559 * MEBI + 4096}, type="gpu")
SLICE = device({"memory": 9984 * MEBI, **MIG_CAPACITY}, type="mig", profile="1g.10gb+me")


def text_is(name, spelling, value):
    return f'has({A}.{name}) && {A}.{name}{spelling} == "{value}"'


DASHED = '.replace(" ", "-")'
LOWER = '.lowerAscii().replace(" ", "-")'


def version(name, condition):
    return f"has({A}.{name}) && {A}.{name}{condition}"


def or_dynamic(how, bound):
    """What a GPU is like that is published as it is; with DynamicMIG a GPU publishes less."""
    return f'({C}.memory.compareTo(quantity("{bound}")) {how} 0 || has({C}.multiprocessors))'


def capacity(name, *conditions):
    return " && ".join(
        [f"has({C}.{name})", *(f'{C}.{name}.compareTo(quantity("{bound}")) {how} 0' for how, bound in conditions)]
    )


# label, operator, value, CEL, another value that the H100 does not meet
ON_A_GPU = [
    (
        "gpu.product",
        "In",
        "NVIDIA-H100-80GB-HBM3",
        text_is("productName", DASHED, "NVIDIA-H100-80GB-HBM3"),
        "NVIDIA-H200",
    ),
    ("gpu.family", "In", "hopper", text_is("architecture", LOWER, "hopper"), "ada-lovelace"),
    (
        "gpu.memory",
        "In",
        "81559",
        f"{capacity('memory', ('>=', '81152Mi'), ('<', '81560Mi'))} && {or_dynamic('>=', '81559Mi')}",
        "81560",
    ),
    (
        "gpu.memory",
        "Gt",
        "81558",
        f"{capacity('memory', ('>=', '81152Mi'))} && {or_dynamic('>=', '81559Mi')}",
        "81559",
    ),
    ("gpu.memory", "Lt", "81560", capacity("memory", ("<", "81560Mi")), "81559"),
    ("gpu.compute.major", "In", "9", version("cudaComputeCapability", ".major() == 9"), "8"),
    ("gpu.compute.major", "Gt", "8", version("cudaComputeCapability", ".major() > 8"), "9"),
    ("gpu.compute.minor", "In", "0", version("cudaComputeCapability", ".minor() == 0"), "9"),
    ("gpu.compute.minor", "Lt", "5", version("cudaComputeCapability", ".minor() < 5"), "0"),
    ("cuda.driver.major", "In", "580", version("driverVersion", ".major() == 580"), "570"),
    ("cuda.driver.minor", "Gt", "94", version("driverVersion", ".minor() > 94"), "95"),
    ("cuda.driver.rev", "In", "05", version("driverVersion", ".patch() == 5"), "06"),
    ("cuda.driver-version.major", "Gt", "570", version("driverVersion", ".major() > 570"), "580"),
    ("cuda.driver-version.minor", "In", "95", version("driverVersion", ".minor() == 95"), "9"),
    ("cuda.driver-version.revision", "Gt", "04", version("driverVersion", ".patch() > 4"), "05"),
    (
        "cuda.driver-version.full",
        "In",
        "580.95.05",
        version("driverVersion", '.compareTo(semver("580.95.5")) == 0'),
        "580.95",
    ),
    ("cuda.runtime.major", "In", "13", version("cudaDriverVersion", ".major() == 13"), "12"),
    ("cuda.runtime.minor", "Lt", "1", version("cudaDriverVersion", ".minor() < 1"), "0"),
    ("cuda.runtime-version.major", "Gt", "12", version("cudaDriverVersion", ".major() > 12"), "13"),
    ("cuda.runtime-version.minor", "In", "0", version("cudaDriverVersion", ".minor() == 0"), "1"),
    (
        "cuda.runtime-version.full",
        "In",
        "13.0",
        version("cudaDriverVersion", '.compareTo(semver("13.0.0")) == 0'),
        "13.1",
    ),
]
ON_A_MIG_DEVICE = [
    ("gpu.memory", "In", "9984", capacity("memory", (">=", "9984Mi"), ("<", "9985Mi")), "81559"),
    ("gpu.multiprocessors", "In", "16", capacity("multiprocessors", ("==", "16")), "14"),
    ("gpu.multiprocessors", "Gt", "15", capacity("multiprocessors", (">", "15")), "16"),
    ("gpu.engines.copy", "In", "1", capacity("copyEngines", ("==", "1")), "2"),
    ("gpu.engines.decoder", "Lt", "2", capacity("decoders", ("<", "2")), "1"),
    ("gpu.engines.encoder", "In", "0", capacity("encoders", ("==", "0")), "1"),
    ("gpu.engines.jpeg", "In", "1", capacity("jpegEngines", ("==", "1")), "0"),
    ("gpu.engines.ofa", "In", "0", capacity("ofaEngines", ("==", "0")), "1"),
    ("gpu.slices.gi", "In", "1", f'has({A}.profile) && {A}.profile.startsWith("1g.")', "3"),
    ("gpu.slices.ci", "In", "1", f'has({A}.profile) && {A}.profile.startsWith("1g.")', "7"),
    (
        "gpu.product",
        "In",
        "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb.me",
        f"{text_is('productName', DASHED, 'NVIDIA-H100-80GB-HBM3')} && {text_is('profile', '', '1g.10gb+me')}",
        "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
    ),
    ("gpu.family", "In", "hopper", text_is("architecture", LOWER, "hopper"), "ampere"),
]
OF_THE_PROFILE = [
    (f"mig-1g.10gb.me.{name.removeprefix('gpu.')}", *rest) for name, *rest in ON_A_MIG_DEVICE if name != "gpu.family"
]
CASES = [
    *((GPU, H100, *case) for case in ON_A_GPU),
    *((SINGLE, SLICE, *case) for case in ON_A_MIG_DEVICE),
    *((MIXED, SLICE, *case) for case in OF_THE_PROFILE),
]
ids = [f"{case[0].kind} {case[2]} {case[3]}" for case in CASES]


@pytest.mark.parametrize(("subject", "device", "label", "operator", "value", "expected", "other"), CASES, ids=ids)
def test_label_becomes_a_condition_on_devices(cel, subject, device, label, operator, value, expected, other):
    predicate = translate(f"nvidia.com/{label}", operator, [value], subject)
    assert predicate.cel() == expected
    assert predicate.matches(device)
    assert cel(expected, device)
    unmet = translate(f"nvidia.com/{label}", operator, [other], subject)
    assert not unmet.matches(device)
    assert not cel(unmet.cel(), device)


@pytest.mark.parametrize(
    ("subject", "label"),
    sorted({(case[0], case[2]) for case in CASES}, key=str),
    ids=lambda value: getattr(value, "kind", value),
)
def test_label_is_one_of_gpus_and_not_in_is_its_opposite(subject, label):
    case = next(case for case in CASES if (case[0], case[2]) == (subject, label) and case[3] in ("In", "Gt", "Lt"))
    assert is_gpu_label(f"nvidia.com/{label}")
    positive = translate(f"nvidia.com/{label}", "In", [case[6]], subject)
    assert translate(f"nvidia.com/{label}", "NotIn", [case[6]], subject).cel() == f"!({positive.cel()})"


@pytest.mark.parametrize(
    ("subject", "label", "expected"),
    [
        (GPU, "gpu.product", f"has({A}.productName)"),
        (GPU, "gpu.family", f"has({A}.architecture)"),
        (GPU, "gpu.memory", f"has({C}.memory)"),
        (GPU, "gpu.compute.major", f"has({A}.cudaComputeCapability)"),
        (GPU, "cuda.driver-version.full", f"has({A}.driverVersion)"),
        (GPU, "cuda.runtime-version.minor", f"has({A}.cudaDriverVersion)"),
        (SINGLE, "gpu.engines.ofa", f"has({C}.ofaEngines)"),
        (SINGLE, "gpu.slices.gi", f"has({A}.profile)"),
        (MIXED, "mig-1g.10gb.me.count", f'has({A}.profile) && {A}.profile == "1g.10gb+me"'),
        (MIXED, "mig-1g.10gb.me.memory", f'has({A}.profile) && {A}.profile == "1g.10gb+me"'),
    ],
)
def test_existence_of_a_label_is_existence_of_the_attribute(subject, label, expected):
    assert translate(f"nvidia.com/{label}", "Exists", [], subject).cel() == expected


@pytest.mark.parametrize(("subject", "label"), [(GPU, "gpu.memory"), (SINGLE, "gpu.engines.ofa")])
def test_absence_of_a_capacity_is_its_opposite(subject, label):
    present = translate(f"nvidia.com/{label}", "Exists", [], subject).cel()
    assert translate(f"nvidia.com/{label}", "DoesNotExist", [], subject).cel() == f"!({present})"


@pytest.mark.parametrize(
    ("subject", "label"),
    [
        (GPU, "gpu.product"),
        (GPU, "gpu.family"),
        (GPU, "gpu.compute.major"),
        (GPU, "cuda.driver-version.full"),
        (SINGLE, "gpu.slices.gi"),
        (MIXED, "mig-1g.10gb.me.count"),
    ],
)
def test_absence_of_what_every_device_has_is_refused(subject, label):
    with pytest.raises(UntranslatableError, match=r"^excludes every node with such a device$"):
        translate(f"nvidia.com/{label}", "DoesNotExist", [], subject)


def test_profile_label_excludes_shared_devices_silently():
    excluded = translate("nvidia.com/mig-1g.10gb.me.sharing-strategy", "NotIn", ["time-slicing", "mps"], MIXED)
    assert excluded == TRUE
    product = translate("nvidia.com/mig-1g.10gb.me.product", "NotIn", ["NVIDIA-L4-SHARED"], MIXED)
    assert product == TRUE


def test_several_values_become_one_list_whatever_their_order():
    one = translate("nvidia.com/gpu.product", "In", ["Tesla-T4", "NVIDIA-L40S"], GPU)
    two = translate("nvidia.com/gpu.product", "In", ["NVIDIA-L40S", "Tesla-T4", "NVIDIA-L40S"], GPU)
    assert one == two
    assert one.cel() == f'has({A}.productName) && {A}.productName{DASHED} in ["NVIDIA-L40S", "Tesla-T4"]'


def test_dash_and_blank_are_one_on_the_labels_side():
    predicate = translate("nvidia.com/gpu.product", "In", ["NVIDIA-A100-SXM4-40GB"], GPU)
    assert predicate.matches(device({}, productName="NVIDIA A100-SXM4-40GB"))


@pytest.mark.parametrize("value", ["5", "05", "005"])
def test_numbers_of_versions_are_compared_as_numbers(value):
    assert translate("nvidia.com/cuda.driver.rev", "In", [value], GPU).matches(H100)


def test_revision_that_is_nothing_is_0():
    two_parts = device({}, driverVersion="565.77.0")
    assert translate("nvidia.com/cuda.driver-version.revision", "In", [""], GPU).matches(two_parts)
    assert translate("nvidia.com/cuda.driver-version.full", "In", ["565.77"], GPU).matches(two_parts)
    less = translate("nvidia.com/cuda.driver-version.revision", "Lt", ["6"], GPU)
    assert less.matches(H100)
    assert not less.matches(two_parts)


@pytest.mark.parametrize(
    ("subject", "label", "operator", "values"),
    [
        (GPU, "gpu.present", "In", ["true"]),
        (GPU, "gpu.present", "NotIn", ["false"]),
        (MIXED, "gpu.present", "Exists", []),
        (GPU, "gpu.sharing-strategy", "In", ["none"]),
        (GPU, "gpu.sharing-strategy", "Exists", []),
        (GPU, "gpu.sharing-strategy", "NotIn", ["time-slicing", "mps"]),
        (MIXED, "mig-1g.10gb.me.sharing-strategy", "In", ["none"]),
        (MIXED, "mig.strategy", "In", ["mixed"]),
        (SINGLE, "mig.strategy", "In", ["single"]),
        (GPU, "gpu.product", "NotIn", ["NVIDIA-H200-SHARED"]),
        (GPU, "gpu.product", "NotIn", ["NVIDIA-H200-MIG-1g.18gb"]),
        (GPU, "gpu.product", "NotIn", ["NVIDIA-H200-MIG-INVALID"]),
        (SINGLE, "gpu.product", "NotIn", ["NVIDIA-H200"]),
    ],
)
def test_what_every_device_meets_is_no_condition(subject, label, operator, values):
    assert translate(f"nvidia.com/{label}", operator, values, subject) == TRUE


def test_values_that_exclude_nothing_are_left_out():
    values = ["NVIDIA-H200", "NVIDIA-H200-SHARED", "NVIDIA-H200-MIG-INVALID"]
    assert translate("nvidia.com/gpu.product", "NotIn", values, GPU) == Not(
        TextIn("productName", ("NVIDIA-H200",), "dashed", "product")
    )
