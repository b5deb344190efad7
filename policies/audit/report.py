"""The report: what an audit found, what it could not look at, and how ready namespaces are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.conversion.opt_in import Mode
from policies.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.kubernetes.paths import FieldPath

__all__ = ["MOST_FINDINGS", "MOST_OWNERS", "AuditFinding", "AuditReport", "Gap", "Obstacle", "Readiness"]

MOST_FINDINGS = 1000
"""Findings that a report holds; the gravest come first, and of the rest it says how many there are."""
MOST_OWNERS = 20
"""Owners that a finding names in JSON."""


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One thing to be said of one object, or of several that it holds of in the same words."""

    rule: str
    """The id of a rule, `GA321`, or of what only an audit looks at, `karpenter`."""
    severity: Severity
    kind: str
    namespace: str
    """Empty where the objects are in none."""
    name: str
    """Of the first of the objects, in the order of their names."""
    path: FieldPath
    message: str
    """What is there and why it matters, without the path and without a full stop."""
    remedy: str
    """What to do, an imperative without a full stop."""
    count: int = 1
    """How many objects it holds of."""
    owners: tuple[str, ...] = ()
    """The controllers that made pods, `ReplicaSet train-5d8f`, or the pods that hold claims, in the order of their names."""

    @property
    def place(self) -> tuple[str, ...]:
        """What equals in findings that are told as one."""
        return (self.rule, self.severity, self.kind, self.namespace, str(self.path), self.message, self.remedy)

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "rule": self.rule,
            "severity": str(self.severity),
            "object": {"kind": self.kind, "namespace": self.namespace, "name": self.name},
            "count": self.count,
            "owners": list(self.owners[:MOST_OWNERS]),
            "path": str(self.path),
            "message": self.message,
            "remedy": self.remedy,
        }


@dataclass(frozen=True, slots=True)
class Gap:
    """Kinds that were not reviewed. What rests on them is not counted as zero."""

    kinds: tuple[str, ...]
    """Of the objects that were not reviewed."""
    reason: str
    """Why not, such as a missing right to list them; empty if unknown. Without a full stop."""
    consequence: str
    """What is therefore not judged; without a full stop."""

    def __str__(self) -> str:
        named = ", ".join(map(_plural, self.kinds))
        because = f" ({self.reason})" if self.reason else ""
        return f"{named}{because}: {self.consequence}"

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"kinds": list(self.kinds), "reason": self.reason, "consequence": self.consequence}


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why workloads of a namespace would not be converted, or what they would lose; in the words for the first of them."""

    rule: str
    severity: Severity
    workload: str
    """Kind and name of the first, `Deployment train`."""
    path: FieldPath
    """Where in its pod the reason is."""
    message: str
    remedy: str
    count: int
    """How many workloads it holds of."""

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "rule": self.rule,
            "severity": str(self.severity),
            "workload": self.workload,
            "count": self.count,
            "path": str(self.path),
            "message": self.message,
            "remedy": self.remedy,
        }


@dataclass(frozen=True, slots=True)
class Readiness:
    """What becomes of the workloads of a namespace that ask the device plugin for GPUs, if it converts its pods."""

    namespace: str
    mode: Mode
    """What it does now."""
    workloads: int
    """Objects with pod templates, and pods that none of these made."""
    converts: int
    """How many are converted, or need not be because a DeviceClass stands for what they ask for."""
    refused: int
    """How many would be refused."""
    left: int
    """How many would stay with the device plugin."""
    obstacles: tuple[Obstacle, ...] = ()
    """Why those are refused or left, those that stop most first."""
    preemption: Obstacle | None = None
    """That some of those that convert could preempt other pods now, and not as converted pods; None if none could."""

    @property
    def ready(self) -> bool:
        """Whether all convert."""
        return self.converts == self.workloads

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "namespace": self.namespace,
            "mode": self.mode.value,
            "ready": self.ready,
            "workloads": self.workloads,
            "converts": self.converts,
            "refused": self.refused,
            "left": self.left,
            "obstacles": [obstacle.as_json() for obstacle in self.obstacles],
            "preemption": self.preemption and self.preemption.as_json(),
        }


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Everything an audit has to say; equal clusters give equal reports."""

    findings: tuple[AuditFinding, ...]
    """The gravest first."""
    left_out: int
    """Findings beyond `MOST_FINDINGS`."""
    found: Mapping[tuple[str, Severity], int]
    """How many objects there are findings about, by rule and severity; with those that are left out."""
    readiness: tuple[Readiness, ...]
    """By namespace: of all that have workloads which ask for GPUs, or that opted in."""
    gaps: tuple[Gap, ...]

    @property
    def denied(self) -> bool:
        """Whether anything is as it would be refused today."""
        return self.count(Severity.DENY) > 0

    def count(self, severity: Severity) -> int:
        """How many objects there are findings of a severity about; one twice where it has two."""
        return sum(count for (_, found), count in self.found.items() if found is severity)

    @property
    def counts(self) -> dict[str, int]:
        """The report in a few numbers, for a status."""
        opted_in = [each for each in self.readiness if each.mode is Mode.ENABLED]
        return {
            **{str(severity): self.count(severity) for severity in (Severity.DENY, Severity.WARN, Severity.AUDIT)},
            "kindsNotReviewed": sum(len(gap.kinds) for gap in self.gaps),
            "namespaces": len(self.readiness),
            "namespacesReady": sum(each.ready for each in self.readiness),
            "namespacesOptedIn": len(opted_in),
            "workloads": sum(each.workloads for each in self.readiness),
            "workloadsConvert": sum(each.converts for each in self.readiness),
        }

    @property
    def summary(self) -> str:
        """The report in a line."""
        counts = self.counts
        found = f"{counts['deny']} to be refused, {counts['warn']} warned about"
        hidden = f"; {_counted(counts['kindsNotReviewed'], 'kind')} not reviewed" if self.gaps else ""
        ready = f"{counts['namespacesReady']} of {_counted(counts['namespaces'], 'namespace')} ready to convert"
        return f"{found}; {ready}{hidden}"

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "summary": self.summary,
            "counts": self.counts,
            "findings": [finding.as_json() for finding in self.findings],
            "findingsLeftOut": self.left_out,
            "readiness": [each.as_json() for each in self.readiness],
            "notReviewed": [gap.as_json() for gap in self.gaps],
        }


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _plural(kind: str) -> str:
    if kind.endswith("y"):
        return f"{kind[:-1]}ies"
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"
