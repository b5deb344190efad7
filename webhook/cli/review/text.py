"""Results for people: what kubectl prints, the places of findings, diffs, and admitted documents."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from policies.admission import well_formed_pod
from policies.kubernetes.names import format_count, printable
from policies.rules.decision import Severity, refusal_lines
from policies.rules.messages import reason, remedy_sentences
from policies.rules.waivers import once_per_cause
from webhook.cli import kubectl
from webhook.cli.review.review_report import count_lines, failure_lines, place_of, verdict_of
from webhook.cli.text_layout import diff, dump_all, json_text
from webhook.pages.text_report import colour_diff_line, colour_text, fit_to_terminal, print_lines, terminal_width

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.admission import Refusal
    from policies.kubernetes.objects import Object
    from policies.kubernetes.yaml import Position
    from webhook.cli.manifest_reader import Manifest
    from webhook.cli.review import TextOptions
    from webhook.cli.review.review_report import Review, ReviewedObject
    from webhook.cli.subjects import Result


_EXCERPT = 100
"""The most characters of a line that are shown around a place in it."""
_MANY = 10
"""The number of objects beyond which failures are listed again at the end."""


def show(review: Review, options: TextOptions) -> None:
    """Print each object, then what fails if there are many objects, and the numbers of objects.

    A warning whose cause lies outside the objects is printed once, with the number of objects.
    """
    results = [_without_known(reviewed) for reviewed in review.objects]
    reported = once_per_cause([result.findings for result in results], "object")
    shown, told = 0, set[tuple[str, str]]()
    for reviewed, result, findings in zip(review.objects, results, reported, strict=True):
        if reviewed.is_problem or not options.is_quiet:
            lines = _lines(reviewed, replace(result, findings=findings), told)
            changes: Iterable[str] = ()
            if options.with_diffs and result.patch and result.before is not None and result.after is not None:
                changes = map(colour_diff_line, diff(result.before, result.after, result.subject.label))
            names = ", ".join(f"{template.namespace}/{template.name}" for template in result.templates)
            templates = [f"refers to ResourceClaimTemplate {names} (-o yaml prints it in full)"] if names else []
            click.echo("\n".join([*fit_to_terminal(lines), *changes, *fit_to_terminal(templates), ""]))
            shown += 1
    print_lines((*(failure_lines(review) if shown > _MANY else ()), *count_lines(review)))


def show_messages(review: Review) -> None:
    """Print what kubectl would print to standard error, because standard output is for the documents."""
    for result in review.results:
        print_lines(_kubectl_lines(result), err=True)
        if result.is_refused:
            label = printable(result.subject.label)
            print_lines([f"{place_of(result)}: {label} is left out, because it is refused"], err=True)


def _without_known(reviewed: ReviewedObject) -> Result:
    """The result without findings that the baseline has."""
    result, findings = reviewed.result, reviewed.findings
    if not any(finding.is_known for finding in findings):
        return result
    of_rules = zip(result.findings, findings, strict=False)
    new = tuple(found for found, finding in of_rules if not finding.is_known)
    others = findings[len(result.findings) :]
    refusals = (
        replace(refusal, findings=tuple(found for found in refusal.findings if found in new))
        for refusal in result.refusals
    )
    return replace(
        result,
        findings=new,
        remarks=tuple(remark for remark, each in zip(result.remarks, others, strict=False) if not each.is_known),
        refusals=tuple(refusal for refusal in refusals if refusal.findings),
        left_out=0 if findings[-1].is_known else result.left_out,
    )


def _kubectl_lines(result: Result) -> Iterator[str]:
    """The lines that kubectl prints: warnings, then refusals."""
    yield from map(kubectl.warning, result.warnings)
    for refusal in result.refusals:
        yield _refusal(result, refusal)


def _lines(reviewed: ReviewedObject, result: Result, told: set[tuple[str, str]]) -> Iterator[str]:
    """The lines of an object.

    Args:
        reviewed: The object.
        result: The result without what the baseline has.
        told: Namespaces and what administrators were told that they can do there; it is not printed again.
    """
    subject = result.subject
    file = printable(subject.manifest.file)
    more = f", {result.change}" if result.change else f": {result.not_reviewed}" if result.not_reviewed else ""
    known = sum(finding.count for finding in reviewed.findings if finding.is_known)
    note = f" ({format_count(known, 'known finding')})" if known else ""
    label = colour_text(subject.label, bold=True)
    yield f"{place_of(result)}  {label}  {verdict_of(reviewed.result)}{more}{note}"
    yield from map(kubectl.warning, result.warnings)
    explained = set[str]()
    for refusal in result.refusals:
        lines = _refusal(result, refusal)
        for index, finding in enumerate(refusal.findings):
            if (index == 0 or not finding.remedy) and printable(finding.message) in lines:
                explained.add(reason(finding.path, finding.message))
        yield lines
    last: Position | None = None
    for finding in result.findings:
        place = subject.position_of(finding)
        said = f"waived because {finding.waived}" if finding.waived else finding.rule.title
        yield f"  {finding.rule} {finding.severity}  {file}:{place.line}:{place.column}  {said}"
        if finding.waived:
            continue
        if place != last and (finding.path or finding.place):
            yield from _excerpt(subject.manifest, place)
            last = place
        why = reason(finding.path, finding.message)
        if finding.severity is Severity.DENY and why not in explained:
            yield f"    Reason: {printable(why)}"
            explained.add(why)
        task = subject.request.namespace, finding.administrator
        if finding.severity in (Severity.DENY, Severity.WARN) and task not in told:
            for each in remedy_sentences(administrator=finding.administrator):
                yield f"    {printable(each)}"
            told.add(task)
    if result.left_out:
        yield f"  and {result.left_out:,} more findings; put these right first"


def _excerpt(manifest: Manifest, place: Position) -> Iterator[str]:
    """The line of the file with a finding, and a caret below the place.

    A long line is cut on both sides of the place.
    """
    line, at = manifest.document.source_line(place.line), place.column - 1
    if not line.strip():
        return
    width = min(_EXCERPT, (terminal_width() or _EXCERPT + 4) - 4)
    first, last = max(0, at - width), min(len(line), at + width)
    while first < at and _columns(line[first:at]) > width // 2 and _columns(line[first:last]) > width:
        first += 1
    while last > at + 1 and _columns(line[first:last]) > width:
        last -= 1
    before, after = printable(line[first:at]), printable(line[at:last])
    if first:
        before = f"…{before[1:]}"
    if last < len(line):
        after = f"{after[:-1]}…"
    yield f"    {before}{after}"
    yield f"    {' ' * _columns(before)}^"


def _columns(text: str) -> int:
    """The columns of a text in a terminal.

    Wide characters take two, and accents that join the letter before take none.
    """
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in ("W", "F") for character in text)
    joined = sum(unicodedata.category(character) in ("Mn", "Me") for character in text)
    return len(text) + wide - joined


def _refusal(result: Result, refusal: Refusal) -> str:
    subject, findings = result.subject, refusal.findings
    # The API server refuses a malformed pod before it calls webhooks, with the same words.
    if all(finding.rule is well_formed_pod.rule or finding.rule.names_fields for finding in findings):
        lines = refusal_lines(findings, with_paths=False)
        causes = [
            f"{path}: {line}" if (path := printable(str(finding.path))) else line
            for finding, line in zip(findings, lines, strict=True)
        ]
        return kubectl.invalid_object(subject.request.kind, printable(subject.name), causes)
    message = "\n".join(refusal_lines(findings))
    if not refusal.webhook:
        return f'Error when reviewing "{printable(subject.manifest.file)}": {message}'
    message = kubectl.denial(refusal.webhook, message)
    if refusal.of_pods:
        return kubectl.failed_create_event(message)
    status = "TooManyRequests" if refusal.is_later else "Forbidden"
    return kubectl.refusal(status, printable(subject.manifest.file), subject.request.operation, message)


def show_yaml(review: Review, options: TextOptions) -> None:
    """Print the objects to keep instead of the originals; to standard error what kubectl would print."""
    show_messages(review)
    click.echo(dump_all(_documents(review)), nl=False)


def _documents(review: Review) -> Iterator[Object]:
    """The admitted objects, each followed by its new templates, unless a template is itself under review."""
    written = {
        (result.subject.request.namespace, result.subject.name)
        for result in review.results
        if result.subject.request.kind == "ResourceClaimTemplate"
    }
    for result in review.results:
        if not result.is_refused and result.after is not None:
            yield result.after
            for template in result.templates:
                if (template.namespace, template.name) not in written:
                    yield template.manifest()
                    written.add((template.namespace, template.name))


def show_patch(review: Review, options: TextOptions) -> None:
    """Print the JSON Patch of a single object, and to standard error what kubectl would print.

    Raises:
        click.UsageError: The review has not exactly one result.
    """
    results = review.results
    if len(results) != 1:
        raise click.UsageError(f"-o patch prints the patch of one object, and there are {len(results)}")
    show_messages(review)
    if not results[0].is_refused:
        click.echo(json_text(list(results[0].patch)))
