"""Explanations as data: whether something fits, where, why not elsewhere, and what to change."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TypedDict

from policies.phrases import format_count

if TYPE_CHECKING:
    from policies.decision import Finding
    from policies.explanation.group_report import NodeGroup, NodeGroupJSON
    from policies.explanation.question import Obstacle, ObstacleJSON

__all__ = [
    "Change",
    "Explanation",
    "ExplanationJSON",
    "Feasibility",
    "ReviewWarning",
    "Suggestion",
]


class Feasibility(StrEnum):
    """The verdict of an explanation."""

    FITS = "fits"
    """At least one node fits now."""
    FULL = "full"
    """No node fits now; some would fit if nothing were in use."""
    IMPOSSIBLE = "impossible"
    """No node fits, even if nothing were in use."""
    BLOCKED = "blocked"
    """No node can fit; see `obstacles`."""
    UNKNOWN = "unknown"
    """Facts are missing (see `obstacles`), or the search was given up on nodes that may fit."""
    SCHEDULED = "scheduled"
    """The pod is bound, or the claim has its devices."""


class Change(StrEnum):
    """The kind of change that a suggestion proposes."""

    COUNT = "count"
    """Request fewer devices."""
    SELECTOR = "selector"
    """Leave out one condition of a selector, or change its bound."""
    CAPACITY = "capacity"
    """Request less of a capacity, or another capacity."""
    TOLERATION = "toleration"
    """Tolerate a taint of devices, or of nodes."""
    CONSTRAINT = "constraint"
    """Leave out a constraint."""
    WISH = "wish"
    """Change the bound of a wish, or drop the wish."""
    PREEMPTION = "preemption"
    """End pods of lower priority."""


class _SuggestionJSON(TypedDict):
    """A change after which the question fits."""

    change: Annotated[str, Change]
    sentence: str
    claim: str
    request: str
    nodes: int
    atLeast: bool
    onlyIfEmpty: bool


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change after which the question fits; it has been tried."""

    change: Change
    sentence: str
    """What to change, an imperative without a full stop: `request 4 devices instead of 8 in request gpu`."""
    claim: str
    """The name of the changed claim in the question; empty if the pod is changed."""
    request: str
    """The request, `gpu` or `gpu/large`; empty for constraints and the pod."""
    nodes: int
    """The number of nodes that fit then."""
    at_least: bool = False
    """True if not all nodes were tried."""
    only_if_empty: bool = False
    """True if it fits then only if nothing is in use; offered only if nothing else helps."""

    @property
    def outcome(self) -> str:
        """What the change achieves, a clause: `then it fits on 3 nodes`."""
        then = "then it would fit" if self.only_if_empty else "then it fits"
        where = f"on {'at least ' if self.at_least else ''}{format_count(self.nodes, 'node')}"
        return f"{then} {where}{' if nothing were in use' if self.only_if_empty else ''}"

    def as_json(self) -> _SuggestionJSON:
        """As plain data."""
        return {
            "change": str(self.change),
            "sentence": self.sentence,
            "claim": self.claim,
            "request": self.request,
            "nodes": self.nodes,
            "atLeast": self.at_least,
            "onlyIfEmpty": self.only_if_empty,
        }


class _ReviewWarningJSON(TypedDict):
    """A warning of review."""

    rule: str
    path: str
    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class ReviewWarning:
    """A warning of review."""

    rule: str
    """The rule, `GA404`."""
    path: str
    message: str
    remedy: str

    @classmethod
    def of(cls, finding: Finding) -> ReviewWarning:
        """The warning for a finding."""
        return cls(finding.rule.id, str(finding.path), finding.message, finding.remedy)

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{where}{self.message}{remedy} [{self.rule}]"

    def as_json(self) -> _ReviewWarningJSON:
        """As plain data."""
        return {"rule": self.rule, "path": self.path, "message": self.message, "remedy": self.remedy}


class ExplanationJSON(TypedDict):
    """The explanation of one question; `nodes` and `replicas` are null if they are unknown."""

    label: str
    verdict: Annotated[str, Feasibility]
    headline: str
    obstacles: list[ObstacleJSON]
    nodes: int | None
    nodesGuessed: bool
    fitNow: int
    fitIfEmpty: int
    unknownNodes: int
    replicas: int | None
    replicasAtLeast: bool
    groups: list[NodeGroupJSON]
    groupsLeftOut: int
    nodesLeftOut: int
    suggestions: list[_SuggestionJSON]
    convertedTo: str
    warnings: list[_ReviewWarningJSON]
    remarks: list[str]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of one question, as data."""

    label: str
    """The label of the question."""
    verdict: Feasibility
    headline: str
    """The result in one sentence, without a full stop."""
    obstacles: tuple[Obstacle, ...] = ()
    """With BLOCKED, and with UNKNOWN if facts are missing; the worst first. Nodes are not counted then."""
    nodes: int | None = None
    """The number of all nodes; None if they are unknown or were not checked."""
    nodes_guessed: bool = False
    """True if the nodes are unknown and made up from the slices; only devices count then."""
    fit_now: int = 0
    fit_if_empty: int = 0
    unknown_nodes: int = 0
    """The number of nodes on which the search was given up."""
    replicas: int | None = None
    """The number of such pods or claims that fit now; None if it is unknown."""
    replicas_at_least: bool = False
    """True if counting was stopped, so that there may be more."""
    groups: tuple[NodeGroup, ...] = ()
    """Groups of alike nodes: those that fit first, then those that nearly fit, the largest first."""
    groups_left_out: int = 0
    """The number of groups that are not shown, and of their nodes."""
    nodes_left_out: int = 0
    suggestions: tuple[Suggestion, ...] = ()
    """The smallest changes that make it fit, if no node fits now."""
    converted_to: str = ""
    """The template that conversion creates for the pod; empty if it is not converted."""
    warnings: tuple[ReviewWarning, ...] = ()
    """Warnings of review about conversion and placement, if the pod is not stored yet."""
    remarks: tuple[str, ...] = ()
    """Assumptions and problems beside the result; sentences without a full stop."""

    @property
    def is_placed(self) -> bool:
        """True if at least one replica fits now, or is scheduled already."""
        return self.verdict in (Feasibility.FITS, Feasibility.SCHEDULED)

    def as_json(self) -> ExplanationJSON:
        """As plain data with stable names."""
        return {
            "label": self.label,
            "verdict": str(self.verdict),
            "headline": self.headline,
            "obstacles": [obstacle.as_json() for obstacle in self.obstacles],
            "nodes": self.nodes,
            "nodesGuessed": self.nodes_guessed,
            "fitNow": self.fit_now,
            "fitIfEmpty": self.fit_if_empty,
            "unknownNodes": self.unknown_nodes,
            "replicas": self.replicas,
            "replicasAtLeast": self.replicas_at_least,
            "groups": [group.as_json() for group in self.groups],
            "groupsLeftOut": self.groups_left_out,
            "nodesLeftOut": self.nodes_left_out,
            "suggestions": [suggestion.as_json() for suggestion in self.suggestions],
            "convertedTo": self.converted_to,
            "warnings": [warning.as_json() for warning in self.warnings],
            "remarks": list(self.remarks),
        }
