"""Groups of nodes that share one reason: their devices, and how certain the answer is."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from policies.devices.allocation.capacity import Reason as Check
from policies.devices.allocation.reading import AllocationError
from policies.devices.allocation.slices import TargetNode
from policies.devices.pod_groups import pod_group, pod_group_name
from policies.kubernetes.names import format_count, format_list, list_command, shorten
from policies.kubernetes.objects import lookup, name_of, namespace_of
from policies.kubernetes.quantities import ONE, billionths, taken_by
from policies.kubernetes.versions import Feature
from policies.kubernetes.view import UNKNOWN
from policies.outcome.allocation import SolutionState, device_names
from policies.outcome.grants import Grant, GrantFinder
from policies.outcome.reasons import (
    OTHER_NAMESPACES,
    Holders,
    Reason,
)
from policies.outcome.rejected_devices import Tallies, described_rejections

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.devices.allocation.checks import Question
    from policies.devices.allocation.slices import AllocatableDevice
    from policies.devices.resource_claims import Claim, Subrequest
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.outcome.allocation import Solution
    from policies.outcome.claims import NamedClaim
    from policies.outcome.rejected_devices import Tally
    from policies.outcome.survey import AlikeNodes, Survey


class Certainty(StrEnum):
    """The basis of an answer."""

    SEEN = "seen"
    """On what the cluster shows."""
    ASSUMED = "assumed"
    """Also on assumptions about facts that are unknown, which could turn it; the remarks name them."""
    PREDICTED = "predicted"
    """Also on resources, labels or devices that nodes do not show yet."""
    UNKNOWN = "unknown"
    """There is no answer; the sentence says why."""


_LIST_POD_GROUPS = "kubectl get podgroups.scheduling.k8s.io -A -o yaml > podgroups.yaml"
"""Not a raw path, because the served version is unknown."""
_DEVICE_KINDS = (("DeviceClass", "DeviceClasses"), ("ResourceSlice", "ResourceSlices"))


class Assumption(NamedTuple):
    """A fact that is unknown, and what counts instead."""

    sentence: str
    """With the command that gets the fact; without a full stop."""
    is_optimistic: bool | None
    """True if fewer nodes may fit than it seems; False if more may; None if either."""


def certainty_with(assumed: Iterable[Assumption], *, fits: bool, fits_if_empty: bool) -> Certainty:
    """The certainty of a result that rests on assumptions.

    Optimistic ones cannot turn a result that is negative even so, nor pessimistic ones a positive one.
    """
    could_turn = {True} if fits else {True, False} if fits_if_empty else {False}
    is_in_doubt = any(each.is_optimistic is None or each.is_optimistic in could_turn for each in assumed)
    return Certainty.ASSUMED if is_in_doubt else Certainty.SEEN


def assumptions(survey: Survey) -> Iterator[Assumption]:
    """The unknown facts of the cluster that the results of a survey depend on."""
    question, cluster, usage = survey.question, survey.cluster, survey.resource_usage
    if not cluster.nodes_known:
        sentence = "each node that a ResourceSlice names counts as one without labels, taints and limits"
        yield Assumption(f"no Nodes are known: {sentence} (add: {list_command('Node')})", is_optimistic=True)
    if (question.claims or survey.problem.by_resource) and not cluster.claims_known:
        sentence = "no ResourceClaims are known, so every device counts as free"
        yield Assumption(f"{sentence} (add: {list_command('ResourceClaim')})", is_optimistic=True)
    if question.requests_gpu_resources and Feature.DRAExtendedResource.is_on(survey.view) is not False:
        unknown = {kind: words for kind, words in _DEVICE_KINDS if survey.view.list(kind) is UNKNOWN}
        if unknown:
            sentence = f"no {format_list([*unknown.values()])} are known, so only GPUs of device plugins count"
            commands = "; ".join(map(list_command, unknown))
            yield Assumption(f"{sentence} (add: {commands})", is_optimistic=False)
    if question.pod is None:
        return
    document = question.pod.document
    if any(each.is_new for each in question.claims) and pod_group(document, question.namespace, survey.view) is UNKNOWN:
        sentence = f"PodGroup {shorten(pod_group_name(document))} is unknown, so the pod counts with claims of its own"
        yield Assumption(f"{sentence} (add: {_LIST_POD_GROUPS})", is_optimistic=None)
    if not cluster.nodes_known:
        return
    if not usage.pods_known:
        sentence = "no Pods are known, so nodes count as empty except for devices"
        yield Assumption(f"{sentence} (add: {list_command('Pod')})", is_optimistic=True)
    elif not usage.others_known:
        sentence = (
            "only pods that may get GPUs are known, so cpu and memory that other pods take of nodes count as free"
        )
        yield Assumption(sentence, is_optimistic=True)


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

    def _held_on(self, node: str, resources: Iterable[str]) -> Mapping[str, Counter[str]]:
        """The number of devices of each resource that the holders on a node have."""
        found: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for pod in self._survey.view.derive(_pods_by_node).get(node, ()):
            if (taken := taken_by(pod)) is None:
                continue
            home, amounts = namespace_of(pod), dict(taken[1])
            holder = f"{home}/{name_of(pod)}" if self._survey.audience.may_name(home) else OTHER_NAMESPACES
            for name in resources:
                if amounts.get(name):
                    found[name][holder] += amounts[name] // ONE
        return found


def _pods_by_node(view: ClusterView) -> Mapping[str, Sequence[Object]]:
    """The known pods of each node; call it as `view.derive(_pods_by_node)`."""
    found: defaultdict[str, list[Object]] = defaultdict(list)
    for pod in view.known_objects("Pod"):
        if isinstance(node := lookup(pod, ("spec", "nodeName")), str):
            found[node].append(pod)
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


_MOST_GROUPS = 8
_MOST_NAMES = 8


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes with the same reason; if they fit, the reason is null, and a pod gets the same on each."""

    count: int
    nodes: tuple[str, ...]
    """The first names, in the order of the cluster; `count` has the number of nodes."""
    fits: bool
    """True if each of the nodes fits now."""
    fits_if_empty: bool
    """True if each would fit if nothing were in use."""
    reason: Reason | None = None
    """The reason why the nodes do not fit; None if they fit. Of several, one that remains if nothing is in use."""
    devices: tuple[str, ...] = ()
    """The devices on the first node, as `request: gpu-0..gpu-3`; empty if it does not fit."""
    outcomes: tuple[DeviceOutcome, ...] = ()
    """The outcomes of each request for the devices of the first node; of many devices, the first are named."""
    other_reasons: tuple[Reason, ...] = ()
    """Further reasons why all or some of the nodes do not fit."""
    certainty: Certainty = Certainty.SEEN
    """The certainty of whether the nodes fit; if it is unknown, the reason says why."""
    gets: tuple[str, ...] = ()
    """The GPUs that one pod gets, by kind: `1 quarter of Tesla-T4 (time-slicing)`; empty if none or unknown."""


class NodeGroups(NamedTuple):
    """The groups of all nodes, as far as they are shown."""

    shown: tuple[NodeGroup, ...] = ()
    """Those that fit first, then those that nearly fit, the largest first."""
    groups_left_out: int = 0
    nodes_left_out: int = 0


def node_groups(survey: Survey, assumed: Sequence[Assumption]) -> NodeGroups:
    """The groups of a survey with their reasons and devices."""
    ranked: list[tuple[Grant, Sequence[AlikeNodes]]] = [(Grant(), groups) for groups in survey.ranked_groups()]
    if survey.count():
        # Those that fit are first, in one group.
        granted = GrantFinder(survey.view).picked_on_nodes(survey)
        ranked[:1] = sorted(granted.items(), key=lambda each: -_node_count(each[1]))
    devices = DeviceOutcomes(survey)
    left_out = ranked[_MOST_GROUPS:]
    return NodeGroups(
        tuple(_group(survey, groups, grant, devices, assumed) for grant, groups in ranked[:_MOST_GROUPS]),
        len(left_out),
        sum(_node_count(groups) for _, groups in left_out),
    )


def _node_count(groups: Sequence[AlikeNodes]) -> int:
    return sum(len(alike.positions) for alike in groups)


def _group(
    survey: Survey, groups: Sequence[AlikeNodes], grant: Grant, devices: DeviceOutcomes, assumed: Sequence[Assumption]
) -> NodeGroup:
    first = min(groups, key=lambda alike: alike.positions[0])
    names, reasons, solution = survey.names(groups), survey.reasons(groups), first.solution
    return NodeGroup(
        count=len(names),
        nodes=tuple(names[:_MOST_NAMES]) if survey.audience.sees_nodes else (),
        fits=first.fits,
        fits_if_empty=first.fits_if_empty,
        reason=next(iter(reasons), None),
        other_reasons=reasons[1:],
        devices=device_names(solution.allocations)
        if solution is not None and solution.state is SolutionState.FITS
        else (),
        outcomes=devices.of(first),
        certainty=Certainty.UNKNOWN
        if first.is_unknown
        else certainty_with(assumed, fits=first.fits, fits_if_empty=first.fits_if_empty),
        gets=grant.words_by_kind,
    )
