"""Products that are wished and do not exist: what was probably meant."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from policies.dra.inventory import inventory
from policies.kubernetes.misspellings import closest
from policies.nvidia.known_products import KNOWN_PRODUCTS
from policies.nvidia.products import Product
from policies.nvidia.wishes import ProductPatterns
from policies.placement.gpu_nodes import gpu_nodes
from policies.placement.rules import MISSPELT
from policies.placement.wishes.product_labels import mig_labels, seen_products
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.decision import Finding
    from policies.placement.wishes.wished import Wished
    from policies.view import ClusterView

__all__ = ["misspelt"]

_BRAND = "NVIDIA-"
_LOOKALIKES = str.maketrans("oil", "011")
"""Letters that are mistaken for digits, as they are in `H10O`."""


def misspelt(view: ClusterView, wishes: Wished) -> Iterator[Finding]:
    """Patterns of products that match nothing in the cluster and nothing that is known.

    While nodes are unknown only those are told that are near to what is known: the cluster may have the others.
    """
    patterns = wishes.wish.products
    if patterns is None:
        return
    products = {**_known(), **view.derive(_seen)}
    is_seen = gpu_nodes(view) is not UNKNOWN
    for pattern in (*patterns.includes, *patterns.excludes):
        glob = ProductPatterns((pattern,))
        if any(glob.admits(product.name, product.profile, by_profile=True) for product in products.values()):
            continue
        suggestion = _suggestion(pattern, products)
        if suggestion or is_seen:
            where = "in the cluster, and none that is known" if is_seen else "that is known"
            remedy = f'write "{suggestion}"' if suggestion else None
            yield wishes.finding(MISSPELT, "product", f'"{pattern}" names no GPU {where}', remedy)


@cache
def _known() -> dict[str, Product]:
    labels = (*(known.label for known in KNOWN_PRODUCTS), *mig_labels())
    return {label: Product.parse(label) for label in labels}


def _seen(view: ClusterView) -> dict[str, Product]:
    """The products of a cluster, by the labels of its nodes and by its ResourceSlices."""
    groups = view.derive(inventory)
    labels = {label for values in view.derive(seen_products).values() for label in values}
    products = {label: Product.parse(label) for label in labels}
    for group in () if groups is UNKNOWN else groups:
        products.setdefault(group.product, Product.parse(group.product.replace(" ", "-").replace("+", ".")))
    return products


def _suggestion(pattern: str, products: Iterable[str]) -> str | None:
    """A pattern that names products and is near to one that does not: `H100*` for `H100`, `*T4` for `T4`."""
    names = sorted({Product.parse(label).name.removeprefix(_BRAND) for label in products})
    parts = {_folded(part): part for name in names for part in _parts(name)}
    core = pattern.replace("*", "").replace("?", "x").strip("-")
    near = _folded(core) if _folded(core) in parts else closest(_folded(core), parts)
    if near is None:
        return None
    meant = parts[near]
    having = [name for name in names if meant in _parts(name)]
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
