"""ResourceSlices: the devices that DRA drivers publish."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup
from policies.kubernetes.quantities import QuantityError, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from fractions import Fraction

    from policies.kubernetes.objects import Object

__all__ = ["Attribute", "Device", "devices_of"]

Attribute = str | int | bool
"""The value of a device attribute; versions are text, `9.0.0`."""


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


def devices_of(slices: Iterable[Object]) -> Iterator[Device]:
    """The devices of the newest generation of every pool.

    A pool that is being rewritten is half there; what is there is reported, since this answers "which devices exist"
    and not "which can be allocated". Parts that are no device are passed over: slices are written by drivers, and one
    broken driver must not blind the view.

    Source: k8s.io/api/resource/v1/types.go; v1beta1 keeps attributes and capacity under `basic`.
    """
    newest: dict[tuple[str, str], tuple[int, list[Object]]] = {}
    for resource_slice in slices:
        spec = resource_slice.get("spec")
        driver, pool = lookup(spec, ("driver",)), lookup(spec, ("pool", "name"))
        generation = lookup(spec, ("pool", "generation")) or 0
        if not isinstance(driver, str) or not isinstance(pool, str) or not isinstance(generation, int):
            continue
        key = (driver, pool)
        known = newest.get(key)
        if known is None or generation > known[0]:
            newest[key] = (generation, [resource_slice])
        elif generation == known[0]:
            known[1].append(resource_slice)
    for (driver, pool), (_, members) in sorted(newest.items(), key=lambda item: item[0]):
        for resource_slice in sorted(members, key=name_of):
            devices = lookup(resource_slice, ("spec", "devices"))
            node = lookup(resource_slice, ("spec", "nodeName"))
            for device in devices if isinstance(devices, list) else []:
                if isinstance(device, dict) and isinstance(device.get("name"), str):
                    yield _device(driver, pool, node if isinstance(node, str) else "", device)


def _device(driver: str, pool: str, node: str, document: dict[str, Any]) -> Device:
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
        for kind, kind_type in (("string", str), ("version", str), ("bool", bool), ("int", int)):
            if isinstance(value, dict) and type(value.get(kind)) is kind_type:
                yield _qualified(driver, name), value[kind]


def _capacity(driver: str, document: Any) -> Iterator[tuple[str, Fraction]]:
    for name, value in document.items() if isinstance(document, dict) else ():
        try:
            yield _qualified(driver, name), parse_quantity(value.get("value") if isinstance(value, dict) else value)
        except QuantityError:
            continue


def _qualified(driver: str, name: str) -> str:
    return name if "/" in name else f"{driver}/{name}"
