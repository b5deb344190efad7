"""Findings as text for tests: what a rule found, in the order of its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.rules.checks import Problem
    from policies.rules.decision import Finding


def plain_text(finding: Finding | Problem) -> str:
    """Path, message and remedy; users read them in the order of `Finding.text`."""
    return f"{finding.path}: {unplaced_text(finding)}" if finding.path else unplaced_text(finding)


def unplaced_text(finding: Finding | Problem) -> str:
    """Message and remedy."""
    return f"{finding.message}; {finding.remedy}" if finding.remedy else finding.message


def labelled_text(finding: Finding) -> str:
    """Path, message and remedy with the rule."""
    return f"{plain_text(finding)} [{finding.rule}]"
