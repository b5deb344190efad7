"""Warnings: whole lines, with a count of those that are dropped."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.rules.messages import LONGEST, warning_lines

COUNTED = re.compile(r"(\d+) more lines? do(es)? not fit; gpu-admission review shows them all")
REMEDY = "which is a long remedy of many words that does not fit into what is left of the first line of a warning"


def received(lines):
    """What the API server passes on: nothing twice, nothing with control characters, at most 4096 characters.

    Source: k8s.io/apiserver pkg/endpoints/filters/warning.go, where each is cut to 256 once the total is beyond 4096.
    """
    assert sum(map(len, lines)) <= 4096
    assert all(line.isprintable() and line.strip() for line in lines)
    return list(dict.fromkeys(lines))


def test_nothing_to_say_is_no_warning():
    assert warning_lines([]) == ()


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_blank_text_is_no_warning(text):
    assert warning_lines([text]) == ()


def test_short_texts_are_lines():
    assert warning_lines(["GA301 one", "GA302 two"]) == ("GA301 one", "GA302 two")


def test_text_of_120_characters_is_one_line():
    assert warning_lines(["x" * 120]) == ("x" * 120,)


def test_long_text_breaks_between_words_and_goes_on_indented():
    text = "GA307 spec.nodeSelector[nvidia.com/gpu.count]: " + "word " * 20 + "end"
    assert warning_lines([text]) == (
        "GA307 spec.nodeSelector[nvidia.com/gpu.count]: word word word word word word word word word word word word word word",
        "  word word word word word word end",
    )


def test_long_word_is_broken():
    assert warning_lines(["x" * 130]) == ("x" * 120, "  " + "x" * 10)


def test_names_are_not_broken_at_their_dashes():
    text = "x" * 110 + " NVIDIA-H100-80GB-HBM3"
    assert warning_lines([text]) == ("x" * 110, "  NVIDIA-H100-80GB-HBM3")


@pytest.mark.parametrize("character", ["\n", "\r", "\t", "\0", "\x7f", "\u2028", "\u202e", "\ud800", "\u200b"])
def test_what_a_header_cannot_carry_becomes_a_blank(character):
    assert warning_lines([f"a{character}b"]) == ("a b",)


def test_letters_of_all_languages_stay():
    assert warning_lines(["GPU für 研究"]) == ("GPU für 研究",)


def test_duplicate_warning_is_printed_once():
    assert warning_lines(["a", "b", "a"]) == ("a", "b")


def test_texts_that_end_alike_both_arrive_whole():
    first = "GA302 spec.containers[0].resources.limits[nvidia.com/gpu]: " + REMEDY
    second = "GA302 spec.containers[1].resources.limits[nvidia.com/gpu]: " + REMEDY
    third = "GA302 spec.containers[2].resources.limits[nvidia.com/gpu]: " + REMEDY
    lines = warning_lines([first, second, third])
    assert len(received(lines)) == 6
    assert [len(line) - len(line.lstrip()) for line in lines] == [0, 2, 2, 4, 4, 6]
    assert " ".join(" ".join(lines).split()) == f"{first} {second} {third}"


def test_texts_that_begin_alike_both_arrive_whole():
    lines = warning_lines(["x" * 120 + " one", "x" * 120 + " two"])
    assert lines == ("x" * 120, "  one", "  " + "x" * 118, "    xx two")


def test_what_does_not_fit_is_counted():
    texts = [f"{index:03} " + "x" * 116 for index in range(40)]
    lines = warning_lines(texts)
    assert lines[:-1] == tuple(texts[:33])
    assert lines[-1] == "7 more lines do not fit; gpu-admission review shows them all"


def test_one_line_that_does_not_fit_is_counted_in_the_singular():
    lines = warning_lines([f"{index:03} " + "x" * 116 for index in range(34)])
    assert lines[-1] == "1 more line does not fit; gpu-admission review shows them all"


def test_duplicates_are_not_counted_as_lost():
    texts = [f"{index:03} " + "x" * 116 for index in range(33)]
    assert warning_lines(texts * 2) == tuple(texts)


def test_line_that_repeats_itself_is_counted():
    lines = warning_lines(["x" * 120 + "y" * 118 * 3])
    assert lines == ("x" * 120, "  " + "y" * 118, "2 more lines do not fit; gpu-admission review shows them all")


words = st.text(st.sampled_from("ab-\u00e4\n\t\u2028 "), max_size=30) | st.just(REMEDY) | st.just("w" * 150)
texts = st.lists(st.lists(words, max_size=12).map(" ".join), max_size=40)


@given(texts)
def test_lines_are_whole_printable_and_few(said):
    lines = warning_lines(said)
    assert all(0 < len(line) <= LONGEST for line in lines)
    assert received(lines) == list(lines)


@given(texts)
def test_nothing_is_lost_without_being_counted(said):
    lines = warning_lines(said)
    counted = COUNTED.fullmatch(lines[-1]) if lines else None
    reported = "".join("".join(lines[:-1] if counted else lines).split())
    wanted = [
        "".join(text.split())
        for text in dict.fromkeys("".join(c if c.isprintable() else " " for c in text) for text in said)
    ]
    if counted:
        assert int(counted.group(1)) > 0
        assert len(reported) < len("".join(wanted))
    else:
        assert reported == "".join(wanted)
