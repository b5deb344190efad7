"""When the condition and the event of a waiting pod are written."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.waiting.pods import PodState
    from policies.waiting.results import WaitingResult

__all__ = [
    "NOTHING_WRITTEN",
    "ConditionStep",
    "EventStep",
    "WrittenEvent",
    "WrittenToPod",
    "condition_step",
    "event_step",
]

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
