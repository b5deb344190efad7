"""Fitting: what of a MIG configuration a GPU cannot be cut into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.nvidia.mig import MIGProfile
    from policies.nvidia.mig_products import MIGProduct

__all__ = ["Misfit", "misfits"]


@dataclass(frozen=True, slots=True)
class Misfit:
    """Something that a GPU does not have, or not so many times."""

    profile: MIGProfile | None
    """None where all profiles together are too much."""
    text: str
    """A sentence's end: `is no profile of A30`."""
    remedy: str
    certain: bool
    """Whether no driver would do it."""


def misfits(counts: Mapping[MIGProfile, int], product: MIGProduct) -> Iterator[Misfit]:
    """What a GPU cannot be cut into."""
    for profile in counts:
        match = product.match(profile)
        if match is None:
            text = f"is no profile of {product.name}, which has {', '.join(_whole(product))}"
            yield Misfit(profile, text, _instead(profile, product), certain=True)
        elif not match.exact:
            text = f'is called "{match.profile}" on {product.name}; names differ by a little between drivers'
            yield Misfit(profile, text, 'compare with what "nvidia-smi mig -lgip" lists on the node', certain=False)
    excess = product.excess(counts)
    if excess:
        text = f"needs {excess} of {product.name}"
        yield Misfit(None, text, "ask for fewer or smaller profiles", certain=True)


def _whole(product: MIGProduct) -> list[str]:
    """Its profiles without attributes."""
    return [name for name in product.profiles() if "+" not in name and not name.endswith("-me")]


def _instead(profile: MIGProfile, product: MIGProduct) -> str:
    """The profile of as many slices, where there is just one kind of it."""
    size = f"{profile.gpu_slices}g."
    same = [name for name in _whole(product) if name.startswith(size)]
    return f'write "{same[0]}"' if same else "write one of these"
