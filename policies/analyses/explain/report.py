"""Explanations as data: whether something fits, where, why not elsewhere, and what to change."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from policies.kubernetes.phrases import format_count, format_list, with_capital, with_full_stop
from policies.outcome import Certainty, Feasibility, NodeGroup, Obstacle

if TYPE_CHECKING:
    from policies.rules.decision import Finding

__all__ = [
    "Change",
    "Explanation",
    "ReviewWarning",
    "Suggestion",
    "as_sentence",
    "fit_word",
    "left_out_sentence",
    "notes_of",
    "obstacle_sentence",
    "replicas_text",
    "suggestion_sentence",
    "why_sentences",
]


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


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change after which the question fits."""

    change: Change
    sentence: str
    """What was tried with success, an imperative without a full stop: `request 4 devices instead of 8 in request gpu`."""
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


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of one question; `nodes` and `replicas` are null if they are unknown."""

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
    certainty: Certainty = Certainty.SEEN
    """The certainty of the verdict; if it is unknown, the headline and the obstacles say why."""

    @property
    def is_placed(self) -> bool:
        """True if at least one replica fits now, or is scheduled already."""
        return self.verdict in (Feasibility.FITS, Feasibility.SCHEDULED)


def fit_word(group: NodeGroup) -> str:
    """The answer for the nodes of a group: `yes`, `if empty`, `no` or `unknown`."""
    if group.certainty is Certainty.UNKNOWN:
        return "unknown"
    return "yes" if group.fits else "if empty" if group.fits_if_empty else "no"


def why_sentences(group: NodeGroup) -> tuple[str, ...]:
    """Why the nodes of a group do not fit, or the GPUs that a pod gets there; in sentences."""
    if group.reason is None:
        gets, devices = format_list(group.gets) if group.gets else "", ", ".join(group.devices)
        what = f"{gets} ({devices})" if gets and devices else gets or devices
        return (f"It would get {what}.",) if what else ()
    others = (f"Also: {with_full_stop(each.sentence)}" for each in group.other_reasons)
    return (as_sentence(group.reason.sentence), *map(with_full_stop, group.reason.details), *others)


def left_out_sentence(explanation: Explanation) -> str:
    """The groups that are not shown; empty if all are."""
    if not explanation.groups_left_out:
        return ""
    groups = format_count(explanation.groups_left_out, "more group")
    return f"and {groups} with {format_count(explanation.nodes_left_out, 'node')}"


def replicas_text(explanation: Explanation) -> str:
    """The number of replicas that fit now: `3`, `100 or more`, `unknown`."""
    replicas = "unknown" if explanation.replicas is None else str(explanation.replicas)
    return f"{replicas} or more" if explanation.replicas_at_least else replicas


def obstacle_sentence(obstacle: Obstacle) -> str:
    """An obstacle with its remedy and rule."""
    rule = f" [{obstacle.rule}]" if obstacle.rule else ""
    remedy = f"; {obstacle.remedy}" if obstacle.remedy else ""
    return f"{obstacle.sentence}{remedy}{rule}"


def suggestion_sentence(suggestion: Suggestion) -> str:
    """A suggestion, and where it fits then."""
    return f"{with_capital(suggestion.sentence)}; {suggestion.outcome}"


def notes_of(explanation: Explanation) -> list[str]:
    """The remarks of an explanation as sentences."""
    converted = explanation.converted_to
    template = [f"conversion creates ResourceClaimTemplate {converted} for the GPUs of the pod"] if converted else []
    return [with_full_stop(note) for note in (*template, *explanation.remarks)]


def as_sentence(text: str) -> str:
    """A text with a capital and a full stop."""
    return with_full_stop(with_capital(text))
