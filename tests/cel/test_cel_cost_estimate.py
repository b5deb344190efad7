"""What selectors may cost: numbers of Kubernetes 1.36.2 itself."""

from __future__ import annotations

import pytest

from policies.cel.checker import check
from policies.cel.cost_estimate import estimate
from policies.cel.declarations import function
from policies.cel.environment import CelFeatures, selector_environment
from policies.cel.parser import parse
from policies.cel.syntax import Call, CallReference, Checked, Literal, Select
from policies.cel.types import BOOL, INT

ESTIMATES = (
    # constants cost nothing
    ("true", 0),
    ('"a" == "b"', 1),
    ("1 + 2 == 3", 2),
    ('b"abc" == b"abcd"', 1),
    # names and fields
    ("device.allowMultipleAllocations", 2),
    ("device.driver == device.driver", 11),
    ('device.attributes["d"].x', 4),
    ('device.attributes["d"]["x"]', 4),
    ('device.capacity["d"].x == quantity("1")', 6),
    ("device.attributes.d.x == 1", 5),
    # presence is free
    ("has(device.driver)", 1),
    ('has(device.attributes["d"].x)', 3),
    ('has(device.attributes["d"].x) && has(device.attributes["d"].y)', 6),
    # literals of lists and maps
    ("[1, 2] == []", 20),
    ("[] == []", 20),
    ('{"a": 1} == {}', 60),
    ("[[1], [2, 3]] == [[]]", 51),
    ('{"a": "b"}.a == "longer than b"', 33),
    # text
    ('(device.driver + "suffix") == "x"', 10),
    ('device.driver.startsWith("nvidia")', 3),
    ('device.driver.endsWith("nvidia")', 3),
    ('device.driver.contains("nvidia.com/gpu")', 16),
    ('device.driver.matches("^gpu[.]nvidia[.]com$")', 37),
    ('device.driver < "a"', 3),
    ("size(device.driver) > 3", 4),
    ('string(device.driver) == "0123456789012345"', 5),
    ('bytes(device.driver) == b"0"', 10),
    ('string(bytes("a" + device.driver)) == "a"', 43),
    # Kubernetes text
    ('device.driver.lowerAscii() == "a"', 10),
    ('device.driver.trim().substring(1) == "a"', 17),
    ('device.driver.replace("a", "bb") == device.driver.replace("", "x")', 43),
    ('device.driver.replace("nvidia", "") == "gpu"', 16),
    ('device.driver.split(".") == []', 25),
    ('device.driver.split(".", 2)[0] == "gpu"', 17),
    ('device.driver.split("").join("-") == "gpu"', 1844674407370955280),
    ('["a", "bb"].join() == "abb"', 1844674407370955275),
    ('device.driver.find("[a-z]+") == "gpu"', 17),
    ('device.driver.findAll("[a-z]+", 1).size() == 1', 18),
    ("strings.quote(device.driver) == device.driver", 18),
    ('"%s".format([device.driver]) == "a"', 14),
    ('device.driver.indexOf("n") == 0', 10),
    ('device.driver.charAt(0) == "g"', 4),
    # lists
    ("[1, 2, 3].sum() == 6", 14),
    ('["aa", "b"].max() == "b"', 3689348814741910541),
    ("[1, 2].indexOf(2) == 1", 13),
    ("[2, 1].sort() == [1, 2]", 40),
    ('["b", "a"].sort() == ["a", "b"]', 41),
    ("[2, 1].sortBy(x, -x) == [2, 1]", 91),
    ("[1, 1].distinct() == [1]", 40),
    ("[[1], [2]].flatten() == [1, 2]", 54),
    ("[[1], [2]].flatten(2) == [1, 2]", 56),
    ("lists.range(10).size() == 10", 23),
    ("lists.range(device.driver.size()).size() == 10", 18446744073709551615),
    ("[1, 2, 3].slice(1, 2) == [2]", 33),
    ("[1, 2, 3].reverse() == [3, 2, 1]", 35),
    ("[1, 2] + [3] == [1]", 32),
    ("1 in [1, 2]", 12),
    ('"x" in device.attributes["d"]', 4),
    ('device.attributes["d"].x in ["a", "b"]', 16),
    ("sets.contains([1, 2], [1])", 23),
    ("sets.equivalent([1, 2], [1])", 25),
    ("[1, 2][0] == 1", 12),
    # libraries
    ('quantity("1Gi").add(quantity("1")).isLessThan(device.capacity["d"].memory)', 8),
    ("isQuantity(device.driver)", 9),
    ('device.attributes["d"].version.isGreaterThan(semver("1.0.0"))', 6),
    ('isSemver("v1.0", true)', 1),
    ('ip("10.0.0.1") == ip("::1")', 3),
    ('ip.isCanonical("::1")', 1),
    ('cidr("10.0.0.0/8").containsIP("10.0.0.1")', 6),
    ('cidr("10.0.0.0/8").containsIP(ip("10.0.0.1"))', 6),
    ('cidr("10.0.0.0/8").containsCIDR("10.0.0.0/9")', 9),
    ('cidr("10.0.0.0/8").ip().isLoopback()', 3),
    ('url("https://example.com/").getHost() == "example.com"', 5),
    ('url("https://example.com/") == url("https://example.org/")', 6),
    ("isURL(device.driver)", 3),
    ("format.dns1123Label().validate(device.driver).hasValue()", 228),
    ('format.named("uri") == optional.none()', 1844674407370955266),
    ("format.uri() == format.uuid()", 9),
    ('device.attributes["d"].x.includes("a")', 52),
    ('timestamp("2024-01-01T00:00:00Z").getFullYear() == 2024', 3),
    ('duration("1h") > duration("30m")', 3),
    # short circuits and ternaries
    ('device.attributes["d"].a && device.attributes["d"].b', 8),
    ('device.attributes["d"].a || true', 4),
    ('device.attributes["d"].a ? true : device.driver == "x"', 7),
    ('(device.attributes["d"].a ? [1] : [1, 2, 3]).size() == 1', 16),
    ('(device.attributes["d"].a ? [1] : [1, 2, 3]).all(x, x > 0)', 30),
    # loops
    ("[1, 2, 3].all(x, x > 0)", 26),
    ('["a", "bbbbbbbbbbbbbbbbbbbbb"].exists(x, x == "0123456789012345678901234")', 27),
    ("[1, 2].exists_one(x, x == 1)", 20),
    ("[1, 2].map(x, x * 2) == [2, 4]", 60),
    ("[1, 2].filter(x, x > 1) == [2]", 62),
    ("[1, 2].map(x, x > 1, x) == [2]", 62),
    ('{"a": 1}.all(k, k != "b")', 36),
    ('{"a": 1}.all(k, v, v > 0)', 36),
    ("[5].exists(i, v, i == 0 && v == 5)", 19),
    ("[1, 2].transformList(i, v, v + i) == [1, 3]", 62),
    ('{"a": 1}.transformMap(k, v, v + 1) == {"a": 2}', 97),
    ('{"a": 1}.transformMapEntry(k, v, {v: k}) == {1: "a"}', 126),
    ("[1, 2].existsOne(i, v, v == 1)", 20),
    ('device.attributes["d"].all(id, id != "x")', 164),
    ('device.attributes["d"].all(id, value, id == value)', 388),
    ('device.capacity["d"].all(id, value, id == id)', 164),
    ('device.capacity["d"].all(id, id == id)', 292),
    ("device.attributes.all(d, d == d)", 387),
    ("device.attributes.all(d, ids, ids.all(id, value, id == id))", 12451),
    ('cel.bind(ids, device.attributes["d"], ids.all(k, k == k) && ids.a == ids.b)', 314),
    ('device.attributes["d"].list.all(x, x > 0)', 325),
    ("[[1, 2], [3]].all(x, x.all(y, y > 0))", 61),
    ("[1, 2, 3].map(x, [x, x]).all(y, y.size() == 2)", 112),
    ("[].all(x, x == 1)", 11),
    ("lists.range(1000).all(x, lists.range(1000).all(y, x == y))", 7016012),
    ('device.driver.split("").all(c, c == "a")', 331),
    # bindings and optionals
    ('cel.bind(d, device.attributes["d"], d.a && d.b)', 17),
    ('cel.bind(x, "abc", x + x == "abcabc")', 14),
    ("cel.bind(x, [1, 2], x.all(y, y > 0))", 32),
    ("cel.bind(x, device.driver, x == x)", 21),
    ('device.attributes["d"].?a.orValue(false)', 5),
    ('device.attributes["d"][?"a"].orValue(false)', 5),
    ('device.attributes["d"].?a.optMap(x, x == 1).orValue(false)', 24),
    ('optional.of(device.attributes["d"]).?a.hasValue()', 6),
    ('optional.ofNonZeroValue("").orValue("a") == "a"', 3),
    ("[?optional.of(1), 2].size() == 2", 13),
    ('{?"a": optional.of(1)}.size() == 1', 33),
    ('[optional.of("a")].all(o, o.hasValue())', 17),
    # types and conversions
    ("type(1) == int", 1844674407370955266),
    ('type(device.attributes["d"].a) == string', 1844674407370955270),
    ("dyn([1, 2, 3]) == [1]", 22),
    ('int("12") == 12', 2),
    ('string(12) == "12"', 2),
    ('dyn(device).driver == "x"', 3),
    # wraparound
    ('strings.quote(string(1)) == "aaaaaaaaaaaa"', 1844674407370955265),
    ('bytes(string(1)) == b"aaaaaaaaaaaaaaaaa"', 1844674407370955267),
    ('string(1).replace("a", "bb").size() == 1', 3689348814741910531),
    ('string(1).replace("a", "bb") == "aaaaaaaaaaaaaaaaaaaaaaaa"', 3689348814741910532),
    ("[1, 2, 3].slice(2, 1) == []", 18446744073709551615),
    ('"a,b".split(",", -1).all(x, x == "a")', 18446744073709551615),
    ("[1].flatten(dyn(1)) == [1]", 18446744073709551615),
)


def cost(text, features=None):
    env = selector_environment(features or CelFeatures())
    return estimate(check(parse(text), text, env), env)


@pytest.mark.parametrize(("text", "expected"), ESTIMATES, ids=[text for text, _ in ESTIMATES])
def test_estimate_is_that_of_kubernetes(text, expected):
    assert cost(text) == expected


def test_estimate_without_list_attributes_is_the_same_for_scalars():
    text = 'device.attributes["d"].x == "0123456789"'
    assert cost(text, CelFeatures(list_type_attributes=False)) == cost(text) == 5


def nested_negation(depth):
    """`!!!...true`, deeper than any parser lets through."""
    node = Literal(0, value=True)
    calls = {}
    negation = function("!_", "logical_not", (BOOL,), BOOL, bool)
    for _ in range(depth):
        node = Call(0, "!_", None, (node,))
        calls[node] = CallReference((negation,))
    return Checked(node, {}, {}, calls)


def test_estimate_of_a_deep_tree_needs_no_deep_stack():
    assert estimate(nested_negation(50_000), selector_environment(CelFeatures())) == 50_000


def test_estimate_of_a_constant_is_zero():
    assert estimate(Checked(Literal(0, 1), {}, {}, {}), selector_environment(CelFeatures())) == 0


def test_estimate_of_an_unresolved_call_is_zero():
    call = Call(0, "size", None, (Select(0, Literal(0, "a"), "b"),))
    assert estimate(Checked(call, {call: INT}, {}, {}), selector_environment(CelFeatures())) == 0
