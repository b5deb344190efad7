"""An audit as JSON; docs/schemas is generated from the types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.analyses.audit.report import MOST_OWNERS, AuditCounts, Gap
from policies.conversion.opt_in import Mode  # noqa: TC001 - pydantic reads the annotation
from policies.rules.decision import Severity  # noqa: TC001 - pydantic reads the annotation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.analyses.audit.readiness import ConversionObstacle, ConversionReadiness
    from policies.analyses.audit.report import AuditFinding, AuditReport

__all__ = ["AuditJSON", "audit_json"]


@dataclass(frozen=True, slots=True)
class _ObjectJSON:
    """The object of a finding, the first one if there are several."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class _AuditFindingJSON:
    """A finding on one object or several."""

    rule: str
    severity: Severity
    object: _ObjectJSON
    count: int
    owners: tuple[str, ...]
    path: str
    message: str
    remedy: str
    waived: str


@dataclass(frozen=True, slots=True)
class _ConversionObstacleJSON:
    """Why workloads would not convert, or what they would lose."""

    rule: str
    severity: Severity
    workload: str
    count: int
    path: str
    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class _ReadinessJSON:
    """How conversion would treat the workloads of a namespace."""

    namespace: str
    mode: Mode
    ready: bool | None
    workloads: int
    converts: int
    refused: int
    left: int
    loses: int
    unknown: int
    obstacles: tuple[_ConversionObstacleJSON, ...]
    preemption: _ConversionObstacleJSON | None


@dataclass(frozen=True, slots=True)
class AuditJSON:
    """The output of `gpu-admission audit -o json`."""

    summary: str
    counts: AuditCounts
    findings: tuple[_AuditFindingJSON, ...]
    findings_left_out: int
    readiness: tuple[_ReadinessJSON, ...]
    not_reviewed: tuple[Gap, ...]
    notes: tuple[str, ...]


def audit_json(report: AuditReport, notes: Sequence[str] = ()) -> AuditJSON:
    """The report and notes on it, as its JSON has them."""
    return AuditJSON(
        summary=report.summary,
        counts=report.counts,
        findings=tuple(map(_finding, report.findings)),
        findings_left_out=report.left_out,
        readiness=tuple(map(_readiness, report.readiness)),
        not_reviewed=report.gaps,
        notes=tuple(notes),
    )


def _finding(finding: AuditFinding) -> _AuditFindingJSON:
    return _AuditFindingJSON(
        rule=finding.rule.id,
        severity=finding.severity,
        object=_ObjectJSON(finding.kind, finding.namespace, finding.name),
        count=finding.count,
        owners=finding.owners[:MOST_OWNERS],
        path=str(finding.path),
        message=finding.message,
        remedy=finding.remedy,
        waived=finding.waived,
    )


def _readiness(readiness: ConversionReadiness) -> _ReadinessJSON:
    return _ReadinessJSON(
        namespace=readiness.namespace,
        mode=readiness.mode,
        ready=readiness.is_ready,
        workloads=readiness.workloads,
        converts=readiness.converts,
        refused=readiness.refused,
        left=readiness.left,
        loses=readiness.loses,
        unknown=readiness.unknown,
        obstacles=tuple(map(_obstacle, readiness.obstacles)),
        preemption=None if readiness.preemption is None else _obstacle(readiness.preemption),
    )


def _obstacle(obstacle: ConversionObstacle) -> _ConversionObstacleJSON:
    return _ConversionObstacleJSON(
        rule=obstacle.rule.id,
        severity=obstacle.severity,
        workload=obstacle.workload,
        count=obstacle.count,
        path=str(obstacle.path),
        message=obstacle.message,
        remedy=obstacle.remedy,
    )
