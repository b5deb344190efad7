"""Outcomes: what charging came to, and what is answered therefore."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.decision import Decision, Severity
from policies.kubernetes.paths import FieldPath
from policies.quota.bills import UnknownProduct
from policies.quota.charging.charging import TooManyClaims, Uncountable
from policies.quota.charging.messages import (
    charged_otherwise,
    contended,
    exceeded,
    full,
    not_primed,
    too_many_claims,
    unavailable,
    uncountable,
    unreadable,
    unstorable,
)
from policies.quota.ledger.admit import ChargeVerdict, Contended, NoQuota
from policies.quota.ledger.ledger import ChargedOtherwise, Exceeded, Full, NotPrimed, Unstorable
from policies.quota.limits.quota import QuotaError
from policies.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from policies.decision import Finding, Rule
    from policies.quota.charging.charging import Charging
    from policies.quota.charging.messages import ChargeMessage, Holder

__all__ = ["OUTCOMES", "ChargeOutcome", "Unavailable", "decision", "outcome_name"]


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The quota could not be got or written."""

    why: str
    """For people."""
    is_lasting: bool = False
    """Whether it stays so until somebody does something: we have no right to it."""


ChargeOutcome = ChargeVerdict | NoQuota | Uncountable | QuotaError | Unavailable | TooManyClaims
"""What charging can come to; `QuotaError` where the GPUQuota that is stored cannot be read."""

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


def decision(
    document: Any,
    asked: Charging,
    outcome: ChargeOutcome,
    holders: Iterable[Holder] = (),
    *,
    names_holders: bool = True,
) -> Decision:
    """What is answered. No settings change it, and nobody is exempt.

    Args:
        document: what is being created.
        asked: what of it is charged.
        outcome: what that came to.
        holders: who holds something of the quota, told to who is over it.
        names_holders: whether they are told by name; otherwise how many they are, and how to list them.
    """
    told = _answer_for(asked, outcome, holders, names_holders=names_holders)
    findings = [] if told is None else [told.finding]
    if not isinstance(outcome, NoQuota):
        findings += _problems(asked)
    return Decision(tuple(findings), object=document, retry_after=None if told is None else told.retry_after)


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
    asked: Charging, outcome: ChargeOutcome, holders: Iterable[Holder], *, names_holders: bool
) -> _Answer | None:
    # What asks for nothing is charged nothing, and need not wait until it could be.
    admitted = not (asked.enforced and asked.is_for_gpus)
    match outcome:
        case ChargeVerdict(reason=Exceeded() as found):
            hidden_in = "" if names_holders else asked.namespace
            return _Answer(
                FITS, outcome.allowed, exceeded(found, holders, admitted=outcome.allowed, hidden_in=hidden_in)
            )
        case ChargeVerdict(reason=NotPrimed() as found):
            return _Answer(WRITTEN, outcome.allowed, not_primed(found, asked.namespace, admitted=outcome.allowed))
        case ChargeVerdict(reason=Full() as found):
            return _Answer(WRITTEN, outcome.allowed, full(found, asked.namespace, admitted=outcome.allowed))
        case ChargeVerdict(reason=ChargedOtherwise() as found):
            return _Answer(
                WRITTEN, outcome.allowed, charged_otherwise(found, asked.namespace, admitted=outcome.allowed)
            )
        case ChargeVerdict(reason=Unstorable() as found):
            return _Answer(WRITTEN, outcome.allowed, unstorable(found, asked.namespace, admitted=outcome.allowed))
        case ChargeVerdict(reason=Contended()):
            return _Answer(WRITTEN, outcome.allowed, contended(asked.namespace, admitted=outcome.allowed))
        case Uncountable():
            admitted = outcome.mode == "Warn"
            return _Answer(COUNTABLE, admitted, uncountable(outcome.unknown, admitted=admitted))
        case QuotaError():
            return _Answer(WRITTEN, admitted, unreadable(asked.namespace, str(outcome), admitted=admitted))
        case TooManyClaims():
            return _Answer(WRITTEN, False, too_many_claims(outcome, asked.namespace))
        case Unavailable():
            verdict = unavailable(asked.namespace, outcome.why, admitted=admitted, is_lasting=outcome.is_lasting)
            return _Answer(WRITTEN, admitted, verdict)
    return None


CHARGED_LATER = rule(
    "GA505",
    "Objects that a pod or claim refers to must exist when it is charged",
    default=Severity.WARN,
    why="""
    A pod pays for its claims from templates when it is created. Where a template does not exist yet, nothing can be
    charged for it: its claim is charged when somebody makes it, and where that does not fit the pod waits, with the
    reason in its events, rather than being refused. Where a DeviceClass does not exist, more may be charged than is
    needed.
    """,
    remedy="create what is named first",
    source="docs/quota.md",
    fixed=True,
    shared_cause=True,
)


def _problems(asked: Charging) -> Iterator[Finding]:
    beyond = () if asked.excess is None or asked.enforced else (asked.excess.problem,)
    for each in (*asked.problems, *beyond):
        yield CHARGED_LATER.finding(each.path, each.message, each.remedy)
