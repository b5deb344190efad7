"""The devices that other claims hold, and amounts of capacity as Kubernetes writes them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.devices.allocation.reading import AllocationError
from policies.kubernetes.bounds import remember_short
from policies.kubernetes.quantities import INT64_MAX, INT64_MIN, QuantityError, parse_quantity

if TYPE_CHECKING:
    from typing import Self


NANO = 10**9
"""Billionths in a unit."""
_DECIMAL = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_SPELLED = re.compile(r"[+-]?0*(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?(?:[eE](?P<power>[+-]?[0-9]+)|(?P<suffix>.*))")


@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity of a capacity; amounts are equal if their values and their notations are."""

    nanos: int
    """The value in billionths, the finest that Kubernetes knows."""
    notation: str = "BinarySI"
    """BinarySI (`1Gi`), DecimalSI (`1G`) or DecimalExponent (`1e9`)."""
    spelling: str = field(default="", compare=False)
    """The text as it was written, where Kubernetes keeps that."""

    @classmethod
    def read(cls, value: object, where: str) -> Self:
        """Read a quantity of an API object.

        Raises:
            AllocationError: it is not a quantity.
        """
        written = value if isinstance(value, str) else str(value)
        return cls(nanos(value, where), *_notation(written.strip()))

    @property
    def units(self) -> int:
        """The value as a whole number, rounded away from zero."""
        return -(-self.nanos // NANO) if self.nanos > 0 else self.nanos // NANO

    @property
    def millis(self) -> int | None:
        """The value in thousandths; None if it is no whole number of them within 64 bits."""
        millis, rest = divmod(self.nanos, NANO // 1000)
        return None if rest or not INT64_MIN <= millis <= INT64_MAX else millis

    def __str__(self) -> str:
        """Kubernetes' canonical form.

        Source: k8s.io/apimachinery/pkg/api/resource/quantity.go CanonicalizeBytes.
        """
        if self.spelling:
            return self.spelling
        if self.nanos == 0:
            return "0"
        if self.notation == "BinarySI" and abs(self.nanos) >= 1024 * NANO and self.nanos % NANO == 0:
            mantissa, power = _without_factors(self.nanos // NANO, 1024, len(_BINARY) - 1)
            return f"{mantissa}{_BINARY[power]}"
        mantissa, zeros = _without_factors(self.nanos, 1000, 9)
        exponent = 3 * zeros - 9
        if self.notation == "DecimalExponent":
            return f"{mantissa}e{exponent}" if exponent else str(mantissa)
        return f"{mantissa}{_DECIMAL[exponent]}"


def nanos(value: object, where: str) -> int:
    """The value of a quantity in billionths.

    Raises:
        AllocationError: it is not a quantity.
    """
    if not isinstance(value, str | int | float):
        raise AllocationError(f"{where}: {value!r} is not a quantity")
    try:
        return _nanos(value.strip() if isinstance(value, str) else value, isinstance(value, bool))
    except QuantityError as error:
        raise AllocationError(f"{where}: {value!r} {error}") from None


@remember_short(4096)
def _nanos(value: str | float, is_bool: bool) -> int:
    """`is_bool` keeps True and 1 apart, which are one key otherwise."""
    return int(parse_quantity(bool(value) if is_bool else value) * NANO)


def _without_factors(number: int, factor: int, most: int) -> tuple[int, int]:
    """Divide by a factor as often as that is exact, and at most so often."""
    times = 0
    while times < most and number % factor == 0:
        number, times = number // factor, times + 1
    return number, times


def _notation(written: str) -> tuple[str, str]:
    """The notation of a quantity, and its spelling where Kubernetes prints it again unchanged.

    Source: k8s.io/apimachinery/pkg/api/resource/quantity.go ParseQuantity, "if the number is in canonical form".
    """
    match = _SPELLED.fullmatch(written)
    if match is None:
        return "DecimalSI", ""
    whole, part, power, suffix = match["whole"] or "", match["part"] or "", match["power"], match["suffix"] or ""
    digits = (whole or "0") + part
    if suffix in _BINARY[1:]:
        power_of_two = 10 * _BINARY.index(suffix)
        fits = 15 - len(whole or "0") - power_of_two * 3 // 10 - 1 >= 0
        kept = fits and not part and int(digits) & 7 != 0
        below_one = bool(part) and 0 < float(f"{whole or '0'}.{part}") * 2**power_of_two < 1
        return "DecimalSI" if below_one else "BinarySI", written if kept else ""
    if power is None:
        scale = next((exponent for exponent, letter in _DECIMAL.items() if letter == suffix), 0)
    else:
        scale = int(power)
    scale -= len(part)
    kept = len(digits) <= 18 and scale >= -9 and scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    return "DecimalSI" if power is None else "DecimalExponent", written if kept else ""


class Held(NamedTuple):
    """The devices that one allocation holds."""

    devices: tuple[str, ...]
    """Devices that only this claim holds, as `driver/pool/device`."""
    shares: tuple[tuple[str, Mapping[str, Any]], ...]
    """Devices of which it holds shares, each with the quantities that the share takes of the capacities."""

    @classmethod
    def by(cls, results: Iterable[Mapping[str, Any]]) -> Held:
        """Read results; those with admin access hold nothing."""
        holding = [result for result in results if not result.get("adminAccess")]
        return cls(
            tuple(_device(result) for result in holding if not result.get("shareID")),
            tuple((_device(each), each.get("consumedCapacity") or {}) for each in holding if each.get("shareID")),
        )


@dataclass(frozen=True)
class Usage:
    """The devices of allocated claims, by `driver/pool/device`; those with admin access are not counted."""

    devices: frozenset[str] = frozenset()
    """Devices that one claim holds alone."""
    shared: frozenset[str] = frozenset()
    """Devices of which claims hold shares."""
    capacity: Mapping[str, Mapping[str, int]] | None = None
    """The amounts of each capacity that the shares take, in billionths."""
    known_pools: frozenset[str] | None = field(default=None, compare=False)
    """The pools of these devices, and perhaps more; None if they are to be read from their names."""

    @classmethod
    def of_allocations(cls, allocations: Iterable[Held]) -> Usage:
        """The devices that several allocations hold.

        Raises:
            AllocationError: a capacity is not a quantity.

        Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources/allocateddevices.go.
        """
        devices: set[str] = set()
        capacity: dict[str, dict[str, int]] = {}
        for held in allocations:
            devices.update(held.devices)
            for device, share in held.shares:
                sums = capacity.setdefault(device, {})
                for name, amount in _amounts(device, share).items():
                    sums[name] = sums.get(name, 0) + amount
        return cls(frozenset(devices), frozenset(capacity), capacity)

    def and_held(self, allocations: Iterable[Held]) -> Usage:
        """The usage with more allocations added.

        Raises:
            AllocationError: a capacity is not a quantity.
        """
        more = Usage.of_allocations(allocations)
        capacity = {**(self.capacity or {})}
        for device, amounts in (more.capacity or {}).items():
            sums = {**capacity.get(device, {})}
            for name, amount in amounts.items():
                sums[name] = sums.get(name, 0) + amount
            capacity[device] = sums
        return Usage(self.devices | more.devices, self.shared | more.shared, capacity, self.pools | more.pools)

    def without_devices(self, devices: Collection[str]) -> Usage:
        """The usage after the claims have ended that hold these devices alone."""
        return replace(self, devices=self.devices.difference(devices), known_pools=self.pools)

    def taken_capacity(self, device: str) -> Mapping[str, int] | None:
        """The amounts of the device's capacities that shares take; None without shares."""
        return None if self.capacity is None else self.capacity.get(device)

    @cached_property
    def pools(self) -> frozenset[str]:
        """The pools of which claims hold devices, as `driver/pool`.

        Pools may be among them of which a claim held devices that has ended.
        """
        if self.known_pools is not None:
            return self.known_pools
        held = chain(self.devices, self.shared, self.capacity or ())
        return frozenset(device.rpartition("/")[0] for device in held)

    def holds(self, device: str) -> bool:
        """True if any claim has the device, or a share of it."""
        return device in self.devices or device in self.shared or self.taken_capacity(device) is not None


NONE = Usage()


def _amounts(device: str, amounts: Mapping[str, Any]) -> dict[str, int]:
    if not isinstance(amounts, Mapping):
        raise AllocationError(f"allocated capacity of device {device}: must be an object, not {amounts!r}")
    return {name: nanos(amount, f"allocated capacity {name} of device {device}") for name, amount in amounts.items()}


def _device(result: Mapping[str, Any]) -> str:
    return "/".join([str(result.get(part) or "") for part in ("driver", "pool", "device")])
