"""Runs of suites: the outcome of each case, for people and as JUnit XML."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import click

from policies.kubernetes.names import format_count, printable
from webhook.cli.manifest_reader import ManifestReader, show_problems
from webhook.cli.progress import current_progress
from webhook.cli.review.junit import add_case, find_suite, show_suites
from webhook.cli.review.review_report import UNREADABLE
from webhook.cli.suites.format import read_suites
from webhook.cli.suites.trials import (
    CaseReader,
    Difference,
    UntriedCaseError,
    differences,
    golden_difference,
    golden_text,
    policy_differences,
    update_golden,
)
from webhook.cli.user_files import reason_of
from webhook.pages.report_model import Tone
from webhook.pages.text_report import colour_text, print_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from webhook.cli.manifest_reader import Problem
    from webhook.cli.suites.format import SuiteCase
    from webhook.cli.suites.trials import Trial


_FAILED, _UNREADABLE = 1, 2


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """The result of a case."""

    case: SuiteCase
    differences: tuple[Problem, ...] = ()
    """The differences from the expectation, each at its place in the suite."""
    problems: tuple[Problem, ...] = ()
    """The problems because of which the case could not be tried."""
    is_updated: bool = False
    """True if its golden file was written."""

    @property
    def verdict(self) -> str:
        """`passed`, `failed` or `not tried`."""
        return "not tried" if self.problems else "failed" if self.differences else "passed"


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """The outcomes of all cases."""

    outcomes: tuple[CaseOutcome, ...]
    problems: tuple[Problem, ...]
    """Suites that cannot be read."""

    @property
    def exit_code(self) -> int:
        """2 if something cannot be read, 1 if a case failed."""
        if self.problems or any(outcome.problems for outcome in self.outcomes):
            return _UNREADABLE
        return _FAILED if any(outcome.differences for outcome in self.outcomes) else 0


def run_suites(paths: Sequence[str], pattern: str | None, *, updates: bool) -> SuiteRun:
    """Try the cases of suites.

    Args:
        paths: Files with suites, folders that are searched for them, or `-`.
        pattern: A regular expression; only cases whose names it matches are tried.
        updates: True if golden files are written instead of compared.

    Raises:
        click.UsageError: The pattern is invalid, or matches no case.
    """
    try:
        wanted = re.compile(pattern or "")
    except re.error as error:
        raise click.UsageError(f"--run needs a regular expression: {error}") from error
    reader = ManifestReader()
    suites = read_suites(paths, reader)
    cases = [case for suite in suites for case in suite.cases if wanted.search(case.case.name)]
    if suites and not cases:
        raise click.UsageError(f"no case name matches --run {pattern}; without --run, all cases are tried")
    outcomes = tuple(_outcomes(current_progress().count("testing", cases), updates=updates))
    return SuiteRun(outcomes, tuple(dict.fromkeys(reader.problems)))


def _outcomes(cases: Iterator[SuiteCase], *, updates: bool) -> Iterator[CaseOutcome]:
    reader = CaseReader()
    for case in cases:
        try:
            trial = reader.trial(case)
        except UntriedCaseError as error:
            yield CaseOutcome(case, problems=error.problems)
        else:
            yield _outcome(case, trial, updates=updates)


def _outcome(case: SuiteCase, trial: Trial, *, updates: bool) -> CaseOutcome:
    found = [*differences(case.case.expect, trial), *policy_differences(trial)]
    is_updated = False
    if (golden := case.case.expect.golden) is not None:
        file, text = case.suite_file.path_of(golden), golden_text(trial.result)
        try:
            if not text:
                found.append(Difference(("golden",), f"nothing is admitted: the object is {trial.result.verdict}"))
            elif updates:
                is_updated = update_golden(file, text)
            elif message := golden_difference(file, text):
                found.append(Difference(("golden",), message))
        except OSError as error:
            return CaseOutcome(case, problems=(case.problem(f"{file}: {reason_of(error)}", "expect", "golden"),))
    return CaseOutcome(case, tuple(case.problem(each.message, "expect", *each.path) for each in found), (), is_updated)


_MARKS = {"passed": ("PASS", Tone.GOOD), "failed": ("FAIL", Tone.BAD), "not tried": ("ERROR", Tone.BAD)}


def show_text(run: SuiteRun, *, is_quiet: bool) -> None:
    """Print a line for each case, the differences below it, and the numbers of cases.

    `is_quiet` leaves out cases that passed and changed nothing.
    """
    for outcome in run.outcomes:
        if is_quiet and outcome.verdict == "passed" and not outcome.is_updated:
            continue
        mark, tone = _MARKS[outcome.verdict]
        note = f"  ({outcome.case.case.expect.golden} written)" if outcome.is_updated else ""
        name = printable(outcome.case.case.name)
        place = printable(f"{outcome.case.suite_file.file}:{outcome.case.position().line}")
        print_lines([f"{colour_text(mark, tone, bold=True)}  {place}  {name}{printable(note)}"])
        print_lines(f"      {line}" for line in _lines(outcome))
    if run.outcomes:
        counts = Counter(outcome.verdict for outcome in run.outcomes)
        numbers = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _MARKS if counts[verdict])
        click.echo(f"\n{format_count(len(run.outcomes), 'case')}: {numbers}")
    if run.problems:
        show_problems(run.problems, "the other cases were tried" if run.outcomes else "nothing was done")


def show_junit(run: SuiteRun) -> None:
    """Print the XML: a test suite for each file, a test case for each case."""
    root = ET.Element("testsuites", name="gpu-admission test")
    suites: dict[str, ET.Element] = {}
    for outcome in run.outcomes:
        case = add_case(find_suite(root, suites, outcome.case.suite_file.file), printable(outcome.case.case.name))
        if outcome.problems:
            message = printable(outcome.problems[0].message)
            ET.SubElement(case, "error", type=UNREADABLE.id, message=message).text = "\n".join(_lines(outcome))
        elif outcome.differences:
            message = printable(outcome.differences[0].message)
            ET.SubElement(case, "failure", type="expectation", message=message).text = "\n".join(_lines(outcome))
    show_suites(root, suites, run.problems)


def _lines(outcome: CaseOutcome) -> list[str]:
    """The differences, or the problems of a case that was not tried; a diff has several lines."""
    found = outcome.problems or outcome.differences
    texts = [
        f"{each.file}:{each.position.line}:{each.position.column}: {each.message}" if each.position else str(each)
        for each in found
    ]
    return [printable(line) for text in texts for line in text.split("\n")]
