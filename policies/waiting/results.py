"""What an explanation says about a pod that waits, in the words of a condition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.outcome import Feasibility, ObstacleKind
from policies.phrases import format_count, shorten, with_capital, with_full_stop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.explanation import Explanation

__all__ = ["LONGEST_MESSAGE", "WaitingResult", "waiting_result"]

LONGEST_MESSAGE = 1000
"""Characters. The API server allows 1,024 bytes in an event, and all but quoted names is ASCII."""
_MOST_GROUPS = 3
_LONGEST_SENTENCE = 220
_DEFAULT_SCHEDULER = "default-scheduler"

_REASONS = {
    ObstacleKind.MALFORMED: "Malformed",
    ObstacleKind.REFUSED: "Refused",
    ObstacleKind.MISSING: "NotFound",
    ObstacleKind.CLAIM_FULL: "ClaimFull",
    ObstacleKind.CLAIM_DELETED: "ClaimDeleted",
    ObstacleKind.TOO_COSTLY: "SelectorTooCostly",
    ObstacleKind.QUOTA_EXCEEDED: "QuotaExceeded",
    ObstacleKind.ALLOCATION_FAILS: "AllocationFails",
}

_WITHOUT_AN_OBJECT = frozenset({ObstacleKind.MISSING, ObstacleKind.QUOTA_EXCEEDED})


@dataclass(frozen=True, slots=True)
class WaitingResult:
    """Reason and message of the condition; the same for all readers of the pod."""

    reason: str
    """`NoNodeFitsNow`, `NoNodeFits`, or the kind of the obstacle."""
    message: str
    is_before_scheduling: bool
    """True if the scheduler does not even try the pod, because an object that it names is missing, or cannot be created."""


def waiting_result(explanation: Explanation, scheduler: str = "") -> WaitingResult | None:
    """What to write about a pod; None if the pod fits, or if facts are missing.

    Args:
        explanation: For an audience of the pod's namespace that does not see nodes.
        scheduler: `spec.schedulerName` of the pod.
    """
    match explanation.verdict:
        case Feasibility.FULL | Feasibility.IMPOSSIBLE if not explanation.nodes_guessed:
            reason = "NoNodeFitsNow" if explanation.verdict is Feasibility.FULL else "NoNodeFits"
        case Feasibility.BLOCKED:
            reason = _REASONS[explanation.obstacles[0].kind]
        case _:
            return None
    sentences = [*_sentences(explanation), *_about_scheduler(scheduler)]
    is_missing = any(obstacle.kind in _WITHOUT_AN_OBJECT for obstacle in explanation.obstacles)
    return WaitingResult(reason, _message_of(sentences), is_missing)


def _sentences(explanation: Explanation) -> Iterator[str]:
    """Sentences in the order of their importance: the verdict, the smallest change, the reasons."""
    yield explanation.headline
    for obstacle in explanation.obstacles[:1]:
        yield f"{obstacle.sentence}; {obstacle.remedy}" if obstacle.remedy else obstacle.sentence
    for suggestion in explanation.suggestions[:1]:
        yield f"smallest change that helps: {suggestion.sentence}; {suggestion.outcome}"
    for group in explanation.groups[:_MOST_GROUPS]:
        if group.reason is not None:
            yield f"{format_count(group.count, 'node')}: {group.reason.sentence}"


def _about_scheduler(scheduler: str) -> Iterator[str]:
    if scheduler not in ("", _DEFAULT_SCHEDULER):
        yield f"this is what the default scheduler would find; the pod is for scheduler {scheduler}"


def _message_of(sentences: list[str]) -> str:
    """As many sentences as the message has room for, without those that do not fit."""
    message = ""
    for sentence in sentences:
        text = with_full_stop(with_capital(shorten(sentence, _LONGEST_SENTENCE)))
        longer = f"{message} {text}" if message else text
        if len(longer.encode()) <= LONGEST_MESSAGE:
            message = longer
    return message
