"""The parts of an explanation as sentences, for text and pages alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.outcome import Certainty
from policies.phrases import format_count, format_list, with_capital, with_full_stop

if TYPE_CHECKING:
    from policies.explanation.report import Explanation, Suggestion
    from policies.outcome import NodeGroup, Obstacle

__all__ = [
    "as_sentence",
    "fit_word",
    "left_out_sentence",
    "notes_of",
    "obstacle_sentence",
    "replicas_text",
    "suggestion_sentence",
    "why_sentences",
]


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
