"""Sums: amounts by limit, added and compared."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from policies.quota.charges import Amounts

__all__ = ["ZERO", "add_amounts", "amount_texts", "larger_amounts", "select_amounts", "subtract_amounts", "sum_amounts"]

ZERO = Fraction(0)


def sum_amounts(parts: Iterable[Amounts]) -> dict[str, Fraction]:
    """The sum of many amounts, by limit.

    Numerators are added by denominator, because whole numbers are added many times faster than fractions.
    """
    numerators: dict[tuple[str, int], int] = {}
    for amounts in parts:
        for name, amount in amounts.items():
            size = name, amount.denominator
            numerators[size] = numerators.get(size, 0) + amount.numerator
    total: dict[str, Fraction] = {}
    for (name, denominator), numerator in numerators.items():
        total[name] = total.get(name, ZERO) + Fraction(numerator, denominator)
    return total


def add_amounts(first: Amounts, second: Amounts) -> dict[str, Fraction]:
    """The sum, by limit."""
    return {name: first.get(name, ZERO) + second.get(name, ZERO) for name in {**first, **second}}


def larger_amounts(first: Amounts, second: Amounts) -> dict[str, Fraction]:
    """The larger of two amounts, by limit."""
    return {name: max(first.get(name, ZERO), second.get(name, ZERO)) for name in {**first, **second}}


def subtract_amounts(first: Amounts, second: Amounts) -> dict[str, Fraction]:
    """The first amounts minus the second, by limit; at least zero."""
    return {name: max(ZERO, amount - second.get(name, ZERO)) for name, amount in first.items()}


def select_amounts(amounts: Amounts, names: Collection[str]) -> dict[str, Fraction]:
    """The amounts of some limits; zeros are left out."""
    return {name: amount for name, amount in amounts.items() if name in names and amount}


def amount_texts(amounts: Amounts) -> dict[str, str]:
    """The amounts as JSON, as exact texts by limit; zeros are left out."""
    return {name: str(amount) for name, amount in amounts.items() if amount}
