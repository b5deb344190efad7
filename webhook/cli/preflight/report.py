"""A preflight as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from policies.kubernetes.printable import printable
from policies.preflight import Status, coverage_json
from webhook.cli.text_layout import json_text, paragraph, terminal_width

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.preflight import Check, Preflight

__all__ = ["as_json", "exit_code", "text"]

_COLOURS = {Status.FAILING: "red", Status.UNKNOWN: "magenta", Status.WARNING: "yellow", Status.OK: "green"}
_NAME_WIDTH = 12


def text(preflight: Preflight) -> str:
    """The checks in sections, the worst first, and the conclusion."""
    width = terminal_width()
    sections = []
    for status, colour in _COLOURS.items():
        found = [each for each in preflight.checks if each.status is status]
        if found:
            title = click.style(status.upper(), fg=colour, bold=True)
            sections.append([title, *(line for each in found for line in _lines(each, width))])
    sections.append(paragraph(f"{_with_capital(preflight.conclusion)}.", width))
    return "\n\n".join("\n".join(lines) for lines in sections)


def _with_capital(sentence: str) -> str:
    return f"{sentence[:1].upper()}{sentence[1:]}"


def _lines(check: Check, width: int) -> Iterator[str]:
    indent = " " * (_NAME_WIDTH + 2)
    first, *rest = paragraph(check.what, width - len(indent))
    yield f"  {check.name:<{_NAME_WIDTH}}{first}"
    yield from (f"{indent}{line}" for line in rest)
    for title, value in (("Where", check.where), ("Why", check.why), ("What to do", check.remedy)):
        if value:
            yield from (f"{indent}{line}" for line in paragraph(f"{title}: {value}", width - len(indent)))


def as_json(preflight: Preflight) -> str:
    """Everything, with the counts of namespaces and pods."""
    step = preflight.step
    checks = [
        {
            field: value
            for field, value in (
                ("name", each.name),
                ("status", str(each.status)),
                ("what", printable(each.what)),
                ("where", printable(each.where)),
                ("why", printable(each.why)),
                ("remedy", printable(each.remedy)),
            )
            if value
        }
        for each in preflight.checks
    ]
    return json_text(
        {
            "step": {"verb": step.verb, "from": step.before or None, "to": step.after or None},
            "checks": checks,
            "namespaces": None if preflight.coverage is None else coverage_json(preflight.coverage),
            "conclusion": preflight.conclusion,
        }
    )


def exit_code(preflight: Preflight) -> int:
    """1 if something would fail, 4 if nothing would but a check has no answer, else 0."""
    found = {each.status for each in preflight.checks}
    return 1 if Status.FAILING in found else 4 if Status.UNKNOWN in found else 0
