"""What is said where no GPU is as wished: what there is, and how that differs from the wish."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.dra.words import many
from policies.kubernetes.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.nvidia.wishes import ProductPatterns, Wish
    from policies.placement.wishes.existing_gpus import ExistingGPU

__all__ = ["lacking"]

_MOST = 5
_UNNAMED = "a GPU without a name"
_NUMBER = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class _Said:
    """How one word of a wish is spoken of."""

    fact: str
    """The attribute of `ExistingGPU` that it is about."""
    is_like: str
    """What a GPU is like, with `{}` for the fact."""
    next_is: str
    """The same of further GPUs in the same sentence."""
    wanted: str
    """What is wished instead, with `{}` for its text."""
    values: tuple[tuple[str, str], ...] = ()
    """How facts are called that are no numbers."""


_SHARING = (
    ("none", "exclusive"),
    ("mps", "shared by MPS"),
    ("time-slicing", "time-sliced"),
    ("claims", "shared by claims"),
)
_WORDS = {
    "min-memory": _Said("memory", "has {} of memory", "has {}", "at least {} is wished"),
    "max-memory": _Said("memory", "has {} of memory", "has {}", "at most {} is wished"),
    "min-compute-capability": _Said(
        "compute_capability", "has compute capability {}", "has {}", "at least {} is wished"
    ),
    "family": _Said("family", "is of the family {}", "is {}", "{} is wished"),
    "min-driver": _Said("driver", "has driver {}", "has {}", "at least {} is wished"),
    "min-cuda": _Said("cuda", "supports CUDA {}", "supports {}", "at least {} is wished"),
    "sharing": _Said("sharing", "is {}", "is {}", "{} GPUs are wished", _SHARING),
}


def lacking(word: str, wish: Wish, written: str, existing: Sequence[ExistingGPU]) -> str:
    """Why no GPU meets one word of a wish: `12 nodes have NVIDIA-A100-SXM4-80GB, 4 have Tesla-T4; none has H100*`.

    Args:
        word: that none meets.
        wish: of this word alone.
        written: the wish as its author wrote it.
        existing: what there is, one kind of GPU or more.
    """
    if wish.products is not None:
        return f"{_products(existing)}; none has {_wanted(wish.products)}"
    said = _WORDS[word]
    text = " or ".join(part.strip() for part in written.split(","))
    return f"{_facts(existing, said)}; {said.wanted.format(printable(text))}"


def _products(existing: Sequence[ExistingGPU]) -> str:
    told = [
        f"{many(count, 'node') if place == 0 else format(count, ',')} {'has' if count == 1 else 'have'} {product}"
        for place, (product, count) in enumerate(_by_number(existing))
    ]
    return _first(told)


def _wanted(patterns: ProductPatterns) -> str:
    excluded = " or ".join(patterns.excludes)
    if not patterns.includes:
        return f"anything but {excluded}"
    return " or ".join(patterns.includes) + (f" without {excluded}" if excluded else "")


def _facts(existing: Sequence[ExistingGPU], said: _Said) -> str:
    facts: defaultdict[str, set[str]] = defaultdict(set)
    for each in existing:
        facts[_name(each)].add(getattr(each, said.fact))
    told = [
        f"{product} on {many(count, 'node')} {_fact(facts[product], said, said.next_is if place else said.is_like)}"
        for place, (product, count) in enumerate(_by_number(existing))
    ]
    return _first(told)


def _fact(values: set[str], said: _Said, phrase: str) -> str:
    known = sorted(filter(None, values), key=_numbers)
    if not known:
        return "has no label that tells"
    if said.values:
        return phrase.format(" or ".join(name for value, name in said.values if value in known))
    return phrase.format(printable(known[0] if len(known) == 1 else f"{known[0]} to {known[-1]}"))


def _numbers(text: str) -> tuple[list[int], str]:
    return [int(number) for number in _NUMBER.findall(text)], text


def _by_number(existing: Iterable[ExistingGPU]) -> list[tuple[str, int]]:
    """The products, those first that most nodes have."""
    nodes: Counter[str] = Counter()
    for each in existing:
        nodes[_name(each)] += each.nodes
    return sorted(nodes.items(), key=lambda item: (-item[1], item[0]))


def _name(existing: ExistingGPU) -> str:
    return printable(existing.product) or _UNNAMED


def _first(told: list[str]) -> str:
    """The first of many, and how many more there are."""
    more = len(told) - _MOST
    return ", ".join(told[:_MOST]) + (f" and {more} more product{'s' * (more > 1)}" if more > 0 else "")
