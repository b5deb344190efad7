"""Devices as selectors see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.cel import CelDevice

if TYPE_CHECKING:
    from policies.kubernetes.resourceslices import Device

__all__ = ["as_selectors_see"]


def as_selectors_see(device: Device) -> CelDevice:
    """A device of a ResourceSlice as selectors see it."""
    return CelDevice.read({"driver": device.driver, **device.body})
