"""Devices: what NVIDIA's DRA driver publishes, as quotas count it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.kubernetes.paths import lookup
from policies.kubernetes.quantities import QuantityError, parse_quantity
from policies.kubernetes.resourceslices import PoolPart, devices_in, newest
from policies.nvidia.identifiers import DRIVER
from policies.nvidia.mig import MIGProfile
from policies.quota.charges import DeviceKind
from policies.quota.devices.shares import mig_share
from policies.view import UNKNOWN, ClusterView, Unknown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policies.dra.claims.cluster.fleet import Member
    from policies.kubernetes.objects import Object
    from policies.kubernetes.resourceslices import Device

__all__ = ["Devices", "Published", "Shares", "devices", "published"]

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


def published(member: Member) -> Published:
    """A device as selectors see it."""
    texts = [lookup(member.item("attributes", DRIVER, name), ("string",)) for name in ("productName", "profile")]
    product, profile = (text if isinstance(text, str) else "" for text in texts)
    memory, shares = (_quantity(member.item("capacity", DRIVER, name)) for name in ("memory", "shares"))
    return _kind(product, profile, memory, shares, member.body.get("allowMultipleAllocations") is True)


def devices(view: ClusterView) -> Devices | Unknown:
    """The devices by pool and name. Use it by `view.derive(devices)`."""
    slices = view.derive_each("ResourceSlice", _of_slice)
    if slices is UNKNOWN:
        return UNKNOWN
    pools: dict[str, list[Mapping[str, Published]]] = {}
    for pool, named in newest(each for each in slices if each is not None):
        pools.setdefault(pool, []).append(named)
    return Devices(pools)


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices of NVIDIA's driver that slices show."""

    pools: Mapping[str, Sequence[Mapping[str, Published]]]

    def find(self, pool: str, name: str) -> Published | None:
        """A device by what allocations call it; None where no slice has it any more."""
        return next((part[name] for part in self.pools.get(pool, ()) if name in part), None)


def _of_slice(document: Object) -> tuple[PoolPart, tuple[str, Mapping[str, Published]]] | None:
    part = PoolPart.of(document)
    if part is None or part.pool[0] != DRIVER:
        return None
    return part, (part.pool[1], {device.name: _published(device) for device in devices_in(document)})


def _published(device: Device) -> Published:
    product, profile = (str(device.attributes.get(f"{DRIVER}/{name}", "")) for name in ("productName", "profile"))
    memory, shares = (device.capacity.get(f"{DRIVER}/{name}") for name in ("memory", "shares"))
    return _kind(product, profile, memory, shares, device.shareable)


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
