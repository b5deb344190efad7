"""The report of a review: every object with its findings, and what of them fails the review."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from policies.admission import reviewed_kind
from policies.kubernetes.names import format_count, printable
from policies.rules.decision import Rule, Severity
from policies.rules.messages import advice_lines
from webhook.cli.manifest_reader import STDIN
from webhook.pages.report_model import Tone
from webhook.pages.text_report import colour_text, more_line, print_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.rules.decision import Finding
    from webhook.cli.manifest_reader import Problem
    from webhook.cli.subjects import Result, Subject


_REFUSED = 1
_UNREADABLE = 2
_GPUS_MISSED = 4
_INTERRUPTED = 130
"""128 and the number of SIGINT, as shells have it."""


class Level(StrEnum):
    """The level of a finding, in the words of SARIF."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


_LEVELS = {Severity.DENY: Level.ERROR, Severity.WARN: Level.WARNING, Severity.AUDIT: Level.NOTE}

UNREADABLE = Rule(
    "unreadable-input",
    title="All input must be readable",
    default=Severity.DENY,
    why="What cannot be read is not reviewed, and can have any mistake.",
    remedy="correct the file, or leave it out with --exclude",
    source="docs/review.md",
)
_REMARK = Rule(
    "remark",
    title="Something about the object could not be reviewed, or has no effect",
    default=Severity.WARN,
    why="kubectl prints such a warning too; no rule belongs to it.",
    remedy="",
    source="docs/review.md",
)
_LEFT_OUT = Rule(
    "more-findings",
    title="An object must not have more findings than a review shows",
    default=Severity.WARN,
    why="The most severe findings of an object are shown, and at least one of each rule. The others are counted.",
    remedy="correct the findings that are shown first",
    source="docs/review.md",
)


@dataclass(frozen=True, slots=True)
class FailOn:
    """The findings that fail a review."""

    levels: frozenset[Level] = frozenset((Level.ERROR,))
    rules: frozenset[str] = frozenset()
    """Ids of rules of which errors and warnings fail it, whatever `levels` has."""

    def includes(self, finding: ReviewFinding) -> bool:
        """True if a finding fails the review; notes and known findings never do."""
        if finding.is_known or finding.level is Level.NOTE:
            return False
        return finding.level in self.levels or finding.rule.id in self.rules


class KnownFinding(NamedTuple):
    """An entry of a baseline: the parts of a finding that stay when lines move."""

    file: str
    """Relative to the folder of the baseline."""
    object: str
    """Kind, namespace and name."""
    rule: str
    level: str
    """`error` or `warning`, so that a known warning that becomes a refusal is new."""
    path: str


@dataclass(frozen=True, slots=True)
class ReviewFinding:
    """A finding as reports show it, with its place in a file."""

    level: Level
    rule: Rule
    label: str
    """Kind, namespace and name of the object."""
    file: str
    line: int
    column: int
    path: str
    """The path of the field; empty for the whole object."""
    message: str
    """The remedy and the problem, on one line."""
    lines: tuple[str, ...]
    """The remedy, the problem and the reason of a waiver, each on its line, without the path."""
    count: int = 1
    """The number of findings that it stands for."""
    is_known: bool = False
    """True if the baseline has it."""
    waived: str = ""
    """The reason for which an annotation of the object waives it; empty if it is not waived. A waived finding is a note."""


@dataclass(frozen=True, slots=True)
class ReviewedObject:
    """An object with the result of its review and its findings."""

    result: Result
    findings: tuple[ReviewFinding, ...]
    """First those of `result.findings`, in the same order, then other warnings."""

    @property
    def is_known(self) -> bool:
        """True if the object has errors or warnings, and the baseline has all of them."""
        serious = [finding for finding in self.findings if finding.level is not Level.NOTE]
        return bool(serious) and all(finding.is_known for finding in serious)

    @property
    def is_problem(self) -> bool:
        """True if the object has a problem that the baseline does not have."""
        return self.result.is_problem and not self.is_known

    @property
    def misses_gpus(self) -> bool:
        """True if it mentions GPUs, was not reviewed, and the baseline does not have that."""
        return self.result.misses_gpus and any(
            each.rule is reviewed_kind.rule and not each.is_known for each in self.findings
        )


@dataclass(frozen=True, slots=True)
class Review:
    """The results of a review, and what could not be reviewed."""

    objects: tuple[ReviewedObject, ...]
    problems: tuple[Problem, ...]
    """Input that cannot be read."""
    skipped: tuple[str, ...]
    """The numbers of files and documents in folders that are not manifests; a line for each reason."""
    fail_on: FailOn = FailOn()
    """The findings that fail it."""
    baseline: str = ""
    """The file with the known findings; empty without one."""
    stale: tuple[KnownFinding, ...] = ()
    """Known findings that are no longer found."""
    unreviewed: tuple[Subject, ...] = ()
    """The objects that were left when the review was interrupted."""
    shortages: tuple[str, ...] = ()
    """A sentence for each limit of a quota that is too small for all objects together, without a full stop."""

    @property
    def interruption(self) -> tuple[str, ...]:
        """A line with the number of files that are left, if the review was interrupted."""
        if not self.unreviewed:
            return ()
        objects = format_count(len(self.unreviewed), "object")
        files = format_count(len({each.manifest.file for each in self.unreviewed}), "file")
        return (f"interrupted: {objects} in {files} not reviewed",)

    @property
    def results(self) -> tuple[Result, ...]:
        """The results of all objects."""
        return tuple(each.result for each in self.objects)

    @property
    def failures(self) -> tuple[ReviewedObject, ...]:
        """The objects because of which the exit code is not 0."""
        return tuple(each for each in self.objects if self.is_failure(each) or each.misses_gpus)

    @property
    def known(self) -> int:
        """The number of findings that the baseline has."""
        return sum(finding.count for each in self.objects for finding in each.findings if finding.is_known)

    @property
    def exit_code(self) -> int:
        """130 if interrupted, 2 if input cannot be read, 1 if an object fails, 4 if GPUs were not reviewed."""
        if self.unreviewed:
            return _INTERRUPTED
        if self.problems:
            return _UNREADABLE
        if any(self.is_failure(each) for each in self.objects):
            return _REFUSED
        return _GPUS_MISSED if any(each.misses_gpus for each in self.objects) else 0

    def is_failure(self, reviewed: ReviewedObject) -> bool:
        """True if the exit code is 1 because of an object."""
        return any(map(self.fail_on.includes, reviewed.findings))

    def failing_rules(self, reviewed: ReviewedObject) -> list[str]:
        """The rules because of which an object fails: those of its errors, else of its warnings."""
        failing = [each for each in reviewed.findings if self.fail_on.includes(each)]
        if not failing:  # it was not reviewed
            return [reviewed_kind.rule.id]
        worst = min((each.level for each in failing), key=list(Level).index)
        return list(dict.fromkeys(each.rule.id for each in failing if each.level is worst))


def findings_of(result: Result) -> Iterator[ReviewFinding]:
    """The findings of an object: those of rules, other warnings, and one for all that were left out."""
    for finding in result.findings:
        yield _finding(result, finding)
    for remark in result.remarks:
        yield _about_object(result, Level.WARNING, _REMARK, remark)
    if result.left_out:
        is_waived = all(finding.waived for finding in result.findings)
        level = Level.ERROR if result.is_refused else Level.NOTE if is_waived else Level.WARNING
        message = f"and {result.left_out:,} more findings; {_LEFT_OUT.remedy}"
        yield _about_object(result, level, _LEFT_OUT, message, result.left_out)


def is_stdin(file: str) -> bool:
    """True if objects come from standard input; the name may have the Helm template in parentheses."""
    return file == STDIN or file.startswith(f"{STDIN} (")


def repository_path(file: str) -> str:
    """The path of a file relative to the current folder; as it is if the file is elsewhere."""
    if is_stdin(file):
        return file
    relative = os.path.relpath(file)
    return file if relative.startswith("..") else relative


def _finding(result: Result, finding: Finding) -> ReviewFinding:
    subject = result.subject
    place = subject.position_of(finding)
    waived = f" (waived because {finding.waived})" if finding.waived else ""
    return ReviewFinding(
        Level.NOTE if waived else _LEVELS[finding.severity],
        finding.rule,
        printable(subject.label),
        subject.manifest.file,
        place.line,
        place.column,
        printable(str(finding.path)),
        printable(finding.text) + waived,
        (
            *map(printable, advice_lines(finding.path, finding.message, finding.remedy)),
            *([f"Waived because {finding.waived}"] if waived else []),
        ),
        waived=finding.waived,
    )


def _about_object(result: Result, level: Level, rule: Rule, message: str, count: int = 1) -> ReviewFinding:
    subject = result.subject
    place = subject.position()
    label, file = printable(subject.label), subject.manifest.file
    text = printable(message)
    return ReviewFinding(level, rule, label, file, place.line, place.column, "", text, (text,), count)


_TONES = {"admitted": Tone.GOOD, "refused": Tone.BAD, "not reviewed": Tone.WARN}
_MOST_LISTED = 50
"""Failures and stale entries that are listed; `-o json` has all failures."""


def show_summary(review: Review) -> None:
    """Print the summary to standard error, because standard output is for a program."""
    print_lines((*failure_lines(review), *count_lines(review)), err=True)


def failure_lines(review: Review) -> Iterator[str]:
    """A line for each object that fails the review, with the rules that it breaks."""
    failed = review.failures
    if not failed:
        return
    yield colour_text("What fails:", bold=True)
    for reviewed in failed[:_MOST_LISTED]:
        result = reviewed.result
        yield f"  {place_of(result)}  {printable(result.subject.label)}  {verdict_of(result)}  {', '.join(review.failing_rules(reviewed))}"
    if len(failed) > _MOST_LISTED:
        yield f"  {more_line(len(failed) - _MOST_LISTED)}"


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
        if len(review.stale) > _MOST_LISTED:
            yield f"  {more_line(len(review.stale) - _MOST_LISTED)}"


def place_of(result: Result) -> str:
    """The file and line of an object."""
    return f"{printable(result.subject.manifest.file)}:{result.subject.position().line}"


def verdict_of(result: Result) -> str:
    """The verdict on an object, in its colour."""
    return colour_text(result.verdict, _TONES[result.verdict], bold=True)


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
