import pytest

from policies.cel.checker import check
from policies.cel.environment import CelFeatures, selector_environment
from policies.cel.errors import CelCompileError
from policies.cel.parser import parse

# What Kubernetes 1.36 prints, at line and column, for literals that it refuses.

MIXED = {
    '[1, "a"] == []': ("1:5 expected type 'int' but found 'string'",),
    '[1, 2.0, "a"] == []': ("1:5 expected type 'int' but found 'double'",),
    '[[], [1], ["a"]] == []': ("1:11 expected type 'list(int)' but found 'list(string)'",),
    "[dyn(1), 1] == []": ("1:10 expected type 'dyn' but found 'int'",),
    '[null, duration("1s")] == []': ("1:16 expected type 'null' but found 'duration'",),
    '[type(1), type("a")] == []': ("1:15 expected type 'type(int)' but found 'type(string)'",),
    '[?optional.of(1), ?optional.of("a")] == []': ("1:31 expected type 'int' but found 'string'",),
    '{"a": 1, "b": "c"} == {}': ("1:15 expected type 'int' but found 'string'",),
    '{"a": 1, 2: 3, 4: "b"} == {}': (
        "1:10 expected type 'string' but found 'int'",
        "1:16 expected type 'string' but found 'int'",
        "1:19 expected type 'int' but found 'string'",
    ),
    '{"a": 1, ?"b": optional.of(1), ?2: optional.of("a")} == {}': (
        "1:33 expected type 'string' but found 'int'",
        "1:47 expected type 'int' but found 'string'",
    ),
    '{1: "a", "b": 2}.size() == 2 && [1, "a"].size() == 2': (
        "1:10 expected type 'int' but found 'string'",
        "1:15 expected type 'string' but found 'int'",
        "1:37 expected type 'int' but found 'string'",
    ),
    'device.attributes["x"].a in [device.attributes["x"].b, 1]': ("1:56 expected type 'dyn' but found 'int'",),
    '[1, "a"].exists(x, x == 1)': ("1:5 expected type 'int' but found 'string'",),
}

ARGUMENTS = {
    'duration("abc") == duration("1s")': ("1:10 invalid duration argument",),
    'duration("1d") == duration("1s")': ("1:10 invalid duration argument",),
    'duration(1) == duration("1s")': ("1:10 invalid duration argument",),
    "duration(null) == null": ("1:10 invalid duration argument",),
    '.duration("x") == duration("1s")': ("1:11 invalid duration argument",),
    'timestamp("x") == timestamp(1)': ("1:11 invalid timestamp argument",),
    "timestamp(99999999999999999) == timestamp(1)": ("1:11 invalid timestamp argument",),
    "timestamp(null) == null": ("1:11 invalid timestamp argument",),
    '"a".matches("[")': ("1:13 invalid matches argument",),
    '"a".matches("(?=x)")': ("1:13 invalid matches argument",),
    'matches("[", "a")': ("1:9 invalid matches argument",),
}

FORMATS = {
    '"%s %d".format(["a", "b"]) == ""': (
        "1:22 error during formatting: decimal clause can only be used on integers, was given string",
    ),
    '"%s".format([]) == ""': ("1:12 index 0 out of range",),
    '"%x".format([1, 2]) == ""': ("1:12 too many arguments supplied to string.format (expected 1, got 2)",),
    '"%q".format([1]) == ""': ('1:12 could not parse formatting clause: unrecognized formatting clause "q"',),
    '"%".format([1]) == ""': ("1:11 unexpected end of string",),
    '"%é".format([1]) == ""': ('1:12 could not parse formatting clause: unrecognized formatting clause "Ã"',),
    '"%.f".format([1.0]) == ""': (
        '1:13 could not parse formatting clause: error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax',
    ),
    '"%.3".format([1.0]) == ""': (
        "1:13 could not parse formatting clause: error while parsing precision: could not find end of precision specifier",
    ),
    '"%.99999999999999999999f".format([1.0]) == ""': (
        '1:33 could not parse formatting clause: error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing "99999999999999999999": value out of range',
    ),
    '"%f".format([1]) == ""': (
        "1:14 error during formatting: fixed-point clause can only be used on doubles, was given int",
    ),
    '"%e".format([1]) == ""': (
        "1:14 error during formatting: scientific clause can only be used on doubles, was given int",
    ),
    '"%b".format(["a"]) == ""': (
        "1:14 error during formatting: only integers and bools can be formatted as binary, was given string",
    ),
    '"%X".format([1.0]) == ""': (
        "1:14 error during formatting: only integers, byte buffers, and strings can be formatted as hex, was given double",
    ),
    '"%o".format(["a"]) == ""': (
        "1:14 error during formatting: octal clause can only be used on integers, was given string",
    ),
    '"%s".format([optional.of(1)]) == ""': (
        "1:25 error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given optional_type",
    ),
    '"%s".format([[1, {"a": optional.of(1)}]]) == ""': (
        "1:35 error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given optional_type",
    ),
    '"%s".format([quantity("1")]) == ""': (
        "1:22 error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given kubernetes.Quantity",
    ),
    '"%d".format([duration("1s")]) == ""': (
        "1:22 error during formatting: decimal clause can only be used on integers, was given google.protobuf.Duration",
    ),
}


def checked(text):
    return check(parse(text), text, selector_environment(CelFeatures()))


def issues_of(text):
    with pytest.raises(CelCompileError) as refused:
        checked(text)
    return tuple(f"{issue.line}:{issue.column} {issue.message}" for issue in refused.value.issues)


@pytest.mark.parametrize(
    ("text", "issues"),
    [pytest.param(*case, id=case[0]) for group in (MIXED, ARGUMENTS, FORMATS) for case in group.items()],
)
def test_literal_is_refused_in_the_words_of_kubernetes(text, issues):
    assert issues_of(text) == issues


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[[], [1]] == []", id="an empty list beside another"),
        pytest.param("[{}, {1: 2}] == []", id="an empty map beside another"),
        pytest.param("[?optional.of(1), 1] == []", id="an optional element beside another"),
        pytest.param("{'a': 1, ?'b': optional.none()} == {}", id="an optional entry beside another"),
        pytest.param("'%s %d'.format(['a', 1]) == ''", id="arguments of format"),
        pytest.param("'%s %d'.format([[1, 'a'], 1]) == ''", id="a list within arguments of format"),
        pytest.param("[1, 2].all(x, ['a', 'b'].all(y, y != ''))", id="lists of different types"),
        pytest.param("[device.driver, 'a'] == []", id="a string that is known later"),
    ],
)
def test_literal_that_is_homogeneous_or_need_not_be_is_accepted(text):
    assert checked(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("duration('1h30m') == duration('90m')", id="a duration"),
        pytest.param("timestamp('2020-01-01T00:00:00Z') == timestamp(1577836800)", id="timestamps"),
        pytest.param("'a'.matches('(?i)[a-z]+')", id="a regex"),
        pytest.param("duration(device.driver) == duration('1s')", id="what is known later"),
        pytest.param("matches('a', '[')", id="the pattern of a function, which is not looked at"),
        pytest.param("'a'.find('[') == ''", id="the pattern of another method"),
    ],
)
def test_argument_that_may_work_is_accepted(text):
    assert checked(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("'%s %s'.format([type(1), null]) == ''", id="types and null"),
        pytest.param("'%d%%'.format([1]) == ''", id="a percent sign"),
        pytest.param("'%.3f %.2e'.format([1.0, 'NaN']) == ''", id="precisions"),
        pytest.param("'%b %x %X %o'.format([true, b'', '', 1u]) == ''", id="bases"),
        pytest.param("'%d'.format([device.attributes['a'].b]) == ''", id="dyn"),
        pytest.param("'%d'.format(dyn(['a'])) == ''", id="arguments that are not written out"),
        pytest.param("('%d' + '').format(['a']) == ''", id="a format that is not written out"),
    ],
)
def test_format_that_may_work_is_accepted(text):
    assert checked(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[?dyn(1), 1] == []", id="a list"),
        pytest.param("{'a': 1, ?'b': dyn(1)} == {}", id="a map"),
    ],
)
def test_optional_element_of_unknown_type_is_refused_where_kubernetes_panics(text):
    assert "expected type 'optional_type(dyn)' but found 'dyn'" in issues_of(text)[0]


def test_format_with_any_is_refused():
    text = "'%s'.format([device.attributes['a'].b]) == ''"
    with pytest.raises(CelCompileError, match=r"was given google\.protobuf\.Any"):
        check(parse(text), text, selector_environment(CelFeatures(list_type_attributes=False)))
