"""Compiled selectors, their properties, and their evaluation on many devices."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from policies.cel import CelCompileError, CelDevice, CelFeatures, CelRuntimeError, compile_selector
from policies.kubernetes.resourceslices import Read

FOUR_CLAUSES = (
    'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "gpu"'
    ' && device.attributes["gpu.nvidia.com"].cudaComputeCapability.compareTo(semver("8.0.0")) >= 0'
    ' && device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("40Gi"))'
)


def gpu(number, capability="9.0.0", memory="80Gi"):
    return {
        "driver": "gpu.nvidia.com",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": f"GPU-{number}"},
            "cudaComputeCapability": {"version": capability},
        },
        "capacity": {"memory": {"value": memory}},
    }


def refusal(text, features=CelFeatures()):  # noqa: B008 - immutable
    with pytest.raises(CelCompileError) as refused:
        compile_selector(text, features)
    return str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f'"{"x" * 10_240}" == ""', "Too long: may not be more than 10240 bytes"),
        ("1", "must evaluate to bool or the unknown type, not int"),
        ("device.attributes", "must evaluate to bool or the unknown type, not map(string, map(string, dyn))"),
        ("optional.none()", "must evaluate to bool or the unknown type, not optional_type(dyn)"),
        ('int("abc") == 1', "program instantiation failed: type conversion error from 'string' to 'int'"),
        ('"a".find("(") == ""', "program instantiation failed: error parsing regexp: missing closing ): `(`"),
        ('dyn({"a": 1})[null] == 1', "program instantiation failed: invalid qualifier type: types.Null"),
        (
            'device.attributes["d"][dyn([1])] == 1',
            "program instantiation failed: invalid qualifier type: *types.baseList",
        ),
    ],
    ids=["long", "int", "map", "optional", "conversion", "regex", "null-key", "list-key"],
)
def test_selector_is_refused(text, message):
    assert refusal(text) == message


def test_any_attribute_may_be_the_result_and_dyn_only_with_lists():
    text = 'device.attributes["d"].a'

    assert compile_selector(text, CelFeatures(list_type_attributes=False)).matches(
        {"driver": "d", "attributes": {"a": {"bool": True}}}
    )
    assert refusal("dyn(true)", CelFeatures(list_type_attributes=False)) == (
        "must evaluate to bool or the unknown type, not dyn"
    )


def test_selector_is_compiled_once():
    assert compile_selector("true || false") is compile_selector("true || false")


def test_refusal_is_raised_each_time():
    assert refusal("nosuch == 1") == refusal("nosuch == 1")


def test_max_cost_is_the_static_estimate():
    assert compile_selector(FOUR_CLAUSES).max_cost == 22


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("true", set()),
        ('device.driver == "d"', {Read("driver")}),
        ("device.allowMultipleAllocations", {Read("allowMultipleAllocations")}),
        ('device.attributes["d"].a == 1 || has(device.capacity["e"].b)', {Read("attributes", "d", "a"), Read("capacity", "e", "b")}),
        ('"a" in device.attributes["d"]', {Read("attributes", "d", "a")}),
        ('"d" in device.attributes', {Read("attributes", "d", "")}),
        ('cel.bind(x, device.attributes["d"], x.a == 1 && x[?"b"].hasValue())', {Read("attributes", "d", "a"), Read("attributes", "d", "b")}),
        ('device.attributes["d"].exists(k, k == "a")', {Read("attributes", "d")}),
        ("device.attributes[device.driver].a == 1", {Read("driver"), Read("attributes")}),
        ("cel.bind(x, device.attributes[device.driver], x.a == 1)", {Read("driver"), Read("attributes")}),
        ('(device.driver == "d" ? device.attributes["d"] : device.attributes["e"]).a == 1', {Read("driver"), Read("attributes", "d"), Read("attributes", "e")}),
    ],
)  # fmt: skip
def test_reads_are_what_the_expression_can_see(text, reads):
    assert compile_selector(text).reads == reads


def test_reads_are_unknown_when_the_device_itself_is_used():
    assert compile_selector("dyn(device).driver == 'd'").reads is None


def test_matches_all_answers_in_order():
    devices = [gpu(1), gpu(2, capability="7.5.0"), gpu(3, memory="24Gi"), {"driver": "other"}, gpu(4)]

    assert compile_selector(FOUR_CLAUSES).matches_all(devices) == [True, False, False, False, True]


def test_matches_all_evaluates_devices_that_look_alike_once(monkeypatch):
    selector = compile_selector(FOUR_CLAUSES + " || false")
    asked = []
    matches = selector.matches
    monkeypatch.setattr(type(selector), "matches", lambda _, device: (asked.append(device), matches(device))[1])

    assert selector.matches_all(map(gpu, range(100))) == [True] * 100
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"int": 1}, {"bool": True}),
        ({"string": "1.0.0"}, {"version": "1.0.0"}),
        ({"ints": [1]}, {"bools": [True]}),
        ({"int": 1}, None),
    ],
)
def test_matches_all_tells_kinds_of_values_apart(one, other):
    selector = compile_selector('device.attributes["d"].?a.optMap(a, type(a) == int).orValue(false)')
    devices = [{"driver": "d", "attributes": {"a": one} if one else {}} for one in (one, other)]

    assert selector.matches_all(devices) == [selector.matches(device) for device in devices]


def test_matches_all_keeps_errors_as_answers():
    selector = compile_selector('device.attributes["d"].a == 1')

    absent, present, again = selector.matches_all(
        [{"driver": "d"}, {"driver": "d", "attributes": {"a": {"int": 1}}}, {"driver": "d"}]
    )

    assert present is True
    assert isinstance(absent, CelRuntimeError)
    assert str(absent) == str(again) == "no such key: a"


def test_verdict_is_that_of_evaluating_the_device():
    selector = compile_selector('device.attributes["d"].a == 1')
    for value in (1, 2):
        device = CelDevice.read({"driver": "d", "attributes": {"a": {"int": value}}})
        # The second verdict is cached.
        assert selector.verdict(device) is selector.verdict(device) is selector.matches(device) is (value == 1)


def test_derived_result_is_computed_once():
    calls = []

    def count_nodes(selector):
        calls.append(selector)
        return selector.nodes

    selector = compile_selector("1 == 1 || 2 == 2")
    assert selector.derive(count_nodes) == selector.derive(count_nodes) == selector.nodes
    assert calls == [selector]


def test_selector_can_be_shared_between_threads():
    selector = compile_selector("lists.range(50).map(x, x * 2).filter(x, x > 10).size() == 44")
    device = CelDevice.read({"driver": "d"})

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(lambda _: selector.matches(device), range(200)))


@pytest.mark.parametrize("text", [None, b"true", 1])
def test_what_is_no_text_is_refused(text):
    with pytest.raises(CelCompileError, match=f"an expression is text, and this is {type(text).__name__}"):
        compile_selector(text)
