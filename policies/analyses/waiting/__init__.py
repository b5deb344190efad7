"""Pods that wait for GPUs, and the result of their explanation as a condition and an event.

The verdict and the reasons come from `policies.analyses.explain`. This package decides which pods wait, which of them share an
explanation, and what the condition and the event of a pod contain.
"""

from __future__ import annotations

from policies.analyses.waiting.pods import PodState, alike_key, for_all_alike, is_waiting, pod_state
from policies.analyses.waiting.writes import (
    LONGEST_MESSAGE,
    NOTHING_WRITTEN,
    ConditionStep,
    EventStep,
    WaitingResult,
    WrittenEvent,
    WrittenToPod,
    condition_step,
    event_step,
    waiting_result,
)

__all__ = [
    "LONGEST_MESSAGE",
    "NOTHING_WRITTEN",
    "ConditionStep",
    "EventStep",
    "PodState",
    "WaitingResult",
    "WrittenEvent",
    "WrittenToPod",
    "alike_key",
    "condition_step",
    "event_step",
    "for_all_alike",
    "is_waiting",
    "pod_state",
    "waiting_result",
]
