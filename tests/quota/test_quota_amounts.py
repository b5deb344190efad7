"""Amounts as text for users."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.quantities import parse_quantity
from policies.quota.limits.amounts import amount_with_unit, quoted_value


@pytest.mark.parametrize(
    ("unit", "amount", "said"),
    [
        ("gpus", 0, "0 GPUs"),
        ("gpus", 1, "1 GPU"),
        ("gpus", 2, "2 GPUs"),
        ("gpus", Fraction(1, 2), "1/2 GPU"),
        ("gpus", Fraction(22, 7), "22/7 GPUs"),
        ("devices", 1, "1 device"),
        ("devices", 3, "3 devices"),
        ("memory", 0, "0"),
        ("memory", 80 * 2**30, "80Gi"),
        ("memory", 1536 * 2**30, "1536Gi"),
        ("memory", 2**40, "1Ti"),
        ("memory", 81559 * 2**20, "81559Mi"),
        ("memory", 80 * 10**9, "80G"),
        ("memory", 1395864371, "1395864371"),
    ],
)
def test_amount_is_spoken_exactly(unit, amount, said):
    assert amount_with_unit(unit, Fraction(amount)) == said


@given(st.integers(0, 2**62))
def test_spoken_memory_is_the_quantity(amount):
    assert parse_quantity(amount_with_unit("memory", Fraction(amount))) == amount


@pytest.mark.parametrize(
    ("value", "text"), [("8" * 78, f'"{"8" * 78}"'), ("8" * 79, f'"{"8" * 76}...')], ids=["80-characters", "more"]
)
def test_value_in_a_message_is_at_most_80_characters(value, text):
    assert quoted_value(value) == text
