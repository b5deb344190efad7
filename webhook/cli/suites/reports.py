"""The outcomes of suites for people, and as JUnit XML for Jenkins and GitLab."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import click

from policies.kubernetes.names import format_count, printable
from webhook.cli.manifest_reader import show_problems
from webhook.cli.review_outputs.junit import add_case, add_problem, count_outcomes, find_suite
from webhook.cli.review_report import UNREADABLE

if TYPE_CHECKING:
    from webhook.cli.suites.runs import CaseOutcome, SuiteRun

__all__ = ["show_junit", "show_text"]

_MARKS = {"passed": ("PASS", "green"), "failed": ("FAIL", "red"), "not tried": ("ERROR", "red")}


def show_text(run: SuiteRun, *, is_quiet: bool) -> None:
    """Print a line for each case, the differences below it, and the numbers of cases.

    `is_quiet` leaves out cases that passed and changed nothing.
    """
    for outcome in run.outcomes:
        if is_quiet and outcome.verdict == "passed" and not outcome.is_updated:
            continue
        mark, colour = _MARKS[outcome.verdict]
        note = f"  ({outcome.case.case.expect.golden} written)" if outcome.is_updated else ""
        name = printable(outcome.case.case.name)
        place = printable(f"{outcome.case.suite_file.file}:{outcome.case.position().line}")
        click.echo(f"{click.style(mark, fg=colour, bold=True)}  {place}  {name}{printable(note)}")
        for line in _lines(outcome):
            click.echo(f"      {line}")
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
    for problem in run.problems:
        add_problem(find_suite(root, suites, problem.file), problem)
    count_outcomes(root)
    ET.indent(root)
    click.echo('<?xml version="1.0" encoding="UTF-8"?>')
    click.echo(ET.tostring(root, encoding="unicode"))


def _lines(outcome: CaseOutcome) -> list[str]:
    """What is not as expected, or why the case was not tried; a diff has several lines."""
    found = outcome.problems or outcome.differences
    texts = [
        f"{each.file}:{each.position.line}:{each.position.column}: {each.message}" if each.position else str(each)
        for each in found
    ]
    return [printable(line) for text in texts for line in text.split("\n")]
