"""Scalars, with the results of sigs.k8s.io/yaml v1.6 with go.yaml.in/yaml/v2 v2.4.4."""

import math

import pytest

from policies.kubernetes.yaml import YAMLError, load_document


def read(text):
    return load_document(f"- {text}\n").value[0]


def read_key(text):
    (key,) = load_document(f"{text}: x\n").value
    return key


def same(actual, expected):
    return type(actual) is type(expected) and actual == expected


@pytest.mark.parametrize("text", ["true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y"])
def test_word_of_consent_is_true(text):
    assert read(text) is True


@pytest.mark.parametrize("text", ["false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"])
def test_word_of_refusal_is_false(text):
    assert read(text) is False


@pytest.mark.parametrize("text", ["", "~", "null", "Null", "NULL", "# only a comment"])
def test_nothing_is_null(text):
    assert read(text) is None


@pytest.mark.parametrize("text", ["tRUE", "yEs", "nULL", "oN", "none", "None", "~~", "=", "<<", "+", ".", "._5"])
def test_similar_word_is_a_string(text):
    assert read(text) == text


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-0", 0),
        ("12", 12),
        ("+12", 12),
        ("-12", -12),
        ("1_000", 1000),
        ("1__0_", 10),
        ("-_1", -1),
        ("0x1F", 31),
        ("0X1f", 31),
        ("-0x_1_f", -31),
        ("0b101", 5),
        ("-0B101", -5),
        ("0o17", 15),
        ("0O17", 15),
        ("017", 15),
        ("-0_17", -15),
        ("00", 0),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("18446744073709551615", 2**64 - 1),
        ("0xFFFFFFFFFFFFFFFF", 2**64 - 1),
    ],
)
def test_integer_is_read_in_its_base(text, number):
    assert same(read(text), number)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1.5", 1.5),
        ("-1.5e-3", -0.0015),
        (".5", 0.5),
        ("-.5", -0.5),
        (".5_0", 0.5),
        ("685_230.15", 685230.15),
        ("1e-7", 1e-7),
        ("1e30", 1e30),
        ("9223372036854775808.5", 9223372036854775808.0),
        ("+18446744073709551615", 18446744073709551615.0),
        ("18446744073709551616", 18446744073709551616.0),
        ("-9223372036854775809", -9223372036854775809.0),
        ("1000000000000000000000000000000000000", 1e36),
    ],
)
def test_number_that_is_no_integer_is_a_float(text, number):
    assert same(read(text), number)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1.0", 1),
        ("-2.", -2),
        ("-0.0", 0),
        ("1e3", 1000),
        ("08", 8),
        ("019", 19),
        ("3.4799537735589645e+17", 347995377355896450),
    ],
)
def test_integral_float_arrives_as_an_integer(text, number):
    assert same(read(text), number)


@pytest.mark.parametrize(
    "text",
    [
        "1:0",
        "12:30:45",
        "190:20:30.15",
        "2024-01-01",
        "2024-01-01T10:00:00Z",
        "2024-01-01 10:00:00",
        "0x",
        "0o8",
        "0b2",
        "0x1FFFFFFFFFFFFFFFFF",
        "1e400",
        ".5_",
        ".5__0",
        "1.2.3",
        "1e",
        "1Gi",
        "500m",
        "_1",
        "٣",
    ],
)
def test_what_only_looks_like_a_number_is_a_string(text):
    assert read(text) == text


@pytest.mark.parametrize("text", ["'yes'", '"yes"', "|-\n  yes", ">-\n  yes", "!!str yes", "! yes"])
def test_marked_text_is_a_string(text):
    assert read(text) == "yes"


@pytest.mark.parametrize("text", [".inf", "+.Inf", "-.INF", ".nan", ".NaN", "!!float .inf"])
def test_number_outside_json_is_refused(text):
    with pytest.raises(YAMLError) as caught:
        read(text)
    assert str(caught.value) == (
        "1:3: infinity and not-a-number do not exist in JSON; quote the value if a string is meant"
    )


@pytest.mark.parametrize(
    ("text", "scalar"),
    [
        ('!!int "12"', 12),
        ("!!int 0x1f", 31),
        ("!!float 3", 3),
        ('!!float "1.5"', 1.5),
        ('!!bool "on"', True),
        ('!!null ""', None),
        ("!!str 12", "12"),
        ("!<tag:yaml.org,2002:int> 12", 12),
    ],
)
def test_core_tag_decides_the_type(text, scalar):
    assert same(read(text), scalar)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("!!int x", '"x" is not an integer, which its tag !!int requires'),
        ("!!int 1.5", '"1.5" is not an integer, which its tag !!int requires'),
        ("!!int true", '"true" is not an integer, which its tag !!int requires'),
        ("!!float true", '"true" is not a number, which its tag !!float requires'),
        ("!!bool 1", '"1" is not a boolean, which its tag !!bool requires'),
        ("!!null x", '"x" is not null, which its tag !!null requires'),
        ("!!map x", '"x" is not a mapping, which its tag !!map requires'),
    ],
)
def test_scalar_that_contradicts_its_tag_is_refused(text, message):
    with pytest.raises(YAMLError) as caught:
        read(text)
    assert str(caught.value) == f"1:3: {message}"


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("!!binary aGk=", "!!binary"),
        ("!!timestamp 2024-01-01", "!!timestamp"),
        ("!!set {}", "!!set"),
        ("!Ref x", "!Ref"),
        ("!<tag:example.com,2024:x> []", "tag:example.com,2024:x"),
    ],
)
def test_tag_unknown_to_json_is_refused(text, tag):
    with pytest.raises(YAMLError) as caught:
        read(text)
    assert str(caught.value) == (
        f'1:3: the tag "{tag}" is not supported: objects of Kubernetes hold only '
        "strings, numbers, booleans, null, lists and mappings"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("!!seq {}", "a mapping stands here, but its tag requires a list"),
        ("!!map []", "a list stands here, but its tag requires a mapping"),
        ("!!str []", "a list stands here, but its tag requires a string"),
    ],
)
def test_collection_that_contradicts_its_tag_is_refused(text, message):
    with pytest.raises(YAMLError) as caught:
        read(text)
    assert str(caught.value) == f"1:3: {message}"


@pytest.mark.parametrize("text", ["!!map {}", "! {}"])
def test_tag_that_fits_a_collection_changes_nothing(text):
    assert read(text) == {}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("1", "1"),
        ("0x10", "16"),
        ("010", "8"),
        ("true", "true"),
        ("y", "true"),
        ("Off", "false"),
        ("'y'", "y"),
        ("1.50", "1.5"),
        ("1.0", "1"),
        ("08", "8"),
        ("-0.0", "-0"),
        ("1e3", "1000"),
        ("100000.5", "100000.5"),
        ("1e6", "1e+06"),
        ("1000000000000000000000000000000000000", "1e+36"),
        ("0.0001", "0.0001"),
        ("0.00001", "1e-05"),
        ("1.23456789", "1.2345679"),
        ("1e40", ".inf"),
        ("-1e40", "-.inf"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("2024-01-01", "2024-01-01"),
        ("*", "*"),
    ],
)
def test_key_is_spelled_as_kubernetes_spells_it(text, key):
    assert read_key(text if text != "*" else "'*'") == key


@pytest.mark.parametrize("text", ["~", "null", "!!null ''"])
def test_null_key_is_refused(text):
    with pytest.raises(YAMLError) as caught:
        read_key(text)
    assert str(caught.value) == "1:1: null cannot be a key; write a name, or quote it"


def test_key_beyond_int64_is_refused():
    with pytest.raises(YAMLError) as caught:
        read_key("9223372036854775808")
    assert str(caught.value) == "1:1: the number 9223372036854775808 is too large for a key; quote it"


def test_float_is_finite():
    assert math.isfinite(read("1e308"))
