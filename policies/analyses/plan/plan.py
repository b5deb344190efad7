"""Plans: the pods, workloads and quotas that a changed configuration would break, also as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotation
from dataclasses import dataclass, field, replace
from fractions import Fraction  # noqa: TC003 - pydantic reads the annotation
from typing import TYPE_CHECKING

from policies.analyses.plan.changes import find_cutover_risks, find_delays, find_takeovers, find_unpredicted
from policies.analyses.plan.disruptions import Disruption, cutover_remedies, disruptions, label_remedies
from policies.analyses.plan.evictions import Evictions, FoundPlace, PlannedEviction, find_evictions, found_places
from policies.analyses.plan.node_changes import NodeChange  # noqa: TC001 - pydantic reads the annotation
from policies.analyses.plan.prediction import predict
from policies.devices.device_taint_rules import KIND as TAINT_RULE
from policies.fleet.operands import cluster_driver, gpu_cluster
from policies.kubernetes.names import format_count, format_list, plural
from policies.kubernetes.objects import filled_record, items_at, lookup, mapping_at, name_of
from policies.kubernetes.quantities import ONE, billionths, parse_integer
from policies.kubernetes.view import UNKNOWN
from policies.outcome import (
    Certainty,
    Feasibility,
    Outcome,
    Situation,
    affected_subjects,
    certain_fits,
    certain_limits,
    compare_fits,
    compare_limits,
    compare_refusals,
    subjects_of,
)
from policies.quota.demands.pods import LabelRequirements
from policies.quota.limits.cluster_quota import CLUSTER_QUOTA
from policies.rules.charges import Unit  # noqa: TC001 - pydantic reads the annotation
from policies.rules.settings import SettingsError, parse_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.analyses.plan.prediction import Prediction
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import Key
    from policies.outcome import FitComparison, LimitComparison, QuotaRefusal, Subject
    from policies.rules.settings import GPUAdmissionPolicy


READ_FROM = ("Node", "Pod", "ResourceClaim", "ResourceSlice", "DeviceClass")
"""Kinds without which a plan is unknown in part."""

_OF_NODES = frozenset(
    {"ClusterPolicy", "ConfigMap", "GPUCluster", "NVIDIADriver", "Node", "ResourceSlice", CLUSTER_QUOTA, "GPUQuota"}
)
"""Kinds that concern pods only by the nodes that they change, and by quotas, which are compared apart."""
_MANY_NODES = 500
"""With more changed nodes than this, everything is compared at once."""


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A change to be planned."""

    before: Situation
    objects: Mapping[Key, Object | None]
    """The objects as they are to be stored; None for those that are to be deleted."""
    namespace: str = ""
    """The only namespace whose pods and quotas are compared; empty for all."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The effects of a change."""

    nodes: tuple[NodeChange, ...]
    """The nodes whose GPUs are configured otherwise."""
    disrupted: tuple[Disruption, ...]
    """Pods that cannot go on."""
    fits: tuple[FitComparison, ...]
    """All that the change can concern, also what is kept."""
    unaffected: tuple[Subject, ...]
    """The pods and claims that it cannot concern, because the changed nodes serve them as before."""
    limits: tuple[LimitComparison, ...]
    refusals: tuple[QuotaRefusal, ...]
    """Of quotas, after the change only, and before it only."""
    unknown: tuple[str, ...]
    """The facts that are unknown or not predicted; sentences without full stops."""
    evictions: Evictions = field(default_factory=Evictions)
    """Pods that changed taints of their devices end, or no longer end."""
    found_places: tuple[FoundPlace, ...] = ()
    """Pods that find a place because a DeviceTaintRule changes."""
    remarks: tuple[str, ...] = ()
    """Resources that get another DeviceClass, and when the change takes effect; sentences without full stops."""
    remedies: Mapping[str, str] = field(default_factory=dict)
    """The remedy for each subject that is lost, changed or may be refused, by its label; imperatives without a full stop."""

    def fits_with(self, outcome: Outcome) -> tuple[FitComparison, ...]:
        """The comparisons with an outcome."""
        return tuple(each for each in self.fits if each.outcome is outcome)

    def certainty_of(self, comparison: FitComparison) -> Certainty:
        """The certainty of a comparison: seen if none of the nodes that fit before or after changes."""
        if comparison.outcome is Outcome.UNKNOWN:
            return Certainty.UNKNOWN
        nodes = comparison.before.nodes | comparison.after.nodes
        return Certainty.SEEN if nodes.isdisjoint(each.node for each in self.nodes) else Certainty.PREDICTED

    @property
    def changed_pods(self) -> Mapping[str, int]:
        """The number of pods by the worse GPUs that they get: `shares instead of whole GPUs`."""
        found: Counter[str] = Counter()
        for each in self.fits:
            for change in each.changes:
                found[change.gist] += change.pods
        return dict(found.most_common())

    @property
    def broken_limits(self) -> tuple[LimitComparison, ...]:
        """The limits that are exceeded, or count other amounts, after the change only."""
        return tuple(each for each in self.limits if each.outcome is Outcome.LOST)

    @property
    def new_refusals(self) -> tuple[QuotaRefusal, ...]:
        """The subjects that quotas refuse after the change only."""
        return tuple(each for each in self.refusals if each.is_new)

    @property
    def is_harmless(self) -> bool:
        """True if nothing breaks, and everything is known."""
        return not (
            self.disrupted
            or self.evictions.ended
            or self.new_refusals
            or self.unknown
            or any(each.refusal for each in self.nodes)
            or self.broken_limits
            or {Outcome.LOST, Outcome.CHANGED, Outcome.UNKNOWN} & {each.outcome for each in self.fits}
            or {Outcome.LOST, Outcome.UNKNOWN} & {each.outcome for each in self.limits}
        )

    @property
    def counts(self) -> Mapping[Outcome, int]:
        """The number of templates and claims with each outcome."""
        return Counter(each.outcome for each in self.fits) + Counter({Outcome.KEPT: len(self.unaffected)})


def plan_change(change: PlannedChange) -> Plan:
    """Predict the cluster after a change, and compare the places of its pods and claims, and its quotas."""
    before = change.before
    prediction = predict(before, change.objects, _settings_after(change))
    subjects = [each for each in subjects_of(*before) if change.namespace in ("", each.namespace)]
    affected, unaffected = _split(subjects, change, prediction)
    clusters = (prediction.after, *prediction.ends)
    compared, *at_ends = (compare_fits(affected, before, prediction.with_held_devices(each)) for each in clusters)
    settled = certain_fits(compared, at_ends, prediction.estimated)
    fits = tuple(_with_doubts(each, prediction) for each in settled)
    counted, *counts = (compare_limits(before, prediction.with_new_pods(each, fits)) for each in clusters)
    limits = certain_limits(counted, counts, prediction.estimated)
    evictions = find_evictions(before, prediction.after, subjects, change.namespace)
    return Plan(
        nodes=prediction.nodes,
        disrupted=tuple(
            each
            for each in disruptions(before.view, prediction.after.view, prediction.nodes)
            if not change.namespace or f" {change.namespace}/" in each.name
        ),
        fits=fits,
        unaffected=unaffected,
        limits=tuple(each for each in limits if not change.namespace or each.counts_in(change.namespace)),
        # Devices that no node shows are charged the most memory that their name allows, so an estimate refuses nothing new.
        refusals=tuple(compare_refusals(subjects, before, prediction.after)),
        evictions=evictions,
        found_places=found_places(fits, prediction.after)
        if any(key[0] == TAINT_RULE for key in change.objects)
        else (),
        unknown=(*_unknown_facts(before, prediction), *find_unpredicted(change.objects, before, prediction.after)),
        remarks=(
            *find_takeovers(subjects, before, prediction.after),
            *find_delays(change.objects, before, prediction.after),
            *find_cutover_risks(change.objects, before, prediction.after),
            *_spared_pods(evictions),
        ),
        remedies={
            each.subject.label: _remedy(each, prediction, change)
            for each in fits
            if each.outcome in (Outcome.LOST, Outcome.CHANGED) or each.after.refusing
        }
        | label_remedies(fits, before, prediction.after, prediction.nodes)
        | cutover_remedies(fits, change.objects, before, prediction),
    )


def _split(
    subjects: Sequence[Subject], change: PlannedChange, prediction: Prediction
) -> tuple[Sequence[Subject], tuple[Subject, ...]]:
    """The subjects that the change can concern, and the others; a change of few nodes concerns few."""
    nodes = {name for kind, _, name in prediction.changed if kind == "Node"}
    # Labels of a namespace decide whether its own pods are converted; quotas are compared apart.
    namespaces = {name for kind, _, name in prediction.changed if kind == "Namespace"}
    kinds = {kind for kind, _, _ in prediction.changed} - {"Namespace"}
    has_other_slices = any(kind == "ResourceSlice" for kind, _, _ in change.objects)
    if not kinds <= _OF_NODES or has_other_slices or len(nodes) > _MANY_NODES:
        return subjects, ()
    after = prediction.with_held_devices(prediction.after)
    found = [
        (each, is_affected or each.namespace in namespaces)
        for each, is_affected in affected_subjects(subjects, change.before, after, frozenset(nodes))
    ]
    return [each for each, is_affected in found if is_affected], tuple(
        each for each, is_affected in found if not is_affected
    )


def _settings_after(change: PlannedChange) -> GPUAdmissionPolicy:
    policies = [each for (kind, _, _), each in change.objects.items() if kind == "GPUAdmissionPolicy"]
    try:
        return parse_settings(policies[0]) if policies and policies[0] is not None else change.before.settings
    except SettingsError:
        return change.before.settings  # Review reports it.


def _unknown_facts(before: Situation, prediction: Prediction) -> Iterator[str]:
    missing = [plural(kind) for kind in READ_FROM if before.view.list(kind) is UNKNOWN]
    if missing:
        yield f"{format_list(missing, len(missing))} are not known, so what depends on them is not compared"
    if prediction.conflict:
        yield f"delete one of the two: {prediction.conflict}, so the operator follows neither, and what nodes offer then is unknown"
    for each in prediction.nodes:
        if each.unknown:
            yield f"what {each.node} offers afterwards is unknown: {each.unknown}"


def _spared_pods(evictions: Evictions) -> Iterator[str]:
    if evictions.spared:
        pods = format_count(evictions.spared, "pod")
        yield f"{pods} with such devices would go on: Kubernetes ends no pod whose devices come from extended resources"


def _with_doubts(comparison: FitComparison, prediction: Prediction) -> FitComparison:
    """The comparison; unknown if it is lost on nodes that are not predicted, or by an estimate."""
    requested = _largest_requests(comparison.subject)
    doubtful = {each.node for each in prediction.nodes if each.unknown and each.gone.isdisjoint(requested)}
    if comparison.outcome is Outcome.LOST and (lost := sorted(doubtful & comparison.before.nodes)):
        sentence = f"unknown: it fits {format_list(lost, 3)} now, and what that offers afterwards is unknown"
        return replace(comparison, outcome=Outcome.UNKNOWN, sentence=sentence)
    if comparison.outcome in (Outcome.LOST, Outcome.CHANGED) and (
        named := _named_estimate(comparison.subject, prediction)
    ):
        sentence = f"unknown because {prediction.estimated}, and it requires {named}"
        return replace(comparison, outcome=Outcome.UNKNOWN, sentence=sentence, changes=())
    return comparison


def _named_estimate(subject: Subject, prediction: Prediction) -> str:
    """The label and the value that a pod requires of its node where it is estimated, or nothing.

    The least and the most that is possible do not tell about one value between them.
    """
    if not prediction.labels or not subject.is_pod:
        return ""
    required = LabelRequirements.of(mapping_at(subject.document, ("spec",)))
    for label, (least, most) in prediction.labels.items():
        for value in sorted(required.values((label,)) or ()):
            number = parse_integer(value)
            if number is not None and least <= number <= most:
                return f"{label}: {value}"
    return ""


def _remedy(comparison: FitComparison, prediction: Prediction, change: PlannedChange) -> str:
    """The remedy for a subject that is lost, changed or may be refused."""
    subject, before, after = comparison.subject, comparison.before, comparison.after
    changed = sorted(before.nodes & {each.node for each in prediction.nodes})
    is_for_all = any(_decides_for_all(change, key) for key in change.objects)
    if comparison.outcome is Outcome.CHANGED:
        cluster = gpu_cluster(prediction.after.view) if is_for_all else None
        if cluster is not None and (shares := cluster_driver(cluster, prediction.after.view).shares):
            every = f"request all shares of a GPU in its claims (capacity.requests.shares: {shares}), or "
            return f"{every if shares.isdecimal() else ''}leave CONSUMABLE_SHARES out of GPUCluster {name_of(cluster)}"
        if is_for_all or not changed:
            return "let its pods request what they need by a node selector, a wish or a claim first"
        return f"leave as many of {format_list(changed, 3)} as they are as its pods need"
    for (kind, _, name), document in change.objects.items():
        if document is None and f"{kind} {name}" in after.why.replace('"', ""):
            return f"keep {kind} {name} until nothing uses it"
    if after.remedy:
        return after.remedy
    offered = {name for node in prediction.nodes for name in node.resources}
    for name in _largest_requests(subject):
        if f"{name}.shared" in offered and name not in offered:
            return f"request {name}.shared in its pods then, or do not rename what is shared"
    if after.room:
        return f"lower its number of pods to {after.room:,}, or leave more nodes as they are"
    if changed and not is_for_all:
        return f"leave one of {format_list(changed, 3)} as it is, or change what the pods request"
    return "change what it requests first"


def _decides_for_all(change: PlannedChange, key: Key) -> bool:
    """True for what all nodes follow: a GPUCluster, or a ClusterPolicy that is created or deleted."""
    kind, namespace, name = key
    is_replaced = change.objects[key] is None or change.before.view.get(kind, name, namespace) is None
    return kind == "GPUCluster" or (kind == "ClusterPolicy" and is_replaced)


def _largest_requests(subject: Subject) -> dict[str, int]:
    """The most that one container of a pod requests of each resource."""
    found: dict[str, int] = {}
    spec = mapping_at(subject.document, ("spec",))
    for container in (*items_at(spec, ("initContainers",)), *items_at(spec, ("containers",))):
        limits = lookup(container, ("resources", "limits"))
        for name, amount in (limits if isinstance(limits, dict) else {}).items():
            found[name] = max(found.get(name, 0), billionths(amount) // ONE)
    return found


@dataclass(frozen=True, slots=True)
class _FitJSON:
    """Where something fits; `room` is null if it is unknown."""

    verdict: Feasibility
    room: int | None
    nodes: int
    why: str
    remedy: str


@dataclass(frozen=True, slots=True)
class _QualityChangeJSON:
    """Pods that would get other GPUs than before, and not as good ones; the GPUs of one pod as text."""

    pods: int
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class _PlannedFitJSON:
    """The places of pods or claims before and after the change, and what to do."""

    subject: str
    namespace: str
    pods: tuple[str, ...]
    count: int
    outcome: Outcome
    sentence: str
    certainty: Certainty
    before: _FitJSON
    after: _FitJSON
    changes: tuple[_QualityChangeJSON, ...]
    remedy: str


@dataclass(frozen=True, slots=True)
class _UseJSON:
    """A limit and its use. Amounts are exact text, memory is in bytes; unknown use is null."""

    hard: Fraction
    used: Fraction | None


@dataclass(frozen=True, slots=True)
class _LimitComparisonJSON:
    """A limit before and after a change; null where it does not exist.

    That of a GPUQuota has a namespace, that of a GPUQuotaGroup a group; the other is empty.
    """

    namespace: str
    group: str
    limit: str
    unit: Unit
    outcome: Outcome
    sentence: str
    before: _UseJSON | None
    after: _UseJSON | None


@dataclass(frozen=True, slots=True)
class _RefusalJSON:
    """Pods that a quota refuses when one of them starts again, after the change or before it only."""

    subject: str
    pods: tuple[str, ...]
    sentence: str


@dataclass(frozen=True, slots=True)
class PlanJSON:
    """The effects of a change. `fits` has only what is not kept, and `counts` counts everything.

    `evicted` are pods that taints of devices end, `noLongerEvicted` those that would have ended without the change,
    `foundPlaces` those that find a place because a DeviceTaintRule changes, and `freed` the limits of quotas that count less
    once the pods have ended.

    `changedPods` has the number of pods that would get other GPUs, by the change: `shares instead of whole GPUs`.
    """

    is_harmless: bool
    nodes: tuple[NodeChange, ...]
    disrupted: tuple[Disruption, ...]
    evicted: tuple[PlannedEviction, ...]
    no_longer_evicted: tuple[str, ...]
    found_places: tuple[FoundPlace, ...]
    freed: tuple[_LimitComparisonJSON, ...]
    fits: tuple[_PlannedFitJSON, ...]
    counts: Mapping[str, int]
    changed_pods: Mapping[str, int]
    limits: tuple[_LimitComparisonJSON, ...]
    refusals: tuple[_RefusalJSON, ...]
    no_longer_refused: tuple[_RefusalJSON, ...]
    unknown: tuple[str, ...]
    remarks: tuple[str, ...]


def plan_json(plan: Plan) -> PlanJSON:
    """The plan as its JSON has it."""
    return filled_record(
        PlanJSON,
        plan,
        evicted=plan.evictions.ended,
        no_longer_evicted=plan.evictions.kept,
        freed=tuple(map(_limit_comparison, plan.evictions.freed)),
        fits=tuple(_fit_comparison(each, plan) for each in plan.fits if each.outcome is not Outcome.KEPT),
        counts={str(outcome): plan.counts.get(outcome, 0) for outcome in Outcome},
        limits=tuple(map(_limit_comparison, plan.limits)),
        refusals=tuple(_refusal(each) for each in plan.refusals if each.is_new),
        no_longer_refused=tuple(_refusal(each) for each in plan.refusals if not each.is_new),
    )


def _refusal(refusal: QuotaRefusal) -> _RefusalJSON:
    return _RefusalJSON(refusal.subject.label, refusal.subject.pod_names, refusal.sentence)


def _fit_comparison(comparison: FitComparison, plan: Plan) -> _PlannedFitJSON:
    subject = comparison.subject
    before, after = (
        filled_record(_FitJSON, fit, nodes=len(fit.nodes)) for fit in (comparison.before, comparison.after)
    )
    return filled_record(
        _PlannedFitJSON,
        comparison,
        subject,
        subject=subject.label,
        pods=subject.pod_names,
        certainty=plan.certainty_of(comparison),
        before=before,
        after=after,
        changes=tuple(
            _QualityChangeJSON(each.pods, each.before.words, each.after.words) for each in comparison.changes
        ),
        remedy=plan.remedies.get(subject.label, ""),
    )


def _limit_comparison(comparison: LimitComparison) -> _LimitComparisonJSON:
    before, after = (
        None if use is None else _UseJSON(use.hard, use.used) for use in (comparison.before, comparison.after)
    )
    return filled_record(_LimitComparisonJSON, comparison, limit=comparison.name, before=before, after=after)
