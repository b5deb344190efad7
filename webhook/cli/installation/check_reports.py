"""Checks of a cluster as text and JSON, and their exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from policies.analyses.installation.cluster_checks import Check, Status
from policies.kubernetes.names import printable
from webhook.cli.text_layout import paragraph

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_COLOURS = {Status.FAILING: "red", Status.UNKNOWN: "magenta", Status.WARNING: "yellow", Status.OK: "green"}
_NAME_WIDTH = 12
_INDENT = " " * (_NAME_WIDTH + 2)


def check_sections(checks: Sequence[Check], width: int) -> Iterator[list[str]]:
    """The lines of a section for each answer, the worst first."""
    for status, colour in _COLOURS.items():
        if found := [each for each in checks if each.status is status]:
            title = click.style(status.upper(), fg=colour, bold=True)
            yield [title, *(line for each in found for line in _lines(each, width))]


def _lines(check: Check, width: int) -> Iterator[str]:
    first, *rest = paragraph(check.what, width - len(_INDENT))
    yield f"  {check.name:<{_NAME_WIDTH}}{first}"
    yield from (f"{_INDENT}{line}" for line in rest)
    for title, text in (("Where", check.where), ("Why", check.why), ("What to do", check.remedy)):
        if text:
            yield from (f"{_INDENT}{line}" for line in paragraph(f"{title}: {text}", width - len(_INDENT)))


def printable_checks(checks: Sequence[Check]) -> tuple[Check, ...]:
    """The checks as their JSON has them, without characters that a terminal would obey."""
    return tuple(
        Check(
            name=printable(each.name),
            status=each.status,
            what=printable(each.what),
            where=printable(each.where),
            why=printable(each.why),
            remedy=printable(each.remedy),
        )
        for each in checks
    )


def exit_code(checks: Sequence[Check], *, of_warnings: int = 0) -> int:
    """1 if a check is failing, else 4 if one has no answer, else `of_warnings` if one warns, else 0."""
    found = {each.status for each in checks}
    if Status.FAILING in found:
        return 1
    if Status.UNKNOWN in found:
        return 4
    return of_warnings if Status.WARNING in found else 0
