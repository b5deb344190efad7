"""Findings put together: what is said of many objects in the same words is said once, the gravest first."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from policies.audit.report import AuditFinding
from policies.decision import Severity
from policies.kubernetes.objects import name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.decision import Finding
    from policies.kubernetes.objects import Object

__all__ = ["counted", "found_in", "merged"]

_GRAVITY = {severity: number for number, severity in enumerate(Severity)}


def found_in(document: Object, finding: Finding) -> AuditFinding:
    """What a rule says of a stored object."""
    return AuditFinding(
        finding.rule,
        finding.severity,
        document["kind"],
        namespace_of(document),
        name_of(document),
        finding.path,
        finding.message,
        finding.remedy,
    )


def merged(findings: Iterable[AuditFinding]) -> list[AuditFinding]:
    """The findings, one for each thing that is said, in an order that depends on nothing but them."""
    told: dict[tuple[str, ...], list[AuditFinding]] = {}
    for finding in findings:
        told.setdefault(finding.place, []).append(finding)
    return sorted(map(_one, told.values()), key=_order)


def counted(findings: Iterable[AuditFinding]) -> dict[tuple[str, Severity], int]:
    """How many objects there are findings about, by rule and severity."""
    counts: Counter[tuple[str, Severity]] = Counter()
    for finding in findings:
        counts[finding.rule, finding.severity] += finding.count
    return dict(counts)


def _one(same: list[AuditFinding]) -> AuditFinding:
    first = min(same, key=lambda finding: finding.name)
    owners = sorted({owner for finding in same for owner in finding.owners})
    return replace(first, count=sum(finding.count for finding in same), owners=tuple(owners))


def _order(finding: AuditFinding) -> tuple[int, str, str, str, str, str, str]:
    return (
        _GRAVITY[finding.severity],
        finding.rule,
        finding.namespace,
        finding.kind,
        finding.name,
        str(finding.path),
        finding.message,
    )
