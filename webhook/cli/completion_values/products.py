"""Products that begin with what is written so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.nvidia.known_products import KNOWN_PRODUCTS
from webhook.cli.completion_values.items import items_of

if TYPE_CHECKING:
    from webhook.cli.completion_values.items import Items

__all__ = ["products"]

_BRAND = "NVIDIA-"


def products(incomplete: str) -> Items:
    """The known products, as labels have them and without `NVIDIA-`."""
    names = {name for label in KNOWN_PRODUCTS for name in (label, label.removeprefix(_BRAND))}
    typed = incomplete.lower()
    found = sorted(name for name in names if name.lower().startswith(typed))
    return items_of(
        found if typed.startswith(_BRAND[0].lower()) else [name for name in found if not name.startswith(_BRAND)]
    )
