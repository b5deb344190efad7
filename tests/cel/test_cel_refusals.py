import pytest

from policies.cel.checker import check
from policies.cel.environment import CelFeatures, selector_environment
from policies.cel.errors import CelCompileError
from policies.cel.parser import parse

# What Kubernetes 1.36 prints, at line and column, for expressions that it refuses.

NAMES = {
    "x": ("1:1 undeclared reference to 'x' (in container '')",),
    ".x": ("1:2 undeclared reference to '.x' (in container '')",),
    "a.b.c": ("1:1 undeclared reference to 'a' (in container '')",),
    "nosuch(1)": ("1:7 undeclared reference to 'nosuch' (in container '')",),
    ".nosuch(1)": ("1:8 undeclared reference to '.nosuch' (in container '')",),
    '"a".nosuch()': ("1:11 undeclared reference to 'nosuch' (in container '')",),
    "nosuch.foo(1)": (
        "1:1 undeclared reference to 'nosuch' (in container '')",
        "1:11 undeclared reference to 'foo' (in container '')",
    ),
    "math.greatest(1, 2)": (
        "1:1 undeclared reference to 'math' (in container '')",
        "1:14 undeclared reference to 'greatest' (in container '')",
    ),
    "dyn": ("1:1 undeclared reference to 'dyn' (in container '')",),
    "any": ("1:1 undeclared reference to 'any' (in container '')",),
    "kubernetes.Quantity": ("1:1 undeclared reference to 'kubernetes' (in container '')",),
    'cel.bind(net, {"IP": 1}, net.IP == 1)': (
        "1:33 found no matching overload for '_==_' applied to '(type(net.IP), int)'",
    ),
    "a == b && c == d": (
        "1:1 undeclared reference to 'a' (in container '')",
        "1:6 undeclared reference to 'b' (in container '')",
        "1:11 undeclared reference to 'c' (in container '')",
        "1:16 undeclared reference to 'd' (in container '')",
    ),
    "b.a(c).d(e)": (
        "1:1 undeclared reference to 'b' (in container '')",
        "1:4 undeclared reference to 'a' (in container '')",
        "1:5 undeclared reference to 'c' (in container '')",
        "1:9 undeclared reference to 'd' (in container '')",
        "1:10 undeclared reference to 'e' (in container '')",
    ),
}

FIELDS = {
    "device.nosuch": ("1:7 undefined field 'nosuch'",),
    "has(device.nosuch)": ("1:4 undefined field 'nosuch'",),
    "device.?nosuch": ("1:7 undefined field 'nosuch'",),
    'optional.of(device).nosuch == optional.of("x")': ("1:20 undefined field 'nosuch'",),
    '"a".b': ("1:4 type 'string' does not support field selection",),
    "has(1.a)": ("1:4 type 'int' does not support field selection",),
    "[1].?b": ("1:4 type 'list(int)' does not support field selection",),
    '{"a": 1}.?a.b': ("1:12 type 'int' does not support field selection",),
    "net.IP.name": ("1:7 type 'type(net.IP)' does not support field selection",),
    "type(1).name": ("1:8 type 'type(int)' does not support field selection",),
    'ip("1.1.1.1").name': ("1:14 type 'net.IP' does not support field selection",),
    'device.capacity["a"].b.nosuch': ("1:23 unexpected failed resolution of 'kubernetes.Quantity'",),
    'semver("1.0.0").major == 1': ("1:16 unexpected failed resolution of 'kubernetes.Semver'",),
    'optional.of(optional.of({"a": 1})).a': (
        "1:35 type 'optional_type(map(string, int))' does not support field selection",
    ),
}

CALLS = {
    "1 == 1.0": ("1:3 found no matching overload for '_==_' applied to '(int, double)'",),
    '1 + "a"': ("1:3 found no matching overload for '_+_' applied to '(int, string)'",),
    "1u + 1": ("1:4 found no matching overload for '_+_' applied to '(uint, int)'",),
    "!1": ("1:1 found no matching overload for '!_' applied to '(int)'",),
    '-"a"': ("1:1 found no matching overload for '-_' applied to '(string)'",),
    "1 ? 2 : 3": ("1:3 found no matching overload for '_?_:_' applied to '(int, int, int)'",),
    'true ? 1 : "a"': ("1:6 found no matching overload for '_?_:_' applied to '(bool, int, string)'",),
    '1 in ["a"]': ("1:3 found no matching overload for '@in' applied to '(int, list(string))'",),
    '"a" in 1': ("1:5 found no matching overload for '@in' applied to '(string, int)'",),
    '[1]["a"]': ("1:4 found no matching overload for '_[_]' applied to '(list(int), string)'",),
    '{"a": 1}[1]': ("1:9 found no matching overload for '_[_]' applied to '(map(string, int), int)'",),
    '"abc"[0]': ("1:6 found no matching overload for '_[_]' applied to '(string, int)'",),
    'device["driver"]': ("1:7 found no matching overload for '_[_]' applied to '(kubernetes.DRADevice, string)'",),
    "device.attributes[0]": (
        "1:18 found no matching overload for '_[_]' applied to '(map(string, map(string, dyn)), int)'",
    ),
    '[1][?"a"]': ("1:4 found no matching overload for '_[?_]' applied to '(list(int), string)'",),
    "{1: 1}[1.0] == 1": ("1:7 found no matching overload for '_[_]' applied to '(map(int, int), double)'",),
    "{1.0: 1} == {1: 1}": (
        "1:10 found no matching overload for '_==_' applied to '(map(double, int), map(int, int))'",
    ),
    "{} + {}": ("1:4 found no matching overload for '_+_' applied to '(map(dyn, dyn), map(dyn, dyn))'",),
    "[] + 1": ("1:4 found no matching overload for '_+_' applied to '(list(dyn), int)'",),
    "null == 1": ("1:6 found no matching overload for '_==_' applied to '(null, int)'",),
    "null == [1]": ("1:6 found no matching overload for '_==_' applied to '(null, list(int))'",),
    'quantity("1") > quantity("2")': (
        "1:15 found no matching overload for '_>_' applied to '(kubernetes.Quantity, kubernetes.Quantity)'",
    ),
    'device.capacity["a"].b > 1': (
        "1:24 found no matching overload for '_>_' applied to '(kubernetes.Quantity, int)'",
    ),
    'device.capacity["a"] == {"b": 1}': (
        "1:22 found no matching overload for '_==_' applied to '(map(string, kubernetes.Quantity), map(string, int))'",
    ),
    "size(1, 2, 3)": ("1:5 found no matching overload for 'size' applied to '(int, int, int)'",),
    "1.size()": ("1:7 found no matching overload for 'size' applied to 'int.()'",),
    'startsWith("a", "b")': ("1:11 found no matching overload for 'startsWith' applied to '(string, string)'",),
    '"a".startsWith()': ("1:15 found no matching overload for 'startsWith' applied to 'string.()'",),
    "includes(1, 2)": ("1:9 found no matching overload for 'includes' applied to '(int, int)'",),
    'sets.contains([1], ["a"])': (
        "1:14 found no matching overload for 'sets.contains' applied to '(list(int), list(string))'",
    ),
    "ip.isCanonical(1)": ("1:15 found no matching overload for 'ip.isCanonical' applied to '(int)'",),
    "strings.quote(1)": ("1:14 found no matching overload for 'strings.quote' applied to '(int)'",),
    '.sets.contains([1], ["a"])': (
        "1:15 found no matching overload for 'sets.contains' applied to '(list(int), list(string))'",
    ),
    "optional.of()": ("1:12 found no matching overload for 'optional.of' applied to '()'",),
    'optional.of(1).orValue("a") == 1': (
        "1:23 found no matching overload for 'orValue' applied to 'optional_type(int).(string)'",
    ),
    "optional.of(null) == optional.of(1)": (
        "1:19 found no matching overload for '_==_' applied to '(optional_type(null), optional_type(int))'",
    ),
    'device.attributes["x"].?a == 1': (
        "1:27 found no matching overload for '_==_' applied to '(optional_type(dyn), int)'",
    ),
    'dyn(1) - "a"': ("1:8 found no matching overload for '_-_' applied to '(dyn, string)'",),
    "[{}].sort()": ("1:10 found no matching overload for 'sort' applied to 'list(map(dyn, dyn)).()'",),
    "[1].flatten()": ("1:12 found no matching overload for 'flatten' applied to 'list(int).()'",),
    'duration("1s") - timestamp("2020-01-01T00:00:00Z")': (
        "1:16 found no matching overload for '_-_' applied to '(duration, timestamp)'",
    ),
    "list == [1]": ("1:6 found no matching overload for '_==_' applied to '(type(list(dyn)), list(int))'",),
}

LOGIC = {
    '1 && "a" || 2': (
        "1:1 expected type 'bool' but found 'int'",
        "1:6 expected type 'bool' but found 'string'",
        "1:13 expected type 'bool' but found 'int'",
    ),
    "!(1 == 1) && 1": ("1:14 expected type 'bool' but found 'int'",),
    "[] && true": ("1:1 expected type 'bool' but found 'list(_var0)'",),
    "{} || true": ("1:1 expected type 'bool' but found 'map(_var0, _var1)'",),
    "list && true": ("1:1 expected type 'bool' but found 'type(list(A))'",),
}

LITERALS = {
    "[?1, 1] == [1]": ("1:3 expected type 'optional_type(int)' but found 'int'",),
    '{?"a": 1} == {}': ("1:8 expected type 'optional_type(int)' but found 'int'",),
}

COMPREHENSIONS = {
    "1.all(x, true)": (
        "1:1 expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
    ),
    "device.all(x, true)": (
        "1:1 expression of type 'kubernetes.DRADevice' cannot be range of a comprehension (must be list, map, or dynamic)",
    ),
    "optional.of([1]).all(x, true)": (
        "1:12 expression of type 'optional_type(list(int))' cannot be range of a comprehension (must be list, map, or dynamic)",
    ),
    "[1].all(x, x)": ("1:12 expected type 'bool' but found 'int'",),
    "[1].all(x, [])": ("1:12 expected type 'bool' but found 'list(_var0)'",),
    "[1].map(x, y)": ("1:12 undeclared reference to 'y' (in container '')",),
    "[1].all(x, x == 1) && x": ("1:23 undeclared reference to 'x' (in container '')",),
    "[1].filter(x, 1)": ("1:11 found no matching overload for '_?_:_' applied to '(int, list(int), list(int))'",),
    '{"a": 1}.all(k, k == 1)': ("1:19 found no matching overload for '_==_' applied to '(string, int)'",),
    '{"a": 1}.all(k, v, k == v)': ("1:22 found no matching overload for '_==_' applied to '(string, int)'",),
    '[1].all(i, v, i == "a")': ("1:17 found no matching overload for '_==_' applied to '(int, string)'",),
    'cel.bind(x, [], x == [1] && x == ["a"])': (
        "1:31 found no matching overload for '_==_' applied to '(list(int), list(string))'",
    ),
    'cel.bind(x, 1, cel.bind(x, "a", x == 1))': (
        "1:35 found no matching overload for '_==_' applied to '(string, int)'",
    ),
    "device.attributes.exists(d, device.attributes[d].exists(a, a == 1))": (
        "1:62 found no matching overload for '_==_' applied to '(string, int)'",
    ),
    "nosuch.optMap(x, x + y)": (
        "1:1 undeclared reference to 'nosuch' (in container '')",
        "1:1 undeclared reference to 'nosuch' (in container '')",
        "1:22 undeclared reference to 'y' (in container '')",
    ),
}

MESSAGES = {
    "Foo{a: 1}": ("1:4 undeclared reference to 'Foo' (in container '')",),
    "int{}": ("1:4 'int' is not a message type",),
    "device{a: 1}": (
        "1:7 'kubernetes.DRADevice' is not a type",
        "1:9 unexpected failed resolution of 'device'",
    ),
    "string{a: b}": (
        "1:7 'string' is not a message type",
        "1:9 undefined field 'a'",
        "1:11 undeclared reference to 'b' (in container '')",
    ),
    "type{a: 1}": (
        "1:5 'type' is not a message type",
        "1:7 unexpected failed resolution of 'type'",
    ),
    "null_type{a: 1} == null": ("1:12 unexpected failed resolution of 'google.protobuf.NullValue'",),
    "kubernetes.Quantity{}": ("1:20 undeclared reference to 'kubernetes.Quantity' (in container '')",),
    'kubernetes.DRADevice{nosuch: "x", driver: y}': (
        "1:28 undefined field 'nosuch'",
        "1:43 undeclared reference to 'y' (in container '')",
    ),
    "kubernetes.DRADevice{driver: 1}": ("1:28 expected type of field 'driver' is 'string' but provided type is 'int'",),
    'kubernetes.DRADevice{?driver: "x"}': ("1:31 expected type 'optional_type(string)' but found 'string'",),
    "kubernetes.DRADevice.capacity{a: 1}": (
        "1:30 'map' is not a message type",
        "1:32 expected type of field 'a' is 'map(string, kubernetes.Quantity)' but provided type is 'int'",
    ),
    "duration{foo: 1} == null": ("1:13 undefined field 'foo'",),
    'cel.bind(t, kubernetes.DRADevice, t{nosuch: "x"})': ("1:43 undefined field 'nosuch'",),
    "cel.bind(t, int, t{a: 1})": (
        "1:19 'int' is not a message type",
        "1:21 unexpected failed resolution of 't'",
    ),
    "cel.bind(t, nosuch, t{a: 1})": (
        "1:13 undeclared reference to 'nosuch' (in container '')",
        "1:24 unexpected failed resolution of 't'",
    ),
}


@pytest.mark.parametrize(
    ("text", "issues"),
    [
        pytest.param(*case, id=case[0])
        for group in (NAMES, FIELDS, CALLS, LOGIC, LITERALS, COMPREHENSIONS, MESSAGES)
        for case in group.items()
    ],
)
def test_wrong_expression_is_refused_in_the_words_of_kubernetes(text, issues):
    root = parse(text)
    with pytest.raises(CelCompileError) as refused:
        check(root, text, selector_environment(CelFeatures()))
    assert tuple(f"{issue.line}:{issue.column} {issue.message}" for issue in refused.value.issues) == issues
