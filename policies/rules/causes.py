"""Causes: each is reported once, without its consequences, for all objects together."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from policies.kubernetes.objects import lookup
from policies.rules.decision import Finding, Rule, Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["once_per_cause", "without_repeats"]

_COUNT = re.compile(r" \([0-9,]+ (?:pod templates|objects)\)$")
"""The count of pod templates in an object, which the count of objects replaces."""
_Cause = tuple[Rule, Severity, str, str]


def once_per_cause(findings: Sequence[Sequence[Finding]], noun: str) -> list[tuple[Finding, ...]]:
    """The findings of several subjects, without those that an earlier subject has from the same cause.

    The finding that stays says how many subjects there are: `(3 pod templates)`. Findings that refuse something stay
    where they are, and so do those of rules about the subject itself, because each of them is a place to correct.

    Args:
        findings: The findings of each subject.
        noun: What the subjects are, in the singular.
    """
    causes = [dict.fromkeys(filter(None, map(_shared_cause, each))) for each in findings]
    counts = Counter(cause for each in causes for cause in each)
    reported: set[_Cause] = set()
    kept = []
    for each in findings:
        mine = []
        for finding in each:
            cause = _shared_cause(finding)
            if cause is None:
                mine.append(finding)
            elif cause not in reported:
                reported.add(cause)
                mine.append(_with_count(finding, counts[cause], noun))
        kept.append(tuple(mine))
    return kept


def without_repeats(findings: tuple[Finding, ...], document: Any) -> tuple[Finding, ...]:
    """The findings on a pod, with a misspelt name and the finding that nothing matches it merged into one.

    The finding that nothing matches says what exists; it gets the path and the remedy of the misspelt product or label.
    Both stay if settings refuse a misspelt name, or if the wish names other products too.

    Args:
        findings: With the severities of the settings.
        document: The pod.
    """
    misspelt = [found for found in findings if found.rule.misspelling]
    if len(misspelt) != 1 or misspelt[0].severity is Severity.DENY:
        return findings
    (cause,) = misspelt
    written = lookup(document, cause.path)
    is_alone = isinstance(written, str) and cause.message.startswith(f'"{written.strip()}" ')
    follows = {id(found) for found in findings if is_alone and _follows(found, cause)}
    if not follows:
        return findings
    return tuple(
        dict.fromkeys(
            replace(found, path=cause.path, remedy=cause.remedy) if id(found) in follows else found
            for found in findings
            if found is not cause
        )
    )


def _follows(found: Finding, cause: Finding) -> bool:
    """True if a finding says that nothing matches because of a misspelling.

    A finding of conversion is about the whole request, one of placement about the field at its path.
    """
    return found.rule.unmatched and (found.rule.subject == "conversion" or found.path == cause.path)


def _shared_cause(finding: Finding) -> _Cause | None:
    """What two findings of one cause have in common; None for a finding about the object itself."""
    if finding.severity is Severity.DENY or finding.waived or not finding.rule.shared_cause:
        return None
    return finding.rule, finding.severity, _COUNT.sub("", finding.message), finding.remedy


def _with_count(finding: Finding, count: int, noun: str) -> Finding:
    if count == 1:
        return finding
    return replace(finding, message=f"{_COUNT.sub('', finding.message)} ({count:,} {noun}s)")
