"""Quotas before and after a change: what each limit counts, and which pods it would refuse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.admission import review
from policies.kubernetes.bounds import check_cancelled
from policies.kubernetes.objects import DEFAULT_NAMESPACE, name_of, namespace_of
from policies.kubernetes.view import UNKNOWN, ChangedView
from policies.outcome.comparison import Outcome
from policies.quota.charging.charging import origin_of
from policies.quota.charging.outcomes import COUNTABLE, FITS
from policies.quota.counting.counter import uid_of
from policies.quota.counting.counting import counted_ledger
from policies.quota.ledger.open_charges import ZERO
from policies.quota.limits.amounts import amount_text, bare_amount
from policies.quota.limits.quota import QUOTA_NAME, QuotaError, parse_quota, quota_shown
from policies.rules.decision import Severity
from policies.rules.request import Request
from policies.rules.settings.exemptions import exemption_in_cluster

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from fractions import Fraction

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Key
    from policies.outcome.fits import Situation
    from policies.outcome.workloads import Subject
    from policies.quota.limits.quota import Limit
    from policies.rules.charges import Unit
    from policies.rules.decision import Finding

__all__ = ["LimitComparison", "LimitUse", "QuotaRefusal", "compare_limits", "quota_refusals"]

_DECIDING = (FITS, COUNTABLE)


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
        listed = view.list("GPUQuota")
        for document in view.objects_under_review("GPUQuota") if listed is UNKNOWN else listed:
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
    used = f"{_use_text(unit, after)} used"
    if before is None:
        if after.is_over:
            return Outcome.LOST, f"a new limit, exceeded at once: {used}"
        return Outcome.KEPT, f"a new limit: {used}"
    if before == after:
        return Outcome.KEPT, used
    was = _use_text(unit, before)
    if after.is_over and not before.is_over:
        return Outcome.LOST, f"exceeded at once: {used}, before {was}"
    if before.is_over and not after.is_over:
        return Outcome.GAINED, f"no longer exceeded: {used}, before {was}"
    if before.used != after.used:
        return Outcome.LOST, f"counts the same pods differently: {used}, before {was}"
    return (Outcome.GAINED if after.hard > before.hard else Outcome.KEPT), f"{used}, before {was}"


def _use_text(unit: Unit, use: LimitUse) -> str:
    """The use of a limit: `2 of 8 GPUs`, `80Gi of 800Gi of memory`."""
    used = "?" if use.used is None else bare_amount(unit, use.used)
    return f"{used} of {amount_text(unit, use.hard)}"


def _refusal(subject: Subject, situation: Situation) -> Finding | None:
    """Why the quota refuses one pod of a subject that ended and is created again; None if it does not."""
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
    claims = view.list("ResourceClaim", namespace_of(pod) or DEFAULT_NAMESPACE)
    for claim in () if claims is UNKNOWN else claims:
        made = origin_of(claim)
        if made is not None and made.uid == uid_of(pod):
            yield name_of(claim)
