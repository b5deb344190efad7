"""Groups of nodes that share one reason, the first of them shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.explanation.group_report import NodeGroup
from policies.outcome import SolutionState, device_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from policies.explanation.group_report import DeviceOutcome
    from policies.outcome import AlikeNodes, Survey

__all__ = ["node_groups"]

_MOST_GROUPS = 8
_MOST_NAMES = 8


def node_groups(
    survey: Survey, outcomes_of: Callable[[AlikeNodes], tuple[DeviceOutcome, ...]]
) -> tuple[tuple[NodeGroup, ...], int, int]:
    """The groups to show, the number of groups that are left out, and the number of nodes in these.

    Args:
        survey: The results of all nodes.
        outcomes_of: What requests find of the devices of the first of some alike nodes.
    """
    ranked = survey.ranked_groups()
    shown = tuple(_group(survey, each, outcomes_of) for each in ranked[:_MOST_GROUPS])
    left_out = ranked[_MOST_GROUPS:]
    return shown, len(left_out), sum(len(alike.positions) for groups in left_out for alike in groups)


def _group(
    survey: Survey, groups: Sequence[AlikeNodes], outcomes_of: Callable[[AlikeNodes], tuple[DeviceOutcome, ...]]
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
        outcomes=outcomes_of(first),
    )
