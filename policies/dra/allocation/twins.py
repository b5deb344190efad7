"""Twins: devices without a difference; what fails with one fails with the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from policies.dra.allocation.checks import Checks
    from policies.dra.allocation.features import Features
    from policies.dra.allocation.needs import Candidate, Need
    from policies.dra.allocation.question import Question
    from policies.dra.resource_claims import Claim, Subrequest

__all__ = ["Twins", "can_swap"]


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
