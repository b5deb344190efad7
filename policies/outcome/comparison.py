"""Comparisons: what a change of the cluster does to the places and quotas of its pods and claims."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

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
from policies.quota.counting import counted_ledger
from policies.quota.ledger.open_charges import ZERO
from policies.quota.limits.amounts import amount_of_limit
from policies.quota.limits.quota import QUOTA_NAME, QuotaError, parse_quota, quota_shown
from policies.quota.outcomes import countable_charge, within_quota
from policies.rules.decision import Severity
from policies.rules.request import Request
from policies.rules.settings.exemptions import exemption_in_cluster

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from fractions import Fraction

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Key
    from policies.outcome.fits import Situation
    from policies.outcome.grants import QualityChange
    from policies.outcome.workloads import Subject
    from policies.quota.limits.quota import Limit
    from policies.rules.charges import Unit
    from policies.rules.decision import Finding


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
        outcome = _outcome(was, will_be)
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


def _outcome(before: Fit, after: Fit) -> Outcome:
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


_DECIDING = (within_quota.rule, countable_charge.rule)


@dataclass(frozen=True, slots=True)
class LimitUse:
    """A limit of a quota in one cluster."""

    hard: Fraction
    used: Fraction | None
    """By the pods and claims of the namespace, each counted anew; None if pods are unknown."""

    @property
    def is_over(self) -> bool:
        """True if more is used than the limit allows."""
        return self.used is not None and self.used > self.hard


@dataclass(frozen=True, slots=True)
class LimitComparison:
    """A limit of a namespace's GPUQuota before and after a change."""

    namespace: str
    name: str
    """The name of the limit."""
    unit: Unit
    before: LimitUse | None
    """None if the limit does not exist then."""
    after: LimitUse | None
    outcome: Outcome
    """LOST if the limit is exceeded after the change only, or counts other amounts; GAINED if it is exceeded no more."""
    sentence: str
    """A clause without a full stop."""


@dataclass(frozen=True, slots=True)
class QuotaRefusal:
    """A subject whose pods the quota refuses when one of them is created again, after the change only."""

    subject: Subject
    finding: Finding

    @property
    def sentence(self) -> str:
        """The refusal, as a user reads it, without a full stop."""
        return f"{self.finding.message} [{self.finding.rule.id}]"


def compare_limits(before: Situation, after: Situation) -> Iterator[LimitComparison]:
    """The limits that are new, gone, or count or allow other amounts, and those that are the same."""
    for namespace in _namespaces_with_quotas(before, after):
        was, will_be = _limits(namespace, before), _limits(namespace, after)
        for key in dict.fromkeys((*was, *will_be)):
            yield _comparison(namespace, key, was.get(key), will_be.get(key))


def freed_limits(pods: Iterable[Object], situation: Situation) -> Iterator[LimitComparison]:
    """The limits that count less once pods, and the claims that were made for them, are gone."""
    gone: dict[Key, Object | None] = {}
    for pod in pods:
        namespace = namespace_of(pod) or DEFAULT_NAMESPACE
        gone["Pod", namespace, name_of(pod)] = None
        gone |= {("ResourceClaim", namespace, name): None for name in _claims_made_for(pod, situation.view)}
    for each in compare_limits(situation, situation._replace(view=ChangedView(situation.view, gone))):
        if each.before is None or each.after is None or each.before.used == each.after.used:
            continue
        was, will_be = (
            amount_of_limit(each.unit, each.before.used, each.before.hard),
            amount_of_limit(each.unit, each.after.used, each.after.hard),
        )
        yield replace(each, outcome=Outcome.GAINED, sentence=f"{will_be} used once they have ended, before {was}")


def quota_refusals(subjects: Iterable[Subject], before: Situation, after: Situation) -> Iterator[QuotaRefusal]:
    """The subjects of which a pod that ends and is created again is refused, but was not before."""
    namespaces = set(_namespaces_with_quotas(before, after))
    for subject in subjects:
        if subject.namespace not in namespaces or not subject.is_pod:
            continue
        check_cancelled()
        finding = _refusal(subject, after)
        if finding is not None and _refusal(subject, before) is None:
            yield QuotaRefusal(subject, finding)


def _namespaces_with_quotas(*situations: Situation) -> list[str]:
    found: dict[str, None] = {}
    for view, _ in situations:
        for document in view.known_or_reviewed("GPUQuota"):
            namespace = namespace_of(document) or DEFAULT_NAMESPACE
            if name_of(document) == QUOTA_NAME:
                found[namespace] = None
    return sorted(found)


_Limits = dict[tuple[str, str], tuple["Limit", LimitUse]]
"""Limits by name and unit."""


def _limits(namespace: str, situation: Situation) -> _Limits:
    view, settings = situation
    document = quota_shown(namespace, view)
    if document is None or exemption_in_cluster("quota", namespace, settings):
        return {}
    try:
        quota = parse_quota(document)
    except QuotaError:
        return {}  # Review reports it, and such a quota limits nothing.
    is_known = view.list("Pod", namespace) is not UNKNOWN
    ledger = counted_ledger(_without_status(document), view, settings.quota)
    return {
        (limit.name, limit.unit): (
            limit,
            LimitUse(limit.hard, (ledger.used_amount(limit) or ZERO) if is_known else None),
        )
        for limit in quota.limits
    }


def _without_status(document: Object) -> Object:
    """The quota without its status, so that everything is counted anew."""
    return {key: value for key, value in document.items() if key != "status"}


def _comparison(
    namespace: str, key: tuple[str, str], was: tuple[Limit, LimitUse] | None, will_be: tuple[Limit, LimitUse] | None
) -> LimitComparison:
    (limit, _) = next(each for each in (was, will_be) if each is not None)
    before, after = (None if each is None else each[1] for each in (was, will_be))
    outcome, sentence = _outcome_of(limit.unit, before, after)
    return LimitComparison(namespace, key[0], limit.unit, before, after, outcome, sentence)


def _outcome_of(unit: Unit, before: LimitUse | None, after: LimitUse | None) -> tuple[Outcome, str]:
    if after is None:
        return Outcome.GAINED, "the limit is gone"
    known = [each for each in (before, after) if each is not None]
    if any(each.used is None for each in known):
        return Outcome.UNKNOWN, "what it counts is unknown, because the pods of the namespace are"
    used = f"{amount_of_limit(unit, after.used, after.hard)} used"
    if before is None:
        if after.is_over:
            return Outcome.LOST, f"a new limit, exceeded at once: {used}"
        return Outcome.KEPT, f"a new limit: {used}"
    if before == after:
        return Outcome.KEPT, used
    was = amount_of_limit(unit, before.used, before.hard)
    if after.is_over and not before.is_over:
        return Outcome.LOST, f"exceeded at once: {used}, before {was}"
    if before.is_over and not after.is_over:
        return Outcome.GAINED, f"no longer exceeded: {used}, before {was}"
    if before.used != after.used:
        return Outcome.LOST, f"counts the same pods differently: {used}, before {was}"
    return (Outcome.GAINED if after.hard > before.hard else Outcome.KEPT), f"{used}, before {was}"


def _refusal(subject: Subject, situation: Situation) -> Finding | None:
    """The refusal of one pod of a subject that ended and is created again; None if it is admitted."""
    view, settings = situation
    document = quota_shown(subject.namespace, view)
    if document is None:
        return None
    changed: dict[Key, Object | None] = {("GPUQuota", subject.namespace, QUOTA_NAME): _without_status(document)}
    for pod in subject.pods[:1]:
        changed["Pod", subject.namespace, name_of(pod)] = None
        changed |= {("ResourceClaim", subject.namespace, name): None for name in _claims_made_for(pod, view)}
    request = Request(subject.document, namespace=subject.namespace)
    decision = review(request, ChangedView(view, changed), settings)
    refused = (each for each in decision.findings if each.rule in _DECIDING and each.severity is Severity.DENY)
    return next(refused, None)


def _claims_made_for(pod: Object, view: ClusterView) -> Iterator[str]:
    for claim in view.known_objects("ResourceClaim", namespace_of(pod) or DEFAULT_NAMESPACE):
        made = origin_of(claim)
        if made is not None and made.uid == uid_of(pod):
            yield name_of(claim)


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
