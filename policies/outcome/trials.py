"""Trials: the reasons that keep a question off nodes, as data, and changed questions on these nodes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.devices.allocation.reading import AllocationError
from policies.devices.allocation.usage import NONE
from policies.kubernetes.bounds import check_cancelled
from policies.kubernetes.nodes import Taint
from policies.outcome.allocation import SolutionState, Solver, allocation_problem
from policies.outcome.nodes import NodeChecks
from policies.outcome.rejected_devices import value_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.cel import Read
    from policies.devices.allocation.slices import AllocatableDevice
    from policies.devices.resource_claims import Subrequest
    from policies.outcome.question import Question
    from policies.outcome.rejected_devices import DeviceRejection
    from policies.outcome.survey import Survey


_MOST_SHAPES = 512
"""Shapes of nodes on which a changed question is tried."""


class FitCount(NamedTuple):
    """The number of nodes that fit a changed question."""

    nodes: int
    at_least: bool = False
    """True if not all nodes were tried."""


@dataclass(frozen=True, slots=True)
class RejectedDevices:
    """Devices of a node that cannot serve a request, all for one reason."""

    why: DeviceRejection
    _devices: Sequence[AllocatableDevice]

    @property
    def drivers(self) -> frozenset[str]:
        """The drivers of the devices."""
        return frozenset(device.slice.driver for device in self._devices)

    @property
    def capacities(self) -> Sequence[Mapping[str, Any]]:
        """The published capacities of each device, by name."""
        return [device.document.get("capacity") or {} for device in self._devices]

    def values(self, read: Read) -> frozenset[str]:
        """The values that a selector reads from the devices, as text."""
        found = (value_of(device, read) for device in self._devices)
        return frozenset(value for value in found if value is not None)


@dataclass(frozen=True, slots=True)
class RequestShortage:
    """A request of which too few devices of a node can serve one alternative."""

    claim: int
    """The index of the claim in the question."""
    subrequest: Subrequest
    asked: int
    """The number of requested devices; for `All`, all that match."""
    usable: int
    """The number of devices that can serve it."""
    rejected: tuple[RejectedDevices, ...]


@dataclass(frozen=True, slots=True)
class DeviceShortage:
    """The requests and the constraint for which claims do not fit the devices of some alike nodes."""

    positions: Sequence[int]
    """The nodes, by their positions in the cluster."""
    requests: tuple[RequestShortage, ...]
    constraint: tuple[int, int] | None
    """The constraint without which they would fit: the index of the claim, and the position in it."""


def device_shortages(survey: Survey, *, if_empty: bool) -> list[DeviceShortage]:
    """The nodes that do not fit for their devices, now or if nothing is in use; the most first."""
    numbers = {claim.claim.name: number for number, claim in enumerate(survey.question.claims)}
    found = []
    for alike in survey.groups:
        if (mismatch := survey.mismatch(alike, if_empty=if_empty)) is not None:
            requests = tuple(
                RequestShortage(
                    numbers[tally.claim.name],
                    tally.subrequest,
                    tally.asked,
                    len(tally.usable),
                    tuple(RejectedDevices(why, devices) for why, devices in tally.rejected.items()),
                )
                for tallies in mismatch.tallies
                for tally in tallies
                if tally.is_short and tally.claim.name in numbers
            )
            found.append(DeviceShortage(alike.positions, requests, mismatch.constraint))
    return sorted(found, key=lambda each: -len(each.positions))


def tainted_nodes(survey: Survey) -> Mapping[tuple[Taint, ...], Sequence[int]]:
    """The positions of the nodes that taints alone keep the pod off; their devices are not checked."""
    found: defaultdict[tuple[Taint, ...], list[int]] = defaultdict(list)
    for alike in survey.groups:
        for position, mismatches in zip(alike.positions, alike.mismatches, strict=True):
            taints = tuple(each.key for each in mismatches if isinstance(each.key, Taint))
            if taints and len(taints) == len(mismatches):
                found[taints].append(position)
    return found


def nodes_short_of_a_resource(survey: Survey) -> Mapping[str, Mapping[int, int]]:
    """By resource, what each node that lacks it alone has left, in billionths by the node's position."""
    found: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for alike in survey.groups:
        for position, mismatches in zip(alike.positions, alike.mismatches, strict=True):
            if len(mismatches) == 1 and (shortage := mismatches[0].shortage) is not None:
                found[shortage.resource][position] = shortage.left
    return found


def count_fits(
    survey: Survey, question: Question, nodes: Iterable[Sequence[int]] | None, *, if_empty: bool
) -> FitCount:
    """The number of nodes that fit a changed question; 0 if Kubernetes' scheduler fails.

    Args:
        survey: That of the question before the change, with its nodes visited.
        question: The changed question.
        nodes: The nodes to try by their positions, those together that are alike before the change; None for all. If only
            claims change, they stay alike, and the first stands for all.
        if_empty: True to try them as if nothing were in use.
    """
    if nodes is None:
        nodes = [alike.positions for alike in sorted(survey.groups, key=lambda alike: -len(alike.positions))]
    problem = allocation_problem(question, survey.cluster, survey.view, survey.settings)
    checks = NodeChecks(problem, None if if_empty else survey.resource_usage)
    solver = Solver(problem, NONE if if_empty else survey.cluster.usage)
    stay_alike = question.pod is survey.question.pod and question.resources == survey.question.resources
    count = 0
    try:
        for positions in nodes:
            for position in positions[:1] if stay_alike else positions:
                check_cancelled()
                if solver.solved >= _MOST_SHAPES:
                    return FitCount(count, at_least=True)
                resources = checks.served_by_claims(position)
                if not checks.mismatches(position) and solver.solution(position, resources).state is SolutionState.FITS:
                    count += len(positions) if stay_alike else 1
    except AllocationError:
        return FitCount(0)
    return FitCount(count)
