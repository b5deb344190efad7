"""Pods that wait for GPUs, and the result of their explanation as a condition and an event.

Nothing is decided here: the verdict and the reasons are those of `policies.explanation`. This package says which pods wait,
which of them have the same explanation, and how a verdict reads in the status of a pod.
"""

from __future__ import annotations

from policies.waiting.alike_pods import alike_key, for_all_alike
from policies.waiting.pods import PodState, is_waiting, pod_state
from policies.waiting.results import LONGEST_MESSAGE, WaitingResult, waiting_result
from policies.waiting.writes import (
    NOTHING_WRITTEN,
    ConditionStep,
    EventStep,
    WrittenEvent,
    WrittenToPod,
    condition_step,
    event_step,
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
