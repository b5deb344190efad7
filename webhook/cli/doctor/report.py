"""A diagnosis as text and as JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypedDict

import click

from policies.health import MEDIAN, SLOWEST, bound_text
from webhook.cli.check_reports import check_sections, checks_json
from webhook.cli.text_layout import GAP, column, json_text, paragraph, table, terminal_width

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.health import APIServerCalls, Diagnosis, WebhookCalls
    from webhook.cli.check_reports import CheckJSON

__all__ = ["DiagnosisJSON", "as_json", "text"]

_FORMAT = 1
"""Of the JSON; raised if a field changes its meaning or goes away."""
_OURS = ".gpu-admission.io"


def text(diagnosis: Diagnosis) -> str:
    """The checks in sections, the worst first, the calls of each webhook, and the conclusion."""
    width = terminal_width()
    sections = [*check_sections(diagnosis.checks, width)]
    if diagnosis.calls is not None and diagnosis.calls.webhooks:
        sections.append([*_calls(diagnosis.calls)])
    sections.append(paragraph(f"{diagnosis.conclusion}.", width))
    return "\n\n".join("\n".join(lines) for lines in sections)


def _calls(calls: APIServerCalls) -> Iterator[str]:
    since = f", since {calls.since:%Y-%m-%d %H:%M} UTC" if calls.since else ""
    yield f"{click.style('CALLS', bold=True)} as the API server that answered counts them{since}"
    rows = [
        (
            name.removesuffix(_OURS),
            f"{each.calls:,}",
            f"{each.refused:,}",
            f"{each.failed:,}",
            f"{each.excluded:,}",
            bound_text(each.bound(MEDIAN)),
            bound_text(each.bound(SLOWEST)),
        )
        for name, each in sorted(calls.webhooks.items())
    ]
    titles = ("webhook", "calls", "refused", "failed", "excluded", "1 of 2 takes", "99 of 100 take")
    columns = [
        column(title, (row[number] for row in rows), right=0 < number < 5) for number, title in enumerate(titles)
    ]
    yield from (f"{' ' * GAP}{line}" for line in table(columns, [[[cell] for cell in row] for row in rows]))


class _WebhookCallsJSON(TypedDict):
    """The calls of a webhook.

    A time is null without calls, or if it is longer than the API server measures.
    """

    calls: int
    refused: int
    failedClosed: int
    failedOpen: int
    excluded: int
    conditionErrors: int
    secondsOfHalf: float | None
    secondsOf99Percent: float | None


class _CallsJSON(TypedDict):
    """The calls of our webhooks as the API server counts them, by webhook."""

    since: str | None
    webhooks: dict[str, _WebhookCallsJSON]


class DiagnosisJSON(TypedDict):
    """The output of `gpu-admission doctor -o json`."""

    format: int
    checks: list[CheckJSON]
    calls: _CallsJSON | None
    conclusion: str


def as_json(diagnosis: Diagnosis) -> str:
    """Everything, for programs."""
    document: DiagnosisJSON = {
        "format": _FORMAT,
        "checks": checks_json(diagnosis.checks),
        "calls": None if diagnosis.calls is None else _calls_json(diagnosis.calls),
        "conclusion": diagnosis.conclusion,
    }
    return json_text(document)


def _calls_json(calls: APIServerCalls) -> _CallsJSON:
    return {
        "since": None if calls.since is None else calls.since.isoformat(),
        "webhooks": {name: _webhook_json(each) for name, each in sorted(calls.webhooks.items())},
    }


def _webhook_json(calls: WebhookCalls) -> _WebhookCallsJSON:
    return {
        "calls": calls.calls,
        "refused": calls.refused,
        "failedClosed": calls.failed_closed,
        "failedOpen": calls.failed_open,
        "excluded": calls.excluded,
        "conditionErrors": calls.condition_errors,
        "secondsOfHalf": _finite_seconds(calls.bound(MEDIAN)),
        "secondsOf99Percent": _finite_seconds(calls.bound(SLOWEST)),
    }


def _finite_seconds(seconds: float | None) -> float | None:
    return None if seconds is None or math.isinf(seconds) else seconds
