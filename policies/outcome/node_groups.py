"""Groups of nodes that share one reason, the first of them shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from policies.outcome.allocation import SolutionState, device_names
from policies.outcome.certainty import Certainty, certainty_with
from policies.outcome.device_outcomes import DeviceOutcome, DeviceOutcomes
from policies.outcome.grants import Grant, GrantFinder
from policies.outcome.reasons import Reason  # noqa: TC001 - pydantic reads the annotation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.outcome.certainty import Assumption
    from policies.outcome.survey import AlikeNodes, Survey

__all__ = ["NodeGroup", "NodeGroups", "node_groups"]

_MOST_GROUPS = 8
_MOST_NAMES = 8


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes with the same reason; if they fit, the reason is null, and a pod gets the same on each."""

    count: int
    nodes: tuple[str, ...]
    """The first names, in the order of the cluster; `count` has the number of nodes."""
    fits: bool
    """True if each of the nodes fits now."""
    fits_if_empty: bool
    """True if each would fit if nothing were in use."""
    reason: Reason | None = None
    """The reason why the nodes do not fit; None if they fit. Of several, one that remains if nothing is in use."""
    devices: tuple[str, ...] = ()
    """The devices on the first node, as `request: gpu-0..gpu-3`; empty if it does not fit."""
    outcomes: tuple[DeviceOutcome, ...] = ()
    """The outcomes of each request for the devices of the first node; of many devices, the first are named."""
    other_reasons: tuple[Reason, ...] = ()
    """Further reasons why all or some of the nodes do not fit."""
    certainty: Certainty = Certainty.SEEN
    """The certainty of whether the nodes fit; if it is unknown, the reason says why."""
    gets: tuple[str, ...] = ()
    """The GPUs that one pod gets, by kind: `1 quarter of Tesla-T4 (time-slicing)`; empty if none or unknown."""


class NodeGroups(NamedTuple):
    """The groups of all nodes, as far as they are shown."""

    shown: tuple[NodeGroup, ...] = ()
    """Those that fit first, then those that nearly fit, the largest first."""
    groups_left_out: int = 0
    nodes_left_out: int = 0


def node_groups(survey: Survey, assumed: Sequence[Assumption]) -> NodeGroups:
    """The groups of a survey with their reasons and devices."""
    ranked: list[tuple[Grant, Sequence[AlikeNodes]]] = [(Grant(), groups) for groups in survey.ranked_groups()]
    if survey.count():
        # Those that fit are first, in one group.
        granted = GrantFinder(survey.view).picked_on_nodes(survey)
        ranked[:1] = sorted(granted.items(), key=lambda each: -_node_count(each[1]))
    devices = DeviceOutcomes(survey)
    left_out = ranked[_MOST_GROUPS:]
    return NodeGroups(
        tuple(_group(survey, groups, grant, devices, assumed) for grant, groups in ranked[:_MOST_GROUPS]),
        len(left_out),
        sum(_node_count(groups) for _, groups in left_out),
    )


def _node_count(groups: Sequence[AlikeNodes]) -> int:
    return sum(len(alike.positions) for alike in groups)


def _group(
    survey: Survey, groups: Sequence[AlikeNodes], grant: Grant, devices: DeviceOutcomes, assumed: Sequence[Assumption]
) -> NodeGroup:
    first = min(groups, key=lambda alike: alike.positions[0])
    names, reasons, solution = survey.names(groups), survey.reasons(groups), first.solution
    return NodeGroup(
        count=len(names),
        nodes=tuple(names[:_MOST_NAMES]) if survey.audience.sees_nodes else (),
        fits=first.fits,
        fits_if_empty=first.fits_if_empty,
        reason=next(iter(reasons), None),
        other_reasons=reasons[1:],
        devices=device_names(solution.allocations)
        if solution is not None and solution.state is SolutionState.FITS
        else (),
        outcomes=devices.of(first),
        certainty=Certainty.UNKNOWN
        if first.is_unknown
        else certainty_with(assumed, fits=first.fits, fits_if_empty=first.fits_if_empty),
        gets=grant.words_by_kind,
    )
