"""Wishes: what GPU a pod wants, in words that outlive labels and APIs.

A wish is read from annotations (`gpu-admission.io/product: H100*`) and rendered twice: to a predicate on devices here,
and to conditions on node labels in `policies.placement`. Both select the same GPUs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from policies.kubernetes.names import closest
from policies.nvidia.wish_words import (
    FAMILIES,
    NIC,
    ProductPatterns,
    Sharing,
    WishError,
    driver_text,
    pair_text,
    read_compute_capability,
    read_cuda,
    read_driver,
    read_families,
    read_least_memory,
    read_most_memory,
    read_nic,
    read_sharing,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["WORDS", "ProductPatterns", "Wish", "WishError"]


_EXAMPLES = {
    "product": "H100*,A100*80GB*,!*MIG*",
    "min-memory": "40Gi",
    "max-memory": "80Gi",
    "gpu-memory": "20Gi",
    "min-compute-capability": "8.6",
    "family": "hopper,ada-lovelace",
    "min-driver": "580.95",
    "min-cuda": "12.4",
    "sharing": "exclusive",
    "nic": "aligned",
}
WORDS = tuple(_EXAMPLES)

_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class Wish:
    """The wished properties of a GPU; None or empty for properties that do not matter."""

    products: ProductPatterns | None = None
    min_memory: int | None = None
    """In MiB, of the GPU or MIG device that the pod gets; as labels tell it, so 81559 for an H100 of 80 GB."""
    max_memory: int | None = None
    """In MiB; a device with less than one MiB more is still within it."""
    gpu_memory: int | None = None
    """In MiB, of the part of a GPU that the pod gets: a share of a device, or a MIG device."""
    min_compute_capability: tuple[int, int] | None = None
    families: tuple[str, ...] = ()
    """As labels spell them: `ada-lovelace`."""
    min_driver: tuple[int, int, int] | None = None
    min_cuda: tuple[int, int] | None = None
    """The newest CUDA that the driver supports."""
    sharing: Sharing | None = None
    nic: NIC | None = None
    """A network device beside each GPU, near to it; no property of the GPU, so only a claim can request it."""

    @classmethod
    def of(cls, words: Mapping[str, str]) -> Wish:
        """Read a wish.

        Args:
            words: texts by the names of their annotations without `gpu-admission.io/`.

        Raises:
            WishError: of the first text that says nothing, or word that does not exist.
        """
        for word in words:
            if word not in WORDS:
                raise _unknown(word)
        return cls(
            products=_read(words, "product", ProductPatterns.read),
            min_memory=_read(words, "min-memory", read_least_memory),
            max_memory=_read(words, "max-memory", read_most_memory),
            gpu_memory=_read(words, "gpu-memory", read_least_memory),
            min_compute_capability=_read(words, "min-compute-capability", read_compute_capability),
            families=_read(words, "family", read_families) or (),
            min_driver=_read(words, "min-driver", read_driver),
            min_cuda=_read(words, "min-cuda", read_cuda),
            sharing=_read(words, "sharing", read_sharing),
            nic=_read(words, "nic", read_nic),
        )

    @staticmethod
    def check(word: str, text: str) -> None:
        """Read the text of one word.

        Raises:
            WishError: it says nothing, or there is no such word.
        """
        Wish.of({word: text})

    def words(self) -> dict[str, str]:
        """The words of the wish; `Wish.of` reads the same wish from them."""
        texts = {
            "product": str(self.products or ""),
            "min-memory": f"{self.min_memory}Mi" if self.min_memory is not None else "",
            "max-memory": f"{self.max_memory}Mi" if self.max_memory is not None else "",
            "gpu-memory": f"{self.gpu_memory}Mi" if self.gpu_memory is not None else "",
            "min-compute-capability": pair_text(self.min_compute_capability) if self.min_compute_capability else "",
            "family": ",".join(self.families),
            "min-driver": driver_text(self.min_driver) if self.min_driver else "",
            "min-cuda": pair_text(self.min_cuda) if self.min_cuda else "",
            "sharing": self.sharing or "",
            "nic": self.nic or "",
        }
        return {word: text for word, text in texts.items() if text}

    @property
    def least_memory(self) -> int | None:
        """The least memory in MiB of a device that can meet the wish; None if it does not matter."""
        return max((each for each in (self.min_memory, self.gpu_memory) if each is not None), default=None)

    def __bool__(self) -> bool:
        """True if anything is wished; that sharing does not matter is a wish too."""
        return self != _NOTHING

    def contradictions(self) -> list[tuple[tuple[str, ...], str]]:
        """The contradictions of the wish: words, each with a clause without a full stop."""
        return [*_products(self), *_memory(self), *_part(self), *_families(self)]


_NOTHING = Wish()


def _read(words: Mapping[str, str], word: str, read: Callable[[str], _Read]) -> _Read | None:
    if word not in words:
        return None
    text = words[word].strip()
    if not text:
        raise WishError("is empty", f'remove it, or write a wish such as "{_EXAMPLES[word]}"')
    return read(text)


def _unknown(word: str) -> WishError:
    guess = closest(word, WORDS)
    return WishError("is not a wish", f'write "{guess}"' if guess else f"write one of {', '.join(WORDS)}")


def _products(wish: Wish) -> list[tuple[tuple[str, ...], str]]:
    if wish.products is None:
        return []
    cancelled = wish.products.cancelled_patterns()
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


_NAMED_MEMORY = re.compile(r"[0-9]g\.([0-9]{1,3})gb", re.IGNORECASE)
"""The memory in GB that a MIG profile has in its name; the device has at most half a GiB more."""


def _part(wish: Wish) -> Iterator[tuple[tuple[str, ...], str]]:
    """The contradictions between a part of a GPU and the other words."""
    part = wish.gpu_memory
    if part is None:
        return
    if wish.min_memory is not None and wish.min_memory > part:
        yield ("gpu-memory", "min-memory"), f"gpu-memory is {part}Mi and min-memory {wish.min_memory}Mi"
    if wish.max_memory is not None and wish.max_memory < part:
        yield ("gpu-memory", "max-memory"), f"gpu-memory is {part}Mi and max-memory only {wish.max_memory}Mi"
    if wish.sharing == "exclusive":
        yield ("gpu-memory", "sharing"), "gpu-memory is for a part of a GPU, and sharing: exclusive for all of it"
    patterns = wish.products.includes if wish.products is not None else ()
    named = [_NAMED_MEMORY.search(pattern) for pattern in patterns]
    if named and all(match is not None and (int(match[1]) + 1) * 1024 <= part for match in named):
        yield (
            ("product", "gpu-memory"),
            f"product names MIG devices with less memory than gpu-memory, which is {part}Mi",
        )


def _families(wish: Wish) -> list[tuple[tuple[str, ...], str]]:
    least = wish.min_compute_capability
    limits = [FAMILIES.get(family) for family in wish.families]
    if least is None or not limits or any(limit is None or least < limit for limit in limits):
        return []
    told = "the family" if len(wish.families) == 1 else "the families"
    names = " or ".join(wish.families)
    text = f"no GPU of {told} {names} has compute capability {pair_text(least)} or newer"
    return [(("family", "min-compute-capability"), text)]
