"""The outcomes of requests for the devices of one node, for pictures and programs; bounded for each."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from policies.devices.allocation.capacity import Reason as Check
from policies.devices.allocation.node_selectors import TargetNode
from policies.devices.allocation.reading import AllocationError
from policies.kubernetes.names import format_count, shorten
from policies.kubernetes.objects import lookup, name_of, namespace_of
from policies.kubernetes.quantities import ONE, billionths, taken_by
from policies.kubernetes.view import UNKNOWN
from policies.outcome.allocation import SolutionState
from policies.outcome.audience import OTHER_NAMESPACES, Holders
from policies.outcome.rejected_devices import Tallies, described_rejections

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.devices.allocation.needs import Question
    from policies.devices.allocation.slices import AllocatableDevice
    from policies.devices.resource_claims import Claim, Subrequest
    from policies.kubernetes.objects import Object
    from policies.outcome.allocation import Solution
    from policies.outcome.claims import NamedClaim
    from policies.outcome.rejected_devices import Tally
    from policies.outcome.survey import AlikeNodes, Survey

__all__ = ["MOST_DEVICES", "DeviceOutcome", "DeviceOutcomes", "OutcomeState"]

MOST_DEVICES = 48
"""Devices of a node that are named."""
_MOST_REQUESTS = 8
_MOST_OUTCOMES = 64
_MOST_HOLDERS = 4
_LONGEST = 300
"""Characters of a sentence."""

_Place = tuple[int, str]
"""The number of a claim, and the full name of a request."""


class OutcomeState(StrEnum):
    """The outcome of a request for a device."""

    CHOSEN = "chosen"
    """The request would get it."""
    USABLE = "usable"
    """The request could get it."""
    IN_USE = "in use"
    """Others hold it, or too much of it."""
    UNSUITABLE = "unsuitable"
    """It cannot serve the request, whether it is in use or not."""


@dataclass(frozen=True, slots=True)
class DeviceOutcome:
    """The outcome of one request for some devices of a node."""

    claim: str
    """The name of the claim in the question; empty for devices of a device plugin."""
    request: str
    """The request, `gpu` or `gpu/large`; the resource for devices of a device plugin, `nvidia.com/gpu`."""
    state: OutcomeState
    count: int
    """The number of devices."""
    devices: tuple[str, ...] = ()
    """The names of the first devices; empty for devices of a device plugin, which have no names in the cluster."""
    reason: str = ""
    """The check that the devices do not pass, such as `in use` or `request selector`; empty if they can be used."""
    sentence: str = ""
    """The reason why they cannot be used, a predicate in the singular without a full stop: `is in use by team-b/train-0`."""
    holders: tuple[str, ...] = ()
    """The first holders of the devices: `team-b/train-0`."""


class DeviceOutcomes:
    """Finds out about the devices of single nodes."""

    def __init__(self, survey: Survey) -> None:
        """Prepare for a survey question; the work begins with the first node."""
        self._survey = survey
        self._holders = Holders(survey.cluster.holding, survey.audience)
        self._tallies: dict[frozenset[str], Tallies] = {}

    def of(self, alike: AlikeNodes) -> tuple[DeviceOutcome, ...]:
        """The outcomes on the first of some alike nodes; empty if its devices cannot be read."""
        found = [*self._of_plugins(alike), *self._of_claims(alike)]
        return tuple(found[:_MOST_OUTCOMES])

    def _of_claims(self, alike: AlikeNodes) -> list[DeviceOutcome]:
        problem, cluster = self._survey.problem, self._survey.cluster
        claims = problem.claims_on(alike.resources)
        if not claims:
            return []
        node = problem.nodes[alike.positions[0]]
        try:
            allocator = problem.allocator(alike.resources, cluster.usage)
            tallies = self._tallies.setdefault(alike.resources, Tallies(allocator.question, self._holders))
            pools, target = allocator.pools(node), TargetNode(node)
            found = {
                (number, subrequest.full_name): tallies.of(claim, subrequest, pools, target)
                for number, claim, subrequest in islice(_subrequests(allocator.question), _MOST_REQUESTS)
            }
        except AllocationError:
            return []
        return [*_outcomes(found, claims, _chosen_devices(alike.solution), self._holders)]

    def _of_plugins(self, alike: AlikeNodes) -> Iterator[DeviceOutcome]:
        """The outcomes of the pod's extended resources that a device plugin serves."""
        question, cluster = self._survey.problem.question, self._survey.cluster
        requested = {
            name: amount // ONE
            for name, amount in question.resources.items()
            if "/" in name and name not in alike.resources
        }
        node = cluster.nodes[alike.positions[0]]
        offered = lookup(node, ("status", "allocatable"))
        if not requested or not isinstance(offered, dict):
            return
        held = self._held_on(name_of(node), requested)
        for name in islice(requested, _MOST_REQUESTS):
            total = billionths(offered.get(name)) // ONE
            if total:
                yield from _unit_outcomes(name, requested[name], total, held[name], fits=alike.fits)

    @cached_property
    def _pods_by_node(self) -> Mapping[str, Sequence[Object]]:
        pods = self._survey.view.list("Pod")
        found: defaultdict[str, list[Object]] = defaultdict(list)
        for pod in () if pods is UNKNOWN else pods:
            if isinstance(node := lookup(pod, ("spec", "nodeName")), str):
                found[node].append(pod)
        return found

    def _held_on(self, node: str, resources: Iterable[str]) -> Mapping[str, Counter[str]]:
        """The number of devices of each resource that the holders on a node have."""
        found: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for pod in self._pods_by_node.get(node, ()):
            if (taken := taken_by(pod)) is None:
                continue
            home, amounts = namespace_of(pod), dict(taken[1])
            holder = f"{home}/{name_of(pod)}" if self._survey.audience.may_name(home) else OTHER_NAMESPACES
            for name in resources:
                if amounts.get(name):
                    found[name][holder] += amounts[name] // ONE
        return found


class _Entry(NamedTuple):
    """The outcome of a request for one device."""

    state: OutcomeState
    reason: str = ""
    sentence: str = ""
    holders: tuple[str, ...] = ()


_CHOSEN, _USABLE = _Entry(OutcomeState.CHOSEN), _Entry(OutcomeState.USABLE)


def _subrequests(question: Question) -> Iterator[tuple[int, Claim, Subrequest]]:
    for number, claim in enumerate(question.claims):
        for subrequest in claim.subrequests:
            yield number, claim, subrequest


def _chosen_devices(solution: Solution | None) -> Mapping[_Place, frozenset[str]]:
    """The devices of a solution by claim and request, as `driver/pool/device`."""
    if solution is None or solution.state is not SolutionState.FITS:
        return {}
    found: defaultdict[_Place, set[str]] = defaultdict(set)
    for number, allocation in enumerate(solution.allocations):
        for result in lookup(allocation, ("devices", "results")) or []:
            device = f"{result['driver']}/{result['pool']}/{result['device']}"
            found[number, str(result["request"])].add(device)
    return {place: frozenset(devices) for place, devices in found.items()}


def _outcomes(
    tallies: Mapping[_Place, Tally],
    claims: Sequence[NamedClaim],
    chosen: Mapping[_Place, frozenset[str]],
    holders: Holders,
) -> Iterator[DeviceOutcome]:
    """The outcomes of each request, with names for the same devices in all of them."""
    entries = {place: _entries(tally, chosen.get(place, frozenset()), holders) for place, tally in tallies.items()}
    names = _shown_names(entries)
    for (number, request), of_devices in entries.items():
        grouped: defaultdict[_Entry, list[AllocatableDevice]] = defaultdict(list)
        for device, entry in of_devices.items():
            grouped[entry].append(device)
        for entry, devices in grouped.items():
            yield DeviceOutcome(
                claim=claims[number].name,
                request=request,
                state=entry.state,
                count=len(devices),
                devices=tuple(names[device.id] for device in devices if device.id in names),
                reason=entry.reason,
                sentence=entry.sentence,
                holders=entry.holders,
            )


def _entries(tally: Tally, chosen: frozenset[str], holders: Holders) -> dict[AllocatableDevice, _Entry]:
    """The outcome of a request for each device; devices outside of its class only if all are."""
    found = {device: _CHOSEN if device.id in chosen else _USABLE for device in tally.usable}
    shown = {why: devices for why, devices in tally.rejected.items() if not why.is_outside or not tally.of_class}
    for sentence, why, devices in described_rejections(shown):
        for device in devices:
            found[device] = _rejection_entry(why.check, sentence, holders.of(device.id))
    return found


def _rejection_entry(check: Check, sentence: str, holders: tuple[str, ...]) -> _Entry:
    is_held = check in (Check.IN_USE, Check.COUNTERS) or (check is Check.CAPACITY and bool(holders))
    names = holders if is_held else ()
    rest = len(names) - _MOST_HOLDERS
    shown = (*names[:_MOST_HOLDERS], f"{rest:,} more") if rest > 0 else names
    state = OutcomeState.IN_USE if is_held else OutcomeState.UNSUITABLE
    return _Entry(state, check.value, shorten(sentence, _LONGEST), shown)


def _shown_names(entries: Mapping[_Place, Mapping[AllocatableDevice, _Entry]]) -> dict[str, str]:
    """The names of the devices that are shown, by their ids: those that are chosen, then the first others."""
    chosen = [device for each in entries.values() for device, entry in each.items() if entry is _CHOSEN]
    devices = {device.id: device for device in (*chosen, *(device for each in entries.values() for device in each))}
    shown = [*islice(devices.values(), MOST_DEVICES)]
    counts = Counter(device.name for device in shown)
    return {
        device.id: device.name if counts[device.name] == 1 else f"{device.slice.driver}/{device.name}"
        for device in shown
    }


def _unit_outcomes(
    resource: str, requested: int, total: int, held: Counter[str], *, fits: bool
) -> Iterator[DeviceOutcome]:
    """The outcomes of the devices of a device plugin, which have no names."""
    holders = sorted(held.items(), key=lambda item: (-item[1], item[0]))
    for holder, count in holders[:_MOST_HOLDERS]:
        yield _held_units(resource, count, holder)
    if rest := holders[_MOST_HOLDERS:]:
        yield _held_units(resource, sum(count for _, count in rest), f"{format_count(len(rest), 'more holder')}")
    free = max(0, total - sum(held.values()))
    chosen = min(requested, free) if fits else 0
    for state, count in ((OutcomeState.CHOSEN, chosen), (OutcomeState.USABLE, free - chosen)):
        if count:
            yield DeviceOutcome("", resource, state, count)


def _held_units(resource: str, count: int, holder: str) -> DeviceOutcome:
    in_use = Check.IN_USE.value
    return DeviceOutcome("", resource, OutcomeState.IN_USE, count, (), in_use, f"is in use by {holder}", (holder,))
