"""Bills: the amounts of demands under each limit while their devices are not allocated."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Literal

from policies.kubernetes.bounds import count_work
from policies.nvidia.identifiers import MEMORY_LABEL
from policies.quota.limits.quota import UNITS
from policies.quota.limits.selectors import EVERYTHING, Match, Selector
from policies.rules.charges import Bill, Charge

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.quota.limits.quota import Limit, Quota
    from policies.rules.charges import ChargeRequest, DeviceDemand, DeviceKind, Unit


NAME_THE_PRODUCT = (
    "name the product, in a pod by the annotation gpu-admission.io/product, in a claim by a selector for productName"
)
"""The remedy for the author of a pod or claim that no quota can count."""


@dataclass(frozen=True, slots=True)
class UnknownProduct:
    """A request for any product under a limit by product, with `unknownProducts: Deny`."""

    limit: Limit
    demand: DeviceDemand

    administrator = ""

    @property
    def text(self) -> str:
        """The problem, without a full stop."""
        counted = "by product" if self.limit.selector.products else "memory"
        return (
            f'limit "{self.limit.name}" counts {counted}, the request could get any product, and the quota has '
            "unknownProducts: Deny"
        )


@dataclass(frozen=True, slots=True)
class UnknownMemory:
    """A limit counts memory, and the memory of every GPU that a request could get is unknown."""

    limit: Limit
    demand: DeviceDemand

    administrator = f"let GPU Feature Discovery label GPU nodes with {MEMORY_LABEL}"

    @property
    def text(self) -> str:
        """The problem, without a full stop."""
        return f'limit "{self.limit.name}" counts memory, and no node or ResourceSlice says how much memory the possible GPUs have'


class Uncountable(Exception):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """The quota cannot count what an object requests."""

    def __init__(self, unknown: UnknownProduct | UnknownMemory, mode: Literal["Enforce", "Warn"]) -> None:
        super().__init__(unknown.text)
        self.unknown = unknown
        self.mode = mode
        """Of the quota."""


def charge_under(request: ChargeRequest, quota: Quota) -> Charge:
    """The charge of a request under the limits of a quota.

    Raises:
        Uncountable: The product or the memory of a GPU is unknown, and the quota needs it.
    """
    bills = {}
    by_demands: dict[int, Bill] = {}  # claims from the same template share one tuple
    for piece, demands in request.pieces.items():
        if id(demands) not in by_demands:
            found = bill(demands, quota)
            if isinstance(found, UnknownProduct | UnknownMemory):
                raise Uncountable(found, quota.mode)
            by_demands[id(demands)] = found
        bills[piece] = by_demands[id(demands)]
    shared = None if request.shared is None else charge_under(request.shared, quota)
    return Charge(request.uid, request.kind, request.namespace, request.name, bills, request.of, shared)


def bill(demands: Iterable[DeviceDemand], quota: Quota) -> Bill | UnknownProduct | UnknownMemory:
    """The amounts of demands under a quota: in each limit the largest that the demands can need.

    A demand that no known device and no unknown product can satisfy is charged nothing. `most` has no memory if the memory
    is unknown.
    """
    demands = tuple(demands)
    kinds = sum(len(choice.kinds) + len(choice.unseen) for demand in demands for choice in demand.choices)
    count_work(2 * kinds * (len(quota.limits) + len(UNITS)))
    amounts = {}
    for limit in quota.limits:
        total = Fraction(0)
        for demand in demands:
            if quota.unknown_products == "Deny" and _has_unknown_amount(demand, limit):
                return UnknownProduct(limit, demand)
            most = _most(demand, limit.unit, limit.selector)
            if most is None:
                return UnknownMemory(limit, demand)
            total += most
        if total:
            amounts[limit.name] = total
    return Bill(amounts, _amounts_by_unit(demands))


def gpus_by_kind(demands: Iterable[DeviceDemand]) -> Mapping[tuple[str, str], Fraction]:
    """The GPUs of demands by product and MIG profile, each demand as the largest devices that it can get.

    A product or profile is empty if those devices have several.
    """
    found: dict[tuple[str, str], Fraction] = {}
    for demand in demands:
        sizes = {
            kind: choice.count * kind.gpus for choice in demand.choices for kind in _possible(choice) if choice.count
        }
        most = max(sizes.values(), default=Fraction(0))
        products = {kind.product for kind, size in sizes.items() if size == most}
        profiles = {kind.profile for kind, size in sizes.items() if size == most}
        if most:
            named = products.pop() if len(products) == 1 else "", profiles.pop() if len(profiles) == 1 else ""
            found[named] = found.get(named, Fraction(0)) + most
    return found


def _amounts_by_unit(demands: Iterable[DeviceDemand]) -> dict[Unit, Fraction]:
    found = {unit: [_most(demand, unit, EVERYTHING) for demand in demands] for unit in UNITS}
    known = {unit: [amount for amount in amounts if amount is not None] for unit, amounts in found.items()}
    return {unit: sum(known[unit], Fraction(0)) for unit in UNITS if len(known[unit]) == len(found[unit])}


def _most(demand: DeviceDemand, unit: Unit, selector: Selector) -> Fraction | None:
    """The largest possible amount of a demand in the selected devices; None if it is unknown."""
    counted = Fraction(0)
    for choice in demand.choices:
        for kind in _possible(choice):
            if choice.count and selector.match(kind, choice.priority_class) is not Match.NO:
                size = _size(kind, unit, demand)
                if size is None:
                    return None
                counted = max(counted, choice.count * size)
    return counted


def _possible(choice: DeviceDemand) -> frozenset[DeviceKind]:
    return choice.kinds | choice.unseen if choice.is_open else choice.kinds


def _size(kind: DeviceKind, unit: Unit, demand: DeviceDemand) -> Fraction | None:
    if unit == "gpus":
        return kind.gpus
    if unit == "devices":
        return Fraction(1)
    return Fraction(kind.memory) if kind.memory is not None else _largest_memory(kind, demand)


def _largest_memory(kind: DeviceKind, demand: DeviceDemand) -> Fraction | None:
    """The memory of the largest known device that the demand could get; None if no such device is known.

    The memory of a smaller part of a GPU is scaled up to the size of the kind.
    """
    shown = {each for choice in demand.choices for each in choice.kinds if each.memory is not None}
    sizes = (ceil(each.memory * max(1, kind.gpus / each.gpus if each.gpus else 1)) for each in shown if each.memory)
    largest = max(sizes, default=None)
    return None if largest is None else Fraction(largest)


def _has_unknown_amount(demand: DeviceDemand, limit: Limit) -> bool:
    """True if a demand could get a device whose amount under the limit is unknown."""
    return any(
        (limit.selector.products and not kind.product) or (limit.unit == "memory" and kind.memory is None)
        for choice in demand.choices
        if choice.count
        for kind in _possible(choice)
        if limit.selector.match(kind, choice.priority_class) is not Match.NO
    )
