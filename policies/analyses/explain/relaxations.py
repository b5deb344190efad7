"""Relaxations: changes of a claim that might make it fit, derived from its mismatches."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.analyses.explain.explanations import Change
from policies.cel import CelRuntimeError, Semver, split_conjuncts, without_conjunct
from policies.devices.allocation.capacity import Reason as Check
from policies.devices.allocation.usage import Amount
from policies.devices.conditions import read_condition
from policies.kubernetes.names import closest, format_count, format_list, shorten
from policies.kubernetes.objects import lookup
from policies.kubernetes.quantities import billionths

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from policies.cel import Conjunct
    from policies.devices.conditions import Condition
    from policies.outcome import DeviceShortage, NamedClaim, RejectedDevices, RequestShortage


_MOST_BOUNDS = 2
"""Bounds that are tried for one condition, the nearest first."""


@dataclass(frozen=True, slots=True)
class Relaxation:
    """One change of one claim."""

    change: Change
    sentence: str
    number: int
    """The index of the claim in the problem."""
    claim: NamedClaim
    """The changed claim."""
    request: str = ""
    topic: tuple[str | int, ...] = ()
    """Equal for relaxations of which one is enough, such as bounds of one condition."""
    loss: tuple[int, ...] = ()
    """The order of relaxations with one topic, the smallest change first."""
    is_of_manifest: bool = False
    """True if the sentence is about the manifest of a converted pod, which has no claim."""


def relaxations(shortage: DeviceShortage, claims: tuple[NamedClaim, ...]) -> Iterator[Relaxation]:
    """Changes that might help on some nodes: tolerations, other bounds, fewer conditions, lower counts."""
    if shortage.constraint is not None:
        number, position = shortage.constraint
        yield _without_constraint(number, claims[number], position)
    for found in shortage.requests:
        claim = claims[found.claim]
        for rejected in found.rejected:
            # A taint in the driver's own domain says that the device is unhealthy: a pod that gets it would fail.
            if rejected.why.check is Check.TAINT and rejected.why.taint[0].partition("/")[0] not in rejected.drivers:
                yield _with_toleration(claim, found, rejected.why.taint)
        yield from _capacity_changes(claim, found)
        for failing in _failing_conditions(found):
            yield from _selector_changes(claim, found, failing)
    for found in shortage.requests:
        yield from _lower_counts(claims[found.claim], found)


def _without_constraint(number: int, claim: NamedClaim, position: int) -> Relaxation:
    sentence = f"leave out the constraint on {claim.claim.constraints[position].words}"
    changed = claim.without_constraint(position)
    return Relaxation(Change.CONSTRAINT, sentence, number, changed, topic=("constraint", number, position))


def _with_toleration(claim: NamedClaim, found: RequestShortage, taint: tuple[str, str, str]) -> Relaxation:
    number, request, (key, value, effect) = found.claim, found.subrequest.full_name, taint
    spelled = f"{key}={value}:{effect}" if value else f"{key}:{effect}"
    sentence = f"tolerate the device taint {shorten(spelled)} in request {request}"
    changed = claim.with_toleration(request, key, effect)
    return Relaxation(Change.TOLERATION, sentence, number, changed, request, ("taint", number, request, key, effect))


def _capacity_changes(claim: NamedClaim, found: RequestShortage) -> Iterator[Relaxation]:
    """Smaller amounts of capacities that devices have, or a capacity with a similar name."""
    number, request, written = found.claim, found.subrequest.full_name, found.subrequest.capacity or {}
    for rejected in found.rejected:
        why = rejected.why
        topic: tuple[str | int, ...] = ("capacity", number, request, *(name for name, _, _ in why.capacities))
        if why.check is Check.NO_SUCH_CAPACITY:
            name = why.capacities[0][0]
            known = sorted({each for capacities in rejected.capacities for each in capacities})
            own = name.rpartition("/")[2]
            instead = next((each for each in known if each.rpartition("/")[2] == own), None) or closest(name, known)
            if instead is not None:
                amounts = {instead if each == name else each: amount for each, amount in written.items()}
                sentence = f"request capacity {shorten(instead)} instead of {shorten(name)} in request {request}"
                changed = claim.with_capacity(request, amounts)
                yield Relaxation(Change.CAPACITY, sentence, number, changed, request, topic)
        elif why.capacities:
            for lower in _lower_amounts(rejected):
                changed = claim.with_capacity(request, {**written, **lower})
                loss = tuple(-billionths(amount) for amount in lower.values())
                sentence = _request_amounts(request, written, lower)
                yield Relaxation(Change.CAPACITY, sentence, number, changed, request, topic, loss)


def _lower_amounts(rejected: RejectedDevices) -> Iterator[dict[str, str]]:
    """Amounts to request instead; of several capacities at once, the most that is left of each."""
    capacities = rejected.why.capacities
    choices = [
        sorted(amount for amount in _amounts(name, rejected, left) if 0 < amount < asked)
        for name, asked, left in capacities
    ]
    if len(capacities) == 1:
        yield from ({capacities[0][0]: str(Amount(amount))} for amount in choices[0])
        return
    most = {
        name: max((amount for amount in amounts if amount <= left), default=0)
        for (name, _, left), amounts in zip(capacities, choices, strict=True)
    }
    if all(most.values()):
        yield {name: str(Amount(amount)) for name, amount in most.items()}


def _request_amounts(request: str, written: Mapping[str, Any], lower: Mapping[str, str]) -> str:
    """The change of amounts in words; as the whole field if the request does not name all of them yet."""
    if lower.keys() <= written.keys():
        changes = [f"{amount} of {name} instead of {written[name]}" for name, amount in lower.items()]
        return f"request {format_list(changes)} in request {request}"
    amounts = ", ".join(f"{name}: {amount}" for name, amount in {**written, **lower}.items())
    return f"write capacity: {{requests: {{{amounts}}}}} in request {request}"


def _amounts(name: str, rejected: RejectedDevices, left: int) -> set[int]:
    """Candidate amounts in billionths: the amount left, the capacities, and what request policies allow."""
    found = {left}
    for capacities in rejected.capacities:
        capacity = lookup(capacities, (name,))
        valid = lookup(capacity, ("requestPolicy", "validValues"))
        least, most, step = (lookup(capacity, ("requestPolicy", "validRange", end)) for end in ("min", "max", "step"))
        values = [lookup(capacity, ("value",)), most, *(valid if isinstance(valid, list) else [])]
        found.update(map(billionths, values))
        if least is not None and billionths(step):
            found.add(left - (left - billionths(least)) % billionths(step))
    return found


def _lower_counts(claim: NamedClaim, found: RequestShortage) -> Iterator[Relaxation]:
    number, request, asked, count = found.claim, found.subrequest.full_name, found.asked, found.usable
    if found.subrequest.allocation_mode == "All" or not 0 < count < asked:
        return
    sentence = f"request {format_count(count, 'device')} instead of {asked} in request {request}"
    changed = claim.with_count(request, count)
    yield Relaxation(Change.COUNT, sentence, number, changed, request, ("count", number, request), (count - asked,))


@dataclass(frozen=True, slots=True)
class _FailingCondition:
    """A condition of a request's selector, and the devices that it rejects."""

    index: int
    conjunct: Conjunct
    selector: str
    rejected: list[RejectedDevices]


def _failing_conditions(found: RequestShortage) -> Iterable[_FailingCondition]:
    """The conditions that reject devices, each with its devices."""
    conditions: dict[tuple[int, Conjunct, str], _FailingCondition] = {}
    for rejected in found.rejected:
        why = rejected.why
        if why.check is Check.REQUEST_SELECTOR and why.conjunct is not None:
            condition = _FailingCondition(why.index, why.conjunct, why.selector, [])
            conditions.setdefault((why.index, why.conjunct, why.selector), condition).rejected.append(rejected)
    return conditions.values()


def _selector_changes(claim: NamedClaim, found: RequestShortage, failing: _FailingCondition) -> Iterator[Relaxation]:
    """Relaxations with another bound of a condition, or without the condition."""
    number, request = found.claim, found.subrequest.full_name
    index, conjunct, selector = failing.index, failing.conjunct, failing.selector
    topic = ("selector", number, request, index, conjunct.text)
    for bound, words, loss in _bounds(conjunct, failing.rejected):
        changed = claim.with_selector(request, index, selector[: conjunct.start] + bound + selector[conjunct.end :])
        sentence = f"{words} in request {request}"
        yield Relaxation(Change.SELECTOR, sentence, number, changed, request, topic, (0, *loss))
    rest = without_conjunct(selector, conjunct) if len(split_conjuncts(selector)) > 1 else ""
    sentence = f"leave out {shorten(conjunct.text)} in request {request}"
    changed = claim.with_selector(request, index, rest)
    yield Relaxation(Change.SELECTOR, sentence, number, changed, request, topic, (1,))


def _bounds(failing: Conjunct, devices: Iterable[RejectedDevices]) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """The condition with other bounds, the nearest first; each with its words and its loss."""
    condition = read_condition(failing.text)
    if condition is None or condition.operator not in (">=", "<="):
        return
    bound = str(condition.values[0])
    has = {value for rejected in devices for value in rejected.values(condition.read)}
    ordered = sorted(has, key=lambda value: _rank(value, condition), reverse=condition.operator == ">=")
    for value in ordered[:_MOST_BOUNDS]:
        text = _replace_bound(failing.text, bound, value, quoted=bool(condition.value_kind))
        if text is not None:
            of = (
                f"{value} of {condition.read.name}"
                if condition.read.part == "capacity"
                else f"{condition.read.name} {value}"
            )
            loss = tuple(-step if condition.operator == ">=" else step for step in _rank(value, condition))
            yield text, f"accept {shorten(of)} instead of {bound}", loss


def _rank(value: str, condition: Condition) -> tuple[int, ...]:
    """A sort key for values, in the order of CEL."""
    if condition.value_kind != "semver":
        return (billionths(value),)
    try:
        version = Semver.read(value)
    except CelRuntimeError:
        return (-1,)
    return (version.major, version.minor, version.patch)


def _replace_bound(text: str, bound: str, value: str, *, quoted: bool) -> str | None:
    """The text with another bound; None if the bound occurs more than once."""
    pattern = rf"(?<=['\"]){re.escape(bound)}(?=['\"])" if quoted else rf"(?<![\w.\"'-]){re.escape(bound)}(?![\w.\"'])"
    return re.sub(pattern, lambda _: value, text) if len(re.findall(pattern, text)) == 1 else None
