"""Outcomes of charges, the decisions that follow from them, and their messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import singledispatch
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.kubernetes.names import printable
from policies.kubernetes.objects import FieldPath
from policies.quota.demands.bills import NAME_THE_PRODUCT, Uncountable, UnknownProduct
from policies.quota.demands.device_kinds import UNLIMITED_CLAUSE, UNLIMITED_REMEDY
from policies.quota.ledger.allowances import ChargeVerdict, Contended, NoQuota
from policies.quota.ledger.ledger import ChargedOtherwise, Exceeded, Full, NotPrimed, Over, Unstorable
from policies.quota.limits.amounts import AmountScale
from policies.quota.limits.quota import QuotaError, QuotaNames
from policies.rules.charges import TooManyClaims
from policies.rules.checks import Problem, RulesOn
from policies.rules.decision import WORKLOAD, Decision, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import timedelta

    from policies.rules.charges import Amounts, ChargeRequest, Unit
    from policies.rules.decision import Finding


_MOST_HOLDERS = 3
_LONGEST_REASON = 200
_LESS: Mapping[Unit, str] = {"gpus": "fewer GPUs", "devices": "fewer devices", "memory": "less memory"}
_WARN_ONLY = "it is admitted all the same, because the quota has mode: Warn"
_SEEN_LATER = "it is admitted all the same, and counted when it is seen"
_FAILS_CLOSED = "the namespace enforces its quota, so GPUs must be charged first"


@dataclass(frozen=True, slots=True)
class ChargeMessage:
    """The reason why something does not fit, or cannot be charged."""

    message: str
    """Without a full stop."""
    remedy: str
    """Empty if there is nothing to do, or if the message ends with it."""
    retry_after: int | None = None
    """Seconds after which clients of Kubernetes try again automatically; None if that does not help."""
    administrator: str = ""
    """The remedy for an administrator; empty if there is none."""

    def problem(self, *, is_admitted: bool) -> Problem:
        """The problem with the object, which is refused unless it is admitted all the same."""
        severity = Severity.WARN if is_admitted else Severity.DENY
        return Problem(FieldPath(), self.message, self.remedy, administrator=self.administrator, severity=severity)


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The quota could not be read or written."""

    why: str
    """For people."""
    is_lasting: bool = False
    """True if trying again does not help: RBAC does not allow it."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod or a claim that holds a part of a quota."""

    name: str
    """With its namespace: `team-a/train-7`."""
    amounts: Amounts
    age: timedelta
    """Since it was created."""
    waits: bool = False
    """True if it has no node or no devices yet, so that it counts as the most that it can get."""
    is_claim: bool = False

    @property
    def label(self) -> str:
        """The name, with the word for a claim: `team-a/train-7`, `claim team-a/shared`."""
        return f"claim {self.name}" if self.is_claim else self.name


def exceeded_message(
    found: Exceeded,
    holders: Iterable[Holder] = (),
    *,
    admitted: bool,
    quota: QuotaNames,
    hidden_in: str = "",
    counts_unlimited: bool = False,
) -> ChargeMessage:
    """The message for an exceeded limit: what is left of it, who holds it, and a remedy.

    It has Kubernetes' words `exceeded quota`, by which Argo Workflows, Tekton and others know that a later try can succeed.

    Args:
        found: The limits that are exceeded.
        holders: The pods and claims that hold some of the quota.
        admitted: True if the request is admitted all the same.
        quota: The names of the quota that has the limits.
        hidden_in: The namespace, if its holders are only counted; empty if they are named.
        counts_unlimited: True if devices of the request count whole because the driver shares them without limit.
    """
    holding = tuple(holders)
    held = _number_of_holders if hidden_in else _holders_text
    # The words stand near the beginning, because the end of a long reason is cut.
    first, *others = (
        text
        for over in found.limits
        for text in (_shortage_text(over), held(over, holding) if over.requested <= over.hard else "")
        if text
    )
    others += [f"gpu-admission quota -n {hidden_in} shows who holds what"] if hidden_in else []
    others += [UNLIMITED_CLAUSE] if counts_unlimited else []
    message = "; ".join([first, f"exceeded quota: {quota.name}", *others, *([_WARN_ONLY] if admitted else [])])
    remedy = _remedy(found.limits, admitted=admitted)
    named = " and ".join(f'"{over.name}"' for over in found.limits)
    administrator = f"raise limit{'s' if len(found.limits) > 1 else ''} {named} of {quota.owner}"
    if counts_unlimited:
        administrator = f"{UNLIMITED_REMEDY}, or {administrator}"
    return ChargeMessage(message, remedy, administrator=administrator)


@singledispatch
def charge_message(found: Any, quota: QuotaNames, *, admitted: bool) -> ChargeMessage:
    """The message for a charge that could not be compared with the limits.

    Args:
        found: Why; a class of which a function below knows the message.
        quota: The names of the quota.
        admitted: True if the request is admitted all the same.
    """
    raise TypeError(f"no message for {found!r} of {quota.label}, admitted: {admitted}")


@charge_message.register(Uncountable)
def _uncountable_message(found: Uncountable, quota: QuotaNames, *, admitted: bool) -> ChargeMessage:
    """The product or the memory of the requested GPUs is unknown."""
    text = f"quota {quota.name} cannot count the request: {found}"
    message = f"{text}; {_WARN_ONLY}" if admitted else text
    return ChargeMessage(message, NAME_THE_PRODUCT, administrator=found.unknown.administrator)


@charge_message.register(NotPrimed)
def _not_primed_message(found: NotPrimed, quota: QuotaNames, *, admitted: bool) -> ChargeMessage:
    """The objects of the namespace have not been counted yet."""
    one = len(found.limits) == 1
    said = (
        f"status unknown for quota: {quota.name}, limits: {','.join(found.limits)}; what {quota.subject} holds already "
        f"has not been counted yet for {'it' if one else 'them'}, which takes seconds after a limit is written"
    )
    look = f"look for the reason with kubectl describe {quota.kubectl}"
    if admitted:
        return ChargeMessage(f"{said}; it is admitted and charged all the same", f"if that stays so, {look}")
    return _later(said, f"if that does not help, {look}", 1)


@charge_message.register(Full)
def _full_message(found: Full, quota: QuotaNames, *, admitted: bool) -> ChargeMessage:
    """Too many charges are open, because their pods and claims have not been seen."""
    said = (
        f"{quota.label} has no room for one more pod or claim on its way: "
        f"it remembers {found.charges - 1:,} ({found.size / 1024:,.0f} KiB) that were admitted and have not been seen "
        f"since, and {found.most:,} are the most; those that were never stored are given up after two minutes"
    )
    look = (
        "see whether something refuses what the quota admits, and whether the controllers that make claims and count "
        "quotas run"
    )
    if admitted:
        return ChargeMessage(f"{said}; {_SEEN_LATER}", look)
    return _later(said, f"if that does not help, {look}", 10)


@charge_message.register(ChargedOtherwise)
def _charged_otherwise_message(found: ChargedOtherwise, quota: QuotaNames, *, admitted: bool) -> ChargeMessage:
    """Another call charged something else for the same uid; the next try has another uid."""
    charged = found.charge
    said = (
        f"{quota.label}: uid {printable(charged.uid)} is already charged for "
        f"{charged.kind} {printable(charged.name)}, and this call requests more than that or describes another object"
    )
    look = "see whether two webhook configurations call gpu-admission, or something else than the API server does"
    if admitted:
        return ChargeMessage(f"{said}; {_SEEN_LATER}", look)
    return _later(said, f"if that does not help, {look}", 1)


@charge_message.register(Unstorable)
def _unstorable_message(found: Unstorable, quota: QuotaNames, *, admitted: bool) -> ChargeMessage:
    """No API server stores such an object, so trying again does not help."""
    said = f"{quota.label} cannot be charged: {found.problem}"
    return ChargeMessage(f"{said}; {_SEEN_LATER}" if admitted else said, "request what the API server can store")


@charge_message.register(TooManyClaims)
def _too_many_claims_message(found: TooManyClaims, quota: QuotaNames, *, admitted: bool) -> ChargeMessage:
    """A pod has more claims than are read or charged for one pod."""
    said = f"{quota.label} cannot be charged: {found.path} {found.message}"
    return ChargeMessage(said, found.remedy) if found.is_lasting else _later(said, found.remedy, 10)


@charge_message.register(Contended)
def _contended_message(_found: Contended, quota: QuotaNames, *, admitted: bool) -> ChargeMessage:
    """Every write conflicted with another one."""
    said = f"{quota.label} is being changed by too many requests at once, so nothing could be charged"
    if admitted:
        return ChargeMessage(f"{said}; {_SEEN_LATER}", "create fewer pods at a time")
    return ChargeMessage(said, "try again in 1 s, or create fewer pods at a time", 1)


@charge_message.register(QuotaError)
def _unreadable_message(found: QuotaError, quota: QuotaNames, *, admitted: bool) -> ChargeMessage:
    """The stored quota is invalid, so trying again does not help."""
    why = "; ".join(f"{each.path}: {each.message}" if each.path else each.message for each in found.problems)
    said = f"{quota.label} cannot be read: {_plain_text(why)}"
    fate = "it is admitted all the same, and counted when that is put right" if admitted else _FAILS_CLOSED
    return ChargeMessage(f"{said}; {fate}", "show this to your administrator")


@charge_message.register(Unavailable)
def _unavailable_message(found: Unavailable, quota: QuotaNames, *, admitted: bool) -> ChargeMessage:
    """The quota could not be read or written."""
    said = f"{quota.label} cannot be charged: {_plain_text(found.why)}"
    if admitted:
        return ChargeMessage(f"{said}; {_SEEN_LATER}", "if that stays so, show this to your administrator")
    if found.is_lasting:
        return ChargeMessage(f"{said}; {_FAILS_CLOSED}", "show this to your administrator")
    return _later(f"{said}; {_FAILS_CLOSED}", "if that does not help, show this to your administrator", 5)


def _later(said: str, otherwise: str, retry_after: int) -> ChargeMessage:
    return ChargeMessage(said, f"try again in {retry_after} s, and {otherwise}", retry_after)


def _plain_text(why: str) -> str:
    return printable(why).strip().rstrip(".")[:_LONGEST_REASON]


def _shortage_text(over: Over) -> str:
    """`needs 4 GPUs, 2 of 8 left in limit "all" (1 reserved)`."""
    scale = AmountScale.of(over.unit, over.requested, over.hard)
    if over.requested > over.hard:
        needs = f"needs {scale.text(over.requested, over.hard)}{scale.of_memory}"
        return f'{needs}, and limit "{over.name}" allows at most {scale.short(over.hard)}'
    needs = f"needs {scale.text(over.requested, over.left)}{scale.of_memory}"
    reserved = f" ({scale.number(over.reserved)} reserved)" if over.reserved else ""
    left = f"{scale.number(over.left, over.hard)} of {scale.short(over.hard)} left"
    return f'{needs}, {left} in limit "{over.name}"{reserved}'


def _holders_text(over: Over, holders: Iterable[Holder]) -> str:
    """The holders with the largest amounts; of equal ones, the oldest first."""
    scale = AmountScale.of(over.unit, over.requested, over.hard)
    holding = sorted(
        (holder for holder in holders if holder.amounts.get(over.name)),
        key=lambda holder: (-holder.amounts[over.name], -holder.age, holder.name),
    )[:_MOST_HOLDERS]
    return ", ".join(
        f"{holder.label} has held {scale.short(holder.amounts[over.name])} for {_age(holder.age)}" for holder in holding
    )


def _number_of_holders(over: Over, holders: Iterable[Holder]) -> str:
    """`3 pods and claims hold 6`; empty if none is known to hold anything."""
    amounts = [amount for holder in holders if (amount := holder.amounts.get(over.name))]
    if not amounts:
        return ""
    holding = "1 pod or claim holds" if len(amounts) == 1 else f"{len(amounts):,} pods and claims hold"
    scale = AmountScale.of(over.unit, over.requested, over.hard)
    return f"{holding} {scale.short(sum(amounts, Fraction()))}"


def _age(age: timedelta) -> str:
    seconds = int(max(age.total_seconds(), 0))
    for size, noun in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{count:,} {noun}{'' if count == 1 else 's'}"
    return f"{seconds} second{'' if seconds == 1 else 's'}"


def _remedy(limits: Sequence[Over], *, admitted: bool) -> str:
    less = f"request {' and '.join(dict.fromkeys(_LESS[over.unit] for over in limits))}"
    if any(over.requested > over.hard for over in limits):
        return less
    waiting = "wait until some pods end"
    return f"{less}, or {waiting}" if admitted or all(over.left for over in limits) else waiting


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


@RulesOn("Pod", "ResourceClaim", WORKLOAD).rule(
    "GA502",
    "A namespace must not have more GPUs than its quota allows",
    remedy="request less, or wait until pods or claims that hold GPUs end",
    administrator="raise the limit in GPUQuota gpu",
    source="docs/quota.md",
    fixed=True,
)
def within_quota(said: ChargeMessage, *, is_admitted: bool) -> Iterator[Problem]:
    """A GPUQuota limits the GPUs of all pods and claims of a namespace together.

    A pod or claim that exceeds it is refused when it is created, so that none has to be evicted later. No user is
    exempt, and no setting changes the severity: to try a quota first, give it mode: Warn.
    """
    yield said.problem(is_admitted=is_admitted)


@RulesOn("Pod", "ResourceClaim", WORKLOAD).rule(
    "GA503",
    "The charge of a pod or claim must be countable",
    remedy=NAME_THE_PRODUCT,
    administrator="let GPU Feature Discovery label GPU nodes with nvidia.com/gpu.memory, if their memory is unknown",
    source="docs/quota.md",
    fixed=True,
    shared_cause=True,
)
def countable_charge(said: ChargeMessage, *, is_admitted: bool) -> Iterator[Problem]:
    """A pod without a node counts as the most that it can get.

    With unknownProducts: Deny, a pod or claim that could get any product must name one. If memory is limited, and
    no node or ResourceSlice says how much memory the possible GPUs have, the request cannot be counted and is
    refused in either case.
    """
    yield said.problem(is_admitted=is_admitted)


@RulesOn("Pod", "ResourceClaim", WORKLOAD).rule(
    "GA504",
    "A pod or claim with GPUs must be charged to the quota before it is created",
    remedy="try again, and if that does not help, look for the reason with kubectl describe gpuquota gpu",
    source="docs/quota.md",
    fixed=True,
    shared_cause=True,
)
def written_charge(said: ChargeMessage, *, is_admitted: bool) -> Iterator[Problem]:
    """Each pod and claim is written into the status of the GPUQuota before it is admitted.

    So the next request sees it. Sometimes that fails: the API server does not answer, too many requests write at
    once, a limit has not been counted yet, or the GPUQuota cannot be read. In namespaces with the label
    gpu-admission.io/quota: enforced the request is then refused, and the message says when to try again or whom to
    ask. In others it is admitted with a warning, and counted when it is seen.
    """
    yield said.problem(is_admitted=is_admitted)


class QuotaOutcome(NamedTuple):
    """The outcome of a charge in one quota."""

    quota: QuotaNames
    outcome: ChargeOutcome
    holders: tuple[Holder, ...] = ()
    """Pods and claims that hold some of a quota that is exceeded."""


def settle(decision: Decision, outcomes: Iterable[QuotaOutcome], *, names_holders: bool = True) -> Decision:
    """The decision after its charge, allowed or refused. No setting changes it, and no user is exempt.

    Args:
        decision: The decision of the concern quota, with a charge.
        outcomes: In each quota of the object. Without any, nothing is limited.
        names_holders: True if the holders are named; otherwise their number is given, and how to list them.
    """
    outcomes = [each for each in outcomes if not isinstance(each.outcome, NoQuota)]
    if not outcomes:
        return Decision(object=decision.object)
    (charge,) = decision.charges
    found: list[Finding] = []
    retry_after = None
    for quota, outcome, holders in outcomes:
        reason = outcome.reason if isinstance(outcome, ChargeVerdict) else outcome
        if reason is None:
            continue
        admitted = is_admitted(charge, outcome)
        if isinstance(reason, Exceeded):
            said = exceeded_message(
                reason,
                holders,
                admitted=admitted,
                quota=quota,
                hidden_in="" if names_holders else charge.namespace,
                counts_unlimited=charge.counts_unlimited,
            )
            found += within_quota(said, is_admitted=admitted)
        else:
            said = charge_message(reason, quota, admitted=admitted)
            broken = countable_charge if isinstance(reason, Uncountable) else written_charge
            found += broken(said, is_admitted=admitted)
        retry_after = retry_after if admitted else said.retry_after
    return replace(decision, findings=(*found, *decision.findings), retry_after=retry_after) if found else decision


def is_admitted(charge: ChargeRequest, outcome: ChargeOutcome) -> bool:
    """True if an object is created in spite of the outcome of its charge."""
    match outcome:
        case ChargeVerdict():
            return outcome.allowed
        case Uncountable():
            return outcome.mode == "Warn"
        case TooManyClaims():
            return False
    # A request for nothing is charged nothing, and need not wait until it could be charged.
    return not (charge.enforced and charge.is_for_gpus)
