"""Audits the existing objects of a cluster: the webhook sees only changes.

`Survey` takes in pods, workloads and node pools, which no view keeps whole. `audit` judges them and everything that the
view keeps with the same review that the webhook uses. Reports are data; the callers render them.
"""

from __future__ import annotations

from policies.analyses.audit.audit import audit
from policies.analyses.audit.audit_report import (
    MOST_FINDINGS,
    AuditCounts,
    AuditFinding,
    AuditJSON,
    AuditReport,
    Gap,
    audit_json,
)
from policies.analyses.audit.policy_reports import (
    OPEN_REPORTS,
    POLICY_REPORTS,
    REPORT_NAME,
    ReportAPI,
    is_our_report,
    policy_reports,
)
from policies.analyses.audit.readiness import LOSS, UNPROVEN, ConversionObstacle, ConversionReadiness, KeptProofs
from policies.analyses.audit.survey import Survey, surveyed_kinds

__all__ = [
    "LOSS",
    "MOST_FINDINGS",
    "OPEN_REPORTS",
    "POLICY_REPORTS",
    "REPORT_NAME",
    "UNPROVEN",
    "AuditCounts",
    "AuditFinding",
    "AuditJSON",
    "AuditReport",
    "ConversionObstacle",
    "ConversionReadiness",
    "Gap",
    "KeptProofs",
    "ReportAPI",
    "Survey",
    "audit",
    "audit_json",
    "is_our_report",
    "policy_reports",
    "surveyed_kinds",
]
