"""Results and costs of expressions, as measured on Kubernetes 1.36.2."""

import pytest

from policies.cel import CelDevice, CelRuntimeError, compile_selector
from tests.cel.costs import actual_cost

ATTRIBUTES = {
    "s": {"string": "abc"},
    "i": {"int": 3},
    "b": {"bool": True},
    "v": {"version": "1.2.3-a.1+b"},
    "ints": {"ints": [1, 2, 3]},
    "strings": {"strings": ["a", "b"]},
    "other.com/x": {"string": "y"},
}
CAPACITY = {"memory": {"value": "40Gi"}}
ORDINARY = CelDevice.read({"driver": "d", "attributes": ATTRIBUTES, "capacity": CAPACITY})
BEYOND_LIMITS = CelDevice.read(
    {"driver": "d", "attributes": {**ATTRIBUTES, "other.com/long": {"string": "x" * 65}}, "capacity": CAPACITY}
)
"""The same, but static costs do not hold for it, so that it is evaluated with a meter."""

A = 'device.attributes["d"]'
UNLISTED = "internal error: interface conversion: types.Int is not traits.Lister: missing method Contains"
UNHASHABLE = "internal error: runtime error: hash of unhashable type cel.Semver"

OUTCOMES = [
    # look-ups
    ('device.driver == "d"', True, 3),
    (f"{A}.i == 3", True, 5),
    (f'{A}["i"] == 3', True, 5),
    (f"{A}.nope == 1", "no such key: nope", 5),
    (f"{A}.i.foo == 1", "no such key: foo", 6),
    (f"{A}[dyn(1)] == 1", "no such key: 1", 5),
    (f"{A}.ints[0] == 1", True, 6),
    (f"{A}.ints[1u] == 2", True, 6),
    (f"{A}.ints[7] == 1", "index out of bounds: 7", 6),
    (f'{A}.ints["a"] == 1', "unsupported index type 'string' in list", 6),
    (f"{A}.ints[1.5] == 1", "unsupported index value 1.5 in list", 6),
    ("dyn({1: 2})[1.0] == 2", True, 3),
    ("dyn({1: 2})[1e6] == 2", "no such key: 1e+06", 3),
    (f"{A}[{A}.strings] == 1", "invalid qualifier type: *types.baseList", 8),
    ("dyn({true: 1})[has(device.attributes.?d.i)] == 1", "invalid qualifier type: *types.Optional", 6),
    ("device.attributes[device.driver].i == 3", True, 6),
    ('device.attributes[device.driver + ""].i == 3', True, 8),
    ('{"o": optional.of({"k": 1})}.o.k.hasValue()', "no such key: k", 35),
    # unknown domains
    ('"no" in device.attributes', False, 3),
    ('device.attributes["no"].size() == 0', True, 5),
    ('device.attributes[?"no"].hasValue()', True, 4),
    ("has(device.attributes.no)", True, 2),
    ("has(device.attributes.no.x)", False, 3),
    ('{"x": {}, "y": {}} == device.attributes', True, 3),
    ('device.attributes == {"x": {}, "y": {}}', False, 3),
    # presence
    (f"has({A}.i.foo)", False, 4),
    (f"has({A}.ints.foo)", "unsupported index type 'string' in list", 4),
    (f'{A}.?s.orValue("x") == "abc"', True, 5),
    (f'{A}[?"nope"].orValue("x") == "x"', True, 4),
    (f"{A}.ints[?7].hasValue()", False, 5),
    ("has(device.attributes.?x.y)", False, 2),
    # ternaries
    (f'(device.driver == "d" ? {A} : device.attributes["e"]).i == 3', True, 7),
    (f'has((device.driver == "d" ? {A} : device.attributes["e"]).i)', True, 5),
    (f"{A}.i ? true : false", "no such overload", 4),
    ("has((dyn(1) ? {'a': 1} : {}).a)", "operation cancelled: actual cost limit exceeded", 2**64 - 1),
    ("dyn(dyn(1).distinct()) == 1 || true", UNLISTED, 0),
    (f"{A}.s.size() == 3 ? true : 1 / 0 == 1", True, 6),
    # errors that do not matter, and those that always do
    (f"{A}.nope == 1 || true", True, 5),
    (f"{A}.nope == 1 && false", False, 5),
    (f"{A}.nope == 1 || {A}.nope2 == 1", "no such key: nope", 10),
    (f"{A}.i && true", "no such overload", 4),
    (f'{A}.v in ["a", "b"]', UNHASHABLE, 4),
    (f'{A}.v in ["a", "b"] || true', UNHASHABLE, 4),
    # operators
    (f"{A}.s + 1 == 1", "no such overload", 6),
    (f"{A}.b + 1 == 1", "no such overload: _+_", 6),
    (f"{A}.v < {A}.v", "no such overload: _<_", 9),
    (f"1 in {A}.i", "no such overload", 5),
    ("9223372036854775807 + 1 == 1", "integer overflow", 2),
    ("1u - 2u == 1u", "unsigned integer overflow", 2),
    ("-(-9223372036854775808) == 1", "integer overflow", 2),
    ("1 / 0 == 1", "division by zero", 2),
    ("1 % 0 == 1", "modulus by zero", 2),
    ("-7 / 2 == -3 && -7 % 2 == -1", True, 4),
    ('double("NaN") < 1.0', "NaN values cannot be ordered", 1),
    (
        'timestamp("9999-12-31T23:59:59Z") + duration("1s") == timestamp("2020-01-01T00:00:00Z")',
        "timestamp overflow",
        2,
    ),
    # functions
    (f"{A}.i.size() == 1", "no such overload: size", 6),
    (f'{A}.i.contains("a")', "no such overload", 5),
    (f'{A}.i.matches("a")', "no such overload", 5),
    (f'{A}.i.lowerAscii() == ""', "no such overload: lowerAscii(int)", 5),
    (f"{A}.i.substring(1) == ''", "no such overload: substring(int, int)", 5),
    (f"{A}.s.isGreaterThan({A}.s)", "no such overload: isGreaterThan(string, string)", 9),
    ("dyn(1).flatten() == [1]", "no such overload: int.flatten()", 13),
    (f'{A}.strings.includes("a") && {A}.s.includes("abc")', True, 10),
    # comprehensions
    ("[1, 2].exists_one(x, false)", False, 2),
    (f"{A}.s.exists(x, x)", "got 'types.String', expected iterable type", 4),
    (f"{A}.v.exists(x, x)", "got 'cel.Semver', expected iterable type", 4),
    (f"{A}.s.all(k, v, true)", "unsupported comprehension range type: types.String", 4),
    (f'{A}.strings.map(x, x + "1") == ["a1", "b1"]', True, 34),
    (f'{A}.strings.filter(x, x == "a").size() == 1', True, 24),
    ("device.attributes.transformMap(k, v, v.size()).size() == 2", True, 15),
    ("[1, 2].transformMapEntry(i, v, {v: i}) == {1: 0, 2: 1}", True, 70),
    ("[1, 1].transformMapEntry(i, v, {v: i}) == {1: 0, 2: 1}", "insert failed: key 1 already exists", 70),
    ("cel.bind(x, 1 / 0, true)", True, 0),
    ("cel.bind(a, [], [(a + [1]).size(), (a + [1]).size()] == [1, 2])", True, 17),
    # literals
    ("{dyn(1): 1, dyn(1u): 2, dyn(1.0): 3}.size() == 3", True, 2),
    ("{?'a': optional.none()}.size() == 0", True, 33),
    ("[?optional.none()].size() == 0", True, 13),
    (f"{{{A}.v: 1}}.size() == 1", UNHASHABLE, 4),
    ('google.protobuf.Duration{seconds: 5} == duration("5s")', True, 41),
    # results
    (f"{A}.b", True, 4),
    (
        f"{A}.i",
        "CEL result of type int could not be converted to bool: unsupported type conversion from 'int' to bool",
        4,
    ),
    (
        f"{A}.v",
        (
            "CEL result of type kubernetes.Semver could not be converted to bool: "
            "type conversion error from 'Semver' to 'bool'"
        ),
        4,
    ),
    ("dyn(optional.of(true))", True, 2),
    (
        "dyn(optional.none())",
        "CEL result of type optional_type could not be converted to bool: optional.none() dereference",
        2,
    ),
]


def outcome_of(text, device):
    """The verdict, or the message of the error."""
    try:
        return compile_selector(text).matches(device)
    except CelRuntimeError as error:
        return error.message


@pytest.mark.parametrize("device", [ORDINARY, BEYOND_LIMITS], ids=["fast", "exact"])
@pytest.mark.parametrize(("text", "outcome"), [case[:2] for case in OUTCOMES], ids=[case[0] for case in OUTCOMES])
def test_expression_comes_to_what_kubernetes_says(text, outcome, device):
    assert outcome_of(text, device) == outcome


@pytest.mark.parametrize(("text", "cost"), [case[::2] for case in OUTCOMES], ids=[case[0] for case in OUTCOMES])
def test_expression_costs_what_kubernetes_charges(text, cost):
    assert actual_cost(compile_selector(text), ORDINARY) == cost


def test_cost_limit_aborts_whatever_would_absorb_an_error():
    text = f"[{', '.join('1' * 100)}]" + ".all(a, lists.range(100).all(b, lists.range(100).all(c, true))) || true"

    assert outcome_of(text, ORDINARY) == "operation cancelled: actual cost limit exceeded"
