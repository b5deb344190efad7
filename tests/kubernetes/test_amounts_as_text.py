"""Amounts as people read them: at most one decimal, and never a number that hides a difference."""

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.names import format_amount

PARTS = st.builds(Fraction, st.integers(0, 3000), st.sampled_from([1, 2, 4, 7, 10, 28, 80, 100, 997]))
NEAR = st.tuples(PARTS, st.builds(Fraction, st.integers(-20, 20), st.just(1000))).map(lambda pair: abs(sum(pair)))
AMOUNTS = PARTS | NEAR


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (None, "?"),
        (0, "0"),
        (1204, "1,204"),
        (Fraction(5, 2), "2.5"),
        (Fraction(411, 28), "14.7"),
        (Fraction(604, 100), "just over 6"),
        (Fraction(597, 100), "just under 6"),
        (Fraction(1, 28), "less than 0.1"),
    ],
)
def test_amount_has_at_most_one_decimal(amount, text):
    assert format_amount(amount) == text


@pytest.mark.parametrize(
    ("amount", "beside", "text"),
    [
        (Fraction(254, 100), Fraction(5, 2), "just over 2.5"),
        (Fraction(5, 2), Fraction(254, 100), "just under 2.5"),
        (Fraction(26, 10), Fraction(5, 2), "2.6"),
        (Fraction(5, 2), Fraction(5, 2), "2.5"),
    ],
)
def test_amount_that_would_read_like_the_one_beside_it_is_marked(amount, beside, text):
    assert format_amount(amount, beside) == text


def number(text):
    return Fraction(re.sub(r"^just \w+ |^less than |,", "", text))


def order(first, second):
    return (first > second) - (first < second)


@given(used=AMOUNTS, limit=AMOUNTS)
def test_texts_compare_as_the_amounts_do_or_are_marked(used, limit):
    text, beside = format_amount(used, limit), format_amount(limit)
    if text.startswith("just "):
        marked = 1 if text.startswith("just over ") else -1
        assert number(text) != number(beside) or marked == order(used, limit) or beside.startswith("just ")
        assert abs(number(text) - used) <= Fraction(1, 20)
    elif not text.startswith("less"):
        assert order(number(text), number(beside)) == order(used, limit) or beside.startswith(("just ", "less "))


@given(AMOUNTS)
def test_amount_that_is_not_whole_never_reads_as_a_whole_number(amount):
    text = format_amount(amount)
    assert re.fullmatch(r"(just over |just under |less than )?[\d,]+(\.[1-9])?", text)
    assert text.replace(",", "").isdigit() == (amount.denominator == 1)
