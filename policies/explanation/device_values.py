"""What a device has in the places that selectors read, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.dra.allocation.constraints import attribute_of
from policies.dra.words import listed

if TYPE_CHECKING:
    from policies.dra.allocation.slices import Device
    from policies.dra.cel.reads import Read

__all__ = ["value_of"]


def value_of(device: Device, read: Read) -> str | None:
    """What a device has, as text; None where it has nothing there."""
    match read.part:
        case "driver":
            return device.slice.driver
        case "allowMultipleAllocations":
            return "true" if device.shareable else "false"
        case "attributes":
            attribute = attribute_of(device, f"{read.domain}/{read.name}")
            return None if attribute is None else _scalar(attribute)
    capacity = device.document.get("capacity") or {}
    found = capacity.get(f"{read.domain}/{read.name}")
    if found is None and read.domain == device.slice.driver:
        found = capacity.get(read.name)
    return str(found.get("value")) if isinstance(found, dict) else None


def _scalar(attribute: Any) -> str | None:
    for value in attribute.values():
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str | int):
            return str(value)
        if isinstance(value, list):
            return listed([str(each) for each in value])
    return None
