"""Texts and values in messages: always on one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.names import printable, shown


@pytest.mark.parametrize(
    "character", ["\n", "\r", "\t", "\0", "\x1b", "\x7f", "\x85", "\u2028", "\u202e", "\u200b", "\ud800"]
)
def test_what_cannot_be_printed_is_a_blank(character):
    assert printable(f"a{character}b") == "a b"


def test_letters_of_all_languages_stay():
    assert printable("GPU für 研究 💥") == "GPU für 研究 💥"


@given(st.text(st.characters()))
def test_any_text_is_printable_and_as_long_as_before(text):
    assert printable(text).isprintable()
    assert len(printable(text)) == len(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [("0.5", '"0.5"'), (8, "8"), (True, "true"), (None, "null"), ({"a": [1]}, '{"a": [1]}'), ("a\nb", '"a\\nb"')],
)
def test_value_is_shown_as_json(value, text):
    assert shown(value) == text


def test_value_of_80_characters_is_shown_whole():
    assert shown("x" * 78) == '"' + "x" * 78 + '"'


def test_longer_value_is_cut():
    assert shown("x" * 79) == '"' + "x" * 76 + "..."


@given(st.text(st.characters()) | st.lists(st.text(), max_size=3))
def test_any_value_is_one_short_line(value):
    assert len(shown(value).splitlines()) == 1
    assert len(shown(value)) <= 80
