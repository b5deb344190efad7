"""Outcomes: what charging came to, and what is answered therefore."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.decision import Decision, Severity
from policies.kubernetes.paths import FieldPath
from policies.quota.bills import UnknownProduct
from policies.quota.charging.charging import TooManyClaims, Uncountable
from policies.quota.charging.rules import CHARGED_LATER, COUNTABLE, FITS, WRITTEN
from policies.quota.charging.verdicts import (
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
from policies.quota.ledger.admit import Admission, Contended, NoQuota
from policies.quota.ledger.ledger import ChargedOtherwise, Exceeded, Full, NotPrimed, Unstorable
from policies.quota.limits.quota import QuotaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from policies.decision import Finding
    from policies.quota.charging.charging import Charging
    from policies.quota.charging.verdicts import Holder, Verdict
    from policies.rules import Rule

__all__ = ["OUTCOMES", "Outcome", "Unavailable", "decision", "outcome_name"]


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The quota could not be got or written."""

    why: str
    """For people."""
    is_lasting: bool = False
    """Whether it stays so until somebody does something: we have no right to it."""


Outcome = Admission | NoQuota | Uncountable | QuotaError | Unavailable | TooManyClaims
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


def outcome_name(outcome: Outcome) -> str:
    """One of `OUTCOMES`."""
    match outcome:
        case Admission(verdict=None):
            return "charged"
        case Admission(verdict=verdict):
            return _REFUSED[type(verdict)]
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
    document: Any, asked: Charging, outcome: Outcome, holders: Iterable[Holder] = (), *, names_holders: bool = True
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
    verdict: Verdict

    @property
    def finding(self) -> Finding:
        severity = Severity.WARN if self.admitted else Severity.DENY
        return self.rule.finding(FieldPath(), self.verdict.message, self.verdict.remedy, severity=severity)

    @property
    def retry_after(self) -> int | None:
        return None if self.admitted else self.verdict.retry_after


def _answer_for(asked: Charging, outcome: Outcome, holders: Iterable[Holder], *, names_holders: bool) -> _Answer | None:
    # What asks for nothing is charged nothing, and need not wait until it could be.
    admitted = not (asked.enforced and asked.is_for_gpus)
    match outcome:
        case Admission(verdict=Exceeded() as found):
            hidden_in = "" if names_holders else asked.namespace
            return _Answer(
                FITS, outcome.allowed, exceeded(found, holders, admitted=outcome.allowed, hidden_in=hidden_in)
            )
        case Admission(verdict=NotPrimed() as found):
            return _Answer(WRITTEN, outcome.allowed, not_primed(found, asked.namespace, admitted=outcome.allowed))
        case Admission(verdict=Full() as found):
            return _Answer(WRITTEN, outcome.allowed, full(found, asked.namespace, admitted=outcome.allowed))
        case Admission(verdict=ChargedOtherwise() as found):
            return _Answer(
                WRITTEN, outcome.allowed, charged_otherwise(found, asked.namespace, admitted=outcome.allowed)
            )
        case Admission(verdict=Unstorable() as found):
            return _Answer(WRITTEN, outcome.allowed, unstorable(found, asked.namespace, admitted=outcome.allowed))
        case Admission(verdict=Contended()):
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


def _problems(asked: Charging) -> Iterator[Finding]:
    beyond = () if asked.excess is None or asked.enforced else (asked.excess.problem,)
    for each in (*asked.problems, *beyond):
        yield CHARGED_LATER.finding(each.path, each.message, each.remedy)
