"""Capacity and counters: what a request takes of a device, and what is left."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from policies.devices.allocation.reading import AllocationError, items, mapping
from policies.devices.allocation.usage import NANO, Amount
from policies.kubernetes.quantities import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.devices.allocation.pools import Pool
    from policies.devices.allocation.reading import Features
    from policies.devices.allocation.slices import AllocatableDevice
    from policies.devices.allocation.usage import Usage


class Reason(Enum):
    """The checks that a device has to pass, in the order in which Kubernetes makes them."""

    IN_USE = "in use"
    """Another claim holds it."""
    IN_USE_BY_CLAIM = "in use by this claim"
    """Admin access gives no device twice to one claim."""
    BINDING_CONDITIONS_OFF = "binding conditions are off"
    """It has binding conditions, and the cluster does not know them."""
    CLASS_SELECTOR = "class selector"
    REQUEST_SELECTOR = "request selector"
    OTHER_NODE = "other node"
    """Of its slice's devices, each with its own nodes, this one is not for the node."""
    NO_SUCH_CAPACITY = "no such capacity"
    """The request names a capacity that the device does not have."""
    CAPACITY_POLICY = "capacity policy"
    """The device's request policy does not allow the amount."""
    CAPACITY = "capacity"
    """Less is left than requested."""
    COUNTERS_OFF = "partitionable devices are off"
    """It consumes counters, and the cluster does not know them."""
    COUNTERS = "counters"
    """A counter that it shares with other devices does not suffice."""
    TAINT = "taint"
    CONSTRAINT = "constraint"


@dataclass(frozen=True, slots=True)
class Rejection:
    """One reason why a device cannot serve a request, with what it rests on."""

    reason: Reason
    index: int = -1
    """Of the selector in the class or request, or of the constraint in the claim."""
    name: str = ""
    """The selector's expression, the capacity's name, or the counter as `set/counter`."""
    taint: Mapping[str, Any] | None = None
    """The first taint that is not tolerated."""
    asked: int = 0
    """The requested amount of the capacity or counter, in billionths."""
    left: int = 0
    """The amount that is left, in billionths; of a capacity, negative when more is taken than there is."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The amounts that one request would take of one device."""

    amounts: Mapping[str, Amount]
    """By capacity."""
    capacity: Mapping[str, int]
    """The amounts of the device, in billionths."""

    def shortages(self, taken: Mapping[str, int], picked: Mapping[str, int]) -> Iterator[Rejection]:
        """The capacities that other claims and this search have not left enough of."""
        for name, amount in self.amounts.items():
            left = self.capacity[name] - taken.get(name, 0) - picked.get(name, 0)
            if amount.nanos > left:
                yield Rejection(Reason.CAPACITY, name=name, asked=amount.nanos, left=left)


def demand(device: AllocatableDevice, requested: Mapping[str, Any] | None, features: Features) -> Demand | Rejection:
    """The amounts that a request takes of a device, or why its capacities do not allow them.

    Raises:
        AllocationError: the device's capacity cannot be read, or the requested one cannot be rounded up.
    """
    return capacity_demand(read_capacities(device.document, device.where), requested, features)


def read_capacities(document: Mapping[str, Any], where: str) -> dict[str, Capacity]:
    """The capacities of a device by name.

    Raises:
        AllocationError: one of them cannot be read.
    """
    found = mapping(document, "capacity", where)
    return {name: Capacity.read(mapping(found, name, where), f"{where}, capacity {name}") for name in found}


def capacity_demand(
    capacities: Mapping[str, Capacity], requested: Mapping[str, Any] | None, features: Features
) -> Demand | Rejection:
    """The amounts that a request takes of capacities, or why these do not allow them.

    That is what it names, rounded up as the device's policies say, and for the rest their defaults, or all of it.

    Raises:
        AllocationError: the requested amount cannot be read or rounded up.

    Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/consumable_capacity.go.
    """
    wanted = {name: Amount.read(value, f"capacity {name}") for name, value in (requested or {}).items()}
    for name, amount in wanted.items():
        if name not in capacities:
            return Rejection(Reason.NO_SUCH_CAPACITY, name=name, asked=amount.nanos)
    amounts: dict[str, Amount] = {}
    for name, capacity in capacities.items():
        try:
            amounts[name] = capacity.consumed_amount(wanted.get(name), features)
        except _UnrepresentableError as error:
            raise AllocationError(f'capacity "{name}": {error}') from None
    for name, capacity in capacities.items():
        if capacity.forbids(amounts[name], features):
            return Rejection(Reason.CAPACITY_POLICY, name=name, asked=amounts[name].nanos, left=capacity.value.nanos)
    return Demand(amounts, {name: capacity.value.nanos for name, capacity in capacities.items()})


class _UnrepresentableError(Exception):
    """An amount that Kubernetes' arithmetic cannot represent, in its words."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """A capacity of a device with its request policy; without a policy every amount is allowed."""

    value: Amount
    default: Amount | None
    valid_values: tuple[Amount, ...]
    limits: _Range | None

    @classmethod
    def read(cls, document: Mapping[str, Any], where: str) -> Capacity:
        """Read a capacity of a device.

        Raises:
            AllocationError: one of its amounts cannot be read.
        """
        policy = mapping(document, "requestPolicy", where)
        return cls(
            value=Amount.read(document.get("value", "0"), where),
            default=_optional(policy, "default", where),
            valid_values=tuple(Amount.read(value, where) for value in items(policy, "validValues", where)),
            limits=_Range.read(policy, where) if policy.get("validRange") is not None else None,
        )

    def consumed_amount(self, requested: Amount | None, features: Features) -> Amount:
        """The amount that a request takes.

        Raises:
            _UnrepresentableError: it cannot be rounded up, or is negative, and this is an error in the cluster.
        """
        if requested is None:
            amount = self.default or self.value
        elif self.limits and self.limits.least:
            amount = self.limits.rounded_up(requested, self.limits.least, features)
        else:
            amount = next((valid for valid in self.valid_values if requested.nanos <= valid.nanos), requested)
        if features.refuses_amounts and amount.nanos < 0:
            raise _UnrepresentableError("capacity value is negative")
        return amount

    def forbids(self, amount: Amount, features: Features) -> bool:
        """True if the policy refuses an amount; it never refuses its own default."""
        if amount == self.default:
            return False
        if self.limits:
            return self.limits.excludes(amount, features)
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

    def rounded_up(self, requested: Amount, least: Amount, features: Features) -> Amount:
        """The least amount in whole steps that is not below a request.

        Raises:
            _UnrepresentableError: no such amount can be written, and this is an error in the cluster.
        """
        if requested.nanos < least.nanos:
            return least
        if self.step is None:
            return requested
        in_millis = self._in_millis(features)
        if in_millis and requested.millis is None:
            if features.refuses_amounts:
                raise self._not_representable(f"request {requested} is not a representable milli value")
            return requested
        if not in_millis and features.refuses_amounts and requested.nanos > INT64_MAX * NANO:
            raise self._not_representable(f"request {requested} exceeds MaxInt64")
        unit = NANO // 1000 if in_millis else NANO
        first, step, wanted = (
            each.nanos // unit if in_millis else each.units for each in (least, self.step, requested)
        )
        rounded = first - (first - wanted) // step * step
        if rounded > INT64_MAX and (features.refuses_amounts or in_millis):
            passed = "the milli-value range" if in_millis else "MaxInt64"
            if features.refuses_amounts:
                raise self._not_representable(f"rounding request {requested} up to the next step passes {passed}")
            rounded = INT64_MAX
        return Amount(rounded * unit, self.step.notation if features.keeps_step_notation else "BinarySI")

    @staticmethod
    def _not_representable(why: str) -> _UnrepresentableError:
        return _UnrepresentableError(f"capacity request cannot be represented in the device's range arithmetic: {why}")

    def excludes(self, amount: Amount, features: Features) -> bool:
        """True if an amount is more than the most, or not in whole steps."""
        if self.most and amount.nanos > self.most.nanos:
            return True
        if self.step is None:
            return False
        if not self._in_millis(features):
            return (amount.units - (self.least.units if self.least else 0)) % self.step.units != 0
        beyond = amount.nanos - (self.least.nanos if self.least else 0)
        return amount.millis is None or beyond % self.step.nanos != 0

    def _in_millis(self, features: Features) -> bool:
        """True if amounts are rounded up in thousandths: all limits are whole thousandths."""
        limits = (self.least, self.most, self.step)
        return features.fractional_ranges and all(each is None or each.millis is not None for each in limits)


def _optional(document: Mapping[str, Any], key: str, where: str) -> Amount | None:
    return None if document.get(key) is None else Amount.read(document[key], f"{where}, {key}")


_Key = tuple[str, str]


class CounterLedger:
    """The amounts that allocated devices leave of each counter, and that the devices picked so far take.

    Kubernetes keeps its books by the pool's name and forgets the driver: of two drivers with a pool of the same name,
    the first pool that is checked decides for both.

    Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go
    checkAvailableCounters, deallocateCountersForDevice.
    """

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._available: dict[str, dict[_Key, int]] = {}
        self._taken: dict[str, dict[_Key, int]] = {}
        self._overdrawn: dict[str, set[_Key]] = {}

    def take(self, device: AllocatableDevice, pool: Pool) -> Rejection | None:
        """Take what the device consumes, or say which counter of its pool does not suffice and take nothing.

        A counter of the pool that is overdrawn already keeps back every device that consumes any.
        """
        name = pool.id[1]
        if name not in self._available:
            self._open(name, pool)
        self._book(name, device, 1)
        if not self._overdrawn[name]:
            return None
        short = min(self._overdrawn[name])
        asked = sum(amount for counter_set, counter, amount in device.counters if (counter_set, counter) == short)
        left = self._available[name][short] - self._taken[name].get(short, 0) + asked
        self._book(name, device, -1)
        return Rejection(Reason.COUNTERS, name="/".join(short), asked=asked, left=left)

    def give_back(self, device: AllocatableDevice, pool: Pool) -> None:
        """Undo taking."""
        self._book(pool.id[1], device, -1)

    def footprint(self, device: AllocatableDevice, pool: Pool) -> tuple[int, ...]:
        """The taken amounts of the device's counters; equal before and after if nothing happened."""
        taken = self._taken.get(pool.id[1], {})
        return tuple(taken.get((counter_set, counter), 0) for counter_set, counter, _ in device.counters)

    def _open(self, name: str, pool: Pool) -> None:
        available = {
            (counter_set, counter): amount
            for counter_set, counters in pool.counter_sets.items()
            for counter, amount in counters.items()
        }
        for found in (*pool.slices, *pool.other_slices):
            for device in found.devices:
                if device.counters and self._usage.holds(device.id):
                    for counter_set, counter, amount in device.counters:
                        if (counter_set, counter) in available:
                            available[counter_set, counter] -= amount
        self._available[name] = available
        taken = self._taken.setdefault(name, {})
        self._overdrawn[name] = {key for key, amount in available.items() if amount < taken.get(key, 0)}

    def _book(self, name: str, device: AllocatableDevice, sign: int) -> None:
        taken = self._taken.setdefault(name, {})
        available, overdrawn = self._available.get(name, {}), self._overdrawn.setdefault(name, set())
        for counter_set, counter, amount in device.counters:
            key = (counter_set, counter)
            taken[key] = taken.get(key, 0) + sign * amount
            if key in available:
                (overdrawn.add if available[key] < taken[key] else overdrawn.discard)(key)
