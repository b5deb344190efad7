"""Headlines: explanations in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.explanation.node_groups import device_names
from policies.explanation.question import ObstacleKind
from policies.explanation.report import Feasibility
from policies.phrases import format_count, format_list

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.explanation.audience import Audience
    from policies.explanation.question import Obstacle, Question
    from policies.explanation.replicas import ReplicaCount
    from policies.explanation.survey import Survey

__all__ = ["obstacle_headline", "scheduled_headline", "survey_headline"]

_CAUSES = {
    ObstacleKind.MALFORMED: "something is malformed",
    ObstacleKind.MISSING: "something that it refers to does not exist",
    ObstacleKind.CLAIM_FULL: "a claim has as many pods as can share it",
    ObstacleKind.CLAIM_DELETED: "a claim is being deleted",
    ObstacleKind.TOO_COSTLY: "a selector is too costly",
    ObstacleKind.ALLOCATION_FAILS: "Kubernetes' scheduler fails",
}


def obstacle_headline(obstacles: Sequence[Obstacle]) -> tuple[Feasibility, str]:
    """The verdict and headline for obstacles, the worst of which comes first."""
    kinds = [obstacle.kind for obstacle in obstacles]
    if all(kind is ObstacleKind.FACT_UNKNOWN for kind in kinds):
        return Feasibility.UNKNOWN, "whether it fits is unknown: facts of the cluster are missing"
    if kinds[0] is ObstacleKind.REFUSED:
        return Feasibility.BLOCKED, "it is refused before scheduling"
    return Feasibility.BLOCKED, f"it fits no node: {obstacles[0].cause or _CAUSES[kinds[0]]}"


def scheduled_headline(question: Question, audience: Audience) -> str:
    """The headline for a bound pod or an allocated claim."""
    if question.node_name:
        return f"it is bound to {f'node {question.node_name}' if audience.sees_nodes else 'a node'} already"
    claims = [named.claim for named in question.allocated]
    devices = format_list(device_names(claim.allocation for claim in claims if claim.allocation is not None))
    if not audience.sees_nodes:
        return f"it has its devices already: {devices}"
    pools = sorted({str(result.get("pool")) for claim in claims for result in claim.allocated_devices})
    return f"it has its devices already: {devices} of pool {format_list(pools)}"


def survey_headline(
    question: Question, survey: Survey, total: int, found: ReplicaCount | None
) -> tuple[Feasibility, str]:
    """The verdict and headline after a survey of all nodes."""
    now, empty = survey.count(), survey.count(empty=True)
    nodes = format_count(total, "node")
    if not total:
        return Feasibility.IMPOSSIBLE, "no node exists"
    if now:
        return Feasibility.FITS, f"fits {_of(now, nodes)} now{_replicas(question, found)}"
    if survey.unknown:
        unknown = f"whether it fits is unknown for {_of(survey.unknown, nodes)}"
        others = "; it fits none of the others" if survey.unknown < total else ""
        return (
            Feasibility.UNKNOWN,
            f"{unknown}: too many combinations of devices to try them all{others}",
        )
    if empty:
        return Feasibility.FULL, f"fits none of {nodes} now; it would fit {empty:,} if nothing were in use there"
    return Feasibility.IMPOSSIBLE, f"fits none of {nodes}, even if nothing were in use"


def _of(count: int, nodes: str) -> str:
    return f"{count:,} of {nodes}"


def _replicas(question: Question, found: ReplicaCount | None) -> str:
    if found is None:
        return ""
    thing = "claim" if question.pod is None else "replica"
    at_least = "at least " if found.at_least else ""
    return f", {at_least}{format_count(found.count, thing)} in all"
