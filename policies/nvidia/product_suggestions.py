"""Suggestions: the products that a pattern was meant to name, if it names none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.kubernetes.misspellings import closest
from policies.nvidia.products import Product

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["ProductNames"]

_BRAND = "NVIDIA-"
_LOOKALIKES = str.maketrans("oil", "011")
"""Letters that are mistaken for digits, as they are in `H10O`."""


@dataclass(frozen=True, slots=True)
class ProductNames:
    """Names of products: made once, because each pattern is compared with all of them."""

    names: tuple[str, ...]
    """Without `NVIDIA-`."""
    parts: Mapping[str, str]
    """What people call them by, by its folded form."""

    @classmethod
    def of(cls, labels: Iterable[str]) -> ProductNames:
        """The products that have these values of the label `nvidia.com/gpu.product`."""
        names = sorted({Product.parse(label).name.removeprefix(_BRAND) for label in labels})
        return cls(tuple(names), {_folded(part): part for name in names for part in _parts(name)})

    def suggestion(self, pattern: str) -> str | None:
        """A pattern that names products and is near to one that does not: `H100*` for `H100`, `*T4` for `T4`."""
        core = pattern.replace("*", "").replace("?", "x").strip("-").removeprefix(_BRAND)
        near = _folded(core) if _folded(core) in self.parts else closest(_folded(core), self.parts)
        if near is None:
            return None
        meant = self.parts[near]
        having = [name for name in self.names if f"-{meant}-" in f"-{name}-"]
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
