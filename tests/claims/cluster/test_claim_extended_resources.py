"""Of several DeviceClasses with one extended resource the newest counts, so a second one takes over its pods."""

import pytest
import yaml

JANUARY, FEBRUARY = "2026-01-05T09:00:00Z", "2026-02-05T09:00:00Z"
PATH = "spec.extendedResourceName: "
REMEDY = "; remove it, unless this class is to replace the other"
TAKES_OVER = (
    f'{PATH}takes nvidia.com/gpu over from DeviceClass "{{}}", because the newest class counts: pods that request it and '
    f"are scheduled from now on get devices of this class{REMEDY}"
)

UNSTORED = 'DeviceClass "other" stands for nvidia.com/gpu too, and pods get devices of the class that is created last'


@pytest.fixture
def standing(device_class):
    """`standing(name, created, resource)`: a class that stands for an extended resource."""

    def make(name, created="", resource="nvidia.com/gpu"):
        made = device_class(name)
        made["metadata"] |= {"creationTimestamp": created} if created else {}
        made["spec"] |= {"extendedResourceName": resource} if resource else {}
        return made

    return make


def test_new_class_takes_over_from_the_newest(said, standing):
    cluster = standing("gpu.nvidia.com", FEBRUARY), standing("older", JANUARY), standing("other", FEBRUARY, "a.com/b")
    assert said("GA233", standing("mine"), *cluster) == [TAKES_OVER.format("gpu.nvidia.com")]


def test_class_that_is_older_has_no_effect(said, standing):
    newer = standing("newer", FEBRUARY)
    assert said("GA233", standing("mine", JANUARY), newer) == [
        f'{PATH}has no effect while DeviceClass "newer" stands for nvidia.com/gpu too, because that is newer{REMEDY}'
    ]


def test_two_classes_that_are_not_stored_yet_are_reported(said, standing):
    assert said("GA233", standing("mine"), standing("other")) == [f"{PATH}{UNSTORED}{REMEDY}"]


@pytest.mark.parametrize("resource", ["", "example.com/gpu"])
def test_class_with_its_own_resource_or_none_is_fine(said, standing, resource):
    assert said("GA233", standing("mine", resource=resource), standing("gpu.nvidia.com", JANUARY)) == []


def test_class_is_not_compared_with_itself(said, standing):
    assert said("GA233", standing("mine"), standing("mine", JANUARY)) == []


def test_update_that_keeps_the_resource_is_fine(examined, standing):
    mine = standing("mine", FEBRUARY)
    text = (
        f"{yaml.safe_dump(mine)}--- # before\n{yaml.safe_dump(mine)}---\n{yaml.safe_dump(standing('other', JANUARY))}"
    )
    assert "GA233" not in {each.rule.id for each in examined(text)}


def test_update_that_sets_the_resource_is_reported(findings_of, standing):
    parts = standing("mine", FEBRUARY), standing("mine", FEBRUARY, ""), standing("gpu.nvidia.com", JANUARY)
    new, old, other = map(yaml.safe_dump, parts)
    assert findings_of("GA233", f"{new}--- # before\n{old}---\n{other}") == [TAKES_OVER.format("gpu.nvidia.com")]
