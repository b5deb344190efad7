"""The cells of a node: GPUs of DRA and of the device plugin, and what is given out twice.

DRA says which device a claim holds. The device plugin advertises numbers, so its cells are filled in the order of the
pods' names, and its MIG devices are laid out in a way that the GPUs allow.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import chain, islice, repeat
from math import ceil
from typing import TYPE_CHECKING

from policies.nvidia.mig import MIGProfile
from policies.nvidia.mig_geometry import Geometry
from policies.nvidia.mig_layouts import MOST_GPUS, TooManyWaysError, find_layouts, place
from policies.nvidia.mig_products import product_named
from policies.usage.gpu_cells import CellPart, GPUCell, published_cells
from policies.usage.node_gpus import DeviceForm, Provider

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policies.nvidia.mig_layouts import DeviceCounts
    from policies.usage.node_gpus import HeldDevices, NodeGPUs

__all__ = ["MOST_CELLS", "node_cells"]

_ONE, _NONE = Fraction(1), Fraction(0)
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
        yield from repeat(_WHOLE._replace(holder=holding.holder), ceil(holding.amount))
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
