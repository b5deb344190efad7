"""The DeviceClasses of a cluster: their names, their resources, the types of their devices."""

import pytest

from policies.devices.deviceclasses import SHIPPED_TYPES
from policies.fleet.known_classes import KnownClasses, has_nvidia_class_name, known_classes
from policies.nvidia.mig import parse_resource
from tests.fleet.fleet_objects import EITHER, GPU, IMPLICIT, MIG, OTHER, cluster, device_class
from webhook.cluster.manifests import ManifestsView

OLD, NEW = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"


def mapped(name, created):
    return device_class(name, GPU, extended="example.com/h100", created=created)


def test_newest_class_stands_for_a_resource_first():
    classes = known_classes(cluster(mapped("a", OLD), mapped("c", NEW), mapped("b", NEW)))
    assert classes.standing_for("example.com/h100") == ("b", "c", "a")


def test_implicit_name_stands_for_its_class():
    assert known_classes(cluster()).standing_for(IMPLICIT + "gpu.nvidia.com") == ("gpu.nvidia.com",)


def test_resource_without_a_class_stands_for_none():
    assert known_classes(cluster(mapped("a", OLD))).standing_for("example.com/a100") == ()


def test_classes_that_are_not_listed_are_found_by_name():
    reviewed = known_classes(ManifestsView(reviewed=[mapped("a", OLD)]))
    assert (reviewed.are_listed, "a" in reviewed, "b" in reviewed, [*reviewed]) == (False, True, False, [])
    listed = known_classes(cluster(mapped("a", OLD)))
    assert (listed.are_listed, "a" in listed, "b" in listed, [*listed]) == (True, True, False, ["a"])


@pytest.mark.parametrize(
    ("selectors", "own", "types"),
    [
        ([GPU], [], {"gpu"}),
        ([GPU], [OTHER], set()),
        ([EITHER], [OTHER], {"other"}),
        ([EITHER], [MIG], {"mig"}),
        (None, [], None),
        (None, [OTHER], {"other"}),
        (None, [MIG], {"mig"}),
        (None, [EITHER], None),
    ],
    ids=str,
)
def test_types_are_those_that_class_and_request_leave(selectors, own, types):
    classes = KnownClasses([] if selectors is None else [device_class("a", *selectors)])
    assert classes.types("a", own) == types


def test_type_of_mixed_devices_is_none():
    classes = KnownClasses([device_class("a", GPU), device_class("b", MIG), device_class("c", EITHER)])
    assert [classes.device_type(name) for name in "abcd"] == ["gpu", "mig", None, None]


@pytest.mark.parametrize(
    "name", ["gpu.nvidia.com", "mig.nvidia.com", "vfio.gpu.nvidia.com", "mig-1g-12gb.gpu.nvidia.com"]
)
def test_name_of_nvidias_class_is_recognised(name):
    assert has_nvidia_class_name(name)
    assert parse_resource(IMPLICIT + name) is None


@pytest.mark.parametrize(
    "name",
    [
        "",
        "nvidia.com",
        "xgpu.nvidia.com",
        "gpu.nvidia.com.example",
        "compute-domain-daemon.nvidia.com",
        "GPU.nvidia.com",
    ],
)
def test_other_name_of_a_class_is_not_recognised(name):
    assert not has_nvidia_class_name(name)


def test_class_that_cannot_be_seen_is_taken_to_be_as_it_is_shipped():
    unlisted = known_classes(ManifestsView(reviewed=[device_class("mig.nvidia.com", EITHER)]))
    assert [unlisted.probable_type(name) for name in SHIPPED_TYPES] == ["gpu", None, None, None, None]
    assert unlisted.device_type("gpu.nvidia.com") is None
    assert known_classes(cluster()).probable_type("gpu.nvidia.com") is None


def test_unknown_class_does_not_matter_to_a_request_for_every_type_of_gpu():
    either = "device.driver == 'gpu.nvidia.com'"
    assert KnownClasses([]).types("a", [either]) is not None


def test_selectors_of_a_class_are_its_expressions():
    classes = KnownClasses([device_class("a", GPU, MIG), device_class("b")])
    assert [classes.selectors(name) for name in "abc"] == [(GPU, MIG), (), ()]


def test_class_that_is_not_stored_yet_is_the_newest():
    classes = known_classes(cluster(mapped("a", OLD), device_class("z", GPU, extended="example.com/h100")))
    assert classes.standing_for("example.com/h100") == ("z", "a")
