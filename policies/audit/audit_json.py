"""The types of the JSON of an audit; docs/schemas is generated from them."""

from __future__ import annotations

from typing import Annotated, TypedDict

from policies.conversion.opt_in import Mode
from policies.decision import Severity

__all__ = [
    "AuditCountsJSON",
    "AuditFindingJSON",
    "AuditReportJSON",
    "ConversionObstacleJSON",
    "GapJSON",
    "ObjectJSON",
    "ReadinessJSON",
]


class ObjectJSON(TypedDict):
    """The object of a finding, the first one if there are several."""

    kind: str
    namespace: str
    name: str


class AuditFindingJSON(TypedDict):
    """A finding on one object or several."""

    rule: str
    severity: Annotated[str, Severity]
    object: ObjectJSON
    count: int
    owners: list[str]
    path: str
    message: str
    remedy: str
    waived: str


class GapJSON(TypedDict):
    """Kinds that were not reviewed."""

    kinds: list[str]
    reason: str
    consequence: str


class ConversionObstacleJSON(TypedDict):
    """Why workloads would not convert, or what they would lose."""

    rule: str
    severity: Annotated[str, Severity]
    workload: str
    count: int
    path: str
    message: str
    remedy: str


class ReadinessJSON(TypedDict):
    """How conversion would treat the workloads of a namespace."""

    namespace: str
    mode: Annotated[str, Mode]
    ready: bool | None
    workloads: int
    converts: int
    refused: int
    left: int
    obstacles: list[ConversionObstacleJSON]
    preemption: ConversionObstacleJSON | None


class AuditCountsJSON(TypedDict):
    """The numbers of an audit."""

    deny: int
    warn: int
    audit: int
    waived: int
    kindsNotReviewed: int
    namespaces: int
    namespacesReady: int
    namespacesOptedIn: int
    workloads: int
    workloadsConvert: int


class AuditReportJSON(TypedDict):
    """The report of an audit."""

    summary: str
    counts: AuditCountsJSON
    findings: list[AuditFindingJSON]
    findingsLeftOut: int
    readiness: list[ReadinessJSON]
    notReviewed: list[GapJSON]
