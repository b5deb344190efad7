"""Results for people: what kubectl prints, the places of findings, and diffs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from policies.causes import once_per_cause
from policies.kubernetes.paths import lookup
from policies.kubernetes.printable import printable
from policies.review.pods import MALFORMED
from webhook.cli import kubectl
from webhook.cli.dump import colour_line, diff

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.decision import Finding
    from policies.kubernetes.objects import Object
    from webhook.cli.admit import Refusal, Result

__all__ = ["kubectl_lines", "summary", "text"]

_EXCERPT = 100
"""The characters of an expression that are shown around a place in it."""
_COLOURS = {"admitted": "green", "refused": "red", "not reviewed": "yellow"}


def text(results: Sequence[Result], *, is_quiet: bool = False, with_diffs: bool = True) -> str:
    """Results, and a summary of all.

    A warning whose cause lies outside the objects is printed once, with the number of objects.

    Args:
        results: Of all objects.
        is_quiet: True to leave out objects without a problem.
        with_diffs: True to show how objects are changed.
    """
    reported = once_per_cause([result.findings for result in results], "object")
    shown = [
        replace(result, findings=findings)
        for result, findings in zip(results, reported, strict=True)
        if result.is_problem or not is_quiet
    ]
    return "\n".join(["\n".join((*_lines(result, with_diffs=with_diffs), "")) for result in shown] + [summary(results)])


def summary(results: Sequence[Result]) -> str:
    """The numbers of objects by verdict, and of admitted objects with warnings or conversion."""
    counts = Counter(result.verdict for result in results)
    count = len(results)
    admitted = [result for result in results if result.verdict == "admitted"]
    details = _counts(
        {
            "with warnings": sum(bool(result.warnings) for result in admitted),
            "with waived findings": sum(any(each.waived for each in result.findings) for result in admitted),
            "converted": sum(result.change == "converted" for result in admitted),
        }
    )
    admitted_as = f"admitted ({details})" if details else "admitted"
    verdicts = {verdict: counts[verdict] for verdict in ("refused", "not reviewed")}
    return f"{count} object{'s' * (count != 1)}: {_counts({admitted_as: len(admitted), **verdicts})}"


def _counts(numbers: dict[str, int]) -> str:
    return ", ".join(f"{number} {what}" for what, number in numbers.items() if number)


def kubectl_lines(result: Result) -> Iterator[str]:
    """The lines that kubectl prints: warnings, then refusals."""
    yield from map(kubectl.warning, result.warnings)
    for refusal in result.refusals:
        yield _refusal(result, refusal)


def _lines(result: Result, *, with_diffs: bool) -> Iterator[str]:
    subject = result.subject
    file = subject.manifest.file
    verdict = click.style(result.verdict, fg=_COLOURS[result.verdict], bold=True)
    more = f", {result.change}" if result.change else f": {result.not_reviewed}" if result.not_reviewed else ""
    label = click.style(printable(subject.label), bold=True)
    yield f"{file}:{subject.position().line}  {label}  {verdict}{more}"
    yield from kubectl_lines(result)
    for finding in result.findings:
        place = subject.position_of(finding)
        said = f"waived because {finding.waived}" if finding.waived else finding.rule.title
        yield f"  {finding.rule} {finding.severity}  {file}:{place.line}:{place.column}  {said}"
        if not finding.waived:
            yield from _excerpt(subject.document, finding)
    if result.left_out:
        yield f"  and {result.left_out:,} more findings; put these right first"
    if with_diffs and result.patch and result.before is not None and result.after is not None:
        yield from map(colour_line, diff(result.before, result.after, printable(subject.label)))
    if result.templates:
        names = ", ".join(f"{template.namespace}/{template.name}" for template in result.templates)
        yield f"refers to ResourceClaimTemplate {names} (-o yaml prints it in full)"


def _excerpt(document: Object, finding: Finding) -> Iterator[str]:
    """The line of an expression with a finding, and a caret below the place."""
    place = finding.place
    if place is None or place.path[-1:] != ("expression",):
        return
    lines = str(lookup(document, place.path)).split("\n")
    line = printable(lines[place.line - 1]) if place.line <= len(lines) else ""
    first = max(0, place.column - 1 - _EXCERPT // 2) if len(line) > _EXCERPT else 0
    yield f"    {line[first : first + _EXCERPT]}"
    yield f"    {' ' * (place.column - 1 - first)}^"


def _refusal(result: Result, refusal: Refusal) -> str:
    subject, findings = result.subject, refusal.findings
    # The API server refuses a malformed pod before it calls webhooks, with the same words.
    if all(finding.rule is MALFORMED or finding.rule.names_fields for finding in findings):
        causes = [printable(str(finding)) for finding in findings]
        return kubectl.invalid_object(subject.request.kind, printable(subject.name), causes)
    message = "\n".join(printable(str(finding)) for finding in findings)
    if not refusal.webhook:
        return f'Error when reviewing "{subject.manifest.file}": {message}'
    message = kubectl.denial(refusal.webhook, message)
    if refusal.of_pods:
        return kubectl.failed_create_event(message)
    reason = "TooManyRequests" if refusal.is_later else "Forbidden"
    return kubectl.refusal(reason, subject.manifest.file, subject.request.operation, message)
