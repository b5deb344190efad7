"""Baselines: files with known findings, which do not fail a review.

An entry has no line, so that it stays valid when lines move.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from policies.kubernetes.names import printable, shown
from policies.kubernetes.yaml import Position, YAMLError, load_document
from webhook.cli.folders import is_covered
from webhook.cli.manifest_reader import Problem, UnreadableInputError
from webhook.cli.review.review_report import KnownFinding, Level, ReviewedObject, is_stdin
from webhook.cli.text_layout import dump
from webhook.cli.user_files import read_file, reason_of, replace_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.kubernetes.yaml import Document
    from webhook.cli.folders import Exclusion
    from webhook.cli.review.review_report import Review, ReviewFinding


_HEADING = """\
# Findings that `gpu-admission review --baseline` accepts; --update-baseline writes this file.
"""
_KEYS = KnownFinding._fields
_LEVELS = (str(Level.ERROR), str(Level.WARNING))


@dataclass(frozen=True, slots=True)
class Scope:
    """The reviewed files: entries of a baseline about other files are left alone."""

    paths: Sequence[str]
    exclusion: Exclusion | None


def apply_baseline(review: Review, baseline: str, scope: Scope) -> Review:
    """The review with its known findings marked, and the entries that are no longer found.

    Args:
        review: Of all objects.
        baseline: The file.
        scope: What was reviewed.

    Raises:
        UnreadableInputError: The baseline cannot be read.
    """
    known = _entries_of(baseline)
    found = _count(review.objects, baseline)
    stale = [
        entry
        for entry in sorted(known)
        if found[entry] < known[entry] and not review.unreviewed and _is_reviewed(entry, review, baseline, scope)
    ]
    left = Counter(known)
    objects = tuple(
        replace(each, findings=tuple(_mark(finding, left, baseline) for finding in each.findings))
        for each in review.objects
    )
    return replace(review, objects=objects, baseline=baseline, stale=tuple(stale))


def update_baseline(review: Review, baseline: str, scope: Scope) -> None:
    """Write the findings of a review to a baseline; entries about files that were not reviewed stay.

    Raises:
        UnreadableInputError: Some input, or the baseline as it is, cannot be read. Nothing is written.
        click.ClickException: The file cannot be written.
    """
    if review.problems:
        raise UnreadableInputError(review.problems, f"{baseline} was not written, because some input cannot be read")
    kept = _entries_of(baseline) if Path(baseline).exists() else Counter()
    others = Counter(
        {entry: count for entry, count in kept.items() if not _is_reviewed(entry, review, baseline, scope)}
    )
    entries = _count(review.objects, baseline) | others
    findings = [
        {**entry._asdict(), **({"count": entries[entry]} if entries[entry] > 1 else {})} for entry in sorted(entries)
    ]
    try:
        replace_file(baseline, (_HEADING + dump({"findings": findings})).encode())
    except OSError as error:
        raise click.ClickException(f"--baseline {baseline}: {reason_of(error)}") from error


def _count(objects: Iterable[ReviewedObject], baseline: str) -> Counter[KnownFinding]:
    """The numbers of errors and warnings; audit findings never fail a review."""
    counts: Counter[KnownFinding] = Counter()
    for each in objects:
        for finding in each.findings:
            if finding.level is not Level.NOTE:
                counts[_entry(finding, baseline)] += finding.count
    return counts


def _entry(finding: ReviewFinding, baseline: str) -> KnownFinding:
    file = finding.file if is_stdin(finding.file) else os.path.relpath(finding.file, Path(baseline).parent)
    return KnownFinding(printable(file), finding.label, finding.rule.id, str(finding.level), finding.path)


def _mark(finding: ReviewFinding, left: Counter[KnownFinding], baseline: str) -> ReviewFinding:
    """The finding, marked and taken from the known ones if enough of them are left."""
    entry = _entry(finding, baseline)
    if finding.level is Level.NOTE or left[entry] < finding.count:
        return finding
    left[entry] -= finding.count
    return replace(finding, is_known=True)


def _is_reviewed(entry: KnownFinding, review: Review, baseline: str, scope: Scope) -> bool:
    """True if the file of an entry was reviewed, or would have been if it still existed."""
    if is_stdin(entry.file):
        return "-" in scope.paths
    file = os.path.normpath(Path(baseline).parent / entry.file)
    unreadable = {os.path.normpath(problem.file) for problem in review.problems}
    return file not in unreadable and any(is_covered(file, path, scope.exclusion) for path in scope.paths)


def _entries_of(baseline: str) -> Counter[KnownFinding]:
    """The entries of a baseline, with their counts.

    Raises:
        UnreadableInputError: The file cannot be read, or has another shape.
    """
    try:
        document = load_document(read_file(baseline))
    except OSError as error:
        raise _unreadable(baseline, f"{reason_of(error)}; --update-baseline writes it") from error
    except YAMLError as error:
        raise _unreadable(baseline, error.message, Position(error.line, error.column)) from error
    findings = document.value.get("findings") if isinstance(document.value, dict) else None
    if not isinstance(findings, list):
        raise _unreadable(baseline, "is not a baseline: it has no list `findings`; --update-baseline writes one")
    entries: Counter[KnownFinding] = Counter()
    for index, item in enumerate(findings):
        entries[_known_finding(item, index, document, baseline)] += item.get("count", 1)
    return entries


def _known_finding(item: Any, index: int, document: Document, baseline: str) -> KnownFinding:
    is_entry = (
        isinstance(item, dict)
        and {*item} <= {*_KEYS, "count"}
        and all(isinstance(item.get(key), str) for key in _KEYS)
        and item["level"] in _LEVELS
        and type(item.get("count", 1)) is int
        and item.get("count", 1) > 0
    )
    if not is_entry:
        keys = f"the texts {', '.join(_KEYS)}, with the level {' or '.join(_LEVELS)}"
        message = f"{shown(item)} is not an entry: it needs {keys}, and may have a count above 0"
        raise _unreadable(baseline, message, document.position(("findings", index)))
    return KnownFinding(*(item[key] for key in _KEYS))


def _unreadable(baseline: str, message: str, position: Position | None = None) -> UnreadableInputError:
    return UnreadableInputError([Problem(baseline, message, position)])
