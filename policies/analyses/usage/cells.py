"""Cells: each GPU with its held, free and unusable parts, for pages that draw them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from itertools import chain, groupby, islice, repeat
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from policies.analyses.usage.node_gpus import DeviceForm, Provider
from policies.kubernetes.objects import mapping_at, mappings_at
from policies.nvidia.mig import Geometry, MIGProfile
from policies.nvidia.mig_layouts import MOST_GPUS, TooManyWaysError, find_layouts, place
from policies.nvidia.mig_products import product_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.analyses.usage.node_gpus import (
        HeldDevices,
        NodeGPUs,
        OfferedKind,
        PublishedUnit,
        UnusableKind,
        UnusableReason,
    )
    from policies.devices.resource_claims import Holder
    from policies.kubernetes.resourceslices import Device
    from policies.nvidia.mig_layouts import DeviceCounts


_COUNTER = re.compile(r"memory-slice-([0-9]{1,2})")
_CAPACITY = re.compile(r"memorySlice([0-9]{1,2})")


def memory_slices(device: Device) -> tuple[int, ...]:
    """The sorted numbers of the memory slices that a MIG device uses; empty if unknown.

    A device that the driver creates for a claim names its slices in counters, an existing one in capacities.

    Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/partitions.go and mig.go.
    """
    consumed = mappings_at(device.body, ("consumesCounters",))
    names = [(_COUNTER, name) for each in consumed for name in mapping_at(each, ("counters",))]
    names += [(_CAPACITY, name.rpartition("/")[2]) for name in device.items_of("capacity")]
    found = (pattern.fullmatch(str(name)) for pattern, name in names)
    return tuple(sorted({int(match[1]) for match in found if match}))


_ONE, _NONE = Fraction(1), Fraction(0)


class CellState(StrEnum):
    """The state of a GPU for pods that request one."""

    HELD = "held"
    PARTLY_HELD = "partly-held"
    """Some of it is held, and a pod can get the rest."""
    FREE = "free"
    UNUSABLE = "unusable"
    """No pod can get the part that is not held."""
    OVER = "given-out-twice"
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
    """The reason why no pod can get a part that is not held; None if a pod can."""
    problem: str = ""
    """The reason why a held device is unhealthy; empty if it is healthy, as far as is known."""

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
    def problems(self) -> tuple[str, ...]:
        """The reasons why held parts are unhealthy, each once."""
        return tuple(dict.fromkeys(part.problem for part in self.parts if part.problem))

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
    """True if claims hold more of a MIG device than it is, and the driver does not share it between them."""
    return (
        bool(unit.kind.profile and not unit.is_shared)
        and sum((each.gpus for each in unit.holdings), _NONE) > unit.kind.gpus
    )


def _side_by_side(parts: Sequence[CellPart]) -> tuple[CellPart, ...]:
    """Parts that overlap, or have no place, side by side."""
    width = _ONE / len(parts)
    return tuple(part._replace(start=number * width, width=width) for number, part in enumerate(parts))


def _parts(unit: PublishedUnit, gpus: NodeGPUs, slices: int) -> Iterator[CellPart]:
    """The held parts of a unit, and the parts that are not held."""
    end, ends, amounts = _NONE, dict[str, Fraction](), dict[str, Fraction]()
    for holding in unit.holdings:
        for device in holding.devices:
            amounts[device] = amounts.get(device, _NONE) + holding.amount
    for holding in unit.holdings:
        for device in holding.devices:
            own = unit.slices.get(device, ())
            start = Fraction(own[0], slices) if own else end
            width = Fraction(len(own), slices) if own else holding.gpus / len(holding.devices)
            if unit.is_shared:
                start = ends.get(device, start) if own else end
                width *= (holding.amount if own else _ONE) / max(amounts[device], _ONE)
                ends[device] = start + width
            yield CellPart(start, width, holding.kind.profile, device, holding.holder, problem=holding.problem)
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
    """The reason of the node why no pod gets its free devices; None if only the devices have reasons."""
    own = {unit.reason.sentence for unit in gpus.units if unit.reason is not None}
    return next((each for each in gpus.reasons if each.sentence not in own), None)


_WHOLE = CellPart(_NONE, _ONE)
MOST_CELLS = 256
"""Cells of one kind on one node, and parts of a cell. A node with more gets no cells of this kind; the page shows its numbers."""


def node_cells(gpus: Sequence[NodeGPUs]) -> tuple[GPUCell, ...]:
    """The cells of all devices of one node; those of a kind together, in the order of names."""
    counted = [each for each in gpus if not each.units and Provider.DRA not in each.providers]
    divided = [each for each in counted if each.kind.form is DeviceForm.MIG]
    undivided = [each for each in counted if each.kind.form is not DeviceForm.MIG]
    cells = [
        *published_cells(gpus),
        *chain.from_iterable(map(_counted_cells, undivided)),
        *_mig_cells(divided),
        *chain.from_iterable(map(_cells_given_twice, gpus)),
    ]
    return tuple(sorted(cells, key=lambda cell: (cell.kind.rank, cell.is_over, len(cell.name), cell.name)))


def _counted_cells(gpus: NodeGPUs) -> Iterator[GPUCell]:
    """Cells of devices without names; the shares of a device are parts of one cell."""
    shares = gpus.kind.replicas
    if _is_too_much(gpus):
        return
    total = ceil(_held_amount(gpus) if gpus.total is None else gpus.total)
    provider = min(gpus.providers, default=None)
    parts = _counted_parts(gpus)
    for first in range(0, total, shares):
        of_device = (next(parts, _WHOLE) for _ in range(min(shares, total - first)))
        pieces = tuple(
            part._replace(start=Fraction(number, shares), width=Fraction(1, shares), label=gpus.kind.profile)
            for number, part in enumerate(of_device)
        )
        yield GPUCell("", gpus.kind, provider, pieces, shares, is_known=gpus.held is not None)
    yield from (GPUCell("", gpus.kind, provider, (part,), is_over=True) for part in parts if part.holder)


def _held_amount(gpus: NodeGPUs) -> Fraction:
    return sum((each.amount for each in gpus.holdings), _NONE)


def _is_too_much(gpus: NodeGPUs) -> bool:
    """True if the devices, or the shares of one, are too many for cells."""
    shares = gpus.kind.replicas
    return shares > MOST_CELLS or max(gpus.total or _NONE, _held_amount(gpus)) > MOST_CELLS * shares


def _counted_parts(gpus: NodeGPUs) -> Iterator[CellPart]:
    """A part for each device that is held, then one for each that is unusable."""
    for holding in sorted(gpus.holdings, key=lambda each: each.holder):
        part, unhealthy = _WHOLE._replace(holder=holding.holder), ceil(holding.unhealthy)
        yield from repeat(part._replace(problem=holding.problem), unhealthy)
        yield from repeat(part, ceil(holding.amount) - unhealthy)
    for reason in gpus.reasons:
        yield from repeat(_WHOLE._replace(reason=reason), ceil(reason.amount))


def _mig_cells(divided: Sequence[NodeGPUs]) -> Iterator[GPUCell]:
    """Cells of MIG devices of the device plugin: one for each GPU if a layout is known, else each alone."""
    by_product: dict[str, list[NodeGPUs]] = {}
    for each in divided:
        by_product.setdefault(each.kind.product, []).append(each)
    for product, found in by_product.items():
        profiles = {profile: each for each in found if (profile := MIGProfile.parse(each.kind.profile)) is not None}
        counts = {profile: int(each.total) for profile, each in profiles.items() if each.total}
        # The API server stores a pod that names its node and requests any number of devices.
        is_drawable = len(counts) == len(found) and not any(map(_is_too_much, found))
        geometry = _geometry(product, counts) if is_drawable else None
        layouts = None if geometry is None else _layouts(geometry, counts)
        if geometry is None or layouts is None:
            yield from chain.from_iterable(map(_counted_cells, found))
        else:
            yield from _laid_out_cells(geometry, layouts, profiles)


def _geometry(product: str, counts: DeviceCounts) -> Geometry | None:
    """The MIG geometry of a product that has all these profiles; None if it is unknown."""
    known = product_named(product)
    if known is None:
        return None
    for memory in known.memory:
        geometry = Geometry(memory, known.layout)
        if all((match := geometry.match(profile)) is not None and match.exact for profile in counts):
            return geometry
    return None


def _layouts(geometry: Geometry, counts: DeviceCounts) -> tuple[DeviceCounts, ...] | None:
    try:
        return find_layouts(geometry, counts, MOST_GPUS)
    except TooManyWaysError:
        return None


def _laid_out_cells(
    geometry: Geometry, layouts: Sequence[DeviceCounts], profiles: Mapping[MIGProfile, NodeGPUs]
) -> Iterator[GPUCell]:
    slices = geometry.layout.memory_slices
    parts = {profile: _counted_parts(each) for profile, each in profiles.items()}
    first, *_ = profiles.values()
    kind = replace(first.kind, profile="", gpus=_ONE)
    is_known = all(each.held is not None for each in profiles.values())
    for layout in layouts:
        placed = sorted(place(geometry, layout) or (), key=lambda each: each.start)
        pieces = tuple(
            next(parts[each.profile], _WHOLE)._replace(
                start=Fraction(each.start, slices), width=Fraction(each.size, slices), label=str(each.profile)
            )
            for each in placed
        )
        yield GPUCell("", kind, Provider.DEVICE_PLUGIN, pieces, slices, is_known=is_known)
    for profile, left in parts.items():
        for part in left:
            if part.holder is not None:
                labelled = part._replace(label=str(profile))
                yield GPUCell("", kind, Provider.DEVICE_PLUGIN, (labelled,), is_over=True)


def _cells_given_twice(gpus: NodeGPUs) -> Iterator[GPUCell]:
    """Cells for held devices that no cell shows.

    Claims can hold devices that no slice shows. If the device plugin offers the same GPUs as DRA, it is unknown which of
    them a pod has.
    """
    if Provider.DRA not in gpus.providers:
        return
    holdings = [each for each in gpus.holdings if not each.devices] if gpus.units else gpus.holdings
    provider = Provider.DEVICE_PLUGIN if gpus.units else Provider.DRA
    parts = chain.from_iterable(map(_device_parts, holdings))
    for part in islice(parts, MOST_CELLS):
        yield GPUCell(part.device, gpus.kind, provider, (part,), is_over=gpus.total is not None)


def _device_parts(holding: HeldDevices) -> Iterator[CellPart]:
    part = _WHOLE._replace(label=holding.kind.profile, holder=holding.holder)
    if holding.devices:
        yield from (part._replace(device=name) for name in holding.devices)
    else:
        yield from repeat(part, min(ceil(holding.amount), MOST_CELLS))
