"""Known products: GPUs by the name in their label, and the product that a misspelt name means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.kubernetes.misspellings import closest
from policies.nvidia.products import Product

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["KNOWN_PRODUCTS", "ProductNames"]

KNOWN_PRODUCTS: tuple[str, ...] = (
    "Tesla-P4",
    "Tesla-P40",
    "Tesla-P100-PCIE-16GB",
    "Tesla-P100-SXM2-16GB",
    "Tesla-V100-PCIE-16GB",
    "Tesla-V100-PCIE-32GB",
    "Tesla-V100-SXM2-16GB",
    "Tesla-V100-SXM2-32GB",
    "Tesla-V100-SXM3-32GB",
    "Tesla-V100S-PCIE-32GB",
    "Tesla-T4",
    "Quadro-RTX-6000",
    "Quadro-RTX-8000",
    "NVIDIA-A100-PCIE-40GB",
    "NVIDIA-A100-SXM4-40GB",
    "NVIDIA-A100-80GB-PCIe",
    "NVIDIA-A100-SXM4-80GB",
    "NVIDIA-A800-SXM4-80GB",
    "NVIDIA-A800-80GB-PCIe",
    "NVIDIA-A30",
    "NVIDIA-A2",
    "NVIDIA-A10",
    "NVIDIA-A10G",
    "NVIDIA-A16",
    "NVIDIA-A40",
    "NVIDIA-RTX-A4000",
    "NVIDIA-RTX-A4500",
    "NVIDIA-RTX-A5000",
    "NVIDIA-RTX-A6000",
    "NVIDIA-GeForce-RTX-3090",
    "NVIDIA-L4",
    "NVIDIA-L20",
    "NVIDIA-L40",
    "NVIDIA-L40S",
    "NVIDIA-RTX-4000-Ada-Generation",
    "NVIDIA-RTX-4000-SFF-Ada-Generation",
    "NVIDIA-RTX-4500-Ada-Generation",
    "NVIDIA-RTX-5000-Ada-Generation",
    "NVIDIA-RTX-6000-Ada-Generation",
    "NVIDIA-GeForce-RTX-4090",
    "NVIDIA-H100-PCIe",
    "NVIDIA-H100-80GB-HBM3",
    "NVIDIA-H100-NVL",
    "NVIDIA-H800",
    "NVIDIA-H20",
    "NVIDIA-H20-3e",
    "NVIDIA-H200",
    "NVIDIA-H200-NVL",
    "NVIDIA-GH200-480GB",
    "NVIDIA-GH200-144G-HBM3e",
    "NVIDIA-B200",
    "NVIDIA-GB200",
    "NVIDIA-B300-SXM6-AC",
    "NVIDIA-GB300",
    "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
    "NVIDIA-RTX-PRO-6000-Blackwell-Workstation-Edition",
    "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition",
    "NVIDIA-GeForce-RTX-5090",
)
"""Data-centre GPUs and those of workstations that clusters have: values of `nvidia.com/gpu.product` without any suffix,
as drivers since R470 name the GPUs.

Source: labels and outputs of nvidia-smi that operators publish (issues of github.com/NVIDIA/gpu-operator and
k8s-device-plugin among them). GB10, whose GPU has no memory of its own, and names that were seen once only are left out.
"""


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
        return cls(tuple(names), {_fold(part): part for name in names for part in _parts(name)})

    def suggestion(self, pattern: str) -> str | None:
        """A pattern that names products and is near to one that does not: `H100*` for `H100`, `*T4` for `T4`."""
        if found := self.with_words_of(pattern):
            return found
        near = closest(_fold(_core(pattern)), self.parts)
        if near is None:
            return None
        meant = self.parts[near]
        return _common_pattern([name for name in self.names if f"-{meant}-" in f"-{name}-"], [meant], pattern)

    def with_words_of(self, pattern: str) -> str | None:
        """A pattern for products with all words of a pattern in order: `A100*80GB` for `A100-80GB`."""
        wanted = [_fold(word) for word in _core(pattern).split("-")]
        having = [name for name in self.names if _places(wanted, name)]
        if not having:
            return None
        words = having[0].split("-")
        found = [words[place] for place in _places(wanted, having[0])]
        whole = "-".join(found)
        return _common_pattern(
            having, [whole] if all(f"-{whole}-" in f"-{name}-" for name in having) else found, pattern
        )


def _core(pattern: str) -> str:
    return pattern.replace("*", "").replace("?", "x").strip("-").removeprefix(_BRAND)


def _places(wanted: list[str], name: str) -> list[int]:
    """Where a name has the wanted words, one after the other; empty if it lacks one."""
    words = _fold(name).split("-")
    places: list[int] = []
    for word in wanted:
        start = places[-1] + 1 if places else 0
        if word not in words[start:]:
            return []
        places.append(words.index(word, start))
    return places


def _common_pattern(having: list[str], words: list[str], pattern: str) -> str:
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


def _fold(name: str) -> str:
    return name.lower().translate(_LOOKALIKES)
