"""JUnit XML, as Jenkins and GitLab read it: a test suite for each file, a test case for each object.

Both programs ignore much of the format, and differ in what they ignore. GitLab shows `classname`, `name`, `file` and the text
of a failure, and drops a case with the `classname` and `name` of another. Jenkins shows the messages too, and takes what
is before the last dot of a `classname` for a package.
Source: https://docs.gitlab.com/ci/testing/unit_test_reports, https://plugins.jenkins.io/junit.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import click

from policies.kubernetes.names import printable
from webhook.cli.review.review_report import UNREADABLE, Level, repository_path, show_summary

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webhook.cli.manifest_reader import Problem
    from webhook.cli.review import TextOptions
    from webhook.cli.review.review_report import Review, ReviewFinding


_OUTCOMES = {"failures": "failure", "errors": "error", "skipped": "skipped"}
"""The elements that a test suite counts, by the attributes with their numbers."""

_SUFFIX = re.compile(r"\.(ya?ml|json)$")
"""Left out of a `classname`, where Jenkins would take it for the name of a class."""


def show(review: Review, options: TextOptions) -> None:
    """Print the XML, and the summary to standard error."""
    root = ET.Element("testsuites", name="gpu-admission review")
    suites: dict[str, ET.Element] = {}
    for reviewed in review.objects:
        result = reviewed.result
        suite = find_suite(root, suites, result.subject.manifest.file)
        case = add_case(suite, printable(result.subject.label))
        new = [finding for finding in reviewed.findings if not finding.is_known]
        others = [_line(finding) for finding in reviewed.findings]
        if review.is_failure(reviewed) or reviewed.misses_gpus:
            failing = [finding for finding in new if review.fail_on.includes(finding)] or new
            worst = min(failing, key=lambda finding: list(Level).index(finding.level))
            failure = ET.SubElement(case, "failure", type=worst.rule.id, message=worst.message)
            failure.text = "\n".join(map(_line, new))
            others = [_line(finding) for finding in reviewed.findings if finding.is_known]
        elif result.not_reviewed:
            ET.SubElement(case, "skipped", message=printable(result.not_reviewed))
        if others:
            ET.SubElement(case, "system-out").text = "\n".join(others)
    show_suites(root, suites, review.problems)
    show_summary(review)


def show_suites(root: ET.Element, suites: dict[str, ET.Element], problems: Iterable[Problem]) -> None:
    """Add the problems of input to the suites of their files, count, and print the XML."""
    for problem in problems:
        add_problem(find_suite(root, suites, problem.file), problem)
    count_outcomes(root)
    ET.indent(root)
    click.echo('<?xml version="1.0" encoding="UTF-8"?>')
    click.echo(ET.tostring(root, encoding="unicode"))


def find_suite(root: ET.Element, suites: dict[str, ET.Element], file: str) -> ET.Element:
    """The test suite of a file, added to the root if it is new; `suites` has those that exist, by path."""
    path = printable(repository_path(file))
    if path not in suites:
        suites[path] = ET.SubElement(root, "testsuite", name=path, file=path)
    return suites[path]


def add_case(suite: ET.Element, name: str) -> ET.Element:
    """A new test case, with a number if the suite has one of that name."""
    file = suite.attrib["file"]
    names = {case.get("name") for case in suite}
    number = next(number for number in range(1, len(names) + 2) if _numbered_name(name, number) not in names)
    return ET.SubElement(
        suite, "testcase", classname=_SUFFIX.sub("", file), name=_numbered_name(name, number), file=file
    )


def _numbered_name(name: str, number: int) -> str:
    return name if number == 1 else f"{name} ({number})"


def add_problem(suite: ET.Element, problem: Problem) -> None:
    """Add a test case for input that cannot be read."""
    where = f" at {problem.position.line}:{problem.position.column}" if problem.position else ""
    message = printable(problem.message)
    case = add_case(suite, f"unreadable{where}")
    ET.SubElement(case, "error", type=UNREADABLE.id, message=message).text = printable(str(problem))


def _line(finding: ReviewFinding) -> str:
    """A finding as compilers print it."""
    known = " (known)" if finding.is_known else ""
    place = f"{printable(finding.file)}:{finding.line}:{finding.column}"
    return f"{place}: {finding.level}: {finding.message} [{finding.rule}]{known}"


def count_outcomes(root: ET.Element) -> None:
    """Set the numbers of all test suites, and their sums."""
    for suite in root:
        _count(suite, [suite], _OUTCOMES)
    _count(root, root, ("failures", "errors"))


def _count(element: ET.Element, suites: Iterable[ET.Element], attributes: Iterable[str]) -> None:
    """Set the numbers of test cases, and of those with each outcome."""
    cases = [case for suite in suites for case in suite]
    outcomes = Counter(child.tag for case in cases for child in case)
    element.set("tests", str(len(cases)))
    for attribute in attributes:
        element.set(attribute, str(outcomes[_OUTCOMES[attribute]]))
