"""The audit: all objects of a cluster, judged by the rules for new ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from policies.analyses.audit.audit_report import MOST_FINDINGS, AuditFinding, AuditReport, Gap
from policies.analyses.audit.checks import (
    configuration_findings,
    karpenter_findings,
    node_findings,
    pod_findings,
    quota_findings,
    template_findings,
)
from policies.analyses.audit.readiness import KeptProofs, readiness
from policies.analyses.audit.survey import Conversions
from policies.kubernetes.view import UNKNOWN
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.analyses.audit.survey import Survey
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Rule
    from policies.rules.settings import GPUAdmissionPolicy


_SEVERITIES = tuple(Severity)
"""The most severe first."""

_CONFIGURATION = "their mistakes are not reported"
_CONSEQUENCES = {
    "Namespace": "which namespaces convert or allow admin access, and which of their pods escaped, is unknown",
    "ResourceQuota": "whether opting in switches one off is unknown",
    "LimitRange": "whether one undoes a conversion is unknown",
    "ResourceSlice": "whether there are devices for converted pods is unknown",
    "DeviceClass": "whether the class that a conversion needs exists is unknown",
    "ResourceClaimTemplate": "which converted pods wait for a missing one is unknown",
    **dict.fromkeys(
        ("Node", "ClusterPolicy", "GPUCluster", "NVIDIADriver", "ConfigMap", "ResourceClaim"), _CONFIGURATION
    ),
}
"""The facts that are unknown without the objects of a kind."""

_WITHOUT_PODS = "which of them were never reviewed, or use GPUs without a request, is unknown; pods without a workload are not counted"
_WITHOUT_WORKLOADS = "their pods are not counted among the workloads of a namespace"
_WITHOUT_POOLS = "whether Karpenter creates nodes for pods that request GPUs, but not for converted pods, is unknown"
_SURVEY_CONSEQUENCES = {"Pod": _WITHOUT_PODS, "NodePool": _WITHOUT_POOLS}


def audit(
    view: ClusterView,
    settings: GPUAdmissionPolicy,
    survey: Survey,
    *,
    kept: KeptProofs | None = None,
    most_findings: int = MOST_FINDINGS,
) -> AuditReport:
    """Report what is wrong with the objects of a cluster, and which namespaces are ready to convert.

    Args:
        view: The cluster.
        settings: The administrator's settings.
        survey: Pods, workloads and node pools; it also names the only namespace to look into, if there is one.
        kept: The proofs of the last audit of this cluster, which get those of this one.
        most_findings: The most findings that the report has; the others are counted.
    """
    conversions = Conversions(view, settings)
    rows = readiness(survey, conversions, view, kept or KeptProofs())
    findings = _merged_findings(
        [
            *configuration_findings(survey.namespace, view, settings),
            *pod_findings(survey, conversions, view, settings),
            *template_findings(survey, view, settings),
            *quota_findings(survey.namespace, view, settings),
            *node_findings(survey.namespace, view, settings),
            *karpenter_findings(survey.node_pools, rows, view),
        ]
    )
    counts: Counter[tuple[Rule, Severity]] = Counter()
    waived: Counter[tuple[Rule, Severity]] = Counter()
    for finding in findings:
        counts[finding.rule, finding.severity] += finding.count
        if finding.waived:
            waived[finding.rule, finding.severity] += finding.count
    report = AuditReport(
        tuple(findings), 0, dict(counts), dict(waived), rows, _gaps(survey, view), tuple(survey.short_workloads)
    )
    return report.limit_findings(most_findings)


def _merged_findings(findings: Iterable[AuditFinding]) -> list[AuditFinding]:
    """One finding for all objects with the same one; sorted, the most severe first and waived ones last."""
    alike: dict[tuple[str, ...], list[AuditFinding]] = {}
    for finding in findings:
        alike.setdefault(finding.merge_key, []).append(finding)
    merged = []
    for same in alike.values():
        first = min(same, key=lambda finding: finding.name)
        owners = sorted({owner for finding in same for owner in finding.owners})
        merged.append(replace(first, count=sum(finding.count for finding in same), owners=tuple(owners)))
    return sorted(merged, key=_order)


def _order(finding: AuditFinding) -> tuple[bool, int, str, str, str, str, str, str]:
    return (
        bool(finding.waived),
        _SEVERITIES.index(finding.severity),
        finding.rule.id,
        finding.namespace,
        finding.kind,
        finding.name,
        str(finding.path),
        finding.message,
    )


def _gaps(survey: Survey, view: ClusterView) -> tuple[Gap, ...]:
    """The kinds that were not reviewed; one gap for kinds with the same reason and consequence."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for kind, consequence in _CONSEQUENCES.items():
        if view.list(kind) is UNKNOWN and view.list(kind, survey.namespace) is UNKNOWN:
            kinds.setdefault((survey.missing.get(kind, ""), consequence), []).append(kind)
    for kind in dict.fromkeys(kind for _, kind in survey.kinds):
        if kind in survey.missing:
            consequence = _SURVEY_CONSEQUENCES.get(kind, _WITHOUT_WORKLOADS)
            kinds.setdefault((survey.missing[kind], consequence), []).append(kind)
    return tuple(Gap(tuple(of_gap), reason, consequence) for (reason, consequence), of_gap in kinds.items())
