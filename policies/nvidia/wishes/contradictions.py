"""Wishes that contradict themselves: no GPU can ever meet them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.nvidia.wishes.families import FAMILIES
from policies.nvidia.wishes.versions import pair_text

if TYPE_CHECKING:
    from policies.nvidia.wishes.wish import Wish

__all__ = ["contradictions"]


def contradictions(wish: Wish) -> list[tuple[tuple[str, ...], str]]:
    """The words that contradict each other, and in what, as a clause without a full stop."""
    return [*_products(wish), *_memory(wish), *_families(wish)]


def _products(wish: Wish) -> list[tuple[tuple[str, ...], str]]:
    if wish.products is None:
        return []
    cancelled = wish.products.cancelled()
    if not cancelled:
        return []
    if not wish.products.includes:
        return [(("product",), f"product excludes every GPU by !{cancelled['*']}")]
    told = ", ".join(f"{include} by !{exclude}" for include, exclude in cancelled.items())
    return [(("product",), f"product excludes all that it names: {told}")]


def _memory(wish: Wish) -> list[tuple[tuple[str, ...], str]]:
    if wish.min_memory is None or wish.max_memory is None or wish.min_memory <= wish.max_memory:
        return []
    text = f"min-memory is {wish.min_memory}Mi and max-memory only {wish.max_memory}Mi"
    return [(("min-memory", "max-memory"), text)]


def _families(wish: Wish) -> list[tuple[tuple[str, ...], str]]:
    least = wish.min_compute_capability
    limits = [FAMILIES.get(family) for family in wish.families]
    if least is None or not limits or any(limit is None or least < limit for limit in limits):
        return []
    told = "the family" if len(wish.families) == 1 else "the families"
    names = " or ".join(wish.families)
    text = f"no GPU of {told} {names} has compute capability {pair_text(least)} or newer"
    return [(("family", "min-compute-capability"), text)]
