"""Outcomes of charges, and the decisions that follow from them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.kubernetes.objects import FieldPath
from policies.quota.charging.messages import Unavailable, charge_message, exceeded_message
from policies.quota.demands.bills import Uncountable, UnknownProduct
from policies.quota.ledger.allowances import ChargeVerdict, Contended, NoQuota
from policies.quota.ledger.ledger import ChargedOtherwise, Exceeded, Full, NotPrimed, Unstorable
from policies.quota.limits.quota import QuotaError
from policies.rules.charges import TooManyClaims
from policies.rules.decision import WORKLOAD, Decision, Severity
from policies.rules.registry import rule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.quota.charging.messages import Holder
    from policies.rules.charges import ChargeRequest

__all__ = ["OUTCOMES", "ChargeOutcome", "outcome_name", "settle"]

ChargeOutcome = ChargeVerdict | NoQuota | Uncountable | QuotaError | Unavailable | TooManyClaims
"""The outcomes of a charge; `QuotaError` if the stored GPUQuota cannot be read."""

_NAMES = {
    NoQuota: "no_quota",
    Exceeded: "exceeded",
    NotPrimed: "not_primed",
    Full: "full",
    ChargedOtherwise: "charged_otherwise",
    Unstorable: "unstorable",
    Contended: "contended",
    QuotaError: "unreadable",
    Unavailable: "unavailable",
    TooManyClaims: "too_many_claims",
}
OUTCOMES = ("charged", "unnamed", "uncountable", *_NAMES.values())
"""Their names, for metrics. With `unnamed` the request must name a product, with `uncountable` the memory is unknown."""


def outcome_name(outcome: ChargeOutcome) -> str:
    """One of `OUTCOMES`."""
    reason = outcome.reason if isinstance(outcome, ChargeVerdict) else outcome
    if reason is None:
        return "charged"
    if isinstance(reason, Uncountable):
        return "unnamed" if isinstance(reason.unknown, UnknownProduct) else "uncountable"
    return _NAMES[type(reason)]


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
    kinds=("Pod", "ResourceClaim", WORKLOAD),
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
    "or make GPU Feature Discovery label GPU nodes with nvidia.com/gpu.memory",
    source="docs/quota.md",
    fixed=True,
    shared_cause=True,
    kinds=("Pod", "ResourceClaim", WORKLOAD),
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
    kinds=("Pod", "ResourceClaim", WORKLOAD),
)


def settle(
    decision: Decision, outcome: ChargeOutcome, holders: Iterable[Holder] = (), *, names_holders: bool = True
) -> Decision:
    """The decision after its charge, allowed or refused. No setting changes it, and no user is exempt.

    Args:
        decision: The decision of the concern quota, with a charge.
        outcome: The outcome of the charge.
        holders: Pods and claims that hold some of the quota, for a request that exceeds it.
        names_holders: True if the holders are named; otherwise their number is given, and how to list them.
    """
    if isinstance(outcome, NoQuota):
        return Decision(object=decision.object)
    reason = outcome.reason if isinstance(outcome, ChargeVerdict) else outcome
    if reason is None:
        return decision
    (charge,) = decision.charges
    admitted = _is_admitted(charge, outcome)
    if isinstance(reason, Exceeded):
        hidden_in = "" if names_holders else charge.namespace
        broken, said = FITS, exceeded_message(reason, holders, admitted=admitted, hidden_in=hidden_in)
    else:
        broken = COUNTABLE if isinstance(reason, Uncountable) else WRITTEN
        said = charge_message(reason, charge.namespace, admitted=admitted)
    severity = Severity.WARN if admitted else Severity.DENY
    finding = broken.finding(FieldPath(), said.message, said.remedy, severity=severity)
    return replace(
        decision,
        findings=(finding, *decision.findings),
        retry_after=None if admitted else said.retry_after,
    )


def _is_admitted(charge: ChargeRequest, outcome: ChargeOutcome) -> bool:
    match outcome:
        case ChargeVerdict():
            return outcome.allowed
        case Uncountable():
            return outcome.mode == "Warn"
        case TooManyClaims():
            return False
    # A request for nothing is charged nothing, and need not wait until it could be charged.
    return not (charge.enforced and charge.is_for_gpus)
