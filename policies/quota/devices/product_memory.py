"""Memory of products: how much a GPU has of which no node tells it now."""

from __future__ import annotations

import re

from policies.nvidia.mig_products import product_named
from policies.nvidia.product_globs import BRAND, fold_name

__all__ = ["product_memory"]

_GIB = 2**30
_IN_NAME = re.compile(r"(?:^|-)([1-9][0-9]{0,2})gb(?:-|$)")
_SOLD: dict[int, tuple[str, ...]] = {
    8: ("tesla-p4",),
    16: ("tesla-t4", "a2", "a16", "rtx-a4000"),
    20: ("rtx-a4500", "rtx-4000-ada-generation", "rtx-4000-sff-ada-generation"),
    24: (
        "tesla-p40",
        "quadro-rtx-6000",
        "a10",
        "a10g",
        "l4",
        "rtx-a5000",
        "rtx-4500-ada-generation",
        "geforce-rtx-3090",
        "geforce-rtx-4090",
    ),
    32: ("rtx-5000-ada-generation", "geforce-rtx-5090"),
    48: ("quadro-rtx-8000", "a40", "l20", "l40", "l40s", "rtx-a6000", "rtx-6000-ada-generation"),
}
"""GiB, by products that MIG cannot divide and whose names do not tell.

Source: NVIDIA's datasheets of the products. Drivers report somewhat less.
"""
_BY_NAME = {name: gib for gib, names in _SOLD.items() for name in names}


def product_memory(product: str) -> int | None:
    """The most bytes that a GPU of a product has, of all that are sold under its name; None where nobody knows.

    Args:
        product: as labels or devices spell it, without suffixes for MIG and sharing.
    """
    divisible = product_named(product)
    if divisible is not None:
        return max(divisible.memory) * _GIB
    name = fold_name(product).removeprefix(BRAND)
    told = _IN_NAME.search(name)
    gib = int(told[1]) if told else _BY_NAME.get(name)
    return None if gib is None else gib * _GIB
