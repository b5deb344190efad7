"""What an explanation says about a pod that waits, in the words of a condition."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from policies.kubernetes.phrases import format_count, shorten, with_capital, with_full_stop
from policies.outcome import Feasibility, ObstacleKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.analyses.explain import Explanation
    from policies.analyses.waiting.pods import PodState

__all__ = [
    "LONGEST_MESSAGE",
    "NOTHING_WRITTEN",
    "ConditionStep",
    "EventStep",
    "WaitingResult",
    "WrittenEvent",
    "WrittenToPod",
    "condition_step",
    "event_step",
    "waiting_result",
]


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


_CONDITION_SECONDS = 60.0
"""The least time between two texts of a condition."""
_EVENT_SECONDS = 600.0
"""The least time between two events with the same reason; numbers in texts change often in a busy cluster."""
_RENEWAL_SECONDS = 1800.0
"""After that time an event is renewed: API servers delete events after an hour by default."""


class ConditionStep(Enum):
    """A change of the condition."""

    SET = "set"
    REMOVE = "remove"


class EventStep(Enum):
    """A change of the events of a pod."""

    CREATE = "create"
    RENEW = "renew"
    """Increase the count of the last event."""


@dataclass(frozen=True, slots=True)
class WrittenEvent:
    """The last event of a pod."""

    name: str
    result: WaitingResult
    created: float
    """Seconds."""
    renewed: float
    """Seconds."""
    count: int = 1


@dataclass(frozen=True, slots=True)
class WrittenToPod:
    """What this leader has written to a pod."""

    set_at: float | None = None
    """Seconds of the last condition; None before the first."""
    has_condition: bool = False
    """True if the condition was set and not removed; the view may not show it yet."""
    event: WrittenEvent | None = None
    known_since: float | None = None
    """Seconds when a condition was found that another leader had written with its event."""

    @property
    def is_nothing(self) -> bool:
        """True if this leader has not written to the pod, and has not found what another leader wrote."""
        return self == NOTHING_WRITTEN


NOTHING_WRITTEN = WrittenToPod()


def condition_step(
    state: PodState, result: WaitingResult | None, before: WrittenToPod, now: float
) -> ConditionStep | None:
    """The change of a pod's condition that is due now; one that is no longer true is removed.

    Args:
        state: The pod.
        result: What the condition should say; None if there should be none.
        before: What was written to the pod.
        now: Seconds.
    """
    if result is None:
        return ConditionStep.REMOVE if state.written is not None or before.has_condition else None
    if state.written == (result.reason, result.message):
        return None
    is_early = before.set_at is not None and now - before.set_at < _CONDITION_SECONDS
    return None if is_early else ConditionStep.SET


def event_step(result: WaitingResult, before: WrittenToPod, now: float) -> EventStep | None:
    """The change of a pod's events that is due while its condition has this result."""
    last = before.event
    if last is None:
        is_known = before.known_since is not None and now - before.known_since < _RENEWAL_SECONDS
        return None if is_known else EventStep.CREATE
    if last.result.reason != result.reason:
        return EventStep.CREATE
    if last.result != result:
        return EventStep.CREATE if now - last.created >= _EVENT_SECONDS else None
    return EventStep.RENEW if now - last.renewed >= _RENEWAL_SECONDS else None
