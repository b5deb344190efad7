"""Outcomes of charges, and the decisions that follow from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from policies.decision import Decision, Severity
from policies.kubernetes.paths import FieldPath
from policies.quota.bills import Uncountable, UnknownProduct
from policies.quota.charges import TooManyClaims
from policies.quota.charging.messages import (
    charged_otherwise_message,
    contended_message,
    exceeded_message,
    full_message,
    not_primed_message,
    too_many_claims_message,
    unavailable_message,
    uncountable_message,
    unreadable_message,
    unstorable_message,
)
from policies.quota.ledger.admit import ChargeVerdict, Contended, NoQuota
from policies.quota.ledger.ledger import ChargedOtherwise, Exceeded, Full, NotPrimed, Unstorable
from policies.quota.limits.quota import QuotaError
from policies.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.decision import Finding, Rule
    from policies.quota.charges import ChargeRequest
    from policies.quota.charging.messages import ChargeMessage, Holder

__all__ = ["OUTCOMES", "ChargeOutcome", "Unavailable", "outcome_name", "settle"]


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The quota could not be read or written."""

    why: str
    """For people."""
    is_lasting: bool = False
    """True if trying again does not help: RBAC does not allow it."""


ChargeOutcome = ChargeVerdict | NoQuota | Uncountable | QuotaError | Unavailable | TooManyClaims
"""What can come of a charge; `QuotaError` where the GPUQuota that is stored cannot be read."""

_REFUSED = {
    Exceeded: "exceeded",
    NotPrimed: "not_primed",
    Full: "full",
    ChargedOtherwise: "charged_otherwise",
    Unstorable: "unstorable",
    Contended: "contended",
}
OUTCOMES = (
    "charged",
    "no_quota",
    *_REFUSED.values(),
    "unnamed",
    "uncountable",
    "unreadable",
    "unavailable",
    "too_many_claims",
)
"""Their names, for metrics: unnamed is what has to name its product, uncountable what is of unknown memory."""


def outcome_name(outcome: ChargeOutcome) -> str:
    """One of `OUTCOMES`."""
    match outcome:
        case ChargeVerdict(reason=None):
            return "charged"
        case ChargeVerdict(reason=reason):
            return _REFUSED[type(reason)]
        case NoQuota():
            return "no_quota"
        case Uncountable(unknown=UnknownProduct()):
            return "unnamed"
        case Uncountable():
            return "uncountable"
        case QuotaError():
            return "unreadable"
        case TooManyClaims():
            return "too_many_claims"
    return "unavailable"


def settle(
    decision: Decision, outcome: ChargeOutcome, holders: Iterable[Holder] = (), *, names_holders: bool = True
) -> Decision:
    """The decision after its charge, allowed or refused. No setting changes it, and no user is exempt.

    Args:
        decision: Of an entry for quotas, with a charge.
        outcome: What came of the charge.
        holders: Pods and claims that hold some of the quota, for a request that exceeds it.
        names_holders: True if the holders are named; otherwise their number is given, and how to list them.
    """
    (charge,) = decision.charges
    if isinstance(outcome, NoQuota):
        return Decision(object=decision.object)
    answer = _answer_for(charge, outcome, holders, names_holders=names_holders)
    if answer is None:
        return decision
    findings = (answer.finding, *decision.findings)
    return replace(
        decision, findings=findings, charges=decision.charges if answer.admitted else (), retry_after=answer.retry_after
    )


@dataclass(frozen=True, slots=True)
class _Answer:
    rule: Rule
    admitted: bool
    verdict: ChargeMessage

    @property
    def finding(self) -> Finding:
        severity = Severity.WARN if self.admitted else Severity.DENY
        return self.rule.finding(FieldPath(), self.verdict.message, self.verdict.remedy, severity=severity)

    @property
    def retry_after(self) -> int | None:
        return None if self.admitted else self.verdict.retry_after


FITS = rule(
    "GA502",
    "A namespace must not have more GPUs than its quota allows",
    default=Severity.DENY,
    why="""
    A GPUQuota limits the GPUs of all pods and claims of a namespace together. A pod or claim that exceeds it is refused
    when it is created, so that none has to be evicted later. No user is exempt, and no setting changes the severity:
    to try a quota first, give it mode: Warn.
    """,
    remedy="request less, wait until a pod or claim that holds GPUs ends, or ask your administrator to raise GPUQuota gpu",
    source="docs/quota.md",
    fixed=True,
    depends_on_usage=True,
)

COUNTABLE = rule(
    "GA503",
    "The charge of a pod or claim must be countable",
    default=Severity.DENY,
    why="""
    A pod without a node counts as the most that it can get. With unknownProducts: Deny, a pod or claim that could get any
    product must name one. If memory is limited, and no node or ResourceSlice says how much memory the possible GPUs have,
    the request cannot be counted and is refused in either case.
    """,
    remedy="name the product: in a pod by the annotation gpu-admission.io/product or a nodeSelector for "
    "nvidia.com/gpu.product, in a claim by a selector for productName; where memory is unknown, one that the cluster has, "
    "or see to it that GPU Feature Discovery labels GPU nodes with nvidia.com/gpu.memory",
    source="docs/quota.md",
    fixed=True,
    shared_cause=True,
)

WRITTEN = rule(
    "GA504",
    "A pod or claim with GPUs must be charged to the quota before it is created",
    default=Severity.DENY,
    why="""
    Each pod and claim is written into the status of the GPUQuota before it is admitted, so that the next request sees it.
    Sometimes that fails: the API server does not answer, too many requests write at once, a limit has not been counted
    yet, or the GPUQuota cannot be read. In namespaces with the label gpu-admission.io/quota: enforced the request is then
    refused, and the message says when to try again or whom to ask. In others it is admitted with a warning, and counted
    when it is seen.
    """,
    remedy="try again, and if that does not help, look for the reason with kubectl describe gpuquota gpu",
    source="docs/quota.md",
    fixed=True,
    shared_cause=True,
)


def _answer_for(
    charge: ChargeRequest, outcome: ChargeOutcome, holders: Iterable[Holder], *, names_holders: bool
) -> _Answer | None:
    # A request for nothing is charged nothing, and need not wait until it could be charged.
    admitted = not (charge.enforced and charge.is_for_gpus)
    match outcome:
        case ChargeVerdict(reason=Exceeded() as found):
            hidden_in = "" if names_holders else charge.namespace
            return _Answer(
                FITS, outcome.allowed, exceeded_message(found, holders, admitted=outcome.allowed, hidden_in=hidden_in)
            )
        case ChargeVerdict(reason=NotPrimed() as found):
            return _Answer(
                WRITTEN, outcome.allowed, not_primed_message(found, charge.namespace, admitted=outcome.allowed)
            )
        case ChargeVerdict(reason=Full() as found):
            return _Answer(WRITTEN, outcome.allowed, full_message(found, charge.namespace, admitted=outcome.allowed))
        case ChargeVerdict(reason=ChargedOtherwise() as found):
            return _Answer(
                WRITTEN, outcome.allowed, charged_otherwise_message(found, charge.namespace, admitted=outcome.allowed)
            )
        case ChargeVerdict(reason=Unstorable() as found):
            return _Answer(
                WRITTEN, outcome.allowed, unstorable_message(found, charge.namespace, admitted=outcome.allowed)
            )
        case ChargeVerdict(reason=Contended()):
            return _Answer(WRITTEN, outcome.allowed, contended_message(charge.namespace, admitted=outcome.allowed))
        case Uncountable():
            admitted = outcome.mode == "Warn"
            return _Answer(COUNTABLE, admitted, uncountable_message(outcome.unknown, admitted=admitted))
        case QuotaError():
            return _Answer(WRITTEN, admitted, unreadable_message(charge.namespace, str(outcome), admitted=admitted))
        case TooManyClaims():
            return _Answer(WRITTEN, False, too_many_claims_message(outcome, charge.namespace))
        case Unavailable():
            verdict = unavailable_message(
                charge.namespace, outcome.why, admitted=admitted, is_lasting=outcome.is_lasting
            )
            return _Answer(WRITTEN, admitted, verdict)
    return None
