"""A diagnosis as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotation
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from policies.analyses.installation import MEDIAN, SLOWEST, bound_text
from policies.analyses.installation.cluster_checks import Check  # noqa: TC001 - pydantic reads the annotation
from webhook.cli.check_reports import check_sections, printable_checks
from webhook.cli.text_layout import GAP, column, output_text, paragraph, table, terminal_width

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.analyses.installation import APIServerCalls, Diagnosis, WebhookCalls

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


@dataclass(frozen=True, slots=True)
class _WebhookCallsJSON:
    """The calls of a webhook.

    A time is null without calls, or if it is longer than the API server measures.
    """

    calls: int
    refused: int
    failed_closed: int
    failed_open: int
    excluded: int
    condition_errors: int
    seconds_of_half: float | None
    seconds_of_99_percent: float | None


@dataclass(frozen=True, slots=True)
class _CallsJSON:
    """The calls of our webhooks as the API server counts them, by webhook."""

    since: str | None
    webhooks: Mapping[str, _WebhookCallsJSON]


@dataclass(frozen=True, slots=True)
class DiagnosisJSON:
    """The output of `gpu-admission doctor -o json`."""

    format: int
    checks: tuple[Check, ...]
    calls: _CallsJSON | None
    conclusion: str


def as_json(diagnosis: Diagnosis) -> str:
    """Everything, for programs."""
    calls = diagnosis.calls
    document = DiagnosisJSON(
        format=_FORMAT,
        checks=printable_checks(diagnosis.checks),
        calls=None
        if calls is None
        else _CallsJSON(
            since=None if calls.since is None else calls.since.isoformat(),
            webhooks={name: _webhook_json(each) for name, each in sorted(calls.webhooks.items())},
        ),
        conclusion=diagnosis.conclusion,
    )
    return output_text(document, DiagnosisJSON)


def _webhook_json(calls: WebhookCalls) -> _WebhookCallsJSON:
    return _WebhookCallsJSON(
        calls=calls.calls,
        refused=calls.refused,
        failed_closed=calls.failed_closed,
        failed_open=calls.failed_open,
        excluded=calls.excluded,
        condition_errors=calls.condition_errors,
        seconds_of_half=_finite_seconds(calls.bound(MEDIAN)),
        seconds_of_99_percent=_finite_seconds(calls.bound(SLOWEST)),
    )


def _finite_seconds(seconds: float | None) -> float | None:
    return None if seconds is None or math.isinf(seconds) else seconds
