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
        if found := self.with_words_of(pattern):
            return found
        near = closest(_folded(_core(pattern)), self.parts)
        if near is None:
            return None
        meant = self.parts[near]
        return _naming([name for name in self.names if f"-{meant}-" in f"-{name}-"], [meant], pattern)

    def with_words_of(self, pattern: str) -> str | None:
        """A pattern of the products whose names have all words of a pattern in that order: `A100*80GB` for `A100-80GB`."""
        wanted = [_folded(word) for word in _core(pattern).split("-")]
        having = [name for name in self.names if _places(wanted, name)]
        if not having:
            return None
        words = having[0].split("-")
        found = [words[place] for place in _places(wanted, having[0])]
        whole = "-".join(found)
        return _naming(having, [whole] if all(f"-{whole}-" in f"-{name}-" for name in having) else found, pattern)


def _core(pattern: str) -> str:
    return pattern.replace("*", "").replace("?", "x").strip("-").removeprefix(_BRAND)


def _places(wanted: list[str], name: str) -> list[int]:
    """Where a name has the wanted words, one after the other; empty if it lacks one."""
    words = _folded(name).split("-")
    places: list[int] = []
    for word in wanted:
        start = places[-1] + 1 if places else 0
        if word not in words[start:]:
            return []
        places.append(words.index(word, start))
    return places


def _naming(having: list[str], words: list[str], pattern: str) -> str:
    """The name of the only product, or the pattern of several that have these words."""
    if len(having) == 1 and "*" not in pattern:
        return having[0]
    before = "*" if pattern.startswith("*") or not all(name.startswith(words[0]) for name in having) else ""
    after = "*" if pattern.endswith("*") or not all(name.endswith(words[-1]) for name in having) else ""
    return f"{before}{'*'.join(words)}{after}"


def _parts(name: str) -> Iterator[str]:
    """What people call a product by: its name, or words of it that follow each other."""
    words = name.split("-")
    for start in range(len(words)):
        for end in range(len(words), start, -1):
            yield "-".join(words[start:end])


def _folded(name: str) -> str:
    return name.lower().translate(_LOOKALIKES)
