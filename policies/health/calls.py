"""Calls of our webhooks as an API server counts them: failures, and the time that they take."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from policies.cluster_checks import Check, Status
from policies.health.facts import Unread, unread_check
from policies.phrases import format_count, format_list

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.health.call_metrics import APIServerCalls, WebhookCalls

__all__ = ["MEDIAN", "SLOWEST", "bound_text", "call_checks"]

MEDIAN, SLOWEST = 0.5, 0.99
"""Shares of the calls whose time is shown."""
_MOST_FAILED = 0.001
_LONGEST = 0.1
"""The objectives of docs/slo.md: the share of calls without an answer, and the seconds for 99 of 100 calls."""
_ENOUGH = 100
"""Calls of an entry before its slowest are worth a warning."""
_WHERE = "/metrics of the API server that answered"


def call_checks(calls: APIServerCalls | Unread, api_servers: int) -> Iterator[Check]:
    """Whether calls are answered, and in time.

    Args:
        calls: What one API server counted.
        api_servers: How many there are; 0 if that is unknown.
    """
    if isinstance(calls, Unread):
        yield unread_check("calls", "it is unknown how many calls fail, and how long they take", calls)
        return
    since = f" since {calls.since:%Y-%m-%d %H:%M} UTC" if calls.since else ""
    where = f"{_WHERE}, 1 of {api_servers}; the others count their own calls" if api_servers > 1 else _WHERE
    total = sum(each.calls for each in calls.webhooks.values())
    failed = {name: each for name, each in calls.webhooks.items() if each.failed > _MOST_FAILED * max(each.calls, 1)}
    for name, each in failed.items():
        yield _failure_check(name, each, since, where)
    if not failed:
        lost = sum(each.failed for each in calls.webhooks.values())
        of = f" of 1 of {api_servers} API servers" if api_servers > 1 else ""
        counted = f"{lost:,} of {format_count(total, 'call')}{of} had no answer" if total else f"no call{of} was made"
        yield Check(name="calls", status=Status.OK, what=f"{counted}{since}")
    yield from _latency(calls, where)
    for name, each in calls.webhooks.items():
        if each.condition_errors:
            yield Check(
                name="conditions",
                status=Status.WARNING,
                what=f"matchConditions of {name} failed {format_count(each.condition_errors, 'time')}{since}",
                where=where,
                why="an object was too expensive to evaluate, so the failurePolicy of the webhook decided",
                remedy="docs/security.md says who may create such objects",
            )


def _failure_check(name: str, calls: WebhookCalls, since: str, where: str) -> Check:
    parts = [
        *([f"{calls.failed_closed:,} refused their object"] if calls.failed_closed else []),
        *([f"{calls.failed_open:,} let it pass unreviewed"] if calls.failed_open else []),
    ]
    return Check(
        name="calls",
        status=Status.WARNING,
        what=f"{calls.failed:,} of {format_count(calls.calls, 'call')} of {name} had no answer{since}",
        where=where,
        why=format_list(parts),
        remedy="docs/troubleshooting.md#calls-do-not-arrive; the numbers stay until the API server restarts",
    )


def _latency(calls: APIServerCalls, where: str) -> Iterator[Check]:
    timed = {name: each for name, each in calls.webhooks.items() if each.bound(MEDIAN) is not None}
    slow = {
        name: bound
        for name, each in timed.items()
        if each.calls >= _ENOUGH and (bound := each.bound(SLOWEST) or 0) > _LONGEST
    }
    for name, bound in slow.items():
        yield Check(
            name="latency",
            status=Status.WARNING,
            what=f"more than 1 of 100 calls of {name} take longer than {_LONGEST:g} s; 99 of 100 take {bound_text(bound)}",
            where=where,
            remedy="docs/troubleshooting.md#load",
        )
    if timed and not slow:
        slowest = max(each.bound(MEDIAN) or 0 for each in timed.values())
        what = f"half of the calls of each webhook take {bound_text(slowest)}"
        yield Check(name="latency", status=Status.OK, what=what)


def bound_text(seconds: float | None) -> str:
    """`at most 25 ms`."""
    if seconds is None:
        return "-"
    if math.isinf(seconds):
        return "longer than the API server measures"
    return f"at most {seconds:g} s" if seconds >= 1 else f"at most {seconds * 1000:g} ms"
