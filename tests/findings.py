"""Findings as text for tests: what a rule found, in the order of its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.rules.decision import Finding


def plain_text(finding: Finding) -> str:
    """Path, message and remedy; users read them in the order of `Finding.text`."""
    where = f"{finding.path}: " if finding.path else ""
    return f"{where}{finding.message}; {finding.remedy}" if finding.remedy else f"{where}{finding.message}"


def labelled_text(finding: Finding) -> str:
    """Path, message and remedy with the rule."""
    return f"{plain_text(finding)} [{finding.rule}]"
