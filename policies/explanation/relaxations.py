"""Relaxations: changes of a claim that might make it fit, derived from its mismatches."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.dra.allocation.amounts import Amount
from policies.dra.allocation.rejections import Reason as Check
from policies.dra.cel import CelRuntimeError, Semver, split_conjuncts, without_conjunct
from policies.dra.conditions import read_condition
from policies.explanation.report import Change
from policies.kubernetes.amounts import billionths
from policies.kubernetes.misspellings import closest
from policies.kubernetes.paths import lookup
from policies.outcome import OF_CAPACITY, constraint_words, value_of
from policies.phrases import format_count, format_list, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from policies.dra.allocation.slices import AllocatableDevice
    from policies.dra.cel import Conjunct
    from policies.dra.conditions import Condition
    from policies.outcome import DeviceMismatch, DeviceRejection, NamedClaim, Tally

__all__ = ["Relaxation", "relaxations"]

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


def relaxations(mismatch: DeviceMismatch, claims: tuple[NamedClaim, ...]) -> Iterator[Relaxation]:
    """Changes that might help on a node: tolerations, other bounds, fewer conditions, lower counts."""
    own = {claim.claim.name: number for number, claim in enumerate(claims)}
    if mismatch.constraint is not None:
        number, position = mismatch.constraint
        yield _without_constraint(number, claims[number], position)
    shortages = [found for subrequests in mismatch.tallies for found in subrequests if found.is_short]
    for found in shortages:
        if (number := own.get(found.claim.name, -1)) < 0:
            continue
        for why, devices in found.rejected.items():
            # A taint in the driver's own domain says that the device is unhealthy: a pod that gets it would fail.
            if why.check is Check.TAINT and why.taint[0].partition("/")[0] not in {
                each.slice.driver for each in devices
            }:
                yield _with_toleration(number, claims[number], found, why)
        yield from _capacity_changes(number, claims[number], found)
        for (index, failing, selector), devices in _failing_conditions(found).items():
            yield from _selector_changes(
                number, claims[number], found, _FailingCondition(index, failing, selector, devices)
            )
    for found in shortages:
        if (number := own.get(found.claim.name, -1)) >= 0:
            yield from _lower_counts(number, claims[number], found)


def _without_constraint(number: int, claim: NamedClaim, position: int) -> Relaxation:
    sentence = f"leave out the constraint on {constraint_words(claim.claim.constraints[position])}"
    changed = claim.without_constraint(position)
    return Relaxation(Change.CONSTRAINT, sentence, number, changed, topic=("constraint", number, position))


def _with_toleration(number: int, claim: NamedClaim, found: Tally, why: DeviceRejection) -> Relaxation:
    request, (key, value, effect) = found.subrequest.full_name, why.taint
    spelled = f"{key}={value}:{effect}" if value else f"{key}:{effect}"
    sentence = f"tolerate the device taint {shorten(spelled)} in request {request}"
    changed = claim.with_toleration(request, key, effect)
    return Relaxation(Change.TOLERATION, sentence, number, changed, request, ("taint", number, request, key, effect))


def _capacity_changes(number: int, claim: NamedClaim, found: Tally) -> Iterator[Relaxation]:
    """Smaller amounts of capacities that devices have, or a capacity with a similar name."""
    request, written = found.subrequest.full_name, found.subrequest.capacity or {}
    for why, devices in found.rejected.items():
        topic: tuple[str | int, ...] = ("capacity", number, request, *(name for name, _, _ in why.capacities))
        if why.check is Check.NO_SUCH_CAPACITY:
            name = why.capacities[0][0]
            instead = _near_capacity(name, devices)
            if instead is not None:
                amounts = {instead if each == name else each: amount for each, amount in written.items()}
                sentence = f"request capacity {shorten(instead)} instead of {shorten(name)} in request {request}"
                changed = claim.with_capacity(request, amounts)
                yield Relaxation(Change.CAPACITY, sentence, number, changed, request, topic)
        elif why.check in OF_CAPACITY:
            for lower in _lower_amounts(why.capacities, devices):
                changed = claim.with_capacity(request, {**written, **lower})
                loss = tuple(-billionths(amount) for amount in lower.values())
                sentence = _request_amounts(request, written, lower)
                yield Relaxation(Change.CAPACITY, sentence, number, changed, request, topic, loss)


def _lower_amounts(
    capacities: tuple[tuple[str, int, int], ...], devices: Iterable[AllocatableDevice]
) -> Iterator[dict[str, str]]:
    """Amounts to request instead; of several capacities at once, the most that is left of each."""
    choices = [
        sorted(amount for amount in _amounts(name, devices, left) if 0 < amount < asked)
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


def _near_capacity(name: str, devices: Iterable[AllocatableDevice]) -> str | None:
    known = sorted({each for device in devices for each in device.document.get("capacity") or {}})
    own = name.rpartition("/")[2]
    return next((each for each in known if each.rpartition("/")[2] == own), None) or closest(name, known)


def _amounts(name: str, devices: Iterable[AllocatableDevice], left: int) -> set[int]:
    """Candidate amounts in billionths: the amount left, the capacities, and what request policies allow."""
    found = {left}
    for device in devices:
        capacity = lookup(device.document, ("capacity", name))
        valid = lookup(capacity, ("requestPolicy", "validValues"))
        least, most, step = (lookup(capacity, ("requestPolicy", "validRange", end)) for end in ("min", "max", "step"))
        values = [lookup(capacity, ("value",)), most, *(valid if isinstance(valid, list) else [])]
        found.update(map(billionths, values))
        if least is not None and billionths(step):
            found.add(left - (left - billionths(least)) % billionths(step))
    return found


def _lower_counts(number: int, claim: NamedClaim, found: Tally) -> Iterator[Relaxation]:
    asked, request = found.asked, found.subrequest.full_name
    count = len(found.usable)
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
    devices: list[AllocatableDevice]


def _failing_conditions(found: Tally) -> dict[tuple[int, Conjunct, str], list[AllocatableDevice]]:
    """The conditions that reject devices, each with its devices."""
    devices_of: dict[tuple[int, Conjunct, str], list[AllocatableDevice]] = {}
    for why, devices in found.rejected.items():
        if why.check is Check.REQUEST_SELECTOR and why.conjunct is not None:
            devices_of.setdefault((why.index, why.conjunct, why.selector), []).extend(devices)
    return devices_of


def _selector_changes(number: int, claim: NamedClaim, found: Tally, failing: _FailingCondition) -> Iterator[Relaxation]:
    """Relaxations with another bound of a condition, or without the condition."""
    request, index, conjunct, selector = found.subrequest.full_name, failing.index, failing.conjunct, failing.selector
    topic = ("selector", number, request, index, conjunct.text)
    for bound, words, loss in _bounds(conjunct, failing.devices):
        changed = claim.with_selector(request, index, selector[: conjunct.start] + bound + selector[conjunct.end :])
        sentence = f"{words} in request {request}"
        yield Relaxation(Change.SELECTOR, sentence, number, changed, request, topic, (0, *loss))
    rest = without_conjunct(selector, conjunct) if len(split_conjuncts(selector)) > 1 else ""
    sentence = f"leave out {shorten(conjunct.text)} in request {request}"
    changed = claim.with_selector(request, index, rest)
    yield Relaxation(Change.SELECTOR, sentence, number, changed, request, topic, (1,))


def _bounds(failing: Conjunct, devices: Iterable[AllocatableDevice]) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """The condition with other bounds, the nearest first; each with its words and its loss."""
    condition = read_condition(failing.text)
    if condition is None or condition.operator not in (">=", "<="):
        return
    bound = str(condition.values[0])
    has = {value for device in devices if (value := value_of(device, condition.read)) is not None}
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
