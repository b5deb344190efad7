"""Declared sizes of the parts of `device`, and the paths to them."""

from __future__ import annotations

import pytest

from policies.cel.sizes import FieldPath, maximum_size


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (["device"], 0),
        (["device", "driver"], 63),
        (["device", "allowMultipleAllocations"], 1),
        (["device", "attributes"], 32),
        (["device", "attributes", "@keys"], 63),
        (["device", "attributes", "@values"], 32),
        (["device", "attributes", "example.com"], None),
        (["device", "attributes", "@values", "@keys"], 32),
        (["device", "attributes", "@values", "@values"], 64),
        (["device", "attributes", "@values", "model"], 64),
        (["device", "attributes", "@values", "model", "@items"], None),
        (["device", "capacity", "@values"], 32),
        (["device", "capacity", "@values", "@values"], 0),
        (["device", "capacity", "@values", "memory"], None),
        (["device", "driver", "x"], None),
        (["device", "unknown"], None),
        (["other", "driver"], None),
        ([], None),
    ],
    ids=lambda value: ".".join(value) if isinstance(value, list) else str(value),
)
def test_size_of_a_part_of_device_is_declared(path, expected):
    assert maximum_size(path) == expected


def test_paths_of_three_names_share_what_follows():
    ids = FieldPath("device").child("attributes").child("@values")
    keys = ids.child("@keys")
    values = ids.child("@values")
    assert list(keys) == list(values) == ["device", "attributes", "@values", "@values"]


@pytest.mark.parametrize("length", [1, 2, 4])
def test_paths_of_a_full_slice_are_apart(length):
    path = FieldPath("device")
    for name in ("a", "b", "c")[: length - 1]:
        path = path.child(name)
    one, other = path.child("x"), path.child("y")
    assert [*path, "x"] == list(one)
    assert [*path, "y"] == list(other)


def test_copied_path_is_apart():
    ids = FieldPath("device").child("attributes").child("@values")
    items = ids.copied_with("@items")
    ids.child("@keys")
    assert list(items)[-1] == "@items"
