"""Reasons why claims do not fit the devices of a node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.devices.allocation.capacity import Reason as Check
from policies.devices.allocation.constraints import attribute_of, missing_pairs
from policies.devices.allocation.pools import PoolState
from policies.devices.allocation.reading import AllocationError
from policies.devices.allocation.slices import TargetNode
from policies.kubernetes.bounds import check_cancelled
from policies.kubernetes.names import format_count, format_list, format_ranges, inflect, shorten
from policies.outcome.allocation import SolutionState, Solver
from policies.outcome.reasons import Reason, ReasonKind
from policies.outcome.rejected_devices import Tallies, Tally

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from policies.devices.allocation.allocator import Allocator
    from policies.devices.allocation.checks import Question
    from policies.devices.allocation.pools import Pool, SliceIndex
    from policies.devices.allocation.reading import Features
    from policies.devices.allocation.slices import AllocatableDevice
    from policies.devices.allocation.usage import Usage
    from policies.devices.resource_claims import Claim, Constraint
    from policies.outcome.allocation import AllocationProblem
    from policies.outcome.reasons import Holders


@dataclass(frozen=True, slots=True)
class DeviceMismatch:
    """A reason why the claims do not fit the devices of a node."""

    reason: Reason
    gist: Hashable
    """Equal for nodes with the same reason, apart from the names of devices and holders."""
    values: Hashable = ()
    """Equal if the devices also have the same values where they do not match."""
    tallies: tuple[tuple[Tally, ...], ...] = ()
    """For each request, a tally of each alternative."""
    constraint: tuple[int, int] | None = None
    """The violated constraint: the number of the claim, and the position in it."""

    @property
    def has_any(self) -> bool:
        """False if the node has no device of a class that a request names."""
        return bool(self.tallies) and all(any(found.of_class for found in each) for each in self.tallies)


class DeviceReasons:
    """Finds out why claims do not fit a node, once the solver has found that they do not."""

    def __init__(self, problem: AllocationProblem, solver: Solver, usage: Usage, holders: Holders) -> None:
        self._problem = problem
        self._solver = solver
        self._usage = usage
        self._holders = holders
        self._tallies: dict[frozenset[str], Tallies] = {}
        self._unconstrained: dict[tuple[int, int], Solver] = {}

    def mismatch(self, position: int, resources: frozenset[str]) -> DeviceMismatch:
        """The first reason why the claims do not fit a node, whose devices the solver read without an error."""
        node, allocator = self._problem.nodes[position], self._solver.allocator(resources)
        pools, target, question = allocator.pools(node), TargetNode(node), allocator.question
        if not pools:
            sentence = "no ResourceSlice offers devices here: no DRA driver runs, or it has found none"
            return DeviceMismatch(Reason(ReasonKind.NO_DEVICES, sentence), "no devices")
        tallies_by_request = self._tallies.setdefault(resources, Tallies(question, self._holders))
        tallies = tuple(
            tuple(tallies_by_request.of(claim, each, pools, target) for each in request.subrequests)
            for claim in question.claims
            for request in claim.requests
        )
        for subrequests in tallies:
            if all(found.is_short for found in subrequests):
                pool = _unusable_pool(allocator, subrequests, pools, self._problem.index)
                if pool:
                    return DeviceMismatch(*_pool_reason(pool), tallies=tallies)
                reason = _short(subrequests, several=len(question.claims) > 1)
                gist, values = (_gist(subrequests, with_values=each) for each in (False, True))
                return DeviceMismatch(reason, gist, values, tallies)
        invalid = next((pool for pool in pools if pool.state is PoolState.INVALID), None)
        if invalid:
            return DeviceMismatch(*_pool_reason(invalid), tallies=tallies)
        for number, claim in enumerate(question.claims):
            if missing := _pairs_mismatch(number, claim, question.features, tallies):
                return missing
        return self._constraint_mismatch(question.claims, position, tallies) or DeviceMismatch(
            *_combination_reason(tallies), tallies=tallies
        )

    def _constraint_mismatch(
        self, claims: Sequence[Claim], position: int, tallies: Sequence[Sequence[Tally]]
    ) -> DeviceMismatch | None:
        """The first constraint without which the claims would fit."""
        for number in range(len(self._problem.claims)):
            for place, constraint in enumerate(claims[number].constraints):
                if self._fits_without(position, number, place):
                    reason = constraint_reason(claims[number], place, _usable(constraint, tallies))
                    return DeviceMismatch(reason, reason.sentence, (), tuple(map(tuple, tallies)), (number, place))
        return None

    def _fits_without(self, position: int, claim: int, constraint: int) -> bool:
        key = (claim, constraint)
        if key not in self._unconstrained:
            problem = self._problem.with_claim(claim, self._problem.claims[claim].without_constraint(constraint))
            self._unconstrained[key] = Solver(problem, self._usage)
        try:
            return self._unconstrained[key].solution(position).state is SolutionState.FITS
        except AllocationError:
            return False


def _short(subrequests: Sequence[Tally], *, several: bool) -> Reason:
    """The reason for too few devices for a request, or for each alternative of a prioritized list."""
    best = max(subrequests, key=lambda found: len(found.usable) / found.asked)
    facts: dict[str, Any] = {
        "claim": best.claim.name,
        "request": best.subrequest.full_name,
        "asked": best.asked,
        "usable": len(best.usable),
        "rejected": best.rejections(),
    }
    if len(subrequests) == 1:
        return Reason(ReasonKind.DEVICES, _shortage(best, several=several), best.details(), facts)
    names = format_list([found.subrequest.name for found in subrequests])
    sentence = f"none of the alternatives of {_request(best, several=several, whole=True)} fits ({names})"
    details = [line for found in subrequests for line in (_shortage(found, several=several), *found.details()[:2])]
    return Reason(ReasonKind.DEVICES, sentence, tuple(details), facts)


def _gist(subrequests: Sequence[Tally], *, with_values: bool) -> Hashable:
    return tuple(
        (found.subrequest.full_name, len(found.usable), found.asked, found.gists(with_values=with_values))
        for found in subrequests
    )


def _shortage(found: Tally, *, several: bool) -> str:
    subrequest = found.subrequest
    request, class_name = _request(found, several=several), subrequest.device_class
    if not found.of_class:
        asked = "all devices" if subrequest.allocation_mode == "All" else format_count(found.asked, "device")
        return f"{request} requests {asked} of class {class_name}, but the node has none"
    can = f"{len(found.usable) or 'none'} of {found.of_class} can serve it"
    if len(found.usable) == found.of_class:
        can = f"the node has {found.of_class}"
    if subrequest.allocation_mode == "All":
        return f"{request} requests all devices of class {class_name} that match; {can}"
    return f"{request} requests {format_count(found.asked, 'device')} of class {class_name}; {can}"


def _request(found: Tally, *, several: bool, whole: bool = False) -> str:
    name = found.subrequest.request_name if whole else found.subrequest.full_name
    return f"request {name} of claim {found.claim.name}" if several else f"request {name}"


def _unusable_pool(
    allocator: Allocator, subrequests: Sequence[Tally], pools: Sequence[Pool], index: SliceIndex
) -> Pool | None:
    """An unusable pool with devices of the class of one of the alternatives; None if there is none.

    What else is asked of them does not count, since those that are not there yet may have it. A pool that shows no
    device counts where no other has any of the class.
    """
    none_is_seen = not any(found.of_class for found in subrequests)
    for pool in pools:
        if pool.state is PoolState.READY:
            continue
        devices = [device for each in index.of_pool(pool.id) for device in each.devices]
        if (none_is_seen and not devices) or any(
            _is_of_class(allocator.question, found, device) for device in devices for found in subrequests
        ):
            return pool
    return None


def _is_of_class(question: Question, found: Tally, device: AllocatableDevice) -> bool:
    check_cancelled()
    try:
        rejection = question.checks.selectors(found.claim, found.subrequest, device)
    except AllocationError:
        return False
    return rejection is None or rejection.reason is not Check.CLASS_SELECTOR


def _pool_reason(pool: Pool) -> tuple[Reason, Hashable]:
    facts = {
        "pool": pool.name,
        "state": pool.state.value,
        "found": pool.slices_found,
        "expected": pool.slices_expected,
    }
    match pool.state:
        case PoolState.INCOMPLETE:
            there = f"{pool.slices_found} of {format_count(pool.slices_expected, 'ResourceSlice')}"
            sentence = f"pool {pool.name} is incomplete: {there} of generation {pool.generation} are there"
        case PoolState.INVALID:
            sentence = f"pool {pool.name} is invalid: {pool.reason}"
        case _:
            sentence = f"pool {pool.name} is being replaced: its driver publishes a newer generation, not yet for here"
    detail = "none of its devices can be used until its driver has put that right"
    return Reason(ReasonKind.POOL, sentence, (detail,), facts), (pool.state, pool.reason)


def _combination_reason(tallies: Sequence[Sequence[Tally]]) -> tuple[Reason, Hashable]:
    """The reason if each request could be served alone."""
    best = [max(subrequests, key=lambda found: len(found.usable) - found.asked) for subrequests in tallies]
    needs = [
        f"request {found.subrequest.full_name} needs {found.asked} of {len(found.usable)} that can serve it"
        for found in best
    ]
    together = len({device.id for found in best for device in found.usable})
    asked = sum(found.asked for found in best)
    sentence = f"each request could be served alone, but not all together: {asked} requested, {together} available"
    if asked <= together:
        sentence = "each request could be served alone, but there is no choice of devices that serves all together"
    gist = ("combination", tuple((found.asked, len(found.usable)) for found in best), together)
    return Reason(ReasonKind.COMBINATION, sentence, tuple(needs), {"asked": asked, "usable": together}), gist


def _usable(constraint: Constraint, tallies: Sequence[Sequence[Tally]]) -> list[Tally]:
    return [
        found
        for subrequests in tallies
        for found in subrequests
        if constraint.covers(found.subrequest) and not found.is_short
    ]


_MOST_VALUES = 4
_NONE = ""


def _pairs_mismatch(
    number: int, claim: Claim, features: Features, tallies: tuple[tuple[Tally, ...], ...]
) -> DeviceMismatch | None:
    """The mismatch if a claim wants more pairs of devices than the node has; None if it does not."""
    by_request = {found.subrequest: found for each in tallies for found in each if found.claim is claim}
    missing = missing_pairs(claim, features, lambda subrequest: by_request[subrequest].usable)
    if missing is None:
        return None
    left, right = (by_request[subrequest] for subrequest in missing.requests)
    constraint = claim.constraints[missing.position]
    name = constraint.match_attribute or ""
    sentence = (
        f"{format_count(missing.wanted, 'pair')} of class {left.subrequest.device_class} and class "
        f"{right.subrequest.device_class} with {constraint.words} requested; the free devices make {missing.possible or 'none'}"
    )
    details = (*_unpaired_devices(left, right, name), *_unpaired_devices(right, left, name))
    facts = {"claim": claim.name, "constraint": name, "asked": missing.wanted, "usable": missing.possible}
    reason = Reason(ReasonKind.CONSTRAINT, sentence, details[:_MOST_VALUES], facts)
    return DeviceMismatch(reason, sentence, (), tallies, (number, missing.position))


def _unpaired_devices(found: Tally, other: Tally, name: str) -> Iterator[str]:
    """A sentence for each value with free devices that lack a partner, and what holds the partners."""
    values, others = _by_value(found.usable, name), _by_value(other.usable, name)
    for value, devices in values.items():
        partners = others.get(value, []) if value else []
        if len(devices) <= len(partners):
            continue
        free = f"{format_count(len(devices), 'free device')} of class {found.subrequest.device_class}"
        if not value:
            yield f"{free} {'have' if len(devices) > 1 else 'has'} no {name}"
            continue
        there = f"{len(partners) or 'none'} of class {other.subrequest.device_class}"
        rejected = [
            f"{format_ranges(each.name for each in with_value)} {inflect(why.text, len(with_value))}"
            for why, rejections in other.rejected.items()
            if not why.is_outside and (with_value := [each for each in rejections if _value(each, name) == value])
        ]
        because = f" ({'; '.join(rejected[:2])})" if rejected else ""
        yield f"{shorten(value)} has {free} and {there}{because}"


def constraint_reason(claim: Claim, position: int, tallies: Sequence[Tally]) -> Reason:
    """Say what the devices that could serve have in place of one common value, or of different ones.

    Args:
        claim: whose constraint it is.
        position: of the constraint in the claim.
        tallies: what the requests found that the constraint is about.
    """
    constraint = claim.constraints[position]
    name = constraint.match_attribute or constraint.distinct_attribute or ""
    devices = {device.id: device for found in tallies for device in found.usable}
    by_value = _by_value(list(devices.values()), name)
    asked = sum({found.subrequest.request_name: found.asked for found in tallies}.values())
    start = f"{format_count(asked, 'device')} with {constraint.words} requested"
    told = sorted(by_value.items(), key=lambda item: -len(item[1]))
    known = [names for value, names in told if value != _NONE]
    if constraint.match_attribute is not None:
        most = max(map(len, known), default=0)
        sentence = f"{start}; of the {len(devices)} that can serve, at most {most} have one in common"
    else:
        sentence = f"{start}; the {len(devices)} that can serve have {format_count(len(known), 'value')} of it"
    details = [
        f"{format_ranges(names)} {'have' if len(names) > 1 else 'has'} {f'{name} {shorten(value)}' if value else f'no {name}'}"
        for value, names in told[:_MOST_VALUES]
    ]
    rest = len(told) - _MOST_VALUES
    if rest > 0:
        details.append(f"the others have {format_count(rest, 'more value')}")
    return Reason(ReasonKind.CONSTRAINT, sentence, tuple(details), {"claim": claim.name, "constraint": name})


def _by_value(devices: Sequence[AllocatableDevice], name: str) -> dict[str, list[str]]:
    by_value: dict[str, list[str]] = {}
    for device in devices:
        by_value.setdefault(_value(device, name), []).append(device.name)
    return by_value


def _value(device: AllocatableDevice, name: str) -> str:
    attribute = attribute_of(device, name)
    return _NONE if attribute is None else ", ".join(_text(each) for each in attribute.values())


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
