"""Calls of our webhooks, as an API server counts them since its start."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["METRICS", "APIServerCalls", "WebhookCalls", "calls_in"]

_WEBHOOK, _CONDITION = "apiserver_admission_webhook_", "apiserver_admission_match_condition_"
_REQUESTS = f"{_WEBHOOK}request_total"
_REJECTIONS = f"{_WEBHOOK}rejection_count"
_FAIL_OPEN = f"{_WEBHOOK}fail_open_count"
_BUCKETS = f"{_WEBHOOK}admission_duration_seconds_bucket"
_EXCLUSIONS = f"{_CONDITION}exclusions_total"
_ERRORS = f"{_CONDITION}evaluation_errors_total"
_START = "process_start_time_seconds "
METRICS = (*(f"{name}{{" for name in (_REQUESTS, _REJECTIONS, _FAIL_OPEN, _BUCKETS, _EXCLUSIONS, _ERRORS)), _START)
"""How the lines begin that are read.

Source: k8s.io/apiserver pkg/admission/metrics; seen on Kubernetes 1.36.2.
"""
_LINE = re.compile(r"(\w+)\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_OURS = ".gpu-admission.io"
_ANSWERED = "no_error"
_FAILED_REVIEW = "500"
"""The code of our own refusal where a review that fails closed could not be completed."""


@dataclass(slots=True)
class WebhookCalls:
    """The calls of one webhook; one that is in both configurations is counted once."""

    calls: int = 0
    refused: int = 0
    """Answers that refused the object."""
    failed_closed: int = 0
    """Failed calls that refused the object."""
    failed_open: int = 0
    """Failed calls that let the object pass."""
    excluded: int = 0
    """Objects for which a matchCondition prevented the call."""
    condition_errors: int = 0
    """Objects for which a matchCondition could not be evaluated."""
    buckets: dict[float, int] = field(default_factory=dict)
    """Calls that took at most so many seconds."""

    @property
    def failed(self) -> int:
        """Calls without an answer."""
        return self.failed_closed + self.failed_open

    def bound(self, share: float) -> float | None:
        """A bucket's bound in seconds within which this share of the calls was answered; None without calls.

        It is infinite if more calls than that are in the last bucket.
        """
        total = max(self.buckets.values(), default=0)
        return (
            min((bound for bound, count in self.buckets.items() if count >= share * total), default=None)
            if total
            else None
        )


class APIServerCalls(NamedTuple):
    """What one API server has counted."""

    since: datetime | None
    """When it started; None if it does not say so."""
    webhooks: dict[str, WebhookCalls]
    """By the full name of the webhook."""


def calls_in(lines: Iterable[str]) -> APIServerCalls:
    """The calls in lines of the metrics of an API server; other lines are ignored."""
    since = None
    webhooks: dict[str, WebhookCalls] = {}
    for line in lines:
        if line.startswith(_START):
            since = datetime.fromtimestamp(float(line.removeprefix(_START)), UTC)
        elif match := _LINE.fullmatch(line):
            labels = dict(_LABEL.findall(match[2]))
            if labels.get("name", "").endswith(_OURS) and labels.get("kind", "webhook") == "webhook":
                _add(webhooks.setdefault(labels["name"], WebhookCalls()), match[1], labels, int(float(match[3])))
    return APIServerCalls(since, webhooks)


def _add(found: WebhookCalls, metric: str, labels: dict[str, str], count: int) -> None:
    if metric == _REQUESTS:
        found.calls += count
    elif (
        metric == _REJECTIONS
        and labels.get("error_type") == _ANSWERED
        and labels.get("rejection_code") != _FAILED_REVIEW
    ):
        found.refused += count
    elif metric == _REJECTIONS:
        found.failed_closed += count
    elif metric == _FAIL_OPEN:
        found.failed_open += count
    elif metric == _EXCLUSIONS:
        found.excluded += count
    elif metric == _ERRORS:
        found.condition_errors += count
    elif metric == _BUCKETS:
        bound = float(labels.get("le", "inf"))
        found.buckets[bound] = found.buckets.get(bound, 0) + count
