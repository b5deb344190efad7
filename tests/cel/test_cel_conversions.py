import math

import pytest

from policies.cel.errors import CelRuntimeError
from policies.cel.libraries.conversions import LIBRARY
from policies.cel.libraries.times import Duration, Timestamp
from policies.cel.types import BOOL, INT, list_of, type_of
from policies.cel.types import DYN as ANYTHING
from policies.cel.values import UInt

OVERLOADS = {overload.id: overload for overload in LIBRARY}


def convert(overload, value):
    return OVERLOADS[overload].implementation(value)


def failure(overload, value):
    with pytest.raises(CelRuntimeError) as raised:
        convert(overload, value)
    return raised.value.message


def test_functions_are_those_of_the_standard_library():
    assert {
        name: [each.id for each in LIBRARY if each.name == name] for name in (overload.name for overload in LIBRARY)
    } == {
        "type": ["type"],
        "bool": ["bool_to_bool", "string_to_bool"],
        "bytes": ["bytes_to_bytes", "string_to_bytes"],
        "double": ["double_to_double", "int64_to_double", "string_to_double", "uint64_to_double"],
        "duration": ["duration_to_duration", "int64_to_duration", "string_to_duration"],
        "dyn": ["to_dyn"],
        "int": [
            "int64_to_int64",
            "double_to_int64",
            "duration_to_int64",
            "string_to_int64",
            "timestamp_to_int64",
            "uint64_to_int64",
        ],
        "string": [
            "string_to_string",
            "bool_to_string",
            "bytes_to_string",
            "double_to_string",
            "duration_to_string",
            "int64_to_string",
            "timestamp_to_string",
            "uint64_to_string",
        ],
        "timestamp": ["timestamp_to_timestamp", "int64_to_timestamp", "string_to_timestamp"],
        "uint": ["uint64_to_uint64", "double_to_uint64", "int64_to_uint64", "string_to_uint64"],
    }


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1"),
        (-0.0, "-0"),
        (1.5, "1.5"),
        (100000.0, "100000"),
        (1000000.0, "1e+06"),
        (123456789.0, "1.23456789e+08"),
        (1e20, "1e+20"),
        (1e21, "1e+21"),
        (0.0001, "0.0001"),
        (1e-5, "1e-05"),
        (5e-324, "5e-324"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_string_of_a_double_is_as_go_prints_it(number, text):
    assert convert("double_to_string", number) == text


@pytest.mark.parametrize(
    ("overload", "value", "text"),
    [
        ("bool_to_string", True, "true"),
        ("bool_to_string", False, "false"),
        ("int64_to_string", -(2**63), "-9223372036854775808"),
        ("uint64_to_string", UInt(2**64 - 1), "18446744073709551615"),
        ("bytes_to_string", b"\xc3\xa9", "é"),
        ("string_to_string", "a", "a"),
        ("timestamp_to_string", Timestamp(1_234_564_290_120_000_000, 3600), "2009-02-13T23:31:30.12+01:00"),
        ("timestamp_to_string", Timestamp(0), "1970-01-01T00:00:00Z"),
        ("duration_to_string", Duration(5_400_000_000_000), "5400s"),
        ("duration_to_string", Duration(-1_500_000), "-0.0015s"),
        ("duration_to_string", Duration(2**63 - 1), "9223372036.854776s"),
    ],
)
def test_string_of_a_value_is_its_text(overload, value, text):
    assert convert(overload, value) == text


@pytest.mark.parametrize("octets", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xe2\x82"])
def test_string_of_bytes_that_are_no_utf_8_fails(octets):
    assert failure("bytes_to_string", octets) == "invalid UTF-8 in bytes, cannot convert to string"


@pytest.mark.parametrize(
    ("text", "number"),
    [("5", 5), ("+5", 5), ("-0", 0), ("-9223372036854775808", -(2**63)), ("0" * 100 + "7", 7)],
)
def test_int_of_a_text_is_its_number(text, number):
    assert convert("string_to_int64", text) == number


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "0x10", "1_000", "1.0", "--1", "9223372036854775808", "\u0661", "0" * 300]
)
def test_int_of_another_text_fails(text):
    assert failure("string_to_int64", text) == "type conversion error from 'string' to 'int'"


def test_uint_of_a_text_is_unsigned():
    uint = convert("string_to_uint64", "18446744073709551615")

    assert (type(uint), int(uint)) == (UInt, 2**64 - 1)


@pytest.mark.parametrize("text", ["+5", "-1", "18446744073709551616", ""])
def test_uint_of_another_text_fails(text):
    assert failure("string_to_uint64", text) == "type conversion error from 'string' to 'uint'"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1e3", 1000.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("1_000", 1000.0),
        ("1e1_0", 1e10),
        ("0x1p-2", 0.25),
        ("0x_1.8P1", 3.0),
        ("0x.8p1", 1.0),
        ("infinity", math.inf),
        ("-iNf", -math.inf),
        ("1e-400", 0.0),
    ],
)
def test_double_of_a_text_is_as_go_reads_it(text, number):
    assert convert("string_to_double", text) == number


def test_double_of_nan_is_no_number():
    assert math.isnan(convert("string_to_double", "NaN"))


@pytest.mark.parametrize(
    "text",
    ["", " 1", "1e", "1..5", "_1", "1_", "1__0", "1_e5", "+nan", "infi", "0x1", "0x.p1", "1e400", "0x1p9999", "\u0661"],
)
def test_double_of_another_text_fails(text):
    assert failure("string_to_double", text) == "type conversion error from 'string' to 'double'"


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("t", True), ("True", True), ("0", False), ("F", False), ("false", False)]
)
def test_bool_of_a_text_is_its_truth(text, value):
    assert convert("string_to_bool", text) is value


@pytest.mark.parametrize("text", ["", "yes", "tRUE", "2"])
def test_bool_of_another_text_fails(text):
    assert failure("string_to_bool", text) == "type conversion error from 'string' to 'bool'"


@pytest.mark.parametrize(("number", "whole"), [(-1.9, -1), (1.9, 1), (-9223372036854774784.0, -9223372036854774784)])
def test_int_of_a_double_is_cut_towards_zero(number, whole):
    assert convert("double_to_int64", number) == whole


@pytest.mark.parametrize("number", [-(2.0**63), 2.0**63, math.inf, -math.inf, math.nan])
def test_int_of_a_double_out_of_range_fails(number):
    assert failure("double_to_int64", number) == "integer overflow"


@pytest.mark.parametrize("number", [-0.5, 2.0**64, math.inf, math.nan])
def test_uint_of_a_double_out_of_range_fails(number):
    assert failure("double_to_uint64", number) == "unsigned integer overflow"


def test_uint_of_a_negative_int_fails():
    assert failure("int64_to_uint64", -1) == "unsigned integer overflow"


def test_int_of_a_large_uint_fails():
    assert failure("uint64_to_int64", UInt(2**63)) == "integer overflow"


def test_int_of_a_uint_is_an_int():
    assert type(convert("uint64_to_int64", UInt(5))) is int


def test_double_of_integers_is_the_nearest():
    assert convert("int64_to_double", 2**63 - 1) == 2.0**63
    assert convert("uint64_to_double", UInt(2**64 - 1)) == 2.0**64


def test_int_of_a_timestamp_is_its_second():
    assert convert("timestamp_to_int64", Timestamp(-500_000_000)) == -1


def test_int_of_a_duration_is_its_nanoseconds():
    assert convert("duration_to_int64", Duration(-1_500_000_000)) == -1_500_000_000


@pytest.mark.parametrize("seconds", [-62135596800, 0, 253402300799])
def test_timestamp_of_seconds_is_that_moment(seconds):
    assert convert("int64_to_timestamp", seconds) == Timestamp(seconds * 10**9)


@pytest.mark.parametrize("seconds", [-62135596801, 253402300800, 2**63 - 1])
def test_timestamp_of_seconds_out_of_range_fails(seconds):
    assert failure("int64_to_timestamp", seconds) == "timestamp overflow"


def test_timestamp_of_a_text_keeps_its_zone():
    timestamp = convert("string_to_timestamp", "2009-02-13T23:31:30+01:00")

    assert (timestamp.nanoseconds, timestamp.offset) == (1_234_564_290 * 10**9, 3600)


def test_timestamp_of_another_text_fails():
    assert failure("string_to_timestamp", "today") == (
        "type conversion error from 'string' to 'google.protobuf.Timestamp'"
    )


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01"])
def test_timestamp_of_a_text_out_of_range_fails(text):
    assert failure("string_to_timestamp", text) == "timestamp overflow"


def test_duration_of_a_text_is_its_length():
    assert convert("string_to_duration", "1h30m") == Duration(5400 * 10**9)


def test_duration_of_another_text_fails():
    assert failure("string_to_duration", "1d") == "type conversion error from 'string' to 'google.protobuf.Duration'"


def test_duration_of_an_int_always_fails():
    assert failure("int64_to_duration", 5) == "type conversion error from 'int' to 'google.protobuf.Duration'"


def test_bytes_of_a_text_are_utf_8():
    assert convert("string_to_bytes", "é") == b"\xc3\xa9"


def test_type_forgets_elements():
    assert convert("type", (1, 2)) == list_of(ANYTHING)


@pytest.mark.parametrize(("value", "type_"), [(1, INT), (True, BOOL), (INT, type_of(ANYTHING))])
def test_type_is_that_of_the_value(value, type_):
    assert convert("type", value) == type_


def test_dyn_is_the_value_itself():
    assert convert("to_dyn", "a") == "a"
