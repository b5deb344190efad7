"""Results for GitHub: annotations of Actions, and SARIF 2.1.0 for code scanning and editors.

Annotations are workflow commands, one on each line. Every line is a command or has numbers only: the runner obeys each line that begins with `::`, and the author of a pull
request chooses the names of files. Source: https://docs.github.com/actions/reference/workflow-commands-for-github-actions,
https://github.com/actions/toolkit, packages/core/src/command.ts.

In SARIF, objects that were not reviewed are notes of the tool, because a result would be an alert for each Service of a
repository. Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0.
"""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from policies.admission import rule_book
from policies.kubernetes.names import format_count, printable
from policies.rules.messages import remedy_sentences
from webhook.cli.review.review_report import (
    UNREADABLE,
    Level,
    is_stdin,
    objects_by_verdict,
    repository_path,
    show_summary,
)
from webhook.cli.shipped_files import read_examples
from webhook.cli.text_layout import json_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.rules.decision import Rule
    from webhook.cli.manifest_reader import Problem
    from webhook.cli.review import TextOptions
    from webhook.cli.review.review_report import Review, ReviewedObject, ReviewFinding


_COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}

_IN_MESSAGES = "%\r\n"
_IN_PROPERTIES = "%\r\n:,"


def show_annotations(review: Review, options: TextOptions) -> None:
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


_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "%SRCROOT%"
_FINGERPRINT = "gpuAdmissionFinding/v1"


def show_sarif(review: Review, options: TextOptions) -> None:
    """Print the log, and the summary to standard error."""
    findings = [finding for reviewed in review.objects for finding in reviewed.findings]
    used = [*(finding.rule for finding in findings), *([UNREADABLE] if review.problems else [])]
    rules = sorted(dict.fromkeys(used), key=str)
    places = {rule: index for index, rule in enumerate(rules)}
    seen: Counter[str] = Counter()
    results = [_result(finding, places[finding.rule], seen) for finding in findings]
    results += [_problem(problem, places[UNREADABLE]) for problem in review.problems]
    driver = {
        "name": "gpu-admission",
        "version": version("gpu-admission"),
        "rules": [_descriptor(rule) for rule in rules],
    }
    invocation = {
        "executionSuccessful": not review.problems and not review.unreviewed,
        "exitCode": review.exit_code,
        "toolExecutionNotifications": [_gap(each) for each in review.objects if each.result.not_reviewed],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The folder in which gpu-admission ran."}}},
        "invocations": [invocation],
        "results": results,
    }
    click.echo(json_text({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}))
    show_summary(review)


def _descriptor(rule: Rule) -> dict[str, Any]:
    """A rule as a reportingDescriptor: its requirement, its reason, and as help what to do, with examples."""
    why = " ".join(rule.why.split())
    remedies = " ".join(f"{each}." for each in remedy_sentences(rule.remedy, rule.administrator))
    described = f"{why}\n\n{remedies}"
    descriptor: dict[str, Any] = {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": why},
        "defaultConfiguration": {"level": {"deny": "error", "warn": "warning"}.get(rule.default, "note")},
        "help": {"text": described, "markdown": described},
    }
    if rule_book().get(rule.id) is not None:
        examples = read_examples(rule.id)
        parts = (("Wrong:", examples.wrong), ("Right:", examples.right), ("Source:", rule.source))
        descriptor["help"]["text"] += "".join(f"\n\n{title}\n{indent(text, '    ')}" for title, text in parts)
        blocks = "".join(f"\n\n{title}\n\n```yaml\n{text}\n```" for title, text in parts[:2])
        descriptor["help"]["markdown"] += f"{blocks}\n\nSource: {rule.source}"
        descriptor["properties"] = {"tags": ["kubernetes", "gpu", rule.subject]}
    return descriptor


def _result(finding: ReviewFinding, rule_index: int, seen: Counter[str]) -> dict[str, Any]:
    path = repository_path(finding.file)
    identity = f"{finding.rule}\n{path}\n{finding.label}\n{finding.path}"
    seen[identity] += 1
    fingerprint = sha256(f"{identity}\n{seen[identity]}".encode(errors="surrogateescape")).hexdigest()[:32]
    place = _sarif_place(finding.file, finding.line, finding.column)
    name = f"{finding.label} {finding.path}".rstrip()
    result: dict[str, Any] = {
        "ruleId": finding.rule.id,
        "ruleIndex": rule_index,
        "level": str(finding.level),
        "message": {"text": f"{finding.label}: {finding.message}"},
        "locations": [{**place, "logicalLocations": [{"fullyQualifiedName": name, "kind": "resource"}]}],
        "partialFingerprints": {_FINGERPRINT: fingerprint},
    }
    if finding.is_known:
        result["suppressions"] = [{"kind": "external", "justification": "in the baseline"}]
    elif finding.waived:
        result["suppressions"] = [{"kind": "inSource", "justification": finding.waived}]
    return result


def _problem(problem: Problem, rule_index: int) -> dict[str, Any]:
    position = problem.position
    where = (position.line, position.column) if position else (1, 1)
    fingerprint = sha256(f"{problem.file}\n{problem.message}".encode(errors="surrogateescape")).hexdigest()[:32]
    return {
        "ruleId": UNREADABLE.id,
        "ruleIndex": rule_index,
        "level": str(Level.ERROR),
        "message": {"text": printable(problem.message)},
        "locations": [_sarif_place(problem.file, *where)],
        "partialFingerprints": {_FINGERPRINT: fingerprint},
    }


def _gap(reviewed: ReviewedObject) -> dict[str, Any]:
    """An object that was not reviewed."""
    subject = reviewed.result.subject
    position = subject.position()
    text = printable(f"{subject.label} was not reviewed: {reviewed.result.not_reviewed}")
    return {
        "level": str(Level.NOTE),
        "message": {"text": text},
        "locations": [_sarif_place(subject.manifest.file, position.line, position.column)],
    }


def _sarif_place(file: str, line: int, column: int) -> dict[str, Any]:
    path = repository_path(file)
    is_absolute = Path(path).is_absolute()
    uri = Path(path).as_uri() if is_absolute else quote(path, errors="surrogateescape")
    location = {"uri": uri} if is_absolute else {"uri": uri, "uriBaseId": _ROOT}
    return {"physicalLocation": {"artifactLocation": location, "region": {"startLine": line, "startColumn": column}}}
