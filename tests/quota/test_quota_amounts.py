"""Amounts as text for users."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.quantities import parse_quantity
from policies.quota.limits.amounts import amount_of_limit, amount_text, quoted_value, sufficient_limit, yaml_amount
from policies.quota.limits.quota import Limit
from policies.quota.quota_report import LimitUse


@pytest.mark.parametrize(
    ("unit", "amount", "text"),
    [
        ("gpus", 0, "0 GPUs"),
        ("gpus", 1, "1 GPU"),
        ("gpus", 2, "2 GPUs"),
        ("gpus", Fraction(1, 2), "0.5 GPU"),
        ("gpus", Fraction(22, 7), "3.1 GPUs"),
        ("gpus", Fraction(1, 28), "less than 0.1 GPU"),
        ("devices", 1, "1 device"),
        ("devices", 3, "3 devices"),
        ("memory", 0, "0 bytes"),
        ("memory", 80 * 2**30, "80 GiB"),
        ("memory", 1536 * 2**30, "1.5 TiB"),
        ("memory", 81559 * 2**20, "79.6 GiB"),
        ("memory", 80 * 10**9, "80 GB"),
    ],
)
def test_amount_has_a_unit_and_at_most_one_decimal(unit, amount, text):
    assert amount_text(unit, Fraction(amount)) == text


@pytest.mark.parametrize(
    ("unit", "amount", "limit", "text"),
    [
        ("gpus", Fraction(411, 28), 6, "14.7 of 6 GPUs"),
        ("gpus", Fraction(604, 100), 6, "just over 6 of 6 GPUs"),
        ("memory", 7251681 * 2**20, 6 * 2**40, "6.9 of 6 TiB"),
        ("memory", 80 * 2**30, 6 * 2**40, "80 of 6,144 GiB"),
        ("memory", 0, 800 * 2**30, "0 of 800 GiB"),
        ("memory", 85899345920, 80 * 10**9, "85.9 of 80 GB"),
        ("gpus", None, 8, "? of 8 GPUs"),
    ],
)
def test_amount_and_limit_have_one_unit(unit, amount, limit, text):
    assert amount_of_limit(unit, None if amount is None else Fraction(amount), Fraction(limit)) == text


@given(st.integers(0, 2**62))
def test_memory_in_yaml_is_the_quantity(amount):
    assert parse_quantity(yaml_amount("memory", Fraction(amount))) == amount


@pytest.mark.parametrize(
    ("unit", "amount", "limit", "text"),
    [
        ("gpus", Fraction(341, 28), Fraction(5, 2), "13"),
        ("memory", Fraction(897510 * 2**20), Fraction(800 * 2**30), "877Gi"),
    ],
)
def test_limit_that_allows_an_amount_is_round(unit, amount, limit, text):
    assert sufficient_limit(unit, amount, limit) == text


@pytest.mark.parametrize(
    ("value", "text"), [("8" * 78, f'"{"8" * 78}"'), ("8" * 79, f'"{"8" * 76}...')], ids=["80-characters", "more"]
)
def test_value_in_a_message_is_at_most_80_characters(value, text):
    assert quoted_value(value) == text


@pytest.mark.parametrize(
    ("held", "waiting", "text"),
    [
        (49, 0, ""),
        (None, 0, ""),
        (
            7,
            24,
            (
                "all: 7 of the 49 GPUs used are held now, 24 GPUs for pods and claims that wait (the most that they can get) and "
                "18 GPUs for what allocated claims can get next"
            ),
        ),
        (
            25,
            24,
            "all: 25 of the 49 GPUs used are held now, 24 GPUs for pods and claims that wait (the most that they can get)",
        ),
    ],
    ids=["all held", "unknown", "both", "waiting"],
)
def test_use_that_is_not_held_is_explained(held, waiting, text):
    use = LimitUse(
        Limit("all", "gpus", Fraction(48)),
        Fraction(49),
        Fraction(0),
        counted=True,
        held=None if held is None else Fraction(held),
        waiting=Fraction(waiting),
    )
    assert use.difference == text
