"""Devices as selectors see them."""

import pytest

from policies.cel import CelDevice, CelFeatures, CelRuntimeError, compile_selector

TRUE = compile_selector("true")
WITHOUT_LISTS = compile_selector("true", CelFeatures(list_type_attributes=False))


def test_names_without_domain_are_in_that_of_the_driver():
    device = CelDevice.read({"driver": "d", "attributes": {"a": {"int": 1}, "e/a": {"int": 2}}})

    assert device.attributes == {"d": {"a": 1}, "e": {"a": 2}}


@pytest.mark.parametrize("absent", [{}, {"attributes": None, "capacity": None}], ids=["missing", "null"])
def test_device_may_lack_attributes_and_capacity(absent):
    assert compile_selector("device.attributes.size() + device.capacity.size() == 0").matches({"driver": "d", **absent})


@pytest.mark.parametrize(("given", "expected"), [(None, False), (True, True), (False, False)])
def test_allow_multiple_allocations_is_false_unless_said(given, expected):
    device = {"driver": "d", "allowMultipleAllocations": given}

    assert compile_selector("device.allowMultipleAllocations").matches(device) is expected


@pytest.mark.parametrize(
    ("attribute", "problem"),
    [
        ({}, "attribute a: unsupported attribute value"),
        ({"future": 1}, "attribute a: unsupported attribute value"),
        ({"version": "1.2"}, "attribute a: parse semantic version: No Major.Minor.Patch elements found"),
        ({"version": ""}, "attribute a: parse semantic version: Version string empty"),
        ({"versions": ["1.0.0", "x"]}, "attribute a: parse semantic version: No Major.Minor.Patch elements found"),
    ],
)
def test_bad_attribute_fails_every_selector(attribute, problem):
    with pytest.raises(CelRuntimeError) as failed:
        TRUE.matches({"driver": "d", "attributes": {"a": attribute}})

    assert failed.value.message == problem


def test_problem_names_the_attribute_as_it_is_written():
    with pytest.raises(CelRuntimeError, match=r"^attribute x\.com/a: unsupported attribute value$"):
        TRUE.matches({"driver": "d", "attributes": {"x.com/a": {}}})


@pytest.mark.parametrize("kind", ["ints", "bools", "strings", "versions"])
def test_list_needs_the_feature(kind):
    device = CelDevice.read({"driver": "d", "attributes": {"a": {kind: []}}})

    assert TRUE.matches(device)
    with pytest.raises(CelRuntimeError, match=r"^attribute a: unsupported attribute value$"):
        WITHOUT_LISTS.matches(device)


@pytest.mark.parametrize(
    ("changed", "keeps"),
    [
        ({}, True),
        ({"driver": "d" * 64}, False),
        ({"attributes": {"a": {"string": "x" * 64}}}, True),
        ({"attributes": {"a": {"string": "x" * 65}}}, False),
        ({"attributes": {"a" * 33: {"int": 1}}}, False),
        ({"attributes": {"a": {"ints": [1] * 65}}}, False),
        ({"attributes": {f"a{number}": {"int": 1} for number in range(33)}}, False),
    ],
    ids=["ordinary", "driver", "longest-text", "text", "name", "list", "number"],
)
def test_limits_of_the_api_are_noticed(changed, keeps):
    assert CelDevice.read({"driver": "d", **changed}).keeps_limits is keeps


@pytest.mark.parametrize("device", [None, [], "gpu-0", 1])
def test_what_is_no_mapping_is_no_device(device):
    with pytest.raises(CelRuntimeError, match=f"a device is a mapping, and this is {type(device).__name__}"):
        compile_selector("true").matches(device)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_integer_beyond_64_bits_is_no_attribute(number):
    with pytest.raises(CelRuntimeError, match="attribute x: unsupported attribute value"):
        compile_selector("true").matches({"driver": "d", "attributes": {"x": {"int": number}}})
