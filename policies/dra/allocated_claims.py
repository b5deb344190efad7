"""Allocated claims: the devices that a ResourceClaim holds, and who uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object

__all__ = ["allocated_devices", "claim_consumers"]


def allocated_devices(claim: Object) -> list[Object]:
    """The results of a claim's allocation (`driver`, `pool`, `device`, ...); those of another shape are left out."""
    return _mappings(lookup(claim, ("status", "allocation", "devices", "results")))


def claim_consumers(claim: Object) -> list[Object]:
    """The objects that a claim is reserved for (`resource`, `name`, ...), usually pods."""
    return _mappings(lookup(claim, ("status", "reservedFor")))


def _mappings(value: Any) -> list[Object]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
