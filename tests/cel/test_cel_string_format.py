import math

import pytest

from policies.cel import errors
from policies.cel.errors import CelRuntimeError, EvaluationAborted
from policies.cel.libraries.string_format import LIBRARY
from policies.cel.libraries.times import Duration, Timestamp
from policies.cel.types import DYN as ANYTHING
from policies.cel.types import INT, NULL, TIMESTAMP, list_of
from policies.cel.values import Concatenation, Map, Optional, UInt

(OVERLOAD,) = LIBRARY


def format_(template, *arguments):
    errors.begin_evaluation()
    return OVERLOAD.implementation(template, arguments)


def failure(template, *arguments):
    with pytest.raises(CelRuntimeError) as raised:
        format_(template, *arguments)
    return raised.value.message


def test_overload_has_the_id_of_cel_go():
    assert (OVERLOAD.name, OVERLOAD.id, OVERLOAD.is_member) == ("format", "string_format", True)


@pytest.mark.parametrize(
    ("template", "arguments", "text"),
    [
        ("", (), ""),
        ("100%%", (), "100%"),
        ("%%%s%%", ("a",), "%a%"),
        ("%s is %d", ("one", 1), "one is 1"),
        ("nothing", (1, 2), "nothing"),
    ],
)
def test_clauses_are_replaced_in_order(template, arguments, text):
    assert format_(template, *arguments) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\n", "a\n"),
        (b"\xc3\xa9", "\u00e9"),
        (5, "5"),
        (UInt(5), "5"),
        (1e6, "1e+06"),
        (True, "true"),
        (None, "null"),
        (Timestamp(0, 3600), "1970-01-01T01:00:00+01:00"),
        (Duration(1_500_000_000), "1.5s"),
        (INT, "int"),
        (TIMESTAMP, "google.protobuf.Timestamp"),
        (NULL, "null_type"),
        (list_of(ANYTHING), "list"),
    ],
    ids=repr,
)
def test_string_clause_takes_plain_values(value, text):
    assert format_("%s", value) == text


def test_string_clause_writes_lists_as_cel_would():
    values = ('q"\n\u00e9\u200b', b'"', 1, UInt(2), 1.5, True, None, Timestamp(0), Duration(10**9), INT, ())

    assert format_("%s", values) == (
        '["q\\"\\n\u00e9\\u200b", b"\\"", 1, 2, 1.500000, true, null, '
        'timestamp("1970-01-01T00:00:00Z"), duration("1s"), int, []]'
    )


def test_string_clause_writes_maps_in_the_order_of_their_keys():
    entries = Map({Map.key("b"): (1,), Map.key("a"): Map({}), Map.key(10): 1, Map.key(9): 1, Map.key(True): 1})

    assert format_("%s", entries) == '{"a":{}, "b":[1], 10:1, 9:1, true:1}'


@pytest.mark.parametrize(
    ("number", "text"),
    [(-0.0, "-0.000000"), (1e21, "1000000000000000000000.000000"), (math.nan, '"NaN"'), (-math.inf, '"-Inf"')],
)
def test_string_clause_writes_doubles_in_lists_without_an_exponent(number, text):
    assert format_("%s", (number,)) == f"[{text}]"


def test_string_clause_does_not_mind_depth():
    nested = ()
    for _ in range(5000):
        nested = (nested,)

    assert format_("%s", nested) == "[" * 5001 + "]" * 5001


def test_string_clause_of_a_list_without_end_is_stopped():
    doubled = (1,)
    for _ in range(100):
        doubled = Concatenation(doubled, doubled)

    with pytest.raises(EvaluationAborted):
        format_("%s", doubled)


def test_long_arguments_that_are_repeated_are_stopped():
    with pytest.raises(EvaluationAborted):
        format_("%s" * 1000, *(["a" * 100_000] * 1000))


@pytest.mark.parametrize(
    ("template", "value", "text"),
    [
        ("%d", -5, "-5"),
        ("%d", UInt(2**64 - 1), "18446744073709551615"),
        ("%.3d", 5, "5"),
        ("%b", -5, "-101"),
        ("%b", UInt(5), "101"),
        ("%b", True, "1"),
        ("%b", False, "0"),
        ("%o", -8, "-10"),
        ("%x", -255, "-ff"),
        ("%X", UInt(255), "FF"),
        ("%x", "h\u00e9", "68c3a9"),
        ("%X", b"\xff\n", "FF0A"),
    ],
)
def test_integers_are_written_to_a_base(template, value, text):
    assert format_(template, value) == text


@pytest.mark.parametrize(
    ("template", "value", "text"),
    [
        ("%f", 1234567.891, "1,234,567.891000"),
        ("%.2f", 1234.005, "1,234.01"),
        ("%.0f", 2.5, "2"),
        ("%.0f", 1000.0, "1,000"),
        ("%f", -0.0, "0.000000"),
        ("%.2f", -0.001, "-0.00"),
        ("%f", 1e21, "1,000,000,000,000,000,000,000.000000"),
        ("%.007f", 0.5, "0.5000000"),
        ("%f", math.inf, "\u221e"),
        ("%f", -math.inf, "-\u221e"),
        ("%f", math.nan, "NaN"),
        ("%f", "NaN", "NaN"),
        ("%.3f", "-Infinity", "-\u221e"),
        ("%.300f", 0.1, "0.1000000000000000055511151231257827021181583404541015625"),
        ("%.1000001f", 1.0, "1." + "0" * 65),
        ("%.40000f", 0.25, "0.25" + "0" * 62),
        ("%.20000000f", 1.0, "%!(NOVERB)"),
    ],
)
def test_fixed_clause_writes_american_english(template, value, text):
    assert format_(template, value) == text


@pytest.mark.parametrize(
    ("template", "value", "text"),
    [
        ("%e", 1052.032911275, "1.052033\u00d710\u2070\u00b3"),
        ("%e", -1e-7, "-1.000000\u00d710\u207b\u2070\u2077"),
        ("%e", 0.0, "0.000000\u00d710\u2070\u2070"),
        ("%e", 1e100, "1.000000\u00d710\u00b9\u2070\u2070"),
        ("%.3e", 1052.032911275, "1.052033\u00d710\u2070\u00b3"),
        ("%.0e", 1.0, "1.000000\u00d710\u2070\u2070"),
        ("%.15e", 1.0, "  1.000000\u00d710\u2070\u2070"),
        ("%e", "Infinity", "     \u221e"),
        ("%.20000000e", 1.0, "%!(NOVERB)"),
    ],
)
def test_scientific_clause_takes_its_precision_for_a_width(template, value, text):
    assert format_(template, value) == text


@pytest.mark.parametrize(
    ("template", "value", "message"),
    [
        ("%d", 1.0, "decimal clause can only be used on integers, was given double"),
        ("%d", True, "decimal clause can only be used on integers, was given bool"),
        ("%f", 1, "fixed-point clause can only be used on doubles, was given int"),
        ("%f", "nan", "fixed-point clause can only be used on doubles, was given string"),
        ("%e", UInt(1), "scientific clause can only be used on doubles, was given uint"),
        ("%b", "1", "only integers and bools can be formatted as binary, was given string"),
        ("%x", True, "only integers, byte buffers, and strings can be formatted as hex, was given bool"),
        ("%X", None, "only integers, byte buffers, and strings can be formatted as hex, was given null_type"),
        ("%o", (), "octal clause can only be used on integers, was given list"),
        ("%o", Duration(1), "octal clause can only be used on integers, was given google.protobuf.Duration"),
        (
            "%s",
            Optional(1),
            (
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
                "and timestamps, was given optional_type"
            ),
        ),
        ("%s", (Optional(1),), "no formatting function for optional_type"),
        ("%s", Map({Map.key(1.5): 1}), "no formatting function for map key of type double"),
        (
            "%s",
            b"\xff",
            'could not convert argument "invalid UTF-8 in bytes, cannot convert to string" to string',
        ),
    ],
    ids=lambda value: repr(value) if not isinstance(value, Map) else "map",
)
def test_clauses_refuse_other_values(template, value, message):
    assert failure(template, value) == f"error during formatting: {message}"


@pytest.mark.parametrize(
    ("template", "arguments", "message"),
    [
        ("%", (1,), "unexpected end of string"),
        ("%", (), "index 0 out of range"),
        ("%d %d", (1,), "index 1 out of range"),
        ("%q", (1,), 'could not parse formatting clause: unrecognized formatting clause "q"'),
        ("%\u00e9", (1,), 'could not parse formatting clause: unrecognized formatting clause "\u00c3"'),
        (
            "%.3",
            (1,),
            (
                "could not parse formatting clause: error while parsing precision: "
                "could not find end of precision specifier"
            ),
        ),
        (
            "%.f",
            (1.0,),
            (
                "could not parse formatting clause: error while parsing precision: "
                'error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
            ),
        ),
        (
            "%.99999999999999999999f",
            (1.0,),
            (
                "could not parse formatting clause: error while parsing precision: "
                "error while converting precision to integer: "
                'strconv.Atoi: parsing "99999999999999999999": value out of range'
            ),
        ),
    ],
)
def test_templates_that_are_no_formats_fail(template, arguments, message):
    assert failure(template, *arguments) == message
