"""Consumable capacity: how much a request takes of a device, and whether that is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.dra.allocation.amounts import Amount
from policies.dra.allocation.errors import AllocationError
from policies.dra.allocation.reading import items, mapping
from policies.dra.allocation.rejections import Reason, Rejection

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.dra.allocation.slices import AllocatableDevice

__all__ = ["Demand", "demand"]


@dataclass(frozen=True, slots=True)
class Demand:
    """What one request would take of one device."""

    amounts: Mapping[str, Amount]
    """By capacity."""
    capacity: Mapping[str, int]
    """What the device has, in billionths."""

    def shortages(self, taken: Mapping[str, int], picked: Mapping[str, int]) -> Iterator[Rejection]:
        """The capacities that other claims and this search have not left enough of."""
        for name, amount in self.amounts.items():
            left = self.capacity[name] - taken.get(name, 0) - picked.get(name, 0)
            if amount.nanos > left:
                yield Rejection(Reason.CAPACITY, name=name, asked=amount.nanos, left=left)


def demand(device: AllocatableDevice, requested: Mapping[str, Any] | None) -> Demand | Rejection:
    """What a request takes of a device.

    That is what it names, rounded up as the device's policies say, and for the rest their defaults, or all of it.

    Raises:
        AllocationError: the device's capacity cannot be read.

    Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/consumable_capacity.go.
    """
    where = device.where
    capacities = mapping(device.document, "capacity", where)
    wanted = {name: Amount.read(value, f"capacity {name}") for name, value in (requested or {}).items()}
    for name, amount in wanted.items():
        if name not in capacities:
            return Rejection(Reason.NO_SUCH_CAPACITY, name=name, asked=amount.nanos)
    amounts: dict[str, Amount] = {}
    values: dict[str, int] = {}
    for name in capacities:
        capacity = _Capacity.read(mapping(capacities, name, where), f"{where}, capacity {name}")
        amount = capacity.consumed_amount(wanted.get(name))
        if capacity.forbids(amount):
            return Rejection(Reason.CAPACITY_POLICY, name=name, asked=amount.nanos, left=capacity.value.nanos)
        amounts[name], values[name] = amount, capacity.value.nanos
    return Demand(amounts, values)


@dataclass(frozen=True, slots=True)
class _Capacity:
    """A capacity of a device with its request policy; without a policy every amount is allowed."""

    value: Amount
    default: Amount | None
    valid_values: tuple[Amount, ...]
    limits: _Range | None

    @classmethod
    def read(cls, document: Mapping[str, Any], where: str) -> _Capacity:
        policy = mapping(document, "requestPolicy", where)
        return cls(
            value=Amount.read(document.get("value", "0"), where),
            default=_optional(policy, "default", where),
            valid_values=tuple(Amount.read(value, where) for value in items(policy, "validValues", where)),
            limits=_Range.read(policy, where) if policy.get("validRange") is not None else None,
        )

    def consumed_amount(self, requested: Amount | None) -> Amount:
        """How much a request takes."""
        if requested is None:
            return self.default or self.value
        if self.limits and self.limits.least:
            return self.limits.rounded_up(requested, self.limits.least)
        return next((valid for valid in self.valid_values if requested.nanos <= valid.nanos), requested)

    def forbids(self, amount: Amount) -> bool:
        """True if the policy refuses an amount; it never refuses its own default."""
        if amount == self.default:
            return False
        if self.limits:
            return self.limits.excludes(amount)
        return bool(self.valid_values) and all(valid.nanos != amount.nanos for valid in self.valid_values)


@dataclass(frozen=True, slots=True)
class _Range:
    """Amounts from `least` in whole steps, or any, up to `most`."""

    least: Amount | None
    most: Amount | None
    step: Amount | None

    @classmethod
    def read(cls, policy: Mapping[str, Any], where: str) -> _Range:
        document = mapping(policy, "validRange", where)
        step = _optional(document, "step", where)
        if step and step.units <= 0:
            raise AllocationError(f"{where}: the step of its validRange must be greater than 0, not {step}")
        return cls(_optional(document, "min", where), _optional(document, "max", where), step)

    def rounded_up(self, requested: Amount, least: Amount) -> Amount:
        if requested.nanos < least.nanos:
            return least
        if self.step is None:
            return requested
        steps = -((least.units - requested.units) // self.step.units)
        return Amount.of_units(least.units + steps * self.step.units)

    def excludes(self, amount: Amount) -> bool:
        if self.most and amount.nanos > self.most.nanos:
            return True
        least = self.least.units if self.least else 0
        return self.step is not None and (amount.units - least) % self.step.units != 0


def _optional(document: Mapping[str, Any], key: str, where: str) -> Amount | None:
    return None if document.get(key) is None else Amount.read(document[key], f"{where}, {key}")
