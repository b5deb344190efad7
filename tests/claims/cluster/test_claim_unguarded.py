"""Unguarded access to attributes that devices of the cluster, or NVIDIA's devices in general, may lack."""

import pytest
import yaml

from policies.kubernetes.objects import FieldPath
from policies.rules.decision import Place, Severity
from policies.rules.settings import DRADriver, GPUAdmissionPolicy

A = 'device.attributes["gpu.nvidia.com"]'
C = 'device.capacity["gpu.nvidia.com"]'
STANDARD = 'device.attributes["resource.kubernetes.io"]'
WHERE = "selectors[0].cel.expression: "
MODE = f'{A}.addressingMode == "HMM"'
NO_SLICES = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSliceList", "items": []}


def test_attribute_that_one_device_lacks_is_reported_with_its_name(said, asking, device_class, gpu, on_node):
    devices = [gpu("gpu-0"), gpu("gpu-1", addressingMode="HMM")]
    assert said("GA221", asking(MODE), device_class(), on_node("node-7", *devices)) == [
        (
            f"{WHERE}reads attribute gpu.nvidia.com/addressingMode, which gpu-0 on node-7 of class gpu.nvidia.com lacks; that "
            f'stops the pod on every node; write "addressingMode" in {A} && {MODE}'
        )
    ]


def test_attribute_that_some_devices_lack_is_reported_with_their_number(said, asking, device_class, gpu, on_node):
    old = [on_node(f"node-{number}", gpu("gpu-0"), gpu("gpu-1")) for number in range(7)]
    new = on_node("node-7", gpu("gpu-0", addressingMode="HMM"))
    (text,) = said("GA221", asking(MODE), device_class(), *old, new)
    assert "which gpu-0 on node-0 and 13 more of class gpu.nvidia.com lack; that stops" in text


def test_attribute_that_all_devices_have_is_fine(said, asking, device_class, gpu, on_node):
    assert said("GA221", asking(MODE), device_class(), on_node("node-7", gpu(addressingMode="HMM"))) == []


def test_devices_that_the_class_does_not_select_are_not_asked(said, asking, device_class, gpu, on_node):
    devices = [gpu("gpu-0", addressingMode="HMM"), gpu("gpu-1-mig", type="mig")]
    assert said("GA221", asking(MODE), device_class(), on_node("node-7", *devices)) == []


def test_devices_that_an_earlier_selector_leaves_out_are_not_asked(said, asking, device_class, gpu, on_node):
    devices = [gpu("gpu-0", addressingMode="HMM"), gpu("gpu-1", architecture="Ampere")]
    claim = asking(f'{A}.architecture == "Hopper"', MODE)
    assert said("GA221", claim, device_class(), on_node("node-7", *devices)) == []


def test_later_selector_does_not_guard_an_earlier_one(said, asking, device_class, gpu, on_node):
    devices = [gpu("gpu-0", addressingMode="HMM"), gpu("gpu-1", architecture="Ampere")]
    claim = asking(MODE, f'{A}.architecture == "Hopper"')
    assert len(said("GA221", claim, device_class(), on_node("node-7", *devices))) == 1


@pytest.mark.parametrize(
    "guarded",
    [
        f'"addressingMode" in {A} && {MODE}',
        f"has({A}.addressingMode) && {MODE}",
        f'{A}.?addressingMode.orValue("") == "HMM"',
        f'cel.bind(a, {A}, has(a.addressingMode) ? a.addressingMode == "HMM" : false)',
    ],
)
@pytest.mark.parametrize("sees_slices", [True, False])
def test_guarded_read_is_fine(said, asking, device_class, gpu, on_node, guarded, sees_slices):
    slices = [on_node("node-7", gpu())] if sees_slices else []
    assert said("GA221", asking(guarded), device_class(), *slices) == []


@pytest.mark.parametrize(
    ("device_class_name", "text", "expected"),
    [
        (
            "gpu.nvidia.com",
            MODE,
            (
                "reads attribute gpu.nvidia.com/addressingMode, which NVIDIA's driver publishes only for GPUs that tell it; a "
                f'device without it stops the pod on every node; write "addressingMode" in {A} && {MODE}'
            ),
        ),
        (
            "gpu.nvidia.com",
            f'{A}.brand == "" || {STANDARD}.pcieRoot == ""',
            (
                "reads attribute resource.kubernetes.io/pcieRoot, which NVIDIA's driver publishes only where the node tells it; "
                f'a device without it stops the pod on every node; write "pcieRoot" in {STANDARD} && '
                "before the read"
            ),
        ),
        (
            "gpu.nvidia.com",
            f'{A}.productname.startsWith("NVIDIA")',
            (
                "reads attribute gpu.nvidia.com/productname, which NVIDIA's driver publishes for no gpu device; that stops the "
                f"pod on every node; write {A}.productName"
            ),
        ),
        (
            "gpu.nvidia.com",
            f'{A}.memory == "80Gi"',
            (
                "reads attribute gpu.nvidia.com/memory, which NVIDIA's driver publishes for no gpu device; that stops the pod on "
                f"every node; write {C}.memory"
            ),
        ),
        (
            "gpu.nvidia.com",
            f'{A}.profile == "1g.10gb"',
            (
                "reads attribute gpu.nvidia.com/profile, which NVIDIA's driver publishes for no gpu device; that stops the pod "
                "on every node; request devices of class mig.nvidia.com"
            ),
        ),
        (
            "mig.nvidia.com",
            f'{A}.colour == "green"',
            (
                "reads attribute gpu.nvidia.com/colour, which NVIDIA's driver publishes for no mig device; that stops the pod on "
                f'every node; remove it, or write "colour" in {A} && {A}.colour == "green"'
            ),
        ),
        (
            "vfio.gpu.nvidia.com",
            f'{A}.architecture == "Hopper" && {A}.type == "vfio" && {A}.vendorID == "0x10de" && {A}.productName != ""',
            (
                "reads attribute gpu.nvidia.com/architecture, which NVIDIA's driver publishes for no vfio device; that stops the "
                f'pod on every node; remove it, or write "architecture" in {A} && before the read'
            ),
        ),
    ],
)
@pytest.mark.parametrize("sees_class", ["class", "no class", "no devices"])
def test_without_devices_what_the_driver_publishes_counts(
    said, asking, device_class, device_class_name, text, expected, sees_class
):
    cluster = [] if sees_class == "no class" else [device_class(device_class_name)]
    cluster += [NO_SLICES] if sees_class == "no devices" else []
    assert said("GA221", asking(text, device_class=device_class_name), *cluster) == [f"{WHERE}{expected}"]


@pytest.mark.parametrize(
    ("device_class_name", "text"),
    [
        ("gpu.nvidia.com", f'{A}.productName.lowerAscii().matches("a100") && {A}.uuid != ""'),
        ("gpu.nvidia.com", f'{C}.memory.compareTo(quantity("40Gi")) >= 0'),
        ("gpu.nvidia.com", f'{STANDARD}.pciBusID == "0000:18:00.0"'),
        ("vfio.gpu.nvidia.com", f'{STANDARD}.pciBusID == "0000:18:00.0"'),
        ("mig.nvidia.com", f'{A}.profile == "1g.10gb" && {A}.parentUUID != ""'),
        ("mig.nvidia.com", f'{C}.multiprocessors.isGreaterThan(quantity("10"))'),
        ("vfio.gpu.nvidia.com", f'{C}.addressableMemory.isGreaterThan(quantity("10Gi")) && {A}.deviceID != ""'),
        ("compute-domain-daemon.nvidia.com", 'device.attributes["compute-domain.nvidia.com"].id == 0'),
        ("other.example.com", f"{A}.whatever == 1"),
    ],
)
def test_what_the_driver_always_publishes_needs_no_guard(said, asking, device_class_name, text):
    claim = asking(text, device_class=device_class_name)
    assert [said(rule, claim) for rule in ("GA221", "GA223", "GA228")] == [[], [], []]


def test_own_class_counts_for_the_kinds_that_it_can_select(said, asking, device_class):
    own = device_class("any.example.com", 'device.driver == "gpu.nvidia.com"')
    (text,) = said("GA221", asking(f'{A}.profile == "1g.10gb"', device_class="any.example.com"), own)
    assert "which NVIDIA's driver publishes for no gpu device" in text


def test_capacity_that_unified_memory_has_not_is_reported(said, asking, device_class, gpu, on_node):
    claim = asking(f'{C}.memory.compareTo(quantity("40Gi")) >= 0')
    assert said("GA221", claim, device_class(), on_node("spark", gpu(memory=None)), on_node("node-7", gpu())) == [
        (
            f"{WHERE}reads capacity gpu.nvidia.com/memory, which gpu-0 on spark of class gpu.nvidia.com lacks; that stops the pod "
            f'on every node; write "memory" in {C} && {C}.memory.compareTo(quantity("40Gi")) >= 0'
        )
    ]


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, "which gpu-0 on node-7 lacks"), (3, "which none of the 3 devices of class gpu.nvidia.com has")],
)
def test_attribute_that_no_device_has_is_reported_as_misspelt(
    said, asking, device_class, gpu, on_node, count, expected
):
    devices = [gpu(f"gpu-{number}") for number in range(count)]
    assert said("GA221", asking(f'{A}.archtecture == "Hopper"'), device_class(), on_node("node-7", *devices)) == [
        (
            f"{WHERE}reads attribute gpu.nvidia.com/archtecture, {expected}; that stops the pod on every node; write "
            f"{A}.architecture"
        )
    ]


def test_selector_that_fails_otherwise_is_reported(said, asking, device_class, gpu, on_node):
    claim = asking(f"{A}.brand > 5")
    assert said("GA221", claim, device_class(), on_node("node-7", gpu("gpu-0"), gpu("gpu-1"))) == [
        (
            f"{WHERE}fails on gpu-0 on node-7 and 1 more: no such overload; that stops the pod on every node; write an expression "
            "that is true or false for each of them"
        )
    ]


def test_class_that_does_not_request_its_driver_fails_on_devices_of_others(said, device_class, gpu, on_node):
    other = on_node("node-7", {"name": "nic-0", "attributes": {"speed": {"int": 100}}}, driver="nic.example.com")
    reviewed = device_class("mine", f'{A}.type == "gpu"')
    assert said("GA221", reviewed, on_node("node-7", gpu()), other, path="spec.") == [
        (
            f"{WHERE}reads attribute gpu.nvidia.com/type, which nic-0 on node-7 lacks; that stops the pod on every node; write "
            f'device.driver == "gpu.nvidia.com" && {A}.type == "gpu"'
        )
    ]


def test_class_for_a_profile_is_checked_on_whole_gpus_too(said, device_class):
    reviewed = device_class("small", f'device.driver == "gpu.nvidia.com" && {A}.profile == "1g.10gb"')
    assert said("GA221", reviewed, path="spec.") == [
        (
            f"{WHERE}reads attribute gpu.nvidia.com/profile, which NVIDIA's driver publishes for no gpu device; that stops the pod "
            f'on every node; remove it, or write "profile" in {A} && device.driver == "gpu.nvidia.com" && '
            f'{A}.profile == "1g.10gb"'
        )
    ]


def test_read_is_reported_with_its_place(examined, asking):
    claim = asking(f"{A}.brand == 'Nvidia' &&\n  {MODE}")
    (found,) = examined(yaml.safe_dump(claim))
    path = FieldPath(["spec", "devices", "requests", 0, "exactly", "selectors", 0, "cel", "expression"])
    assert (found.place, found.severity) == (Place(path, 2, 38), Severity.WARN)


def test_claim_that_exists_is_not_reported_again(examined, asking):
    text = yaml.safe_dump(asking(MODE))
    assert examined(f"{text}\n--- # before\n{text}") == ()


@pytest.mark.parametrize(
    ("attribute", "release", "remedy"),
    [
        ("index", "25.8.0", f"request a count of devices, or select one by {A}.uuid"),
        ("minor", "25.8.0", f"request a count of devices, or select one by {A}.uuid"),
        ("parentIndex", "25.8.0", f"write {A}.parentUUID"),
        ("pcieBusID", "25.12.0", f'write {STANDARD}.?pciBusID.orValue("")'),
        ("numa", "0.5.0", f"write {STANDARD}.?numaNode.orValue(-1)"),
    ],
)
def test_removed_attribute_is_reported_with_what_took_its_place(said, asking, attribute, release, remedy):
    assert said("GA223", asking(f"{A}.{attribute} == 0")) == [
        (
            f"{WHERE}reads attribute gpu.nvidia.com/{attribute}, which NVIDIA's driver dropped in release {release}; that stops "
            f"the pod on every node; {remedy}"
        )
    ]


def test_removed_attribute_is_reported_with_the_devices_that_lack_it(said, asking, device_class, gpu, on_node):
    (text,) = said("GA223", asking(f"{A}.index == 0"), device_class(), on_node("node-7", gpu("gpu-0"), gpu("gpu-1")))
    assert "dropped in release 25.8.0; gpu-0 on node-7 and 1 more lack it; that stops the pod on every node" in text


def test_old_driver_still_publishes_what_was_removed(said, asking, device_class, gpu, on_node):
    assert said("GA223", asking(f"{A}.index == 0"), device_class(), on_node("node-7", gpu(index=0))) == []


@pytest.mark.parametrize(
    ("text", "release", "expected"),
    [
        (f"{A}.index == 0", "25.3.2", None),
        (f"{A}.index == 0", "v25.8.0", "dropped in release 25.8.0, and the settings say that v25.8.0 runs here"),
        (f"{A}.index == 0", "0.4.1", "dropped in release 25.8.0, and the settings say that 0.4.1 runs here"),
        (f'{A}.pcieBusID == ""', "25.8.1", None),
        (
            f"{STANDARD}.numaNode == 0",
            "0.4.1",
            "publishes from release 0.5.0 on only, and the settings say that 0.4.1 runs",
        ),
        (
            f'{STANDARD}.pciBusID == ""',
            "25.8.1",
            "publishes from release 25.12.0 on only, and the settings say that 25.8.1 runs here",
        ),
        (f'{STANDARD}.pciBusID == ""', "25.12.0", None),
        (MODE, "25.8.1", "publishes from release 25.12.0 on only, and the settings say that 25.8.1 runs here"),
    ],
)
def test_release_in_the_settings_decides(said, asking, text, release, expected):
    found = said("GA223", asking(text), release=release)
    assert (expected in found[0]) if expected else found == []


def test_what_the_release_certainly_lacks_is_refused(examined, asking):
    text = yaml.safe_dump(asking(f"{A}.index == 0"))
    settings = GPUAdmissionPolicy(dra_driver=DRADriver(version="25.8.0"))
    assert [found.severity for found in examined(text, settings=settings)] == [Severity.DENY]
    assert [found.severity for found in examined(text)] == [Severity.WARN]


@pytest.mark.parametrize(
    ("text", "said_of", "remedy"),
    [
        ('device.attributes["nvidia.com"].type == "gpu"', 'device.attributes["nvidia.com"]', f"write {A}"),
        ('device.attributes["nvidia.com/gpu"].type == "gpu"', 'device.attributes["nvidia.com/gpu"]', f"write {A}"),
        ('device.attributes["mig.nvidia.com"].profile == "x"', 'device.attributes["mig.nvidia.com"]', f"write {A}"),
        (
            'device.attributes["gpu.nvidia.com/type"].x == 1',
            'device.attributes["gpu.nvidia.com/type"]',
            f"write {A}.type",
        ),
        (
            f'{A}.brand == "" || device.attributes["kubernetes.io"].pcieRoot == ""',
            'device.attributes["kubernetes.io"]',
            f"write {STANDARD}",
        ),
    ],
)
@pytest.mark.parametrize("sees_slices", [True, False])
def test_domain_that_no_device_has_is_reported(
    said, asking, device_class, gpu, on_node, text, said_of, remedy, sees_slices
):
    device = gpu(resource__kubernetes=None, **{"resource.kubernetes.io__pcieRoot": "pci0000:64"})
    slices = [device_class(), on_node("node-7", device)] if sees_slices else []
    assert said("GA228", asking(text), *slices) == [
        (
            f"{WHERE}reads {said_of}, and no device of class gpu.nvidia.com has attributes in this domain; that stops the pod on "
            f"every node; {remedy}"
        )
    ]


def test_domain_is_reported_once(said, asking):
    text = 'device.attributes["nvidia.com"].type == "gpu" || device.attributes["nvidia.com"].brand == "Nvidia"'
    assert len(said("GA228", asking(text))) == 1
    assert said("GA221", asking(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        '"type" in device.attributes["nvidia.com"] && device.attributes["nvidia.com"].type == "gpu"',
        '"nvidia.com" in device.attributes',
    ],
)
def test_domain_that_is_requested_first_is_fine(said, asking, text):
    assert said("GA228", asking(text)) == []


def test_selectors_beyond_the_limit_are_not_checked(said, asking):
    others = [
        {**request, "name": f"gpu-{number}"}
        for number in range(5)
        for request in asking(*[MODE] * 30)["spec"]["devices"]["requests"]
    ]
    reported = said("GA221", asking(MODE, others=others))
    assert [index for index in range(6) if any(f"requests[{index}]" in text for text in reported)] == [1, 2, 3]


def test_many_attributes_of_long_selectors_are_answered_soon(said, asking):
    long = " && ".join(f'{A}.a{number} == "x"' for number in range(160))
    assert 0 < len(said("GA221", asking(long))) < 160
