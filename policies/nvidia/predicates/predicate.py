"""What a predicate is, and how it reads a device of NVIDIA's driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from policies.nvidia.identifiers import DRIVER

if TYPE_CHECKING:
    from fractions import Fraction

    from policies.kubernetes.resourceslices import Attribute, Device

__all__ = ["ATTRIBUTES", "CAPACITY", "Comparison", "Predicate", "attribute_of", "compare", "quote"]

ATTRIBUTES = f'device.attributes["{DRIVER}"]'
CAPACITY = f'device.capacity["{DRIVER}"]'
"""Where CEL finds what the driver says of a device."""

Comparison = Literal["==", ">=", ">", "<"]


class Predicate(Protocol):
    """A condition on one device."""

    def cel(self) -> str:
        """The condition as a CEL expression of a device selector."""
        ...

    def matches(self, device: Device) -> bool:
        """Whether the device meets it; the same answer as the CEL gives."""
        ...

    def words(self) -> str:
        """The condition for people: `product NVIDIA-L40S`."""
        ...


def attribute_of(device: Device, name: str) -> Attribute | None:
    """An attribute that the driver gave the device, by its name in the driver's domain."""
    return device.attributes.get(f"{DRIVER}/{name}")


def compare(comparison: Comparison, difference: Fraction | int) -> bool:
    """Whether a difference compares so to zero."""
    match comparison:
        case "==":
            return difference == 0
        case ">=":
            return difference >= 0
        case ">":
            return difference > 0
        case "<":
            return difference < 0


def quote(text: str) -> str:
    """A CEL string literal that no text can break out of."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
