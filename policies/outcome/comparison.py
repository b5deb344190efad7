"""Comparisons: what a change of the cluster does to the places and quotas of its pods and claims."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from policies.admission import review
from policies.kubernetes.bounds import check_cancelled
from policies.kubernetes.names import format_count, format_list
from policies.kubernetes.objects import DEFAULT_NAMESPACE, lookup, name_of, namespace_of
from policies.kubernetes.view import UNKNOWN, ChangedView
from policies.outcome.fits import Fit, FitFinder
from policies.outcome.grants import quality_changes
from policies.outcome.outcome import Feasibility
from policies.quota.charging import origin_of
from policies.quota.counter import uid_of
from policies.quota.counting import namespace_holdings, namespaces_of
from policies.quota.ledger.ledger import Ledger
from policies.quota.ledger.open_charges import ZERO, subtract_amounts, sum_amounts
from policies.quota.ledger.status import Count, Versions
from policies.quota.limits.amounts import amount_of_limit
from policies.quota.limits.cluster_quota import group_document, groups_with_members, has_quota, quotas_shown
from policies.quota.limits.quota import GROUP, QUOTA_NAME, QuotaError, parse_quota
from policies.quota.outcomes import countable_charge, within_quota
from policies.rules.decision import Severity
from policies.rules.request import Request
from policies.rules.settings.exemptions import exemption_in_cluster

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from fractions import Fraction

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Key
    from policies.outcome.fits import Situation
    from policies.outcome.grants import QualityChange
    from policies.outcome.workloads import Subject
    from policies.quota.limits.quota import Quota
    from policies.rules.charges import Amounts, Unit
    from policies.rules.decision import Finding
    from policies.rules.settings.choices import Quotas


MOST_SUBJECTS = 2_000
"""Templates that are compared; each takes up to 0.1 seconds in a cluster of 5,000 nodes. The rest is unknown."""
_MOST_CHANGES = 3
"""Changes that a sentence has."""


class Outcome(StrEnum):
    """The fate of a fact when the cluster changes."""

    KEPT = "kept"
    """It is the same, or as good."""
    CHANGED = "changed"
    """It is of another quality, and not a better one."""
    LOST = "lost"
    GAINED = "gained"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class FitComparison:
    """The places of one subject before and after a change."""

    subject: Subject
    before: Fit
    after: Fit
    outcome: Outcome
    sentence: str
    """The fate of the subject, a clause without a full stop."""
    changes: tuple[QualityChange, ...] = ()
    """Pods that find a place, and get GPUs that are not as good as before; most of them first."""

    @property
    def changed(self) -> int:
        """The number of pods that get GPUs that are not as good as before."""
        return sum(each.pods for each in self.changes)

    @property
    def changes_text(self) -> str:
        """The changes as a clause: `2 pods would each get 1 half of Tesla-T4 instead of 1 whole Tesla-T4`."""
        thing = "pod" if self.subject.is_pod else "claim"
        return "; ".join(
            f"{format_count(each.pods, thing)} would {'each ' if each.pods > 1 else ''}get {each.words}"
            for each in self.changes[:_MOST_CHANGES]
        )


class FitComparer:
    """Compares where subjects find a place in two clusters, each alone while everything else runs on.

    Each subject is judged as if its own pods ended and were created again. What several subjects would take from each
    other when all of them start again is not counted.

    Quality counts: the GPUs that the running pods of a subject hold, or, if none runs, that they would get, must be there
    again. A pod is changed if it finds a place and gets GPUs of another product, shares instead of devices, MIG devices
    instead of whole GPUs, or less memory. Pods for which there is a choice get what they had. Pods that would not get what
    they hold even without the change are compared with what they would get. More choices, and better GPUs (a whole GPU
    instead of a share, more memory), leave a subject KEPT; it is GAINED only if more pods find a place. It is UNKNOWN
    what becomes of pods for which the scheduler may choose a node after the change whose device plugin refuses them.
    """

    def __init__(self, before: Situation, after: Situation) -> None:
        """Digest both clusters.

        Args:
            before: The cluster as it is.
            after: The cluster as it would be; its digests must differ where it does (`policies.kubernetes.view.ChangedView`).
        """
        self._before, self._after = FitFinder(before), FitFinder(after)
        self._was: dict[int, tuple[Subject, Fit]] = {}
        """The places before, by the identity of the subject, which is kept so that no other gets the same."""
        self.compared = 0
        """The number of subjects so far, which is bounded by `MOST_SUBJECTS`."""

    def change(self, after: Situation) -> None:
        """Compare with another cluster from now on; what is known of the one before stays known."""
        self._after, self.compared = FitFinder(after), 0

    def compare(self, subject: Subject) -> FitComparison:
        """The places of a subject before and after; unknown beyond `MOST_SUBJECTS`."""
        self.compared += 1
        if self.compared > MOST_SUBJECTS:
            skipped = Fit(Feasibility.UNKNOWN, None, frozenset(), f"more than {MOST_SUBJECTS:,} templates to compare")
            return FitComparison(subject, skipped, skipped, Outcome.UNKNOWN, f"not compared: {skipped.why}")
        if id(subject) not in self._was:
            if len(self._was) >= MOST_SUBJECTS:
                self._was.clear()
            self._was[id(subject)] = subject, self._before.fit(subject)
        _, was = self._was[id(subject)]
        will_be = self._after.fit(subject, was.nodes, counts_held=False)
        outcome = _fit_outcome(was, will_be)
        if outcome is not Outcome.LOST and will_be.is_possible and (refusing := will_be.refusing - was.refusing):
            nodes = sorted(refusing)
            where = format_list(nodes) if len(nodes) <= _MOST_CHANGES else format_count(len(nodes), "node")
            example = "nvidia.com/gpu.sharing-strategy: none"
            remedy = f"keep it off {where} by its node selector or affinity, for example {example}"
            will_be = replace(will_be, remedy=remedy)
            return FitComparison(subject, was, will_be, Outcome.UNKNOWN, f"may be refused: {will_be.why}")
        changes = _changes(subject, was, will_be)
        sentence = _sentence(subject, was, will_be, outcome)
        compared = FitComparison(subject, was, will_be, outcome, sentence, changes)
        if changes and outcome in (Outcome.KEPT, Outcome.GAINED):
            return replace(compared, outcome=Outcome.CHANGED, sentence=compared.changes_text)
        return replace(compared, sentence=f"{sentence}; {compared.changes_text}") if changes else compared


def compare_fits(subjects: Iterable[Subject], before: Situation, after: Situation) -> Iterator[FitComparison]:
    """Compare where subjects find a place in two clusters, as `FitComparer` does."""
    return map(FitComparer(before, after).compare, subjects)


def affected_subjects(
    subjects: Iterable[Subject],
    before: Situation,
    after: Situation,
    nodes: frozenset[str],
) -> Iterator[tuple[Subject, bool]]:
    """Each subject, and whether a change of some nodes can concern it.

    Args:
        subjects: Those of `subjects_of`.
        before: The cluster as it is.
        after: The cluster as it would be.
        nodes: The names of all nodes that differ, or whose devices differ; nothing else may differ that places depend on.
    """
    first, then = FitFinder(before), FitFinder(after)
    is_exact = first.has_local_devices and then.has_local_devices
    for subject in subjects:
        was, will_be = first.service_of(subject, nodes), then.service_of(subject, nodes)
        is_same = was == will_be
        if not is_same and was.requested == will_be.requested and not (was.failure or will_be.failure):
            # The nodes on which its pods run are as before: each finds the place again that it has.
            own = frozenset(node for pod in subject.pods if (node := _node_of(pod))) - nodes
            is_same = (
                bool(own) and first.service_of(subject, own).room >= subject.count and will_be.refusing <= was.refusing
            )
        yield subject, not (is_exact and is_same)


def _node_of(pod: Object) -> str:
    node = lookup(pod, ("spec", "nodeName"))
    return node if isinstance(node, str) else ""


def _fit_outcome(before: Fit, after: Fit) -> Outcome:
    if Feasibility.UNKNOWN in (before.verdict, after.verdict) or before.room is None or after.room is None:
        return Outcome.UNKNOWN
    was, will_be = (before.is_possible, before.room), (after.is_possible, after.room)
    return Outcome.KEPT if was == will_be else Outcome.LOST if will_be < was else Outcome.GAINED


def _changes(subject: Subject, before: Fit, after: Fit) -> tuple[QualityChange, ...]:
    """The pods that get GPUs that are not as good as those that they hold, or would get before the change."""
    if not after.is_possible or after.room is None:
        return ()
    was = Counter({frozenset({grant}): pods for grant, pods in before.held.items()})
    for today in quality_changes(was, before.grants, before.room or 0):
        # Whatever changes, these pods get other GPUs when they start again.
        was[frozenset({today.before})] -= today.pods
        was[frozenset({today.before, today.after})] += today.pods
    if not was and before.grants:
        was[frozenset(before.grants)] = min(subject.count, before.room or subject.count)
    total = after.room or (subject.count if not before.room else 0)
    return quality_changes(+was, after.grants, total)


def _sentence(subject: Subject, before: Fit, after: Fit, outcome: Outcome) -> str:
    thing = "pod" if subject.is_pod else "claim"
    all_of_them = format_count(subject.count, thing)
    match outcome:
        case Outcome.UNKNOWN:
            known = before if before.verdict is Feasibility.UNKNOWN or before.room is None else after
            return f"unknown: {known.why}"
        case Outcome.KEPT:
            return after.why if after.room else f"as before, {after.why}"
        case Outcome.GAINED:
            return after.why if after.room else f"it would fit when others end: {after.why}"
    if not after.is_possible or not after.room:
        return after.why
    return f"only {after.room:,} of {all_of_them} would find a place; before, {before.room:,}"


@dataclass(frozen=True, slots=True)
class LimitCount:
    """A limit of a quota in one cluster."""

    hard: Fraction
    used: Fraction | None
    """By the pods and claims of its namespaces, each counted anew; None if pods are unknown."""
    namespaces: frozenset[str]
    """The namespaces that it counts."""

    @property
    def is_over(self) -> bool:
        """True if more is used than the limit allows."""
        return self.used is not None and self.used > self.hard


@dataclass(frozen=True, slots=True)
class LimitComparison:
    """A limit of a GPUQuota or of a GPUQuotaGroup before and after a change."""

    namespace: str
    """The namespace of the GPUQuota; empty for a GPUQuotaGroup."""
    group: str
    """The name of the GPUQuotaGroup; empty for a GPUQuota."""
    name: str
    """The name of the limit."""
    unit: Unit
    before: LimitCount | None
    """None if the limit does not exist then."""
    after: LimitCount | None
    outcome: Outcome
    """LOST if it is exceeded after the change only, or counts other amounts in the same namespaces; GAINED if it is gone,
    exceeded no more, or allows more."""
    sentence: str
    """A clause without a full stop."""

    @property
    def label(self) -> str:
        """The limit for people: `GPUQuota team-a/gpu, limit h100`."""
        owner = f"{GROUP} {self.group}" if self.group else f"GPUQuota {self.namespace}/{QUOTA_NAME}"
        return f"{owner}, limit {self.name}"

    @property
    def is_changed(self) -> bool:
        """True if the limit is new, gone, or of another amount, or counts something else."""
        return self.before != self.after

    def counts_in(self, namespace: str) -> bool:
        """True if it counts a namespace before or after the change."""
        return any(namespace in each.namespaces for each in (self.before, self.after) if each is not None)


@dataclass(frozen=True, slots=True)
class QuotaRefusal:
    """A subject of which quotas refuse a pod that starts again, before or after the change only."""

    subject: Subject
    finding: Finding
    is_new: bool
    """True if it is refused after the change; false if it was refused before."""

    @property
    def sentence(self) -> str:
        """The refusal, as a user reads it, without a full stop."""
        return f"{self.finding.message} [{self.finding.rule.id}]"


def compare_limits(before: Situation, after: Situation) -> Iterator[LimitComparison]:
    """The limits that are new, gone, or count or allow other amounts, and those that are the same."""
    was, will_be = _QuotaCounts(before), _QuotaCounts(after)
    old_quotas, new_quotas = was.quota_objects(), will_be.quota_objects()
    for key in sorted(old_quotas | new_quotas):
        old, new = was.limits(key, old_quotas.get(key)), will_be.limits(key, new_quotas.get(key))
        namespace, group = key[1], key[2] if key[0] == GROUP else ""
        for name, unit in dict.fromkeys((*old, *new)):
            uses = old.get((name, unit)), new.get((name, unit))
            yield LimitComparison(namespace, group, name, unit, *uses, *_limit_outcome(unit, *uses))


def freed_limits(pods: Iterable[Object], situation: Situation) -> Iterator[LimitComparison]:
    """The limits that count less once pods, and the claims that were made for them, are gone."""
    gone: dict[Key, Object | None] = {}
    for pod in pods:
        namespace = namespace_of(pod) or DEFAULT_NAMESPACE
        gone["Pod", namespace, name_of(pod)] = None
        for claim in situation.view.known_objects("ResourceClaim", namespace):
            if (made := origin_of(claim)) is not None and made.uid == uid_of(pod):
                gone["ResourceClaim", namespace, name_of(claim)] = None
    for each in compare_limits(situation, situation._replace(view=ChangedView(situation.view, gone))):
        if each.before is None or each.after is None or each.before.used == each.after.used:
            continue
        was, will_be = (
            amount_of_limit(each.unit, each.before.used, each.before.hard),
            amount_of_limit(each.unit, each.after.used, each.after.hard),
        )
        yield replace(each, outcome=Outcome.GAINED, sentence=f"{will_be} used once they have ended, before {was}")


def compare_refusals(subjects: Iterable[Subject], before: Situation, after: Situation) -> Iterator[QuotaRefusal]:
    """The subjects of which quotas refuse a pod that ends and starts again, before or after only."""
    was, will_be = _QuotaCounts(before), _QuotaCounts(after)
    for subject in subjects:
        if not subject.is_pod or not any(has_quota(subject.namespace, each.view) for each in (before, after)):
            continue
        check_cancelled()
        old, new = was.refusal(subject), will_be.refusal(subject)
        if new is not None and old is None:
            yield QuotaRefusal(subject, new, is_new=True)
        elif old is not None and new is None:
            yield QuotaRefusal(subject, old, is_new=False)


_DECIDING = (within_quota.rule, countable_charge.rule)


class _Count(NamedTuple):
    """The amounts of a quota that the pods and claims of its namespaces hold, counted anew."""

    quota: Quota
    used: Amounts
    pods: Mapping[tuple[str, str], Amounts]
    """By namespace and name of the pod, with the claims that were made for it."""
    namespaces: frozenset[str]
    is_known: bool
    """False if the pods of a namespace are unknown."""


class _QuotaCounts:
    """The quotas of a cluster, each counted once."""

    def __init__(self, situation: Situation) -> None:
        self._view, self._settings = situation
        self._counts: dict[Key, _Count | None] = {}

    def quota_objects(self) -> dict[Key, Object]:
        """The GPUQuotas and GPUQuotaGroups that limit something."""
        found: dict[Key, Object] = {}
        for document in self._view.known_or_reviewed("GPUQuota"):
            namespace = namespace_of(document) or DEFAULT_NAMESPACE
            if name_of(document) == QUOTA_NAME and not exemption_in_cluster("quota", namespace, self._settings):
                found["GPUQuota", namespace, QUOTA_NAME] = document
        for group in groups_with_members(self._view):
            if (made := group_document(group, self._view)) is not None:
                found[GROUP, "", group.name] = made
        return found

    def limits(self, key: Key, document: Object | None) -> dict[tuple[str, Unit], LimitCount]:
        """The limits of a quota by name and unit; none if it is missing or cannot be read."""
        count = None if document is None else self._count(key, document)
        if count is None:
            return {}
        return {
            (limit.name, limit.unit): LimitCount(
                limit.hard, count.used.get(limit.name, ZERO) if count.is_known else None, count.namespaces
            )
            for limit in count.quota.limits
        }

    def refusal(self, subject: Subject) -> Finding | None:
        """The refusal of one pod of a subject that ended and is created again; None if it is admitted."""
        changed: dict[Key, Object | None] = {}
        for _, document in quotas_shown(subject.namespace, self._view):
            is_group = document.get("kind") == GROUP
            key = (GROUP, "", name_of(document)) if is_group else ("GPUQuota", subject.namespace, QUOTA_NAME)
            if (count := self._count(key, document)) is None:
                continue
            held = [count.pods.get((subject.namespace, name_of(pod)), {}) for pod in subject.pods[:1]]
            left = subtract_amounts(count.used, sum_amounts(held))
            limits = {each.name: Count(each.key, left.get(each.name, ZERO)) for each in count.quota.limits}
            counted = Ledger(limits, counted=Versions("1", "1"), namespaces=tuple(sorted(count.namespaces)))
            changed[key] = {**document, "status": counted.status(count.quota, 0)}
        request = Request(subject.document, namespace=subject.namespace)
        decision = review(request, ChangedView(self._view, changed), self._settings)
        refused = (each for each in decision.findings if each.rule in _DECIDING and each.severity is Severity.DENY)
        return next(refused, None)

    def _count(self, key: Key, document: Object) -> _Count | None:
        """The count of a quota; None if it cannot be read."""
        if key not in self._counts:
            self._counts[key] = _count_anew(document, self._view, self._settings.quota)
        return self._counts[key]


def _count_anew(document: Object, view: ClusterView, settings: Quotas) -> _Count | None:
    try:
        quota = parse_quota(document)
    except QuotaError:
        return None
    parts: list[Amounts] = []
    pods: dict[tuple[str, str], Amounts] = {}
    namespaces = namespaces_of(document, view)
    for namespace in namespaces:
        for each in namespace_holdings(namespace, quota, view, settings):
            if each.is_claim and not each.is_of_pod:
                parts.append(each.amounts)
            elif not each.is_claim and each.amounts:
                pods[namespace, name_of(each.document)] = each.amounts
    is_known = all(view.list("Pod", each) is not UNKNOWN for each in namespaces)
    return _Count(quota, sum_amounts([*parts, *pods.values()]), pods, frozenset(namespaces), is_known)


def _limit_outcome(unit: Unit, before: LimitCount | None, after: LimitCount | None) -> tuple[Outcome, str]:
    if after is None:
        return Outcome.GAINED, "the limit is gone"
    known = [each for each in (before, after) if each is not None]
    if any(each.used is None for each in known):
        return Outcome.UNKNOWN, "what it counts is unknown, because the pods of its namespaces are"
    used = f"{amount_of_limit(unit, after.used, after.hard)} used"
    if before is None:
        if after.is_over:
            return Outcome.LOST, f"a new limit, exceeded at once: {used}"
        return Outcome.KEPT, f"a new limit: {used}"
    if before == after:
        return Outcome.KEPT, used
    change = f"{used}, before {amount_of_limit(unit, before.used, before.hard)}{_moves_clause(before, after)}"
    if after.is_over and not before.is_over:
        return Outcome.LOST, f"exceeded at once: {change}"
    if before.is_over and not after.is_over:
        return Outcome.GAINED, f"no longer exceeded: {change}"
    if before.namespaces == after.namespaces and before.used != after.used:
        return Outcome.LOST, f"counts the same pods differently: {change}"
    return (Outcome.GAINED if after.hard > before.hard else Outcome.KEPT), change


def _moves_clause(before: LimitCount, after: LimitCount) -> str:
    """The namespaces that a limit counts after the change only, or before it only, as a clause."""
    joined, left = sorted(after.namespaces - before.namespaces), sorted(before.namespaces - after.namespaces)
    return "".join(
        [
            f"; it counts {format_list(joined, _MOST_CHANGES)} too" if joined else "",
            f"; it no longer counts {format_list(left, _MOST_CHANGES)}" if left else "",
        ]
    )


_GOOD = (Outcome.KEPT, Outcome.GAINED)


def certain_fits(
    fits: Iterable[FitComparison], ends: Sequence[Iterable[FitComparison]], cause: str
) -> Iterator[FitComparison]:
    """Fits, unknown where their outcome is another one at an end of what is possible.

    Args:
        fits: Comparisons with a cluster that has estimates.
        ends: The same subjects, compared with clusters that have the least and the most that is possible.
        cause: What is estimated, a clause.
    """
    for found, *others in zip(fits, *ends, strict=True):
        every = (found, *others)
        if len({each.outcome for each in every}) == 1:
            yield found
            continue
        bad = next((each for each in every if each.outcome not in _GOOD), None)
        risk = "" if bad is None else f"; it may be that {bad.sentence}"
        yield replace(found, outcome=Outcome.UNKNOWN, sentence=f"unknown because {cause}{risk}", changes=())


def certain_limits(
    limits: Iterable[LimitComparison], ends: Sequence[Iterable[LimitComparison]], cause: str
) -> Iterator[LimitComparison]:
    """Limits, unknown where their outcome is another one at an end; see `certain_fits`."""
    for found, *others in zip(limits, *ends, strict=True):
        every = (found, *others)
        if len({each.outcome for each in every}) > 1:
            yield replace(found, outcome=Outcome.UNKNOWN, sentence=f"unknown because {cause}: {found.sentence}")
        elif len({each.after for each in every}) == 1:
            yield found
        else:
            within = [each for each in every if each.after is not None and not each.after.is_over]
            risk = "; it may be exceeded" if 0 < len(within) < len(every) else ""
            yield replace(found, sentence=f"{(within or [found])[0].sentence}{risk}; {cause}")
