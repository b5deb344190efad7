import pytest

from policies.cel import errors
from policies.cel.errors import CelRuntimeError, EvaluationAborted
from policies.cel.kinds import printed_text
from policies.cel.libraries.strings import LIBRARY
from policies.cel.libraries.times import Duration, Timestamp
from policies.cel.types import INT
from policies.cel.values import Concatenation, Map, Optional, UInt

OVERLOADS = {overload.id: overload for overload in LIBRARY}


def call(overload, *arguments):
    errors.begin_evaluation()
    return OVERLOADS[overload].implementation(*arguments)


def failure(overload, *arguments):
    with pytest.raises(CelRuntimeError) as raised:
        call(overload, *arguments)
    return raised.value.message


@pytest.mark.parametrize(
    ("overload", "value", "size"),
    [
        ("size_string", "a\u00e9\U0001f600", 3),
        ("string_size", "", 0),
        ("size_bytes", b"\xc3\xa9", 2),
        ("bytes_size", b"", 0),
        ("size_list", (1, 2), 2),
        ("list_size", Concatenation((1,), (2, 3)), 3),
        ("size_map", Map({"a": 1}), 1),
        ("map_size", Map({}), 0),
    ],
)
def test_size_counts_code_points_bytes_elements_and_entries(overload, value, size):
    assert call(overload, value) == size


def test_size_of_a_list_beyond_what_python_counts_is_known():
    doubled = (1,)
    for _ in range(100):
        doubled = Concatenation(doubled, doubled)

    assert call("list_size", doubled) == 2**100


@pytest.mark.parametrize(
    ("overload", "part", "answer"),
    [
        ("contains_string", "b", True),
        ("contains_string", "", True),
        ("contains_string", "ac", False),
        ("starts_with_string", "ab", True),
        ("starts_with_string", "b", False),
        ("ends_with_string", "bc", True),
        ("ends_with_string", "b", False),
    ],
)
def test_parts_of_a_text_are_found(overload, part, answer):
    assert call(overload, "abc", part) is answer


@pytest.mark.parametrize(("index", "character"), [(0, "h"), (1, "\u00e9"), (2, "")])
def test_char_at_counts_code_points_and_knows_the_end(index, character):
    assert call("string_char_at_int", "h\u00e9", index) == character


@pytest.mark.parametrize("index", [-1, 3])
def test_char_at_beyond_the_text_fails(index):
    assert failure("string_char_at_int", "h\u00e9", index) == f"index out of range: {index}"


@pytest.mark.parametrize(
    ("arguments", "index"),
    [
        (("b",), 1),
        (("x",), -1),
        (("",), 0),
        (("b", 2), 4),
        (("b", 4), 4),
        (("b", 5), -1),
        (("b", 99), -1),
        (("", 99), 99),
        (("", -1), -1),
    ],
)
def test_index_of_is_the_first_place_from_the_offset_on(arguments, index):
    overload = "string_index_of_string" if len(arguments) == 1 else "string_index_of_string_int"

    assert call(overload, "abcab", *arguments) == index


@pytest.mark.parametrize(
    ("arguments", "index"),
    [
        (("b",), 4),
        (("x",), -1),
        (("",), 5),
        (("abcabc",), -1),
        (("b", 4), 4),
        (("b", 3), 1),
        (("ab", 1), 0),
        (("bca", 4), 1),
        (("b", 5), -1),
        (("abcabc", 0), -1),
        (("", 99), 99),
    ],
)
def test_last_index_of_is_the_last_place_up_to_the_offset(arguments, index):
    overload = "string_last_index_of_string" if len(arguments) == 1 else "string_last_index_of_string_int"

    assert call(overload, "abcab", *arguments) == index


@pytest.mark.parametrize("overload", ["string_index_of_string_int", "string_last_index_of_string_int"])
def test_index_of_from_before_the_text_fails(overload):
    assert failure(overload, "abc", "a", -2) == "index out of range: -2"


def test_only_ascii_letters_change_their_case():
    assert call("string_lower_ascii", "\u00c0ABZ\u212a") == "\u00c0abz\u212a"
    assert call("string_upper_ascii", "\u00e0abz\u017f") == "\u00e0ABZ\u017f"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("a", "x"), "xbxb"),
        (("", "-"), "-a-b-a-b-"),
        (("a", "x", 1), "xbab"),
        (("a", "x", 0), "abab"),
        (("a", "x", -1), "xbxb"),
        (("", "-", 2), "-a-bab"),
        (("q", "x"), "abab"),
    ],
)
def test_replace_replaces_as_often_as_the_limit_says(arguments, text):
    overload = "string_replace_string_string" if len(arguments) == 2 else "string_replace_string_string_int"

    assert call(overload, "abab", *arguments) == text


def test_replace_that_would_fill_the_memory_is_stopped_before():
    with pytest.raises(EvaluationAborted) as raised:
        call("string_replace_string_string", "a" * 10_000, "a", "b" * 10_000)

    assert raised.value.message == "operation cancelled: actual cost limit exceeded"


@pytest.mark.parametrize(
    ("text", "arguments", "parts"),
    [
        ("a,b,c", (",",), ("a", "b", "c")),
        ("a,b,c", (",", 2), ("a", "b,c")),
        ("a,b,c", (",", 1), ("a,b,c",)),
        ("a,b,c", (",", 0), ()),
        ("a,b,c", (",", -1), ("a", "b", "c")),
        ("a,b,c", (",", 99), ("a", "b", "c")),
        ("", (",",), ("",)),
        ("h\u00e9!", ("",), ("h", "\u00e9", "!")),
        ("h\u00e9!", ("", 2), ("h", "\u00e9!")),
        ("h\u00e9!", ("", 3), ("h", "\u00e9", "!")),
        ("h\u00e9!", ("", 9), ("h", "\u00e9", "!")),
        ("", ("",), ()),
        ("", ("", 1), ()),
    ],
)
def test_split_makes_at_most_so_many_parts(text, arguments, parts):
    overload = "string_split_string" if len(arguments) == 1 else "string_split_string_int"

    assert call(overload, text, *arguments) == parts


@pytest.mark.parametrize(("bounds", "text"), [((1,), "\u00e9llo"), ((5,), ""), ((1, 3), "\u00e9l"), ((2, 2), "")])
def test_substring_counts_code_points(bounds, text):
    overload = "string_substring_int" if len(bounds) == 1 else "string_substring_int_int"

    assert call(overload, "h\u00e9llo", *bounds) == text


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((-1,), "index out of range: -1"),
        ((6,), "index out of range: 6"),
        ((2, 1), "invalid substring range. start: 2, end: 1"),
        ((-1, 1), "index out of range: -1"),
        ((1, 6), "index out of range: 6"),
        ((6, 7), "index out of range: 6"),
    ],
)
def test_substring_beyond_the_text_fails(bounds, message):
    overload = "string_substring_int" if len(bounds) == 1 else "string_substring_int_int"

    assert failure(overload, "hello", *bounds) == message


def test_trim_takes_unicodes_white_space_only():
    assert call("string_trim", " \t\u0085\u00a0\u2003a b\u3000\n") == "a b"
    assert call("string_trim", "\x1ca\x1f\u200b") == "\x1ca\x1f\u200b"


def test_quote_escapes_what_cel_has_escapes_for():
    assert call("strings_quote", "\a\b\f\n\r\t\v\\\"'\x01\u00e9") == '"\\a\\b\\f\\n\\r\\t\\v\\\\\\"\'\x01\u00e9"'


@pytest.mark.parametrize(
    ("parts", "separator", "text"),
    [((), "-", ""), (("a",), "-", "a"), (("a", "b"), "-", "a-b"), (Concatenation(("a",), ("b",)), "", "ab")],
)
def test_join_puts_the_separator_between(parts, separator, text):
    assert call("list_join_string", parts, separator) == text


def test_join_without_a_separator_joins():
    assert call("list_join", ("a", "b")) == "ab"


def test_join_of_what_is_no_text_fails():
    assert failure("list_join", ("a", 1)) == "join: invalid input: 1"


def test_join_of_a_list_without_end_is_stopped():
    doubled = ("",)
    for _ in range(100):
        doubled = Concatenation(doubled, doubled)

    with pytest.raises(EvaluationAborted):
        call("list_join_string", doubled, "")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "0"),
        (True, "true"),
        (UInt(2), "2"),
        (1e21, "1e+21"),
        ("a", "a"),
        (b"ab", "[97 98]"),
        ((), "[]"),
        ((1, ("a", None)), "[1, [a, 0]]"),
        (Map({"a": 1, "b": (2,)}), "{a: 1, b: [2]}"),
        (INT, "int"),
        (Optional(1), "optional(1)"),
        (Optional(), "optional.none()"),
        (Duration(3600 * 10**9), "1h0m0s"),
        (Timestamp(0), "1970-01-01 00:00:00 +0000 UTC"),
    ],
    ids=repr,
)
def test_values_are_printed_as_go_prints_them(value, text):
    errors.begin_evaluation()

    assert printed_text(value) == text


def test_values_are_printed_however_deep_they_are():
    errors.begin_evaluation()
    nested = ()
    for _ in range(5000):
        nested = (nested,)

    assert printed_text(nested) == "[" * 5001 + "]" * 5001


def test_functions_have_the_overloads_of_cel_go():
    assert {
        name: [each.id for each in LIBRARY if each.name == name] for name in (overload.name for overload in LIBRARY)
    } == {
        "size": [
            "size_bytes",
            "bytes_size",
            "size_list",
            "list_size",
            "size_map",
            "map_size",
            "size_string",
            "string_size",
        ],
        "contains": ["contains_string"],
        "endsWith": ["ends_with_string"],
        "startsWith": ["starts_with_string"],
        "charAt": ["string_char_at_int"],
        "indexOf": ["string_index_of_string", "string_index_of_string_int"],
        "lastIndexOf": ["string_last_index_of_string", "string_last_index_of_string_int"],
        "lowerAscii": ["string_lower_ascii"],
        "replace": ["string_replace_string_string", "string_replace_string_string_int"],
        "split": ["string_split_string", "string_split_string_int"],
        "substring": ["string_substring_int", "string_substring_int_int"],
        "trim": ["string_trim"],
        "upperAscii": ["string_upper_ascii"],
        "strings.quote": ["strings_quote"],
        "join": ["list_join", "list_join_string"],
    }
