"""Audits what a cluster holds already: the webhook sees only what changes.

`Survey` takes in pods, workloads and node pools, which no view keeps whole; `audit` judges them and everything that the
view keeps, by asking the same review that the webhook asks. Reports are data: rendering them is for who asks.
"""

from __future__ import annotations

from policies.audit.audit import audit
from policies.audit.report import MOST_FINDINGS, AuditFinding, AuditReport, Gap, Obstacle, Readiness
from policies.audit.survey import Survey, surveyed

__all__ = [
    "MOST_FINDINGS",
    "AuditFinding",
    "AuditReport",
    "Gap",
    "Obstacle",
    "Readiness",
    "Survey",
    "audit",
    "surveyed",
]
