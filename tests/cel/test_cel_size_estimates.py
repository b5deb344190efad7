"""Unsigned 64-bit arithmetic as the cost estimator does it in Go."""

from __future__ import annotations

import pytest

from policies.cel.sizes import UNKNOWN, Estimate, exactly, scaled_cost, uint64
from policies.cel.values import UINT64_MAX


@pytest.mark.parametrize(
    ("size", "factor", "expected"),
    [
        (0, 0.1, 0),
        (1, 0.1, 1),
        (10, 0.1, 1),
        (11, 0.1, 2),
        (30, 0.1, 3),
        (63, 0.2, 13),
        (5, 0.25, 2),
        (3, 1, 3),
        (UINT64_MAX, 0.1, 1844674407370955264),
        (UINT64_MAX, 1, UINT64_MAX),
        (UINT64_MAX, 2, UINT64_MAX),
        (2**63, 2, UINT64_MAX),
        (4, 0.0, 0),
    ],
)
def test_factor_rounds_up_and_saturates_as_in_go(size, factor, expected):
    assert scaled_cost(size, factor) == expected


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (20.9, 20),
        (-20.5, 2**64 - 20),
        (-0.5, 0),
        (2.0**63, 2**63),
        (2.0**64, 2**63),
        (float("inf"), 2**63),
        (-(2.0**64), 2**63),
        (float("nan"), 2**63),
    ],
)
def test_float_becomes_uint64_as_on_amd64(number, expected):
    assert uint64(number) == expected


def test_sum_saturates():
    assert exactly(UINT64_MAX).plus(exactly(1)) == exactly(UINT64_MAX)


def test_product_saturates():
    assert Estimate(2, 2**40).times(Estimate(3, 2**40)) == Estimate(6, UINT64_MAX)


def test_union_holds_both():
    assert Estimate(2, 3).union(UNKNOWN) == UNKNOWN
