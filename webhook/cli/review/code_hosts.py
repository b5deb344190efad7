"""Results for GitHub, GitLab and editors: annotations of Actions, Code Quality, and SARIF 2.1.0.

Annotations are workflow commands, one on each line. Every line is a command or has numbers only: the runner obeys each line that begins with `::`, and the author of a pull
request chooses the names of files. The runner cuts a message after 4,096 characters, and a title has at most 255.
Source: https://docs.github.com/actions/reference/workflow-commands-for-github-actions, https://docs.github.com/rest/checks/runs,
https://github.com/actions/toolkit packages/core/src/command.ts, https://github.com/actions/runner src/Runner.Worker/ExecutionContext.cs.

A Code Quality report has the fields that GitLab documents; GitLab compares the fingerprints of two branches.
Source: https://docs.gitlab.com/ci/testing/code_quality, section Code Quality report format.

In SARIF, objects that were not reviewed are notes of the tool, because a result would be an alert for each Service of a
repository. Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from hashlib import sha256
from importlib.metadata import distribution
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
    from policies.rules.decision import Rule
    from webhook.cli.manifest_reader import Problem
    from webhook.cli.review import TextOptions
    from webhook.cli.review.review_report import Review, ReviewedObject, ReviewFinding


_COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}

_LONGEST_MESSAGE = 4096
_LONGEST_TITLE = 255

_IN_MESSAGES = "%\r\n"
_IN_PROPERTIES = "%\r\n:,"


def show_annotations(review: Review, options: TextOptions) -> None:
    """Print an annotation for each problem and new finding, and the numbers of objects."""
    for problem in review.problems:
        click.echo(_unreadable(problem))
    for finding in _shown_findings(review):
        click.echo(_annotation(finding))
    if review.stale:
        count = format_count(len(review.stale), "known finding")
        click.echo(_command("notice", {"file": review.baseline}, f"{count} no longer found; update the baseline"))
    click.echo(objects_by_verdict(review.results))


def _shown_findings(review: Review) -> list[ReviewFinding]:
    """The new findings, those that fail the review first; a cause outside the objects appears once.

    GitHub shows the first ten annotations of each level.
    """
    causes, shown = set(), []
    for reviewed in review.objects:
        for finding in reviewed.findings:
            cause = (finding.rule.id, finding.message)
            is_repeated = finding.rule.shared_cause and finding.level is not Level.ERROR and cause in causes
            causes.add(cause)
            if not finding.is_known and not is_repeated:
                shown.append(finding)
    return sorted(shown, key=lambda finding: not review.fail_on.includes(finding))


def _annotation(finding: ReviewFinding) -> str:
    """The remedy on the first line, then the reason, and the object with the path."""
    where = {"line": str(finding.line), "col": str(finding.column)}
    title = _cut(f"{finding.rule}: {finding.rule.title}", _LONGEST_TITLE)
    place = _cut(f"\n{finding.label} {finding.path}".rstrip(), _LONGEST_MESSAGE // 2)
    text = _cut("\n".join(finding.lines), _LONGEST_MESSAGE - len(place))
    return _command(_COMMANDS[finding.level], {**_place(finding.file, where), "title": title}, text + place)


def _unreadable(problem: Problem) -> str:
    position = problem.position
    where = {"line": str(position.line), "col": str(position.column)} if position else {}
    text = _cut(printable(problem.message), _LONGEST_MESSAGE)
    return _command("error", {**_place(problem.file, where), "title": UNREADABLE.title}, text)


def _place(file: str, where: dict[str, str]) -> dict[str, str]:
    """The properties for a place; none for standard input, which GitHub cannot show."""
    return {} if is_stdin(file) else {"file": printable(repository_path(file)), **where}


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _command(name: str, properties: dict[str, str], message: str) -> str:
    written = ",".join(f"{key}={_escape(value, _IN_PROPERTIES)}" for key, value in properties.items())
    return f"::{name} {written}::{_escape(message, _IN_MESSAGES)}"


def _escape(text: str, special: str) -> str:
    """A text in which special characters are their hexadecimal codes."""
    return "".join(f"%{ord(character):02X}" if character in special else character for character in text)


_SEVERITIES = {Level.ERROR: "critical", Level.WARNING: "minor", Level.NOTE: "info"}


def show_code_quality(review: Review, options: TextOptions) -> None:
    """Print the report, and the summary to standard error.

    Known findings are left out, because the format cannot mark them.
    """
    seen: Counter[str] = Counter()
    report = [
        _degradation(
            f"{finding.label}: {finding.message}",
            finding.rule,
            _fingerprint(finding, seen),
            _SEVERITIES[finding.level],
            (repository_path(finding.file), finding.line),
        )
        for reviewed in review.objects
        for finding in reviewed.findings
        if not finding.is_known
    ]
    for problem in review.problems:
        place = repository_path(problem.file), problem.position.line if problem.position else 1
        report.append(
            _degradation(
                printable(problem.message), UNREADABLE, _problem_fingerprint(problem), _SEVERITIES[Level.ERROR], place
            )
        )
    click.echo(json_text(report))
    show_summary(review)


def _degradation(text: str, rule: Rule, fingerprint: str, severity: str, place: tuple[str, int]) -> dict[str, Any]:
    path, line = place
    return {
        "description": text,
        "check_name": rule.id,
        "fingerprint": fingerprint,
        "severity": severity,
        "location": {"path": printable(path), "lines": {"begin": line}},
    }


def _fingerprint(finding: ReviewFinding, seen: Counter[str]) -> str:
    """A hash of what stays of a finding when lines move; `seen` counts findings with the same parts."""
    identity = f"{finding.rule}\n{repository_path(finding.file)}\n{finding.label}\n{finding.path}"
    seen[identity] += 1
    return _hash(f"{identity}\n{seen[identity]}")


def _problem_fingerprint(problem: Problem) -> str:
    return _hash(f"{problem.file}\n{problem.message}")


def _hash(text: str) -> str:
    return sha256(text.encode(errors="surrogateescape")).hexdigest()[:32]


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
        "version": distribution("gpu-admission").version,
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
        if base := _pages():
            descriptor["helpUri"] = f"{base}/rules/{rule.subject}.md#{rule.id.lower()}"
        examples = read_examples(rule.id)
        parts = (("Wrong:", examples.wrong), ("Right:", examples.right), ("Source:", rule.source))
        descriptor["help"]["text"] += "".join(f"\n\n{title}\n{indent(text, '    ')}" for title, text in parts)
        blocks = "".join(f"\n\n{title}\n\n```yaml\n{text}\n```" for title, text in parts[:2])
        descriptor["help"]["markdown"] += f"{blocks}\n\nSource: {rule.source}"
        descriptor["properties"] = {"tags": ["kubernetes", "gpu", rule.subject]}
    return descriptor


PAGES = "GPU_ADMISSION_DOCS"
"""The environment variable with the URL of the folder `docs`; the GitHub action sets it."""


def _pages() -> str:
    """The URL of the folder `docs`; empty if nothing says where it is.

    If pip took the package from a repository, the pages are there, at the same commit. GitHub and GitLab show files below
    `blob`. Source: https://packaging.python.org/specifications/direct-url.
    """
    if url := os.environ.get(PAGES, ""):
        return url.rstrip("/")
    origin = json.loads(distribution("gpu-admission").read_text("direct_url.json") or "{}")
    commit = origin.get("vcs_info", {}).get("commit_id")
    scheme, _, place = origin.get("url", "").partition("://")
    repository = place.rpartition("@")[2].removesuffix("/").removesuffix(".git")  # without a user
    return f"https://{repository}/blob/{commit}/docs" if commit and scheme == "https" else ""


def _result(finding: ReviewFinding, rule_index: int, seen: Counter[str]) -> dict[str, Any]:
    place = _sarif_place(finding.file, finding.line, finding.column)
    name = f"{finding.label} {finding.path}".rstrip()
    result: dict[str, Any] = {
        "ruleId": finding.rule.id,
        "ruleIndex": rule_index,
        "level": str(finding.level),
        "message": {"text": f"{finding.label}: {finding.message}"},
        "locations": [{**place, "logicalLocations": [{"fullyQualifiedName": name, "kind": "resource"}]}],
        "partialFingerprints": {_FINGERPRINT: _fingerprint(finding, seen)},
    }
    if finding.is_known:
        result["suppressions"] = [{"kind": "external", "justification": "in the baseline"}]
    elif finding.waived:
        result["suppressions"] = [{"kind": "inSource", "justification": finding.waived}]
    return result


def _problem(problem: Problem, rule_index: int) -> dict[str, Any]:
    position = problem.position
    where = (position.line, position.column) if position else (1, 1)
    return {
        "ruleId": UNREADABLE.id,
        "ruleIndex": rule_index,
        "level": str(Level.ERROR),
        "message": {"text": printable(problem.message)},
        "locations": [_sarif_place(problem.file, *where)],
        "partialFingerprints": {_FINGERPRINT: _problem_fingerprint(problem)},
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
