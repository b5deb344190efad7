"""Checks of a cluster as text and JSON, and their exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NotRequired, TypedDict

import click

from policies.cluster_checks import Status
from policies.kubernetes.printable import printable
from webhook.cli.text_layout import paragraph

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.cluster_checks import Check

__all__ = ["CheckJSON", "check_sections", "checks_json", "exit_code"]

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


class CheckJSON(TypedDict):
    """The answer of a check, without empty fields."""

    name: str
    status: Annotated[str, Status]
    what: str
    where: NotRequired[str]
    why: NotRequired[str]
    remedy: NotRequired[str]


def checks_json(checks: Sequence[Check]) -> list[CheckJSON]:
    """The checks as mappings, without empty fields."""
    return [_check_json(each) for each in checks]


def _check_json(check: Check) -> CheckJSON:
    document: CheckJSON = {
        "name": printable(check.name),
        "status": str(check.status),
        "what": printable(check.what),
    }
    if check.where:
        document["where"] = printable(check.where)
    if check.why:
        document["why"] = printable(check.why)
    if check.remedy:
        document["remedy"] = printable(check.remedy)
    return document


def exit_code(checks: Sequence[Check], *, of_warnings: int = 0) -> int:
    """1 if a check is failing, else 4 if one has no answer, else `of_warnings` if one warns, else 0."""
    found = {each.status for each in checks}
    if Status.FAILING in found:
        return 1
    if Status.UNKNOWN in found:
        return 4
    return of_warnings if Status.WARNING in found else 0
