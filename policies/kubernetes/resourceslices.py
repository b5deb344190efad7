"""ResourceSlices: the devices that DRA drivers publish."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from policies.kubernetes.objects import lookup, mappings_at, name_of
from policies.kubernetes.quantities import QuantityError, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from fractions import Fraction

    from policies.kubernetes.objects import Object


T = TypeVar("T")

PCI_BUS_ID = "resource.kubernetes.io/pciBusID"
"""The attribute with the PCI address of a device, which the parts of a device have as well."""

LONGEST_SELECTOR = 10_240
"""Bytes of one CEL expression. Source: k8s.io/api/resource/v1/types.go CELSelectorExpressionMaxLength."""

Attribute = str | int | bool
"""The value of a device attribute; versions are text, `9.0.0`."""

_ATTRIBUTES = (("string", str), ("version", str), ("bool", bool), ("int", int))


class Read(NamedTuple):
    """One part of a device that an expression reads."""

    part: str
    """`driver`, `allowMultipleAllocations`, `attributes` or `capacity`."""
    domain: str | None = None
    """The domain, or None for all of them."""
    name: str | None = None
    """The name in the domain, None for all of them, or empty if only the domain's presence is tested."""


@dataclass(frozen=True)
class Device:
    """A device as its driver describes it. What the driver says is parsed when it is first used."""

    driver: str
    pool: str
    name: str
    node: str
    """The node it belongs to; empty if several nodes reach it."""
    body: Mapping[str, Any]
    """The object that has `attributes` and `capacity`."""

    @property
    def label(self) -> str:
        """The device for people."""
        return f"{self.name} on {self.node}" if self.node else self.name

    @property
    def is_shareable(self) -> bool:
        """True if several claims can hold it at once (`allowMultipleAllocations`)."""
        return self.body.get("allowMultipleAllocations") is True

    @property
    def counter_sets(self) -> tuple[str, ...]:
        """The sets of its pool of which it consumes counters; parts of one GPU have a common set."""
        return tuple([str(each.get("counterSet")) for each in mappings_at(self.body, ("consumesCounters",))])

    @cached_property
    def attributes(self) -> Mapping[str, Attribute]:
        """Values by qualified name, as in CEL: `type` of the driver is `gpu.nvidia.com/type`."""
        return {
            _qualified_name(self.driver, name): value[kind]
            for name, value in self.items_of("attributes").items()
            if isinstance(value, dict)
            for kind, kind_type in _ATTRIBUTES
            if kind in value and type(value[kind]) is kind_type
        }

    @cached_property
    def capacity(self) -> Mapping[str, Fraction]:
        """Amounts by qualified name."""
        amounts: dict[str, Fraction] = {}
        for name, value in self.items_of("capacity").items():
            with suppress(QuantityError):
                amount = parse_quantity(value.get("value") if isinstance(value, dict) else value)
                amounts[_qualified_name(self.driver, name)] = amount
        return amounts

    @cached_property
    def capacity_text(self) -> str:
        """The `capacity` as JSON: equal for devices with the same amounts and policies."""
        return json.dumps(self.items_of("capacity"), sort_keys=True, default=str)

    def items_of(self, part: str) -> Mapping[str, Any]:
        """The `attributes` or the `capacity` as they are written."""
        items = self.body.get(part)
        return items if isinstance(items, dict) else {}

    def item(self, part: str, domain: str, name: str) -> Any:
        """An attribute or a capacity as it is written; None if it is missing."""
        items = self.items_of(part)
        full = items.get(f"{domain}/{name}")
        return items.get(name) if full is None and domain == self.driver else full


class PoolPart(NamedTuple):
    """Of which pool a slice is a part."""

    pool: tuple[str, str]
    """Driver, and name of the pool."""
    generation: int
    name: str
    """The slice's own."""

    @classmethod
    def of(cls, resource_slice: Object) -> PoolPart | None:
        """The part that a slice is; None if it is part of no pool."""
        spec = resource_slice.get("spec")
        driver, pool = lookup(spec, ("driver",)), lookup(spec, ("pool", "name"))
        generation = lookup(spec, ("pool", "generation")) or 0
        if not isinstance(driver, str) or not isinstance(pool, str) or not isinstance(generation, int):
            return None
        return cls((driver, pool), generation, name_of(resource_slice))


def newest(parts: Iterable[tuple[PoolPart, T]]) -> Iterator[T]:
    """The items of the newest generation of every pool, in the order of pools and names.

    A pool that is being rewritten is half there; what is there is reported, since this answers "which devices exist"
    and not "which can be allocated".
    """
    pools: dict[tuple[str, str], tuple[int, list[tuple[str, T]]]] = {}
    for part, found in parts:
        known = pools.get(part.pool)
        if known is None or part.generation > known[0]:
            pools[part.pool] = (part.generation, [(part.name, found)])
        elif part.generation == known[0]:
            known[1].append((part.name, found))
    for pool in sorted(pools):
        _, members = pools[pool]
        for _, found in sorted(members, key=itemgetter(0)) if len(members) > 1 else members:
            yield found


def devices_in(resource_slice: Object) -> Iterator[Device]:
    """The devices of one slice, of whatever generation of its pool.

    Entries that are not devices are skipped: slices are written by drivers, and one broken driver must not hide the
    devices of the others.

    Source: k8s.io/api/resource/v1/types.go.
    """
    part = PoolPart.of(resource_slice)
    node, devices = lookup(resource_slice, ("spec", "nodeName")), lookup(resource_slice, ("spec", "devices"))
    if part is None or not isinstance(devices, list):
        return
    for device in devices:
        if not isinstance(device, dict) or not isinstance(device.get("name"), str):
            continue
        body = device_fields(device)
        where = next((each for each in (body.get("nodeName"), node) if isinstance(each, str)), "")
        yield Device(*part.pool, device["name"], where, body)


def device_fields(device: dict[str, Any]) -> dict[str, Any]:
    """The mapping with the fields of a device, other than its name.

    Source: k8s.io/api/resource/v1beta1/types.go: a device has its fields under `basic`.
    """
    basic = device.get("basic")
    return basic if isinstance(basic, dict) else device


def _qualified_name(driver: str, name: str) -> str:
    return name if "/" in name else f"{driver}/{name}"
