"""Cells: each GPU of a node with its parts, and who holds them, for a picture."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from itertools import chain, groupby
from typing import TYPE_CHECKING, NamedTuple

from policies.nvidia.mig_products import product_named
from policies.usage.node_gpus import Provider

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.dra.holders import Holder
    from policies.usage.node_gpus import NodeGPUs, OfferedKind, PublishedUnit, UnusableKind, UnusableReason

__all__ = ["CellPart", "CellState", "GPUCell", "published_cells"]

_ONE, _NONE = Fraction(1), Fraction(0)


class CellState(StrEnum):
    """The state of a GPU for pods that request one."""

    HELD = "held"
    PARTLY_HELD = "partly-held"
    """Some of it is held, and a pod can get the rest."""
    FREE = "free"
    UNUSABLE = "unusable"
    """No pod can get the part that is not held."""
    OVER = "over"
    """More of it is held than exists."""
    UNKNOWN = "unknown"
    """Pods or claims that cannot be seen may hold it."""


class CellPart(NamedTuple):
    """A part of a GPU: held, free or unusable. The parts of a GPU are ordered from left to right."""

    start: Fraction
    width: Fraction
    """Start and width are fractions of the GPU."""
    label: str = ""
    """The MIG profile; empty for whole GPUs and shares."""
    device: str = ""
    """The device of DRA; empty for the device plugin."""
    holder: Holder | None = None
    """None for a part that is not held."""
    reason: UnusableReason | None = None
    """Why no pod can get a part that is not held; None if a pod can."""

    @property
    def is_free(self) -> bool:
        """True if a pod can get it."""
        return self.holder is None and self.reason is None


@dataclass(frozen=True, slots=True)
class GPUCell:
    """A GPU, or a MIG device of the device plugin whose GPU is unknown."""

    name: str
    """The device of DRA; empty for the device plugin, which does not say which GPU a pod has."""
    kind: OfferedKind
    provider: Provider | None
    """None if nothing offers it."""
    parts: tuple[CellPart, ...]
    """From left to right; the space between parts belongs to no device."""
    divisions: int = 1
    """The number of memory slices, or of shares, of the whole."""
    is_over: bool = False
    is_known: bool = True
    """False if pods or claims that cannot be seen may hold what is free."""

    @property
    def state(self) -> CellState:
        """The state of the GPU for pods that request one."""
        if self.is_over:
            return CellState.OVER
        is_held = any(part.holder is not None for part in self.parts)
        if not any(part.is_free for part in self.parts):
            return CellState.HELD if is_held else CellState.UNUSABLE
        if not self.is_known:
            return CellState.UNKNOWN
        return CellState.PARTLY_HELD if is_held else CellState.FREE

    @property
    def reasons(self) -> tuple[UnusableKind, ...]:
        """The kinds of reasons why parts serve no pod, each once."""
        return tuple(dict.fromkeys(part.reason.kind for part in self.parts if part.reason is not None))


def published_cells(gpus: Iterable[NodeGPUs]) -> Iterator[GPUCell]:
    """The cells of the GPUs that DRA publishes on one node, one for each GPU."""
    found: dict[str, list[tuple[PublishedUnit, NodeGPUs]]] = {}
    for each in gpus:
        for unit in each.units:
            found.setdefault(unit.gpu, []).append((unit, each))
    yield from map(_cell, found.values())


def _cell(units: Sequence[tuple[PublishedUnit, NodeGPUs]]) -> GPUCell:
    """One GPU: undivided, or divided into MIG devices that do not depend on claims."""
    (first, gpus), *others = units
    numbers = [number for unit, _ in units for slices in unit.slices.values() for number in slices]
    product = product_named(first.kind.product) if numbers else None
    slices = max(product.layout.memory_slices if product else 1, max(numbers, default=0) + 1)
    found = chain.from_iterable(_parts(unit, each, slices) for unit, each in units)
    parts = sorted(found, key=lambda part: (part.start, part.device))
    held = [part for part in parts if part.holder is not None]
    is_over = _overlap(held) or any(_is_held_twice(unit) for unit, _ in units)
    # Without their memory slices, or with contradictory ones, it is unknown where MIG devices lie.
    is_placed = not is_over and not _overlap(parts)
    is_divided = bool(others or first.kind.profile)
    return GPUCell(
        first.name.partition("-mig-")[0] if is_divided else first.name,
        replace(first.kind, profile="") if is_divided else first.kind,
        Provider.DRA,
        tuple(parts) if is_placed else _side_by_side(held if is_over else parts),
        slices if is_placed else 1,
        is_over,
        gpus.held is not None,
    )


def _overlap(parts: Sequence[CellPart]) -> bool:
    """True if one of the parts, which are sorted, reaches into the next one or beyond the GPU."""
    next_starts = [*(part.start for part in parts[1:]), _ONE]
    return any(part.start + part.width > start for part, start in zip(parts, next_starts, strict=False))


def _is_held_twice(unit: PublishedUnit) -> bool:
    """True if claims hold more of a MIG device than it is."""
    return bool(unit.kind.profile) and sum((each.gpus for each in unit.holdings), _NONE) > unit.kind.gpus


def _side_by_side(parts: Sequence[CellPart]) -> tuple[CellPart, ...]:
    """Parts that overlap, or have no place, side by side."""
    width = _ONE / len(parts)
    return tuple(part._replace(start=number * width, width=width) for number, part in enumerate(parts))


def _parts(unit: PublishedUnit, gpus: NodeGPUs, slices: int) -> Iterator[CellPart]:
    """The held parts of a unit, and the parts that are not held."""
    end = _NONE
    for holding in unit.holdings:
        for device in holding.devices:
            own = unit.slices.get(device, ())
            start = Fraction(own[0], slices) if own else end
            width = Fraction(len(own), slices) if own else holding.gpus / len(holding.devices)
            yield CellPart(start, width, holding.kind.profile, device, holding.holder)
            end = start + width
    rest = CellPart(end, _ONE - end, reason=unit.reason or _node_reason(gpus))
    if unit.kind.profile:
        own = unit.slices.get(unit.name, ())
        if not unit.holdings:
            start, width = (Fraction(own[0], slices), Fraction(len(own), slices)) if own else (_NONE, unit.kind.gpus)
            yield rest._replace(start=start, width=width, label=unit.kind.profile, device=unit.name)
    elif unit.slices:
        taken = {number for own in unit.slices.values() for number in own}
        for is_taken, run in groupby(range(slices), taken.__contains__):
            if not is_taken:
                numbers = [*run]
                yield rest._replace(start=Fraction(numbers[0], slices), width=Fraction(len(numbers), slices))
    elif end < 1:
        yield rest


def _node_reason(gpus: NodeGPUs) -> UnusableReason | None:
    """Why no pod can get the free devices of the node; None if only the devices themselves have reasons."""
    own = {unit.reason.sentence for unit in gpus.units if unit.reason is not None}
    return next((each for each in gpus.reasons if each.sentence not in own), None)
