"""When conditions and events are written."""

from dataclasses import replace

import pytest

from policies.analyses.waiting import (
    NOTHING_WRITTEN,
    ConditionStep,
    EventStep,
    PodState,
    WaitingResult,
    WrittenEvent,
    WrittenToPod,
    condition_step,
    event_step,
)

RESULT = WaitingResult("NoNodeFits", "why", is_before_scheduling=False)
OTHER = replace(RESULT, message="another number")
ANOTHER_REASON = replace(RESULT, reason="NoNodeFitsNow")
SAME = ("NoNodeFits", "why")
OLD = ("NoNodeFits", "old")
SET, REMOVE, CREATE, RENEW = ConditionStep.SET, ConditionStep.REMOVE, EventStep.CREATE, EventStep.RENEW


def state(written):
    return PodState({}, is_pending=True, is_rejected=True, written=written)


CONDITIONS = {
    "first": (None, RESULT, NOTHING_WRITTEN, SET),
    "unchanged": (SAME, RESULT, WrittenToPod(0, has_condition=True), None),
    "changed, too early": (OLD, RESULT, WrittenToPod(41, has_condition=True), None),
    "changed": (OLD, RESULT, WrittenToPod(40, has_condition=True), SET),
    "changed by another leader": (OLD, RESULT, NOTHING_WRITTEN, SET),
    "not yet in the view": (None, RESULT, WrittenToPod(99, has_condition=True), None),
    "no longer true": (SAME, None, WrittenToPod(99, has_condition=True), REMOVE),
    "no longer true, not yet in the view": (None, None, WrittenToPod(99, has_condition=True), REMOVE),
    "never true": (None, None, NOTHING_WRITTEN, None),
    "removed": (None, None, WrittenToPod(99), None),
    "another leader's, no longer true": (SAME, None, NOTHING_WRITTEN, REMOVE),
}


@pytest.mark.parametrize(("written", "result", "before", "step"), CONDITIONS.values(), ids=CONDITIONS)
def test_condition(written, result, before, step):
    assert condition_step(state(written), result, before, 100) is step


def after(result, created, renewed):
    return WrittenToPod(event=WrittenEvent("train.1", result, created, renewed))


EVENTS = {
    "first": (NOTHING_WRITTEN, CREATE),
    "unchanged": (after(RESULT, 8201, 8201), None),
    "unchanged for half an hour": (after(RESULT, 0, 8200), RENEW),
    "other numbers, too early": (after(OTHER, 9401, 9401), None),
    "other numbers": (after(OTHER, 9400, 9400), CREATE),
    "another reason": (after(ANOTHER_REASON, 9999, 9999), CREATE),
    "another leader's": (WrittenToPod(known_since=8201), None),
    "another leader's, half an hour old": (WrittenToPod(known_since=8200), CREATE),
}


@pytest.mark.parametrize(("before", "step"), EVENTS.values(), ids=EVENTS)
def test_event(before, step):
    assert event_step(RESULT, before, 10000) is step
