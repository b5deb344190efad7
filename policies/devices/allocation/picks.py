"""The devices picked so far, and what they leave of the other devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.devices.allocation.capacity import CounterLedger, Reason, Rejection

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from policies.devices.allocation.capacity import Demand
    from policies.devices.allocation.checks import Checks
    from policies.devices.allocation.constraints import ConstraintState
    from policies.devices.allocation.needs import Candidate
    from policies.devices.allocation.slices import AllocatableDevice
    from policies.devices.allocation.usage import Amount, Usage
    from policies.devices.resource_claims import Subrequest

__all__ = ["Pick", "Picks"]

_IN_USE = Rejection(Reason.IN_USE)
_IN_USE_BY_CLAIM = Rejection(Reason.IN_USE_BY_CLAIM)


class Pick(NamedTuple):
    """A device for a request."""

    subrequest: Subrequest
    candidate: Candidate
    consumed: Mapping[str, Amount] | None
    """By capacity, for a share; None for a device that the claim has alone."""
    footprint: Hashable
    """What the books said before it was picked."""


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
        """What picking the device can change in the books; None where putting it back restores them surely."""
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
        """What is taken of the device; that shares of nothing are there means something for its counters only."""
        shares = self._shares.get(device.id, {})
        there = bool(device.counter_sets) and device.id in self._shares
        return there, frozenset((name, taken) for name, taken in shares.items() if taken)
