"""The audit: one look at everything that is there, by the rules for what is new."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.audit.configuration import configuration_findings
from policies.audit.findings import counted, merged
from policies.audit.gaps import gaps
from policies.audit.karpenter import karpenter_findings
from policies.audit.nodes import node_findings
from policies.audit.outcomes import Outcomes
from policies.audit.pods import pod_findings, template_findings
from policies.audit.quotas import quota_findings
from policies.audit.readiness import readiness
from policies.audit.report import MOST_FINDINGS, AuditReport
from policies.dra.keeping_on import for_ever

if TYPE_CHECKING:
    from policies.audit.survey import Survey
    from policies.dra.keeping_on import KeepOn
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["audit"]


def audit(view: ClusterView, settings: GPUAdmissionPolicy, survey: Survey, keep_on: KeepOn = for_ever) -> AuditReport:
    """Tell what is wrong with what a cluster holds, and which namespaces are ready to convert.

    Args:
        view: The cluster.
        settings: The administrator's choices.
        survey: Pods, workloads and node pools; it also says which namespace to look into, if only one.
        keep_on: Called between the steps; see `policies.dra.keeping_on`.
    """
    outcomes = Outcomes(view, settings)
    ready = readiness(survey, outcomes, view, keep_on)
    findings = merged(
        [
            *configuration_findings(survey.namespace, view, settings, keep_on),
            *pod_findings(survey, outcomes, view, settings, keep_on),
            *template_findings(survey, view, settings, keep_on),
            *quota_findings(survey.namespace, view, settings),
            *node_findings(survey.namespace, view, settings),
            *karpenter_findings(survey.node_pools, ready),
        ]
    )
    left_out = max(len(findings) - MOST_FINDINGS, 0)
    return AuditReport(tuple(findings[:MOST_FINDINGS]), left_out, counted(findings), ready, gaps(survey, view))
