"""Explanations from the JSON that a service answers with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.explanation.group_report import DeviceOutcome, NodeGroup, OutcomeState, Reason, ReasonKind
from policies.explanation.question import Obstacle, ObstacleKind
from policies.explanation.report import Change, Explanation, Feasibility, ReviewWarning, Suggestion

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["parse_explanations"]


def parse_explanations(document: Any) -> list[Explanation]:
    """The explanations of a list as `Explanation.as_json` makes its items; further fields are ignored.

    Raises:
        ValueError: The document is not such a list, for example that of a version with other kinds of reasons.
    """
    try:
        return [_explanation(each) for each in document]
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a list of explanations: {error}") from error


def _explanation(data: Mapping[str, Any]) -> Explanation:
    return Explanation(
        label=data["label"],
        verdict=Feasibility(data["verdict"]),
        headline=data["headline"],
        obstacles=tuple(
            Obstacle(ObstacleKind(each["kind"]), each["sentence"], each["remedy"], each["rule"])
            for each in data["obstacles"]
        ),
        nodes=data["nodes"],
        nodes_guessed=data["nodesGuessed"],
        fit_now=data["fitNow"],
        fit_if_empty=data["fitIfEmpty"],
        unknown_nodes=data["unknownNodes"],
        replicas=data["replicas"],
        replicas_at_least=data["replicasAtLeast"],
        groups=tuple(map(_group, data["groups"])),
        groups_left_out=data["groupsLeftOut"],
        nodes_left_out=data["nodesLeftOut"],
        suggestions=tuple(map(_suggestion, data["suggestions"])),
        converted_to=data["convertedTo"],
        warnings=tuple(
            ReviewWarning(each["rule"], each["path"], each["message"], each["remedy"]) for each in data["warnings"]
        ),
        remarks=tuple(data["remarks"]),
    )


def _group(data: Mapping[str, Any]) -> NodeGroup:
    reason = data["reason"]
    return NodeGroup(
        count=data["count"],
        nodes=tuple(data["nodes"]),
        fits=data["fits"],
        fits_if_empty=data["fitsIfEmpty"],
        reason=None if reason is None else _reason(reason),
        devices=tuple(data["devices"]),
        outcomes=tuple(map(_outcome, data["outcomes"])),
    )


def _outcome(data: Mapping[str, Any]) -> DeviceOutcome:
    return DeviceOutcome(
        claim=data["claim"],
        request=data["request"],
        state=OutcomeState(data["state"]),
        count=data["count"],
        devices=tuple(data["devices"]),
        reason=data["reason"],
        sentence=data["sentence"],
        holders=tuple(data["holders"]),
    )


def _reason(data: Mapping[str, Any]) -> Reason:
    return Reason(ReasonKind(data["kind"]), data["sentence"], tuple(data["details"]), data["facts"])


def _suggestion(data: Mapping[str, Any]) -> Suggestion:
    return Suggestion(
        change=Change(data["change"]),
        sentence=data["sentence"],
        claim=data["claim"],
        request=data["request"],
        nodes=data["nodes"],
        at_least=data["atLeast"],
        only_if_empty=data["onlyIfEmpty"],
    )
