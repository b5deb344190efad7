"""ResourceSlices: the devices that DRA drivers publish."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup
from policies.kubernetes.quantities import QuantityError, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from fractions import Fraction

    from policies.kubernetes.objects import Object

__all__ = ["Attribute", "Device", "PoolPart", "devices_in", "devices_of", "newest"]

T = TypeVar("T")

Attribute = str | int | bool
"""The value of a device attribute; versions are text, `9.0.0`."""

_ATTRIBUTES = (("string", str), ("version", str), ("bool", bool), ("int", int))


@dataclass(frozen=True, slots=True)
class Device:
    """A device as its driver describes it.

    Attribute and capacity names are qualified: what a driver publishes as `type` is `gpu.nvidia.com/type` here, as it
    is for CEL.
    """

    driver: str
    pool: str
    name: str
    node: str
    """The node it belongs to; empty when it is reachable from several."""
    attributes: Mapping[str, Attribute]
    capacity: Mapping[str, Fraction]
    shareable: bool = False
    """Whether several claims can hold it at once (`allowMultipleAllocations`)."""


class PoolPart(NamedTuple):
    """Of which pool a slice is a part."""

    pool: tuple[str, str]
    """Driver, and name of the pool."""
    generation: int
    name: str
    """The slice's own."""

    @classmethod
    def of(cls, resource_slice: Object) -> PoolPart | None:
        """What a slice says; None where that makes it part of no pool."""
        spec = resource_slice.get("spec")
        driver, pool = lookup(spec, ("driver",)), lookup(spec, ("pool", "name"))
        generation = lookup(spec, ("pool", "generation")) or 0
        if not isinstance(driver, str) or not isinstance(pool, str) or not isinstance(generation, int):
            return None
        return cls((driver, pool), generation, name_of(resource_slice))


def newest(parts: Iterable[tuple[PoolPart, T]]) -> Iterator[T]:
    """What comes with the parts of the newest generation of every pool, in the order of pools and names.

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


def devices_of(slices: Iterable[Object]) -> Iterator[Device]:
    """The devices of the newest generation of every pool."""
    placed = ((PoolPart.of(each), each) for each in slices)
    for each in newest((part, each) for part, each in placed if part is not None):
        yield from devices_in(each)


def devices_in(resource_slice: Object) -> Iterator[Device]:
    """The devices of one slice, of whatever generation of its pool.

    Parts that are no device are passed over: slices are written by drivers, and one broken driver must not blind the
    view.

    Source: k8s.io/api/resource/v1/types.go; v1beta1 keeps attributes and capacity under `basic`.
    """
    part = PoolPart.of(resource_slice)
    node, devices = lookup(resource_slice, ("spec", "nodeName")), lookup(resource_slice, ("spec", "devices"))
    if part is None or not isinstance(devices, list):
        return
    for device in devices:
        if isinstance(device, dict) and isinstance(device.get("name"), str):
            yield _device(part.pool, node if isinstance(node, str) else "", device)


def _device(owner: tuple[str, str], node: str, document: dict[str, Any]) -> Device:
    driver, pool = owner
    basic = document.get("basic")
    body = basic if isinstance(basic, dict) else document
    own_node = body.get("nodeName")
    return Device(
        driver=driver,
        pool=pool,
        name=document["name"],
        node=own_node if isinstance(own_node, str) else node,
        attributes=dict(_attributes(driver, body.get("attributes"))),
        capacity=dict(_capacity(driver, body.get("capacity"))),
        shareable=body.get("allowMultipleAllocations") is True,
    )


def _attributes(driver: str, document: Any) -> Iterator[tuple[str, Attribute]]:
    for name, value in document.items() if isinstance(document, dict) else ():
        if not isinstance(value, dict):
            continue
        for kind, kind_type in _ATTRIBUTES:
            if kind in value and type(value[kind]) is kind_type:
                yield _qualified(driver, name), value[kind]


def _capacity(driver: str, document: Any) -> Iterator[tuple[str, Fraction]]:
    for name, value in document.items() if isinstance(document, dict) else ():
        try:
            yield _qualified(driver, name), parse_quantity(value.get("value") if isinstance(value, dict) else value)
        except QuantityError:
            continue


@lru_cache(maxsize=4096)
def _qualified(driver: str, name: str) -> str:
    return name if "/" in name else f"{driver}/{name}"
