"""Devices: what NVIDIA's DRA driver publishes, as quotas count it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.kubernetes.paths import lookup
from policies.kubernetes.quantities import QuantityError, parse_quantity
from policies.nvidia.identifiers import DRIVER
from policies.nvidia.mig import MIGProfile
from policies.quota.charges import DeviceKind
from policies.quota.devices.shares import mig_share

if TYPE_CHECKING:
    from policies.kubernetes.resourceslices import Device

__all__ = ["Published", "Shares", "published"]

_WHOLE = Fraction(1)


class Shares(NamedTuple):
    """What of a device that several claims can hold at once one of them takes; None where nothing is said."""

    shares: Fraction | None = None
    memory: Fraction | None = None

    @classmethod
    def of(cls, capacity: Any) -> Shares:
        """What the `capacity.requests` of a request or the `consumedCapacity` of a result says."""
        return cls(_amount(capacity, "shares"), _amount(capacity, "memory"))


class Published(NamedTuple):
    """A device of NVIDIA's driver, as far as quotas look at it."""

    device: DeviceKind
    shares: Fraction | None = None
    """Into how many shares it is divided (feature gate ConsumableShares of the driver)."""
    is_shareable: bool = False

    def taken(self, wanted: Shares) -> DeviceKind:
        """What a claim holds of it: all of it unless several claims can hold it.

        Of a device that is divided into shares each claim takes one where it does not say otherwise, and never a part of
        one; of one that is divided by memory only, all of it.

        Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/consumable_shares.go.
        """
        if not self.is_shareable:
            return self.device
        memory = self.device.memory
        parts: list[Fraction] = []
        if self.shares:
            parts.append(min(ceil(wanted.shares or 1) / self.shares, _WHOLE))
        if memory and wanted.memory:
            parts.append(min(wanted.memory / memory, _WHOLE))
        part = max(parts, default=_WHOLE)
        held = None if memory is None else int(part * memory)
        if memory and wanted.memory:
            held = min(int(wanted.memory), memory)
        return replace(self.device, gpus=self.device.gpus * part, memory=held)


def published(device: Device) -> Published:
    """A device as quotas count it."""
    texts = [lookup(device.item("attributes", DRIVER, name), ("string",)) for name in ("productName", "profile")]
    product, profile = (text if isinstance(text, str) else "" for text in texts)
    memory, shares = (_quantity(device.item("capacity", DRIVER, name)) for name in ("memory", "shares"))
    return _kind(product, profile, memory, shares, device.is_shareable)


@lru_cache(maxsize=1024)
def _kind(
    product: str, profile: str, memory: Fraction | None, shares: Fraction | None, is_shareable: bool
) -> Published:
    """The same object for what is equal."""
    name, parsed = product.replace(" ", "-"), MIGProfile.parse(profile)
    share = _WHOLE if parsed is None else mig_share(name, parsed)
    held = int(memory) if memory is not None and memory > 0 else None
    return Published(DeviceKind(name, profile, share, held), shares, is_shareable)


def _amount(amounts: Any, name: str) -> Fraction | None:
    found = None
    for key in (name, f"{DRIVER}/{name}"):
        amount = _quantity(lookup(amounts, (key,)))
        found = amount if amount is not None and amount > 0 else found
    return found


def _quantity(item: Any) -> Fraction | None:
    try:
        return parse_quantity(lookup(item, ("value",)) if isinstance(item, dict) else item)
    except QuantityError:
        return None
