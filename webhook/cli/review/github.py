"""Annotations of GitHub Actions: one workflow command on each line.

Every line is a command or has numbers only: the runner obeys each line that begins with `::`, and the author of a pull
request chooses the names of files. Source: https://docs.github.com/actions/reference/workflow-commands-for-github-actions,
https://github.com/actions/toolkit, packages/core/src/command.ts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from policies.kubernetes.names import format_count, printable
from webhook.cli.review.review_report import UNREADABLE, Level, is_stdin, objects_by_verdict, repository_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webhook.cli.manifest_reader import Problem
    from webhook.cli.review import TextOptions
    from webhook.cli.review.review_report import Review, ReviewFinding


_COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}

_IN_MESSAGES = "%\r\n"
_IN_PROPERTIES = "%\r\n:,"


def show(review: Review, options: TextOptions) -> None:
    """Print an annotation for each problem and new finding, and the numbers of objects."""
    for problem in review.problems:
        click.echo(_unreadable(problem))
    for finding in _new_findings(review):
        click.echo(_annotation(finding))
    if review.stale:
        count = format_count(len(review.stale), "known finding")
        click.echo(_command("notice", {"file": review.baseline}, f"{count} no longer found; update the baseline"))
    click.echo(objects_by_verdict(review.results))


def _new_findings(review: Review) -> Iterator[ReviewFinding]:
    """The new findings; a cause outside the objects appears once.

    GitHub shows ten annotations of each level.
    """
    causes = set()
    for reviewed in review.objects:
        for finding in reviewed.findings:
            cause = (finding.rule.id, finding.message)
            is_repeated = finding.rule.shared_cause and finding.level is not Level.ERROR and cause in causes
            causes.add(cause)
            if not finding.is_known and not is_repeated:
                yield finding


def _annotation(finding: ReviewFinding) -> str:
    where = {"line": str(finding.line), "col": str(finding.column)}
    title = f"{finding.rule}: {finding.rule.title}"
    return _command(
        _COMMANDS[finding.level], {**_place(finding.file, where), "title": title}, f"{finding.label}: {finding.message}"
    )


def _unreadable(problem: Problem) -> str:
    position = problem.position
    where = {"line": str(position.line), "col": str(position.column)} if position else {}
    return _command("error", {**_place(problem.file, where), "title": UNREADABLE.title}, printable(problem.message))


def _place(file: str, where: dict[str, str]) -> dict[str, str]:
    """The properties for a place; none for standard input, which GitHub cannot show."""
    return {} if is_stdin(file) else {"file": printable(repository_path(file)), **where}


def _command(name: str, properties: dict[str, str], message: str) -> str:
    written = ",".join(f"{key}={_escape(value, _IN_PROPERTIES)}" for key, value in properties.items())
    return f"::{name} {written}::{_escape(message, _IN_MESSAGES)}"


def _escape(text: str, special: str) -> str:
    """A text in which special characters are their hexadecimal codes."""
    return "".join(f"%{ord(character):02X}" if character in special else character for character in text)
