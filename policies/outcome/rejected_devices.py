"""Devices of one node that can or cannot serve a request, and the reason for each that cannot."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from policies.devices.allocation.capacity import CounterLedger, Rejection
from policies.devices.allocation.capacity import Reason as Check
from policies.devices.allocation.constraints import attribute_of
from policies.devices.allocation.pools import PoolState
from policies.devices.allocation.reading import AllocationError
from policies.devices.allocation.usage import Amount
from policies.devices.conditions import describe_failure, failing_conjunct
from policies.devices.device_taint_rules import added_by_text
from policies.kubernetes.names import format_list, format_ranges, inflect, shorten
from policies.kubernetes.nodes import Taint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.cel import Conjunct, Read
    from policies.devices.allocation.checks import Question
    from policies.devices.allocation.pools import Pool
    from policies.devices.allocation.slices import AllocatableDevice, TargetNode
    from policies.devices.conditions import FailedCondition
    from policies.devices.resource_claims import Claim, Subrequest
    from policies.outcome.reasons import Holders


OF_CAPACITY = (Check.CAPACITY, Check.CAPACITY_POLICY, Check.NO_SUCH_CAPACITY)
"""The reasons that concern requested capacity."""

_MOST_TOLD = 4
_SPREAD = 2
"""Up to this number, all values that devices have instead of the requested one are shown."""


@dataclass(frozen=True, slots=True)
class DeviceRejection:
    """A reason why a device cannot serve a request."""

    check: Check
    text: str
    """A predicate in the singular: `is in use by team-b/train-0`."""
    gist: str
    """The text without names and values that differ between alike nodes."""
    selector: str = ""
    """The selector that does not match."""
    conjunct: Conjunct | None = None
    """The false condition of the selector; None if no single condition is false."""
    index: int = -1
    """The index of the selector in the request."""
    capacities: tuple[tuple[str, int, int], ...] = ()
    """The capacities that do not suffice: name, the amount that the request takes, and the amount left, in billionths."""
    taint: tuple[str, str, str] = ("", "", "")
    """Key, value and effect of the untolerated taint."""

    @property
    def is_outside(self) -> bool:
        """True if the device is not of the request's class, or not for the node."""
        return self.check in (Check.CLASS_SELECTOR, Check.OTHER_NODE)


@dataclass(slots=True)
class Tally:
    """The devices of a node that can and cannot serve one alternative of a request."""

    claim: Claim
    subrequest: Subrequest
    usable: list[AllocatableDevice] = field(default_factory=list)
    rejected: dict[DeviceRejection, list[AllocatableDevice]] = field(default_factory=dict)

    @property
    def asked(self) -> int:
        """The number of requested devices; for `All`, all that match."""
        if self.subrequest.allocation_mode != "All":
            return self.subrequest.count
        kept = (Check.IN_USE, Check.COUNTERS, Check.TAINT)
        matching = sum(len(devices) for why, devices in self.rejected.items() if why.check in kept)
        return max(1, matching + len(self.usable))

    @property
    def of_class(self) -> int:
        """The number of devices of the class on the node."""
        outside = sum(len(devices) for why, devices in self.rejected.items() if why.is_outside)
        return len(self.usable) + sum(map(len, self.rejected.values())) - outside

    @property
    def is_short(self) -> bool:
        """True if too few devices can serve the request."""
        return len(self.usable) < self.asked

    def gists(self, *, with_values: bool) -> tuple[tuple[str, int], ...]:
        """The reasons with numbers of devices, equal for alike nodes; 0 without a device of the class.

        Args:
            with_values: True to distinguish nodes by the values that devices have where they do not match.
        """
        counts: dict[str, int] = {}
        for why, devices in self.rejected.items():
            if not why.is_outside or not self.of_class:
                gist = why.text if with_values and why.check is Check.REQUEST_SELECTOR else why.gist
                counts[gist] = counts.get(gist, 0) + len(devices)
        return tuple(sorted(counts.items() if self.of_class else ((gist, 0) for gist in counts)))

    def details(self) -> tuple[str, ...]:
        """One sentence for each kind of device that cannot serve; devices outside the class only if all are."""
        told = _sentences(
            {why: devices for why, devices in self.rejected.items() if not why.is_outside or not self.of_class}
        )
        sentences = [f"{format_ranges(names)} {inflect(text, len(names))}" for text, names in told]
        rest = sum(len(names) for _, names in told[_MOST_TOLD:])
        return (*sentences[:_MOST_TOLD], *([f"{rest} more cannot for other reasons"] if rest else []))

    def rejections(self) -> list[dict[str, Any]]:
        """The rejected devices as data."""
        return [
            {"devices": format_ranges(map(_name, devices)), "reason": why.check.value, "count": len(devices)}
            for why, devices in self.rejected.items()
        ]


class Tallies:
    """Tallies devices of nodes; the failing condition of a selector is found once for alike devices."""

    def __init__(self, question: Question, holders: Holders) -> None:
        """Tally for the allocator's question; `holders` names what holds a device."""
        self._question = question
        self._holders = holders
        self._lacks: dict[tuple[str, int], tuple[FailedCondition, Conjunct | None]] = {}

    def of(self, claim: Claim, subrequest: Subrequest, pools: Iterable[Pool], node: TargetNode) -> Tally:
        """The tally of all devices that can be allocated on the node."""
        found = Tally(claim, subrequest)
        ledger = CounterLedger(self._question.usage)
        for pool in pools:
            if pool.state is not PoolState.READY:
                continue
            for device in pool.devices():
                why = self._first_rejection(claim, subrequest, device, node) or _counter_rejection(ledger, device, pool)
                if why is None:
                    found.usable.append(device)
                else:
                    found.rejected.setdefault(why, []).append(device)
        return found

    def _first_rejection(
        self, claim: Claim, subrequest: Subrequest, device: AllocatableDevice, node: TargetNode
    ) -> DeviceRejection | None:
        """The first rejection of a device; the check for use comes after the check of selectors."""
        checks = self._question.checks
        try:
            rejection = checks.selectable(claim, subrequest, device, node)
        except AllocationError:
            rejection = checks.in_use(subrequest, device)  # Kubernetes asks no selector about a device in use
        rejection = (
            rejection
            or checks.in_use(subrequest, device)
            or checks.capacity(subrequest, device, {})
            or checks.counters(device)
            or checks.taints(subrequest, device)
        )
        return None if rejection is None else self._rejection(rejection, subrequest, device)

    def _rejection(self, rejection: Rejection, subrequest: Subrequest, device: AllocatableDevice) -> DeviceRejection:
        reason, name = rejection.reason, rejection.name
        if reason is Check.CLASS_SELECTOR:
            why, failing = self._failed_condition(name, device)
            outside = f"is not of class {subrequest.device_class}: "
            return DeviceRejection(reason, outside + why.text, outside + why.gist, name, failing)
        if reason is Check.REQUEST_SELECTOR:
            why, failing = self._failed_condition(name, device)
            return DeviceRejection(reason, why.text, why.gist, name, failing, rejection.index)
        if reason is Check.IN_USE:
            return DeviceRejection(
                reason, f"is in use by {format_list(self._holders.of(device.id) or ('a claim',), 2)}", "is in use"
            )
        if reason is Check.TAINT:
            return _taint_rejection(rejection)
        text, gist = _amount_words(rejection, subrequest)
        short = self._question.checks.capacity_shortages(subrequest, device) if reason in OF_CAPACITY else ()
        return DeviceRejection(
            reason, text, gist, capacities=tuple((each.name, each.asked, each.left) for each in short)
        )

    def _failed_condition(self, selector: str, device: AllocatableDevice) -> tuple[FailedCondition, Conjunct | None]:
        checks = self._question.checks
        key = (selector, checks.shapes.of(device))
        if key not in self._lacks:
            failing = failing_conjunct(selector, lambda text: checks.matches(text, device))
            text = selector if failing is None else failing.text
            self._lacks[key] = describe_failure(text, lambda read: value_of(device, read)), failing
        return self._lacks[key]


def _amount_words(rejection: Rejection, subrequest: Subrequest) -> tuple[str, str]:
    """Text and gist of a rejection for amounts, or for another reason."""
    name, asked, left = rejection.name, Amount(rejection.asked), Amount(max(0, rejection.left))
    match rejection.reason:
        case Check.CAPACITY:
            is_named = name in (subrequest.capacity or {})
            need = f"{asked} requested" if is_named else f"and a request without an amount takes {asked}"
            return f"has {left} of {name} left, {need}", f"has too little {name} left, {need}"
        case Check.NO_SUCH_CAPACITY:
            text = f"has no capacity {name}, {asked} requested"
        case Check.CAPACITY_POLICY:
            text = f"does not hand out {asked} of {name}: its request policy forbids it"
        case Check.OTHER_NODE:
            text = "is for other nodes"
        case _:
            text = f"is out because {rejection.reason.value} in this cluster"
    return text, text


def _counter_rejection(ledger: CounterLedger, device: AllocatableDevice, pool: Pool) -> DeviceRejection | None:
    if not device.counter_sets:
        return None
    rejection = ledger.take(device, pool)
    if rejection is None:
        ledger.give_back(device, pool)
        return None
    asked, left = Amount(rejection.asked), Amount(max(0, rejection.left))
    text = f"needs {asked} of the shared counter {rejection.name}, {left} left beside the devices in use"
    return DeviceRejection(
        rejection.reason, text, f"needs {asked} of a shared counter, less left beside the devices in use"
    )


def _taint_rejection(rejection: Rejection) -> DeviceRejection:
    taint = Taint.read(rejection.taint or {})
    added_by = added_by_text(rejection.taint or {})
    text = f"has the taint {shorten(str(taint))}{added_by}, which the request does not tolerate"
    return DeviceRejection(rejection.reason, text, text, taint=(taint.key, taint.value, taint.effect))


def described_rejections(
    rejected: Mapping[DeviceRejection, list[AllocatableDevice]],
) -> list[tuple[str, DeviceRejection, list[AllocatableDevice]]]:
    """Predicates with a reason and their devices; many values become one predicate."""
    spread: dict[str, int] = {}
    for why in rejected:
        spread[why.gist] = spread.get(why.gist, 0) + 1
    return [
        (why.text if why.check is Check.IN_USE or spread[why.gist] <= _SPREAD else why.gist, why, devices)
        for why, devices in rejected.items()
    ]


def _sentences(rejected: Mapping[DeviceRejection, list[AllocatableDevice]]) -> list[tuple[str, list[str]]]:
    """Predicates with the names of their devices, the most devices first."""
    told: dict[str, list[str]] = {}
    for text, _, devices in described_rejections(rejected):
        told.setdefault(text, []).extend(map(_name, devices))
    return sorted(told.items(), key=lambda item: -len(item[1]))


def _name(device: AllocatableDevice) -> str:
    """The name of a device, with its pool unless the pool belongs to one node."""
    return device.name if device.slice.selection.node_name else f"{device.slice.pool}/{device.name}"


def value_of(device: AllocatableDevice, read: Read) -> str | None:
    """The value that a selector reads from a device, as text; None if it is missing."""
    match read.part:
        case "driver":
            return device.slice.driver
        case "allowMultipleAllocations":
            return "true" if device.is_shareable else "false"
        case "attributes":
            attribute = attribute_of(device, f"{read.domain}/{read.name}")
            return None if attribute is None else _scalar(attribute)
    capacity = device.document.get("capacity")
    if not isinstance(capacity, dict):
        return None
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
            return format_list([str(each) for each in value])
    return None
