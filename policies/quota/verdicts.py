"""Verdicts: what is said to whom a quota turns away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.kubernetes.printable import printable
from policies.quota.amounts import spoken
from policies.quota.ledger import MOST_CHARGES, Exceeded, Full, NotPrimed, Over
from policies.quota.quota import NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import timedelta
    from fractions import Fraction

    from policies.quota.charges import Amounts, Unit

__all__ = ["Holder", "Verdict", "contended", "exceeded", "full", "not_primed", "unavailable"]

_FORBIDDEN, _TOO_MANY_REQUESTS = 403, 429
_MOST_HOLDERS = 3
_LONGEST_REASON = 200
_TAKEN_UP: Mapping[Unit, str] = {"gpus": "GPUs", "devices": "devices", "memory": "memory"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A refusal."""

    code: int
    reason: str
    message: str
    retry_after: int | None = None
    """Seconds; clients of Kubernetes wait as long and try again by themselves."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod or a claim that holds something of a quota."""

    name: str
    """With its namespace: `team-a/train-7`."""
    amounts: Amounts
    age: timedelta
    """Since it was created."""


def exceeded(refusal: Exceeded, holders: Iterable[Holder] = ()) -> Verdict:
    """Over quota: in the words of Kubernetes' own quota, and then what would help.

    Source of the first line: staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go.
    """
    columns = (
        ("requested", [(over, over.asked) for over in refusal.limits]),
        ("used", [(over, over.used + over.reserved) for over in refusal.limits]),
        ("limited", [(over, over.hard) for over in refusal.limits]),
    )
    native = ", ".join(f"{title}: {_listed(amounts)}" for title, amounts in columns)
    holding = tuple(holders)
    helps = "; ".join(_explained(over, holding) for over in refusal.limits)
    return Verdict(_FORBIDDEN, "Forbidden", f"exceeded quota: {NAME}, {native}; {helps}; {_remedy(refusal.limits)}")


def not_primed(refusal: NotPrimed, namespace: str, retry_after: int = 1) -> Verdict:
    """What there is was not counted yet."""
    one = len(refusal.limits) == 1
    return _later(
        f"status unknown for quota: {NAME}, limits: {','.join(refusal.limits)}; what namespace {namespace} holds already "
        f"has not been counted yet for {'it' if one else 'them'}, which takes seconds after a limit is written; try again "
        f"in {retry_after} s, and if that does not help, look for the reason with "
        f"kubectl describe gpuquota {NAME} -n {namespace}",
        retry_after,
    )


def full(refusal: Full, namespace: str, retry_after: int = 10) -> Verdict:
    """Too much is charged that nobody has seen."""
    size = f"{refusal.size / 1024:,.0f} KiB"
    return _later(
        f"quota {NAME} of namespace {namespace} has no room for one more pod or claim on its way: "
        f"it remembers {refusal.charges - 1:,} ({size}) that were admitted and have not been seen since, and "
        f"{MOST_CHARGES:,} are the most; those that were never stored are given up after two minutes; "
        f"try again in {retry_after} s, and if that does not help, see whether something refuses what the quota admits, "
        "and whether the controllers that make claims and count quotas run",
        retry_after,
    )


def contended(namespace: str, retry_after: int = 1) -> Verdict:
    """Others were faster with every write that was tried."""
    return _later(
        f"quota {NAME} of namespace {namespace} is being changed by too many requests at once; nothing was charged; "
        f"try again in {retry_after} s, or create fewer pods at a time",
        retry_after,
    )


def unavailable(namespace: str, why: str, retry_after: int = 5) -> Verdict:
    """The quota cannot be read or written."""
    said = printable(why).strip().rstrip(".")[:_LONGEST_REASON]
    return _later(
        f"quota {NAME} of namespace {namespace} cannot be charged: {said}; the namespace enforces its quota, so nothing "
        f"that gets GPUs is admitted without; try again in {retry_after} s, and if that does not help, show this to your "
        "administrator",
        retry_after,
    )


def _later(message: str, retry_after: int) -> Verdict:
    return Verdict(_TOO_MANY_REQUESTS, "TooManyRequests", message, retry_after)


def _listed(amounts: Iterable[tuple[Over, Fraction]]) -> str:
    return ",".join(f"{over.name}={_plain(over.unit, amount)}" for over, amount in amounts)


def _plain(unit: Unit, amount: Fraction) -> str:
    return spoken(unit, amount) if unit == "memory" else str(amount)


def _explained(over: Over, holders: Sequence[Holder]) -> str:
    asked = f"{_more(over.unit, over.asked)} {_verb(over.unit, over.asked)} asked"
    left = f"{_plain(over.unit, over.left)} {_verb(over.unit, over.left)} left of {_plain(over.unit, over.hard)}"
    waiting = f" ({_plain(over.unit, over.reserved)} for what is on its way)" if over.reserved else ""
    held = _held(over, holders)
    if over.asked > over.hard:
        return f"{asked}, and {over.name} never has more than {_plain(over.unit, over.hard)}"
    return f"{asked}, {left} for {over.name}{waiting}{'; ' if held else ''}{held}"


def _more(unit: Unit, amount: Fraction) -> str:
    """`2 more GPUs`, `1/2 more GPU`, `80Gi more memory`."""
    if unit == "memory":
        return f"{spoken(unit, amount)} more memory"
    number, noun = spoken(unit, amount).split(" ")
    return f"{number} more {noun}"


def _verb(unit: Unit, amount: Fraction) -> str:
    return "is" if unit == "memory" or 0 < amount <= 1 else "are"


def _held(over: Over, holders: Iterable[Holder]) -> str:
    """Those that hold most, the oldest first among equals."""
    holding = sorted(
        (holder for holder in holders if holder.amounts.get(over.name)),
        key=lambda holder: (-holder.amounts[over.name], -holder.age, holder.name),
    )[:_MOST_HOLDERS]
    return ", ".join(
        f"{holder.name} holds {_plain(over.unit, holder.amounts[over.name])} since {_age(holder.age)}"
        for holder in holding
    )


def _age(age: timedelta) -> str:
    seconds = int(max(age.total_seconds(), 0))
    for size, noun in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{count:,} {noun}{'' if count == 1 else 's'}"
    return f"{seconds} second{'' if seconds == 1 else 's'}"


def _remedy(limits: Sequence[Over]) -> str:
    if all(over.left for over in limits) or any(over.asked > over.hard for over in limits):
        units = dict.fromkeys(_TAKEN_UP[over.unit] for over in limits)
        less = f"ask for less ({', '.join(units)})"
    else:
        less = "wait until something that holds them ends"
    return f"{less}, or ask whoever writes GPUQuota {NAME} for more"
