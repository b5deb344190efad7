import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.cel.errors import CelCompileError
from policies.cel.parser import parse
from policies.cel.values import UInt


def message(text):
    with pytest.raises(CelCompileError) as refused:
        parse(text)
    return refused.value.message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("007", 7),
        ("0x1F", 31),
        ("-0x1f", -31),
        ("- 3", -3),
        ("-// minus\n3", -3),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("0" * 5000 + "7", 7),
    ],
    ids=lambda value: str(value)[:24],
)
def test_int_is_read(text, value):
    literal = parse(text)
    assert (literal.value, type(literal.value), literal.offset) == (value, int, 0)


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809", "0x8000000000000000", "9" * 5000])
def test_int_beyond_64_bits_is_refused(text):
    assert message(text) == "invalid int literal"


def test_smallest_int_behind_two_signs_is_too_large():
    assert message("--9223372036854775808") == "invalid int literal"


@pytest.mark.parametrize(("text", "value"), [("1u", 1), ("0xFFU", 255), ("18446744073709551615u", 2**64 - 1)], ids=str)
def test_uint_is_read(text, value):
    literal = parse(text)
    assert (literal.value, type(literal.value)) == (value, UInt)


@pytest.mark.parametrize("text", ["18446744073709551616u", "0x10000000000000000u"])
def test_uint_beyond_64_bits_is_refused(text):
    assert message(text) == "invalid uint literal"


@pytest.mark.parametrize(
    ("text", "value"),
    [("1.5", 1.5), (".5", 0.5), ("1e3", 1000.0), ("-2.5E-1", -0.25), ("- 1.0", -1.0), ("1e-400", 0.0)],
    ids=str,
)
def test_double_is_read(text, value):
    literal = parse(text)
    assert (literal.value, type(literal.value)) == (value, float)


def test_negative_zero_keeps_its_sign():
    assert math.copysign(1, parse("-0.0").value) == -1


def test_double_beyond_the_largest_is_refused():
    assert message("1e309") == "invalid double literal"


@pytest.mark.parametrize(("text", "value"), [("true", True), ("false", False), ("null", None)])
def test_word_is_read_as_constant(text, value):
    assert parse(text).value is value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'a\"b'", 'a"b'),
        ('"a\'b"', "a'b"),
        ("''", ""),
        ("''''''", ""),
        ("'''a'b''c'''", "a'b''c"),
        ('"""a\nb"""', "a\nb"),
        ("'''a\r\nb\rc'''", "a\nb\nc"),
        (r"'\a\b\f\n\r\t\v'", "\a\b\f\n\r\t\v"),
        (r"""'\\\'\"\?\`'""", "\\'\"?`"),
        (r"'\x41\X4f'", "AO"),
        (r"'\101\377'", "A\xff"),
        (r"'\u00e9\U0001F600'", "é😀"),
        (r"r'\d+\'", "\\d+\\"),
        (r'R"""\n"""', "\\n"),
        ("'// no comment'", "// no comment"),
    ],
    ids=repr,
)
def test_string_is_read(text, value):
    assert parse(text).value == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("b'abc'", b"abc"),
        ("B'é'", "é".encode()),
        (r"b'\xff\377\101'", b"\xff\xffA"),
        (r"b'\n\'\\'", b"\n'\\"),
        (r"br'\xff'", rb"\xff"),
        ("b'''a\r\nb'''", b"a\nb"),
        (r"b'é\x00é'", b"\xc3\xa9\x00\xc3\xa9"),
    ],
    ids=repr,
)
def test_bytes_are_read(text, value):
    assert parse(text).value == value


@pytest.mark.parametrize("text", [r"'\ud800'", r"'\U00110000'", r"'\U0000DFFF'"])
def test_escape_for_no_character_is_refused(text):
    assert message(text) == "invalid unicode code point"


@pytest.mark.parametrize("text", [r"b'\u0041'", r"b'\U00000041'"])
def test_escape_for_a_character_in_bytes_is_refused(text):
    assert message(text) == "unable to unescape string"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (r"'\q'", r"'\q"),
        (r"'\x4'", r"'\x4'"),
        (r"'\u12'", r"'\u12'"),
        (r"'\400'", r"'\4"),
        ("'abc", "'abc"),
        ("'a\nb'", "'a\n"),
    ],
    ids=repr,
)
def test_string_that_is_none_is_reported_up_to_what_spoils_it(text, read):
    assert message(text) == f"Syntax error: token recognition error at: '{read}'"


def test_raw_prefix_comes_behind_the_bytes_prefix():
    assert message("rb'x'") == "Syntax error: extraneous input ''x'' expecting <EOF>"


def test_every_bad_literal_is_reported():
    with pytest.raises(CelCompileError) as refused:
        parse("9223372036854775808 == 1e999 ||\n'\\ud800' == b'\\u0041'")
    assert [(issue.line, issue.column, issue.message) for issue in refused.value.issues] == [
        (1, 1, "invalid int literal"),
        (1, 24, "invalid double literal"),
        (2, 1, "invalid unicode code point"),
        (2, 13, "unable to unescape string"),
    ]


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_int_is_read_back(number):
    assert parse(str(number)).value == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_double_is_read_back(number):
    assert parse(repr(number)).value == number


@given(st.text(st.characters(codec="utf-8")))
def test_any_string_is_read_back_from_escapes(text):
    assert parse("'" + "".join(f"\\U{ord(character):08x}" for character in text) + "'").value == text


@given(st.binary())
def test_any_bytes_are_read_back_from_escapes(data):
    assert parse("b'" + "".join(f"\\x{byte:02X}" for byte in data) + "'").value == data


def test_lone_surrogate_in_bytes_is_no_failure():
    assert parse("b'\ud800'").value == b"\xed\xa0\x80"
