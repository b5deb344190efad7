"""Fitting: what of a MIG configuration a GPU cannot be cut into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.nvidia.mig import MIGProfile
    from policies.nvidia.mig_products import MIGProduct

__all__ = ["LIST_PROFILES", "Misfit", "misfits"]

LIST_PROFILES = 'compare with what "nvidia-smi mig -lgip" lists on the node'


@dataclass(frozen=True, slots=True)
class Misfit:
    """Something that a GPU does not have, or not so many times."""

    profile: MIGProfile | None
    """None where all profiles together are too much."""
    text: str
    """A sentence's end: `is no profile of A30 (1g.6gb, 2g.12gb, 4g.24gb)`."""
    instead: str
    """The profile that was probably meant; empty where there is none, or a choice."""
    certain: bool
    """Whether no driver would do it."""


def misfits(counts: Mapping[MIGProfile, int], product: MIGProduct) -> Iterator[Misfit]:
    """What a GPU cannot be cut into."""
    for profile in counts:
        match = product.match(profile)
        if match is None:
            text = f"is no profile of {product.name} ({', '.join(_whole(product))})"
            yield Misfit(profile, text, _instead(profile, product), certain=True)
        elif not match.exact:
            text = f'is called "{match.profile}" on {product.name}; names differ by a little between drivers'
            yield Misfit(profile, text, str(match.profile), certain=False)
    excess = product.excess(counts)
    if excess:
        yield Misfit(None, f"needs {excess} of {product.name}", "", certain=True)


def _whole(product: MIGProduct) -> list[str]:
    """Its profiles without attributes."""
    return [name for name in product.profiles() if "+" not in name and not name.endswith("-me")]


def _instead(profile: MIGProfile, product: MIGProduct) -> str:
    """The profile of as many slices, where there is just one kind of it."""
    same = [name for name in _whole(product) if name.startswith(f"{profile.gpu_slices}g.")]
    return same[0] if len(same) == 1 else ""
