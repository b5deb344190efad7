"""The report of an audit: findings, kinds that were not reviewed, and namespaces; also as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from policies.conversion.exemptions import Mode
from policies.kubernetes.names import format_count, plural
from policies.kubernetes.objects import filled_record, name_of, namespace_of, uid_of
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policies.analyses.audit.readiness import ConversionObstacle, ConversionReadiness
    from policies.kubernetes.objects import FieldPath, Object
    from policies.rules.decision import Finding, Rule


MOST_FINDINGS = 1000
"""Findings of one report, the most severe first; the others are counted."""
MOST_OWNERS = 20
"""Owners that a finding lists in JSON and in reports for policy tools."""


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """A finding on one object, or on several objects that have the same one."""

    rule: Rule
    severity: Severity
    kind: str
    namespace: str
    """Empty for cluster-scoped objects."""
    name: str
    """The first name of the objects in alphabetical order."""
    path: FieldPath
    message: str
    """The problem and its effect, without the path and without a full stop."""
    remedy: str
    """The remedy for the author, an imperative without a full stop."""
    administrator: str
    """The remedy for an administrator; empty if there is none."""
    count: int = 1
    """The number of objects."""
    owners: tuple[str, ...] = ()
    """The controllers of pods, such as `ReplicaSet train-5d8f`, or the pods that hold claims; sorted."""
    waived: str = ""
    """The reason of the annotation that waives it; empty if it is not waived."""
    api_version: str = ""
    """The `apiVersion` of the objects; empty if it is unknown."""
    uid: str = ""
    """The UID of the first object; empty if it is unknown."""

    @classmethod
    def of(cls, finding: Finding, document: Object, *, count: int = 1, owners: tuple[str, ...] = ()) -> AuditFinding:
        """The finding of a rule on one stored object, or on several that are like it."""
        return cls(
            finding.rule,
            finding.severity,
            document["kind"],
            namespace_of(document),
            name_of(document),
            finding.path,
            finding.message,
            finding.remedy,
            finding.administrator,
            count,
            owners,
            finding.waived,
            str(document.get("apiVersion") or ""),
            uid_of(document),
        )

    @property
    def merge_key(self) -> tuple[str, ...]:
        """Equal for findings that are reported as one."""
        texts = str(self.path), self.message, self.remedy, self.administrator, self.waived
        return (self.rule.id, self.severity, self.kind, self.namespace, *texts)


@dataclass(frozen=True, slots=True)
class Gap:
    """Kinds that were not reviewed."""

    kinds: tuple[str, ...]
    reason: str
    """The reason why the kinds were not reviewed, such as a missing right to list them; empty if unknown. Without a full stop."""
    consequence: str
    """The facts that were therefore not judged; without a full stop."""

    def __str__(self) -> str:
        named = ", ".join(map(plural, self.kinds))
        because = f" ({self.reason})" if self.reason else ""
        return f"{named}{because}: {self.consequence}"


@dataclass(frozen=True, slots=True)
class AuditCounts:
    """The numbers of an audit."""

    deny: int
    warn: int
    audit: int
    waived: int
    kinds_not_reviewed: int
    namespaces: int
    namespaces_ready: int
    namespaces_opted_in: int
    workloads: int
    workloads_convert: int


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The report of an audit; equal clusters give equal reports."""

    findings: tuple[AuditFinding, ...]
    """The most severe first."""
    left_out: int
    """Findings beyond the most that were wanted."""
    found: Mapping[tuple[Rule, Severity], int]
    """The number of objects with findings, by rule and severity; includes the findings that are left out or waived."""
    waived: Mapping[tuple[Rule, Severity], int]
    """The number of objects with waived findings, by rule and severity."""
    readiness: tuple[ConversionReadiness, ...]
    """The namespaces that have opted in, or have workloads that request GPUs; sorted."""
    gaps: tuple[Gap, ...]
    short_workloads: tuple[Object, ...] = field(default=(), repr=False)
    """Workloads that request GPUs and lack pods, with the fields that the wait list reads."""

    def limit_findings(self, most: int) -> AuditReport:
        """The report with at most so many findings; the others are counted in `left_out`."""
        hidden = max(len(self.findings) - most, 0)
        return replace(self, findings=self.findings[:most], left_out=self.left_out + hidden) if hidden else self

    @property
    def has_denials(self) -> bool:
        """True if any object would be refused today."""
        return self.count(Severity.DENY) > 0

    def count(self, severity: Severity) -> int:
        """The number of objects with findings of a severity that are not waived.

        An object with two such findings counts twice.
        """
        return sum(count - self.waived.get(key, 0) for key, count in self.found.items() if key[1] is severity)

    @property
    def counts(self) -> AuditCounts:
        """The numbers of the report."""
        return AuditCounts(
            deny=self.count(Severity.DENY),
            warn=self.count(Severity.WARN),
            audit=self.count(Severity.AUDIT),
            waived=sum(self.waived.values()),
            kinds_not_reviewed=sum(len(gap.kinds) for gap in self.gaps),
            namespaces=len(self.readiness),
            namespaces_ready=sum(each.is_ready is True for each in self.readiness),
            namespaces_opted_in=sum(each.mode is Mode.ENABLED for each in self.readiness),
            workloads=sum(each.workloads for each in self.readiness),
            workloads_convert=sum(each.converts for each in self.readiness),
        )

    @property
    def summary(self) -> str:
        """The report in one line."""
        counts = self.counts
        found = f"{format_count(counts.deny, 'object')} would be refused, {counts.warn:,} with warnings"
        waived = f", {counts.waived:,} with waived findings" if counts.waived else ""
        hidden = f"; {format_count(counts.kinds_not_reviewed, 'kind')} not reviewed" if self.gaps else ""
        ready = f"{counts.namespaces_ready} of {format_count(counts.namespaces, 'namespace')} ready to convert"
        return f"{found}{waived}; {ready}{hidden}"


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
    """A reason why workloads would not convert, or a loss."""

    rule: str
    severity: Severity
    workload: str
    count: int
    path: str
    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class _ReadinessJSON:
    """The results of conversion for the workloads of a namespace."""

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
    return filled_record(
        AuditJSON,
        report,
        findings=tuple(map(_finding, report.findings)),
        findings_left_out=report.left_out,
        readiness=tuple(map(_readiness, report.readiness)),
        not_reviewed=report.gaps,
        notes=tuple(notes),
    )


def _finding(finding: AuditFinding) -> _AuditFindingJSON:
    found = _ObjectJSON(finding.kind, finding.namespace, finding.name)
    own = {"object": found, "owners": finding.owners[:MOST_OWNERS], **_texts(finding)}
    return filled_record(_AuditFindingJSON, finding, **own)


def _readiness(readiness: ConversionReadiness) -> _ReadinessJSON:
    obstacles = (filled_record(_ConversionObstacleJSON, each, **_texts(each)) for each in readiness.obstacles)
    lost = readiness.preemption
    return filled_record(
        _ReadinessJSON,
        readiness,
        ready=readiness.is_ready,
        obstacles=tuple(obstacles),
        preemption=None if lost is None else filled_record(_ConversionObstacleJSON, lost, **_texts(lost)),
    )


def _texts(found: AuditFinding | ConversionObstacle) -> dict[str, str]:
    """The rule and the path, which JSON has as texts."""
    return {"rule": found.rule.id, "path": str(found.path)}
