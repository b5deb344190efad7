"""Products that are wished and do not exist: what was probably meant."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from policies.dra.inventory import inventory
from policies.kubernetes.misspellings import closest
from policies.nvidia.known_products import KNOWN_PRODUCTS
from policies.nvidia.product_globs import folded, matching
from policies.nvidia.products import Product
from policies.nvidia.wishes.product_patterns import product_spellings
from policies.placement.gpu_nodes import gpu_nodes
from policies.placement.rules import MISSPELT
from policies.placement.wishes.product_labels import mig_labels, seen_products
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.decision import Finding
    from policies.nvidia.wishes import ProductPatterns
    from policies.placement.wishes.wished import Wished
    from policies.view import ClusterView

__all__ = ["misspelt"]

_BRAND = "NVIDIA-"
_MOST = 5
"""Patterns that are told one by one."""
_LOOKALIKES = str.maketrans("oil", "011")
"""Letters that are mistaken for digits, as they are in `H10O`."""


def misspelt(view: ClusterView, wishes: Wished) -> Iterator[Finding]:
    """Patterns of products that match nothing in the cluster and nothing that is known.

    While nodes are unknown only those are told that are near to what is known: the cluster may have the others.
    """
    patterns = wishes.wish.products
    if patterns is None:
        return
    is_seen = gpu_nodes(view) is not UNKNOWN
    where = "in the cluster, and none that is known" if is_seen else "that is known"
    found = list(_unknown(patterns, view.derive(_products), is_seen=is_seen))
    for pattern, suggestion in found[:_MOST]:
        remedy = f'write "{suggestion}"' if suggestion else None
        yield wishes.finding(MISSPELT, "product", f'"{pattern}" names no GPU {where}', remedy)
    more = len(found) - _MOST
    if more > 0:
        told = f"{more} more patterns name" if more > 1 else "one more pattern names"
        yield wishes.finding(MISSPELT, "product", f"{told} no GPU {where}")


def _unknown(patterns: ProductPatterns, products: _Products, *, is_seen: bool) -> Iterator[tuple[str, str | None]]:
    """The patterns to tell, each with what was probably meant."""
    for pattern in (*patterns.includes, *patterns.excludes):
        if matching(folded(pattern), products.spellings):
            continue
        suggestion = _suggestion(pattern, products)
        if suggestion or is_seen:
            yield pattern, suggestion


@dataclass(frozen=True, slots=True)
class _Products:
    """The products that there are, or that are known: worked out once, for each pattern is compared with all of them."""

    spellings: frozenset[str]
    """What patterns are matched with."""
    names: tuple[str, ...]
    """Without `NVIDIA-`."""
    parts: Mapping[str, str]
    """What people call them by, by its folded form."""


def _products(view: ClusterView) -> _Products:
    return _with_known(frozenset(_seen(view)))


@lru_cache(maxsize=4)
def _with_known(seen: frozenset[str]) -> _Products:
    labels = seen.union(KNOWN_PRODUCTS, mig_labels())
    products = [Product.parse(label) for label in labels]
    names = sorted({product.name.removeprefix(_BRAND) for product in products})
    return _Products(
        frozenset(text for each in products for text in product_spellings(each.name, each.profile, by_profile=True)),
        tuple(names),
        {_folded(part): part for name in names for part in _parts(name)},
    )


def _seen(view: ClusterView) -> Iterator[str]:
    """The labels of the products of a cluster, by its nodes and by its ResourceSlices."""
    for labels in view.derive(seen_products).values():
        yield from labels
    groups = view.derive(inventory)
    for group in () if groups is UNKNOWN else groups:
        yield group.product.replace(" ", "-").replace("+", ".")


def _suggestion(pattern: str, products: _Products) -> str | None:
    """A pattern that names products and is near to one that does not: `H100*` for `H100`, `*T4` for `T4`."""
    parts = products.parts
    core = pattern.replace("*", "").replace("?", "x").strip("-")
    near = _folded(core) if _folded(core) in parts else closest(_folded(core), parts)
    if near is None:
        return None
    meant = parts[near]
    having = [name for name in products.names if f"-{meant}-" in f"-{name}-"]
    if len(having) == 1 and "*" not in pattern:
        return having[0]
    before = "*" if pattern.startswith("*") or not all(name.startswith(meant) for name in having) else ""
    after = "*" if pattern.endswith("*") or not all(name.endswith(meant) for name in having) else ""
    return f"{before}{meant}{after}"


def _parts(name: str) -> Iterator[str]:
    """What people call a product by: its name, or words of it that follow each other."""
    words = name.split("-")
    for start in range(len(words)):
        for end in range(len(words), start, -1):
            yield "-".join(words[start:end])


def _folded(name: str) -> str:
    return name.lower().translate(_LOOKALIKES)
