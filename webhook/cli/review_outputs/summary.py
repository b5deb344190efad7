"""The end of a report for people: what fails, and the numbers of objects and known findings."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from policies.kubernetes.names import format_count, printable
from webhook.cli.review_report import Level
from webhook.cli.text_layout import truncation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from webhook.cli.review_report import Review, ReviewedObject
    from webhook.cli.subjects import Result

__all__ = ["count_lines", "failure_lines", "objects_by_verdict", "place_of", "show_summary", "verdict_of"]

_COLOURS = {"admitted": "green", "refused": "red", "not reviewed": "yellow"}
_MOST_LISTED = 50
"""Failures and stale entries that are listed; `-o json` has all failures."""


def show_summary(review: Review) -> None:
    """Print the summary to standard error, because standard output is for a program."""
    for line in (*failure_lines(review), *count_lines(review)):
        click.echo(line, err=True)


def failure_lines(review: Review) -> Iterator[str]:
    """A line for each object that fails the review, with the rules that it breaks."""
    failed = review.failures
    if not failed:
        return
    yield click.style("What fails:", bold=True)
    for reviewed in failed[:_MOST_LISTED]:
        result = reviewed.result
        yield f"  {place_of(result)}  {printable(result.subject.label)}  {verdict_of(result)}  {', '.join(_rules(reviewed))}"
    yield from (f"  {line}" for line in truncation(len(failed), _MOST_LISTED))


def count_lines(review: Review) -> Iterator[str]:
    """The numbers of objects by verdict, of known findings, and of those that are no longer found."""
    yield objects_by_verdict(review.results)
    file = printable(review.baseline)
    if review.known:
        yield f"{format_count(review.known, 'finding')} left out, because {file} has them"
    if review.stale:
        count = format_count(len(review.stale), "known finding")
        yield f"{file}: {count} no longer found; --update-baseline removes them:"
        for entry in review.stale[:_MOST_LISTED]:
            yield printable(f"  {entry.file}  {entry.object}  {entry.rule} {entry.level}  {entry.path}".rstrip())
        yield from (f"  {line}" for line in truncation(len(review.stale), _MOST_LISTED))


def place_of(result: Result) -> str:
    """The file and line of an object."""
    return f"{printable(result.subject.manifest.file)}:{result.subject.position().line}"


def verdict_of(result: Result) -> str:
    """The verdict on an object, in its colour."""
    return click.style(result.verdict, fg=_COLOURS[result.verdict], bold=True)


def _rules(reviewed: ReviewedObject) -> list[str]:
    """The rules of the new findings because of which an object fails."""
    new = [finding for finding in reviewed.findings if not finding.is_known]
    worst = Level.ERROR if any(finding.level is Level.ERROR for finding in new) else Level.WARNING
    return list(dict.fromkeys(finding.rule.id for finding in new if finding.level is worst))


def objects_by_verdict(results: Sequence[Result]) -> str:
    """The numbers of objects by verdict, and of admitted objects with warnings or conversion."""
    numbers = Counter(result.verdict for result in results)
    admitted = [result for result in results if result.verdict == "admitted"]
    details = _join(
        {
            "with warnings": sum(bool(result.warnings) for result in admitted),
            "with waived findings": sum(any(each.waived for each in result.findings) for result in admitted),
            "converted": sum(result.change == "converted" for result in admitted),
        }
    )
    admitted_as = f"admitted ({details})" if details else "admitted"
    verdicts = {verdict: numbers[verdict] for verdict in ("refused", "not reviewed")}
    numbers_by_verdict = _join({admitted_as: len(admitted), **verdicts})
    return ": ".join(filter(None, (format_count(len(results), "object"), numbers_by_verdict)))


def _join(numbers: dict[str, int]) -> str:
    return ", ".join(f"{number:,} {what}" for what, number in numbers.items() if number)
