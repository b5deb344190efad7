"""Built-in knowledge of NVIDIA's driver agrees with the ResourceSlices of the example cluster."""

from pathlib import Path

import pytest

from policies.claims.nvidia_attributes import KINDS, class_with, is_published, shipped_kinds
from testbed import libyaml

SLICES = Path(__file__).parents[3] / "examples" / "cluster" / "resourceslices.yaml"
GPU = "gpu.nvidia.com"


def published():
    for item in libyaml.load(SLICES.read_text())["items"]:
        driver = item["spec"]["driver"]
        for device in item["spec"].get("devices", []):
            places = {
                (part, *(name.split("/") if "/" in name else (driver, name)))
                for part in ("attributes", "capacity")
                for name in device.get(part, {})
            }
            yield driver, device["attributes"]["type"]["string"], places


SHOWN = [kind for kind in KINDS if (kind.driver, kind.type) in {(driver, type_) for driver, type_, _ in published()}]


@pytest.mark.parametrize("kind", SHOWN, ids=lambda kind: kind.type)
def test_devices_of_the_example_are_as_described(kind):
    for driver, device_type, places in published():
        if (driver, device_type) == (kind.driver, kind.type):
            assert kind.always <= places
            assert places <= kind.always | set(kind.sometimes)


def test_example_has_all_kinds_but_those_for_virtual_machines():
    assert [kind.type for kind in KINDS if kind not in SHOWN] == ["vfio"]


@pytest.mark.parametrize(
    ("name", "release", "known"),
    [
        ("index", "25.3.0", True),
        ("index", "v25.3.2", True),
        ("index", "25.8.0-rc.1", False),
        ("index", "0.4.0", False),
        ("pcieBusID", "25.8.1", True),
        ("pcieBusID", "25.12.0", False),
        ("numa", "0.4.1", True),
        ("numa", "0.5.0-dev", False),
        ("addressingMode", "25.8.0", False),
        ("addressingMode", "0.4.0", True),
        ("productName", "25.3.0", True),
    ],
)
def test_history_of_attributes_is_known(name, release, known):
    assert is_published(("attributes", GPU, name), release) is known


@pytest.mark.parametrize(("name", "types"), [("mig.nvidia.com", ["mig"]), ("other", [])])
def test_shipped_classes_are_known_by_name(name, types):
    assert [kind.type for kind in shipped_kinds(name)] == types


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (("attributes", GPU, "profile"), "mig.nvidia.com"),
        (("attributes", GPU, "vendorID"), "vfio.gpu.nvidia.com"),
        (("attributes", GPU, "productName"), None),
        (("attributes", GPU, "colour"), None),
    ],
)
def test_class_that_has_an_attribute_is_known_if_there_is_one(place, expected):
    assert class_with(place) == expected
