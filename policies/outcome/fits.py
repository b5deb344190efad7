"""Fits: the places of a subject in one cluster, as if its own pods had ended."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.devices.allocation.usage import Held, Usage
from policies.devices.native_quotas import QuotaUse, counts_claims
from policies.devices.resource_claims import Claim
from policies.fleet.cluster_digest import Nodes, NoUsage, ResourceUsage, read_cluster
from policies.kubernetes.bounds import check_cancelled
from policies.kubernetes.objects import items_at, lookup, mappings_at, name_of
from policies.kubernetes.view import UNKNOWN, ChangedView
from policies.outcome.grants import GrantFinder
from policies.outcome.outcome import Feasibility, simulate
from policies.outcome.question import pod_question, questions
from policies.outcome.replicas import ReplicaCount, count_replicas
from policies.outcome.survey import Survey
from policies.quota.limits.cluster_quota import without_quotas
from policies.rules.decision import TEMPLATE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from policies.fleet.cluster_digest import Cluster, Holding
    from policies.kubernetes.objects import Object
    from policies.kubernetes.quantities import Amounts
    from policies.kubernetes.view import ClusterView, Key
    from policies.outcome.grants import Grant
    from policies.outcome.outcome import PlacementOutcome
    from policies.outcome.question import Question
    from policies.outcome.survey import AlikeNodes
    from policies.outcome.workloads import Subject
    from policies.rules.settings import GPUAdmissionPolicy


class Situation(NamedTuple):
    """A cluster, and the administrator's settings in it."""

    view: ClusterView
    settings: GPUAdmissionPolicy


@dataclass(frozen=True, slots=True)
class Fit:
    """The places of a subject, after its own pods have ended and everything else runs on."""

    verdict: Feasibility
    """FITS, FULL, IMPOSSIBLE, BLOCKED or UNKNOWN; never SCHEDULED."""
    room: int | None
    """The number of the subject's pods that find a place at once; None if it is unknown."""
    nodes: frozenset[str]
    """The nodes on which one would fit if nothing were in use; empty if nodes were not surveyed."""
    why: str
    """The verdict as a clause, with what is missing where it does not fit."""
    remedy: str = ""
    """The remedy for an obstacle, an imperative; empty if the sentence says enough."""
    grants: Mapping[Grant, int] = field(default_factory=dict)
    """The GPUs that a pod can get where it finds a place, each with the number of pods that can get them at once, at most
    the subject's own. If no pod finds a place now: those if nothing is in use, with the subject's number."""
    held: Mapping[Grant, int] = field(default_factory=dict)
    """The GPUs that the running pods of the subject hold, or the claim, each with the number of pods."""

    refusing: frozenset[str] = frozenset()
    """The nodes that the scheduler may choose now, and whose device plugin then refuses the pod."""

    @property
    def is_possible(self) -> bool:
        """True if some node could take a pod now, or when others end."""
        return self.verdict in (Feasibility.FITS, Feasibility.FULL)


class Service(NamedTuple):
    """The places of a subject on some nodes; equal in two clusters if these nodes serve it alike."""

    requested: tuple[Any, ...]
    """The requests of the pods after admission, and obstacles on every node."""
    nodes: Mapping[str, tuple[bool, bool, int | None]] = MappingProxyType({})
    """By node: whether one fits now, whether one would if nothing were in use, and the room without devices."""
    grants: Mapping[Grant, frozenset[str]] = MappingProxyType({})
    """The GPUs that one pod gets if nothing is in use, and the nodes where it gets them."""
    room: int = 0
    """The number of its pods that find a place on these nodes at once."""
    refusing: frozenset[str] = frozenset()
    """The nodes that the scheduler may choose, and whose device plugin then refuses the pod."""
    failure: object = None
    """The error that stops the scheduler, or the number of nodes that are unknown."""


class _Places(NamedTuple):
    """The nodes that one question fits."""

    if_empty: frozenset[str]
    """The nodes that fit if nothing is in use."""
    now: Mapping[Grant, Sequence[AlikeNodes]]
    """The nodes that fit now, by what one pod gets there."""


class FitFinder:
    """Finds the fits of many subjects in one cluster, which is digested once."""

    def __init__(self, situation: Situation) -> None:
        self._view, self._settings = situation
        self._cluster = self._view.derive(read_cluster)
        self._holding_of = _by_pod(self._cluster.holding)
        self._grants = GrantFinder(self._view)
        self._usage = ResourceUsage(self._view)
        self.has_local_devices = self._view.derive(_devices_are_local)
        """True if every device can be reached from one node only."""
        self._shared: dict[str, tuple[PlacementOutcome, _Places]] = {}
        """The outcomes and places of questions as if no pod had ended; subjects with equal requests share them."""
        self._node_sets: dict[frozenset[str], frozenset[str]] = {}
        """Each set of nodes once, because most subjects fit the same nodes."""

    def fit(self, subject: Subject, expected: Collection[str] = (), *, counts_held: bool = True) -> Fit:
        """The places of a subject.

        Args:
            subject: The pods of a template, or a claim.
            expected: Nodes on which it fits in another cluster; the reason is that of these nodes.
            counts_held: False to leave out the GPUs that it holds.
        """
        check_cancelled()
        outcome, places = self._whole_outcome(subject, self._question(subject))
        if outcome.obstacles:
            first = outcome.obstacles[0]
            room = None if outcome.verdict is Feasibility.UNKNOWN else 0
            rule = f" [{first.rule}]" if first.rule else ""
            return Fit(outcome.verdict, room, frozenset(), f"{first.sentence}{rule}", first.remedy)
        return Fit(
            outcome.verdict,
            self._room(subject, outcome),
            places.if_empty,
            _why(outcome, expected),
            grants=self._rooms(subject, outcome, places.now),
            held=self._held_grants(subject) if counts_held else {},
            refusing=outcome.refusing,
        )

    def nodes_now(self, subject: Subject) -> tuple[str, ...]:
        """The nodes on which a pod of the subject finds a place now, once its own pods have ended, by name."""
        outcome, places = self._whole_outcome(subject, self._question(subject))
        if outcome.survey is None or outcome.obstacles:
            return ()
        return tuple(sorted({name for groups in places.now.values() for name in outcome.survey.names(groups)}))

    def service_of(self, subject: Subject, names: frozenset[str]) -> Service:
        """The places of a subject on some nodes, after its own pods have ended.

        The time depends on the number of these nodes, and not on the size of the cluster.
        """
        check_cancelled()
        question = self._question(subject)
        spec = question.pod.spec if question.pod is not None else None
        claims = [claim.claim.document.get("spec") for claim in (*question.claims, *question.allocated)]
        requested = (question.obstacles, spec, claims, question.resources, self._cluster.problem)
        if question.obstacles or self._cluster.problem:
            return Service(requested)
        found_nodes = (self._view.get("Node", name) for name in sorted(names))
        cluster = replace(self._cluster, nodes=Nodes(node for node in found_nodes if isinstance(node, dict)))
        outcome = self._outcome(subject, question, cluster)
        unknown = 0 if outcome.survey is None else outcome.survey.unknown
        room = 0 if outcome.replicas is None else outcome.replicas.count
        survey = outcome.survey
        granted = {} if survey is None else self._grants.on_nodes(survey, if_empty=True)
        names_by_grant = {} if survey is None else {each: frozenset(survey.names(on)) for each, on in granted.items()}
        return Service(
            requested,
            _served_nodes(outcome),
            names_by_grant,
            room,
            outcome.refusing,
            outcome.obstacles or unknown,
        )

    def _whole_outcome(self, subject: Subject, question: Question) -> tuple[PlacementOutcome, _Places]:
        """The outcome and the places for one pod of the subject, once its own pods have ended.

        Only the nodes on which its own pods run, or hold devices, differ from the outcome for others with equal requests.
        """
        key = _request_key(question, self._view) if self.has_local_devices else ""
        if not key:
            return self._with_places(self._outcome(subject, question, self._cluster))
        if key not in self._shared:
            self._shared[key] = self._with_places(
                simulate(question, self._view, self._settings, cluster=self._cluster, resource_usage=self._usage)
            )
        shared, places = self._shared[key]
        if shared.obstacles or shared.survey is None:
            return self._with_places(self._outcome(subject, question, self._cluster))
        cluster, held = self._without_own_devices(subject, self._cluster)
        usage, nodes = self._without_own_amounts(subject)
        nodes |= {self._node_of_pool(device) for each in held for device in (*each.devices, *dict(each.shares))}
        positions = {self._cluster.nodes.positions[name] for name in nodes if name in self._cluster.nodes.positions}
        if not positions:
            return shared, places
        survey = shared.survey.with_less_use(positions, cluster, usage)
        if not isinstance(survey, Survey):
            # An error is reported there.
            return self._with_places(self._outcome(subject, question, self._cluster))
        names = self._cluster.nodes.each(name_of)
        own = frozenset(names[position] for position in positions)
        empty = [alike.positions for alike in survey.groups if alike.fits_if_empty]
        if_empty = frozenset(names[position] for each in empty for position in positions.intersection(each))
        if if_empty != places.if_empty & own:
            places = _Places(self._same_set(places.if_empty - own | if_empty), {})
        return replace(shared, survey=survey), places._replace(now=self._grants.on_nodes(survey))

    def _outcome(self, subject: Subject, question: Question, cluster: Cluster) -> PlacementOutcome:
        """The outcome for one pod of the subject, once its own pods have ended."""
        cluster, _ = self._without_own_devices(subject, cluster)
        usage, _ = self._without_own_amounts(subject)
        return simulate(question, self._view, self._settings, cluster=cluster, resource_usage=usage)

    def _without_own_amounts(self, subject: Subject) -> tuple[ResourceUsage, set[str]]:
        """The usage of nodes once the subject's own pods have ended, and the nodes where they run."""
        usage = self._usage
        by_node: dict[str, list[Amounts]] = {}
        for taken in filter(None, subject.taken):
            by_node.setdefault(taken[0], []).append(taken[1])
        for node, amounts in by_node.items() if usage.pods_known else ():
            usage = usage.without(node, amounts)
        return usage, set(by_node)

    def _node_of_pool(self, device: str) -> str:
        """The node that a device belongs to, which no other node reaches."""
        driver, _, path = device.partition("/")
        index = self._cluster.index
        slices = () if index is None else index.of_pool((driver, path.rpartition("/")[0]))
        return next((found.selection.node_name for found in slices if found.selection.node_name), "")

    def _question(self, subject: Subject) -> Question:
        """The question of the subject, which is created anew; quotas are compared apart."""
        changed = without_quotas(subject.namespace, self._view)
        if not subject.is_pod:
            document = {key: value for key, value in subject.document.items() if key != "status"}
            view = ChangedView(self._view, changed)
            (question,) = questions(document, subject.namespace, view, self._settings, found=True)
            return replace(question, label=subject.label)
        own = {name_of(pod) for pod in subject.pods}
        for name in _shared_claims(subject.document):
            claim = self._view.get("ResourceClaim", name, subject.namespace)
            if isinstance(claim, dict) and own.issuperset(str(each.get("name")) for each in Claim(claim).consumers):
                # No other pod uses it, so it loses its devices when these pods end.
                changed["ResourceClaim", subject.namespace, name] = {**claim, "status": {}}
        changed |= templates_of_claims(subject.document, subject.pods, subject.namespace, self._view)
        view = ChangedView(self._view, changed)
        question = pod_question(
            subject.document,
            subject.label,
            subject.namespace,
            view,
            self._settings,
            stored=False,
            quota_use=QuotaUse.NOTHING,
        )
        return replace(question, node_name="")

    def _without_own_devices(self, subject: Subject, cluster: Cluster) -> tuple[Cluster, list[Held]]:
        """The cluster once the subject's own pods have ended, and the devices that they hold."""
        if subject.is_pod:
            own = [each for name in subject.pod_names for each in self._holding_of.get(name, ())]
            names = set(subject.pod_names)
            held = [each.held for each in own if names.issuperset(each.pods)]
        else:
            held = [Held.by(Claim(subject.document).allocated_devices)]
        if not any(map(any, held)):
            return cluster, []
        if any(each.shares for each in held):
            released = set(map(id, held))
            usage = Usage.of_allocations(each.held for each in cluster.holding if id(each.held) not in released)
        else:
            devices = {device for each in held for device in each.devices}
            usage = cluster.usage.without_devices(devices)
        return replace(cluster, usage=usage), held

    def _room(self, subject: Subject, outcome: PlacementOutcome) -> int | None:
        """The number of the subject's pods that find a place at once; counting ends at its own number."""
        survey = outcome.survey
        if survey is None or not (now := survey.count()):
            return None if survey is not None and survey.unknown else 0
        shares = any(claim.shared for claim in (*survey.problem.claims, *survey.question.allocated))
        if subject.count <= 1 or (now >= subject.count and self.has_local_devices and not shares):
            return subject.count
        placed = outcome.replicas
        if placed is None or placed.count >= subject.count:
            return subject.count
        return None if placed.at_least else placed.count

    def _rooms(
        self, subject: Subject, outcome: PlacementOutcome, granted: Mapping[Grant, Sequence[AlikeNodes]]
    ) -> Mapping[Grant, int]:
        """The GPUs that pods of a subject get, with the number that can get them at once; see `Fit.grants`."""
        survey = outcome.survey
        if survey is None or not granted:
            return dict.fromkeys(self._grants.on_nodes(survey, if_empty=True), subject.count) if survey else {}
        shares = any(claim.shared for claim in (*survey.problem.claims, *survey.question.allocated))
        if len(granted) == 1 or shares:
            return dict.fromkeys(granted, subject.count)
        rooms = {}
        for grant, groups in granted.items():
            room = sum(len(alike.positions) for alike in groups)
            if room < subject.count or not self.has_local_devices:
                room = count_replicas(survey, groups).count
            rooms[grant] = min(subject.count, room)
        return rooms

    def _held_grants(self, subject: Subject) -> Mapping[Grant, int]:
        """The GPUs that the running pods of a subject hold, or the claim, each with the number of pods."""
        if not subject.is_pod:
            allocated = Claim(subject.document).allocated_devices
            return {self._grants.of_claim(Held.by(allocated)): 1} if allocated else {}
        holdings = self._holding_of
        return Counter(
            self._grants.held_by(
                *taken, [each.held for each in holdings.get(f"{subject.namespace}/{name_of(pod)}", ())]
            )
            for pod, taken in zip(subject.pods, subject.taken, strict=True)
            if taken is not None
        )

    def _with_places(self, outcome: PlacementOutcome) -> tuple[PlacementOutcome, _Places]:
        survey = outcome.survey
        if survey is None:
            return outcome, _Places(frozenset(), {})
        empty = [alike for alike in survey.groups if alike.fits_if_empty]
        return outcome, _Places(self._same_set(survey.names(empty)), self._grants.on_nodes(survey))

    def _same_set(self, names: Iterable[str]) -> frozenset[str]:
        found = frozenset(names)
        return self._node_sets.setdefault(found, found)


def _request_key(question: Question, view: ClusterView) -> str:
    """A key, equal for questions that have the same answer on each node.

    It is empty for a question that cannot share its answer: one with obstacles, or with claims of several pods.
    """
    if question.obstacles or question.allocated or any(claim.shared or claim.group for claim in question.claims):
        return ""
    spec = question.pod.spec if question.pod is not None else {}
    containers = (*mappings_at(spec, ("initContainers",)), *mappings_at(spec, ("containers",)))
    # A ResourceQuota can refuse the claim that the scheduler makes for extended resources in its namespace.
    is_limited = any(counts_claims(each, view) for each in view.known_or_reviewed("ResourceQuota", question.namespace))
    parts = [
        question.pod is None,
        [spec.get(field) for field in ("nodeSelector", "affinity", "tolerations")],
        [lookup(container, ("resources", "limits")) for container in containers],
        dict(question.resources),
        [(claim.name, claim.claim.document.get("spec")) for claim in question.claims],
        question.is_one_per_node,
        question.namespace if is_limited else "",
    ]
    return json.dumps(parts, sort_keys=True)


def _by_pod(holding: Sequence[Holding]) -> Mapping[str, Sequence[Holding]]:
    """The claims that hold devices, by each pod that uses them."""
    found: dict[str, list[Holding]] = {}
    for each in holding:
        for pod in each.pods:
            found.setdefault(pod, []).append(each)
    return found


def _devices_are_local(view: ClusterView) -> bool:
    """True if every device can be reached from one node only."""
    slices = view.list("ResourceSlice")
    return slices is UNKNOWN or all(lookup(each, ("spec", "nodeName")) for each in slices)


def _shared_claims(pod: Object) -> list[str]:
    """The claims that a pod names, other than those that are made for it."""
    found = (lookup(each, ("resourceClaimName",)) for each in items_at(pod, ("spec", "resourceClaims")))
    return [name for name in found if isinstance(name, str)]


def templates_of_claims(
    document: Object, pods: Sequence[Object], namespace: str, view: ClusterView
) -> Mapping[Key, Object]:
    """Templates of a pod that the view does not know, from the claims of stored pods like it."""
    found: dict[Key, Object] = {}
    made = {
        str(each.get("name")): each.get("resourceClaimName")
        for pod in pods[:1]
        for each in mappings_at(pod, ("status", "resourceClaimStatuses"))
    }
    for entry in items_at(document, ("spec", "resourceClaims")):
        template, name = lookup(entry, ("resourceClaimTemplateName",)), made.get(str(lookup(entry, ("name",))))
        if not (isinstance(template, str) and isinstance(name, str)):
            continue
        claim = view.get("ResourceClaim", name, namespace)
        if isinstance(claim, dict) and view.get(TEMPLATE, template, namespace) is UNKNOWN:
            spec = {"spec": claim.get("spec")}
            metadata = {"name": template, "namespace": namespace}
            found[TEMPLATE, namespace, template] = {
                "apiVersion": claim.get("apiVersion"),
                "kind": TEMPLATE,
                "metadata": metadata,
                "spec": spec,
            }
    return found


def _served_nodes(outcome: PlacementOutcome) -> Mapping[str, tuple[bool, bool, int | None]]:
    """For each node: it fits now, it would fit if nothing were in use, and the room without devices."""
    survey = outcome.survey
    if survey is None:
        return {}
    return {
        name_of(survey.cluster.nodes[position]): (alike.fits, alike.fits_if_empty, survey.checks.room(position))
        for alike in survey.groups
        for position in alike.positions
    }


def _why(outcome: PlacementOutcome, expected: Collection[str]) -> str:
    """The headline, and the reason on the expected nodes, else on those that nearly fit."""
    survey = outcome.survey
    if survey is None or survey.count():
        return outcome.headline()
    for groups in survey.ranked_groups(expected or None) or survey.ranked_groups():
        if reasons := survey.reasons(groups):
            names = survey.names(groups)
            where = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
            return f"{outcome.headline()}; on {where}: {reasons[0].sentence}"
    return outcome.headline()


_MOST_GRANTS = 16
"""Different GPUs that a pod can get and that are counted by themselves."""


@dataclass(frozen=True, slots=True)
class DeviceRoom:
    """The number of equal pods or claims that find a place at once."""

    outcome: PlacementOutcome
    """Of one of them, now."""
    now: ReplicaCount
    if_empty: ReplicaCount
    """If nothing were in use."""
    by_grant: Mapping[str, tuple[ReplicaCount, ReplicaCount]] = field(default_factory=dict)
    """Both numbers for the GPUs that one of them can get, in words; where it has a choice, a place counts for each."""
    nodes: frozenset[str] = frozenset()
    """The nodes on which one would fit if nothing were in use."""
    key: str = ""
    """Equal for questions with equal answers; empty if the answer is for one question only."""


def device_room(question: Question, view: ClusterView, settings: GPUAdmissionPolicy) -> DeviceRoom:
    """The number of pods or claims like that of a question that a cluster holds at once."""
    outcome = simulate(question, view, settings)
    if outcome.survey is None:
        return DeviceRoom(outcome, ReplicaCount(0), ReplicaCount(0))
    own = (Held.by(named.claim.allocated_devices) for named in question.allocated)
    cluster = replace(view.derive(read_cluster), usage=Usage.of_allocations(own), holding=())
    empty = simulate(question, view, settings, cluster=cluster, resource_usage=NoUsage(view))
    finder, none = GrantFinder(view), ReplicaCount(0)
    now, if_empty = _by_grant(outcome.survey, finder), _by_grant(empty.survey, finder)
    fitting = [] if empty.survey is None else [alike for alike in empty.survey.groups if alike.fits]
    return DeviceRoom(
        outcome,
        _number_of(outcome.survey),
        none if empty.survey is None else _number_of(empty.survey),
        {words: (now.get(words, none), if_empty.get(words, none)) for words in sorted({**now, **if_empty})},
        frozenset() if empty.survey is None else frozenset(empty.survey.names(fitting)),
        _request_key(question, view),
    )


def _by_grant(survey: Survey | None, finder: GrantFinder) -> Mapping[str, ReplicaCount]:
    if survey is None:
        return {}
    grants = finder.on_nodes(survey)
    if len(grants) == 1:
        return {grant.words: _number_of(survey) for grant in grants}
    return {grant.words: _number_of(survey, groups) for grant, groups in islice(grants.items(), _MOST_GRANTS)}


def _number_of(survey: Survey, groups: Sequence[AlikeNodes] | None = None) -> ReplicaCount:
    """The number of pods or claims that find a place now; of a DaemonSet, one on each node."""
    if not survey.question.is_one_per_node:
        found = count_replicas(survey, groups)
        return found if groups is not None or not survey.unknown else replace(found, at_least=True)
    fitting = [alike for alike in (survey.groups if groups is None else groups) if alike.fits]
    return ReplicaCount(sum(len(alike.positions) for alike in fitting), at_least=bool(survey.unknown))
