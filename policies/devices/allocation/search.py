"""The search: which device for which request, in the order in which Kubernetes tries them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from policies.devices.allocation.capacity import CounterLedger, Reason, Rejection
from policies.devices.allocation.checks import Candidate
from policies.devices.allocation.pools import PoolState
from policies.devices.allocation.reading import AllocationError, Implementation, SearchBudgetExceeded
from policies.devices.resource_claims import MOST_DEVICES
from policies.kubernetes.bounds import Work, check_cancelled

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from policies.devices.allocation.capacity import Demand
    from policies.devices.allocation.checks import Checks, Need, Question
    from policies.devices.allocation.constraints import ConstraintState
    from policies.devices.allocation.pools import Pool
    from policies.devices.allocation.reading import Features
    from policies.devices.allocation.slices import AllocatableDevice, TargetNode
    from policies.devices.allocation.usage import Amount, Usage
    from policies.devices.resource_claims import Claim, Subrequest


_IN_USE = Rejection(Reason.IN_USE)
_IN_USE_BY_CLAIM = Rejection(Reason.IN_USE_BY_CLAIM)


class Pick(NamedTuple):
    """A device for a request."""

    subrequest: Subrequest
    candidate: Candidate
    consumed: Mapping[str, Amount] | None
    """By capacity, for a share; None for a device that the claim has alone."""
    footprint: Hashable
    """The state of the books before it was picked."""


class Picks:
    """Devices, picked and put back.

    Kubernetes does not always restore its books when it puts a device back or finds that it does not fit: counters stay
    taken if a taint or a constraint stands against the device, or if the device is a share; `distinctAttribute` forgets
    values. That changes which devices it picks afterwards, so it is kept here; `residue` counts how often it happened.

    Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go allocateDevice.
    """

    def __init__(self, checks: Checks, usage: Usage, constraints: Sequence[Sequence[ConstraintState]]) -> None:
        """Begin without picks; `constraints` has a list for each claim."""
        self._checks = checks
        self._usage = usage
        self._constraints = constraints
        self._ledger = CounterLedger(usage)
        self._holders: dict[str, set[int]] = {}
        self._shares: dict[str, dict[str, int]] = {}
        self.of_claim: list[list[Pick]] = [[] for _ in constraints]
        """The picks of each claim."""
        self.residue = 0

    def free(self, claim: int, subrequest: Subrequest, device: AllocatableDevice) -> Rejection | None:
        """A rejection if other claims or earlier picks hold the device."""
        holders = self._holders.get(device.id)
        if subrequest.has_admin_access:
            return _IN_USE_BY_CLAIM if holders and claim in holders else None
        return _IN_USE if holders else self._checks.in_use(subrequest, device)

    def capacity(self, subrequest: Subrequest, device: AllocatableDevice) -> Rejection | None:
        """A rejection if the device has too little capacity left for the request."""
        return self._checks.capacity(subrequest, device, self._shares.get(device.id, {}))

    def likeness(self, device: AllocatableDevice) -> Hashable:
        """The use of the device by earlier picks; otherwise equal devices may differ in it."""
        return frozenset(self._holders.get(device.id, ())), self._shares_of(device)

    def state(self, claim: int) -> Hashable:
        """A key of the number of picks of the claim, the state of its constraints, and the residue."""
        constraints = tuple(constraint.footprint() for constraint in self._constraints[claim])
        return len(self.of_claim[claim]), constraints, self.residue

    def take(self, claim: int, subrequest: Subrequest, candidate: Candidate) -> Rejection | None:
        """Pick a free, selectable device with enough capacity; returns the rejection, or None if picked."""
        device = candidate.device
        shareable = self._checks.is_shareable(device)
        footprint = self._footprint(claim, candidate)
        rejection = (
            self._checks.counters(device)
            or self._take_counters(candidate, shareable=shareable)
            or self._checks.taints(subrequest, device)
            or self._constrain(claim, subrequest, device)
            or (self.capacity(subrequest, device) if shareable else None)
        )
        if rejection is None:
            consumed = self._take_share(subrequest, device) if shareable else None
            if consumed is None:
                self._holders.setdefault(device.id, set()).add(claim)
            self.of_claim[claim].append(Pick(subrequest, candidate, consumed, footprint))
        elif footprint is not None and self._footprint(claim, candidate) != footprint:
            self.residue += 1
        return rejection

    def put_back(self, claim: int) -> None:
        """Undo the claim's last pick."""
        pick = self.of_claim[claim].pop()
        device, pool = pick.candidate
        for constraint in self._constraints[claim]:
            constraint.remove(pick.subrequest)
        if pick.consumed is not None:
            self._return_share(device, pick.consumed)
        else:
            self._holders[device.id].discard(claim)
            if device.counter_sets:
                self._ledger.give_back(device, pool)
        if self._footprint(claim, pick.candidate) != pick.footprint:
            self.residue += 1

    def _take_counters(self, candidate: Candidate, *, shareable: bool) -> Rejection | None:
        """Take the device's counters, once for all of its shares."""
        device, pool = candidate
        shared = shareable and (self._usage.taken_capacity(device.id) is not None or device.id in self._shares)
        return self._ledger.take(device, pool) if device.counter_sets and not shared else None

    def _constrain(self, claim: int, subrequest: Subrequest, device: AllocatableDevice) -> Rejection | None:
        constraints = self._constraints[claim]
        for position, constraint in enumerate(constraints):
            if not constraint.add(subrequest, device):
                for added in constraints[:position]:
                    added.remove(subrequest)
                return Rejection(Reason.CONSTRAINT, index=position)
        return None

    def _take_share(self, subrequest: Subrequest, device: AllocatableDevice) -> Mapping[str, Amount]:
        needed: Demand | Rejection = self._checks.demand(subrequest, device)
        amounts = {} if isinstance(needed, Rejection) else needed.amounts
        shares = self._shares.setdefault(device.id, {})
        for name, amount in amounts.items():
            shares[name] = shares.get(name, 0) + amount.nanos
        return amounts

    def _return_share(self, device: AllocatableDevice, consumed: Mapping[str, Amount]) -> None:
        """A share of nothing is never returned; with the last of something, shares of nothing are gone too."""
        shares = self._shares.get(device.id)
        if not consumed or shares is None:
            return
        for name, amount in consumed.items():
            if name in shares:
                shares[name] -= amount.nanos
        if not any(shares.values()):
            del self._shares[device.id]

    def _footprint(self, claim: int, candidate: Candidate) -> Hashable:
        """The books that picking the device can change; None if putting it back surely restores them."""
        device, pool = candidate
        constraints = self._constraints[claim]
        if not constraints and not device.counter_sets and not device.is_shareable:
            return None
        return (
            tuple(constraint.footprint() for constraint in constraints),
            self._ledger.footprint(device, pool) if device.counter_sets else (),
            self._shares_of(device),
        )

    def _shares_of(self, device: AllocatableDevice) -> Hashable:
        """The amounts taken of the device; shares of nothing matter for its counters only."""
        shares = self._shares.get(device.id, {})
        there = bool(device.counter_sets) and device.id in self._shares
        return there, frozenset((name, taken) for name, taken in shares.items() if taken)


class Twins:
    """Numbers candidates so that two with the same number are twins, as long as picks make no difference."""

    def __init__(self, checks: Checks) -> None:
        self._checks = checks
        self._numbers: dict[Hashable, int] = {}

    def number(self, candidate: Candidate) -> int:
        """A number for the candidate's shape, its use by other claims, and the pool of its counters."""
        device, pool = candidate
        key = (
            self._checks.shapes.of(device),
            self._checks.holdings(device),
            pool.id[1] if device.counter_sets else None,
        )
        return self._numbers.setdefault(key, len(self._numbers))


def can_swap(question: Question, needs: Mapping[Subrequest, Need], candidates: Iterable[Candidate]) -> bool:
    """True if the answer stays the same when twins change places.

    It can differ where the order of devices matters:

    - Kubernetes' books go wrong: with counters whenever a constraint or a taint stands against a device, or a device
      is shared; with lists in `matchAttribute`; and with `distinctAttribute` on a request for several devices.
    - A request for all devices stands under a constraint. A device that is in use ends this attempt, one that breaks
      the constraint ends the search with an error, and the first of the two decides.
    """
    constrained = any(claim.constraints for claim in question.claims)
    if any(_compares_in_order(claim, needs, question.features) for claim in question.claims):
        return False
    return not any(
        device.counter_sets and (constrained or device.taints or device.is_shareable) for device, _ in candidates
    )


def _compares_in_order(claim: Claim, needs: Mapping[Subrequest, Need], features: Features) -> bool:
    return any(
        features.list_type_attributes or needs[subrequest].devices is not None
        if spec.match_attribute is not None
        else needs[subrequest].count > 1
        for spec in claim.constraints
        for subrequest in claim.subrequests
        if spec.covers(subrequest)
    )


_UNASKED_STEPS = 64
"""Steps between two checks for cancellation; less than a millisecond of work."""


class _Outcome(Enum):
    FOUND = "found"
    NOTHING = "nothing"
    TOO_MANY = "too many"
    """The claim would have more devices than an allocation can have, whatever is picked before."""


_Frame = Generator["_Frame", _Outcome, _Outcome]


class _Place(NamedTuple):
    """A device that is to be found."""

    claim: int
    request: int
    subrequest: Subrequest
    found: int = 0
    """The number of devices of the alternative that are found already."""
    start: int = 0
    """The first candidate to try."""


class Search:
    """A depth-first search on one node: claims, requests, subrequests, devices; the first solution counts.

    A frame is a generator that yields the frame whose outcome it wants to know, so no number of claims and devices is
    too many for Python's stack. Of twins, only the first is tried at each place. The stable implementation tries the
    devices of a request in every order, the others in one; that matters only where the books can go wrong.

    Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go allocateOne.
    """

    def __init__(
        self,
        question: Question,
        needs: Mapping[Subrequest, Need],
        picks: Picks,
        node: TargetNode,
        pools: Iterable[Pool],
    ) -> None:
        self._claims = question.claims
        self._needs = needs
        self._checks = question.checks
        self._picks = picks
        self._node = node
        self._candidates = tuple(
            Candidate(device, pool)
            for pool in pools
            if pool.state is PoolState.READY
            for found in pool.slices
            for device in found.devices
        )
        self._twins = Twins(question.checks)
        self._can_swap = can_swap(question, needs, self._candidates)
        self._tries_every_order = not self._can_swap and question.features.implementation is Implementation.STABLE
        self._numbers: dict[AllocatableDevice, int] = {}
        self._selectable: dict[Subrequest, set[int]] = {subrequest: set() for subrequest in needs}
        self._unselectable: dict[Subrequest, set[int]] = {subrequest: set() for subrequest in needs}
        self._work = Work(0)
        self._failed: dict[Hashable, _Outcome] = {}
        self._selected: dict[tuple[int, int], Subrequest] = {}

    def run(self, budget: int) -> bool:
        """Search for devices, and leave them in the picks.

        Raises:
            AllocationError: a selector fails on a device, or a request for all devices breaks a constraint.
            SearchBudgetExceeded: there was no answer after so many steps.
        """
        node = self._node.name
        self._work = Work(budget, exceeded=lambda: SearchBudgetExceeded(budget, node))
        stack: list[_Frame] = [self._request(0, 0)]
        outcome: _Outcome | None = None
        while stack:
            try:
                stack.append(next(stack[-1]) if outcome is None else stack[-1].send(outcome))
                outcome = None
            except StopIteration as ended:
                stack.pop()
                outcome = ended.value
        return outcome is _Outcome.FOUND

    def subrequests(self, claim: int) -> list[Subrequest]:
        """The alternative that each request of the claim got."""
        requests = self._claims[claim].requests
        return [self._selected.get((claim, number), request.subrequests[0]) for number, request in enumerate(requests)]

    def _request(self, claim: int, request: int) -> _Frame:
        """Serve this request and all after it, unless that failed before in the same state."""
        if claim == len(self._claims):
            return _Outcome.FOUND
        if request == len(self._claims[claim].requests):
            outcome = yield self._request(claim + 1, 0)
            return _Outcome.NOTHING if outcome is _Outcome.TOO_MANY else outcome
        key = (claim, request, self._books(claim))
        if key in self._failed:
            return self._failed[key]
        residue = self._picks.residue
        outcome = yield self._alternatives(claim, request)
        if outcome is not _Outcome.FOUND and self._picks.residue == residue:
            self._failed[key] = outcome
        return outcome

    def _books(self, claim: int) -> Hashable:
        """All that what is picked means for what is not; which one of twins is picked means nothing."""
        picked = {pick.candidate.device: pick.candidate for picks in self._picks.of_claim for pick in picks}
        devices = Counter((self._likeness(each), self._picks.likeness(device)) for device, each in picked.items())
        return self._picks.state(claim), frozenset(devices.items())

    def _alternatives(self, claim: int, request: int) -> _Frame:
        requests = self._claims[claim].requests
        if not requests[request].is_prioritized:
            return (yield self._device(_Place(claim, request, requests[request].subrequests[0])))
        worst = _Outcome.TOO_MANY
        for subrequest in requests[request].subrequests:
            outcome = yield self._device(_Place(claim, request, subrequest))
            if outcome is _Outcome.FOUND:
                self._selected[claim, request] = subrequest
                return outcome
            if outcome is _Outcome.NOTHING:
                worst = outcome
        return worst

    def _device(self, place: _Place) -> _Frame:
        """Find this device and all after it."""
        need = self._needs[place.subrequest]
        self._step()
        if need.devices == ():
            return _Outcome.NOTHING
        if place.found >= need.count:
            return (yield self._request(place.claim, place.request + 1))
        if len(self._picks.of_claim[place.claim]) + need.count - place.found > MOST_DEVICES:
            return _Outcome.TOO_MANY
        if need.devices is not None:
            return (yield self._this(place, need.devices[place.found]))
        return (yield self._any(place))

    def _this(self, place: _Place, candidate: Candidate) -> _Frame:
        """Take a given device: a request for all devices leaves no choice."""
        rejection = self._picks.free(place.claim, place.subrequest, candidate.device) or self._picks.take(
            place.claim, place.subrequest, candidate
        )
        if rejection is not None and rejection.reason is Reason.CONSTRAINT:
            raise AllocationError(
                f"claim {self._claims[place.claim].label}, request {place.subrequest.name}: cannot add device "
                f"{candidate.device.id} because a claim constraint would not be satisfied"
            )
        if rejection is not None:
            return _Outcome.NOTHING
        outcome = yield self._device(place._replace(found=place.found + 1))
        if outcome is not _Outcome.FOUND:
            self._picks.put_back(place.claim)
        return outcome

    def _any(self, place: _Place) -> _Frame:
        """Try one candidate after the other."""
        failed: set[Hashable] = set()
        for position in range(place.start, len(self._candidates)):
            candidate = self._candidates[position]
            self._step()
            if not self._eligible(place, position):
                continue
            twins = (self._likeness(candidate), self._picks.likeness(candidate.device))
            if twins in failed:
                continue
            if self._picks.take(place.claim, place.subrequest, candidate) is None:
                start = 0 if self._tries_every_order else position + 1
                outcome = yield self._device(place._replace(found=place.found + 1, start=start))
                if outcome is _Outcome.FOUND:
                    return outcome
                self._picks.put_back(place.claim)
                if outcome is _Outcome.TOO_MANY:
                    return outcome
            if self._can_swap:
                failed.add(twins)
        return _Outcome.NOTHING

    def _eligible(self, place: _Place, position: int) -> bool:
        """True if a device passes the checks that change no state; verdicts of selectors are cached."""
        subrequest, device = place.subrequest, self._candidates[position].device
        if position in self._unselectable[subrequest] or self._picks.free(place.claim, subrequest, device):
            return False
        if position not in self._selectable[subrequest]:
            claim = self._claims[place.claim]
            selectable = self._checks.selectable(claim, subrequest, device, self._node) is None
            (self._selectable if selectable else self._unselectable)[subrequest].add(position)
            if not selectable:
                return False
        return self._picks.capacity(subrequest, device) is None

    def _likeness(self, candidate: Candidate) -> Hashable:
        """A key, equal for interchangeable candidates."""
        if not self._can_swap:
            return candidate.device
        number = self._numbers.get(candidate.device)
        if number is None:
            number = self._numbers[candidate.device] = self._twins.number(candidate)
        return number

    def _step(self) -> None:
        if self._work.left % _UNASKED_STEPS == 0:
            check_cancelled()
        self._work.count(1)
