"""Installations: what one would meet in a cluster, and what is wrong with one that runs."""

from __future__ import annotations

from policies.analyses.installation.diagnosis import MEDIAN, SLOWEST, Diagnosis, bound_text, diagnose
from policies.analyses.installation.dry_runs import DryRun, PlannedObject
from policies.analyses.installation.installation_facts import (
    METRICS,
    APIServerCalls,
    Bundle,
    InstallationFacts,
    ReadinessAnswer,
    ReplicaAnswers,
    ReplicaMetrics,
    StoredCertificates,
    Unread,
    WebhookCalls,
    calls_in,
)
from policies.analyses.installation.installed_objects import wanted_objects
from policies.analyses.installation.other_webhooks import Coverage, webhooks_in
from policies.analyses.installation.preflight import Facts, Preflight, preflight

__all__ = [
    "MEDIAN",
    "METRICS",
    "SLOWEST",
    "APIServerCalls",
    "Bundle",
    "Coverage",
    "Diagnosis",
    "DryRun",
    "Facts",
    "InstallationFacts",
    "PlannedObject",
    "Preflight",
    "ReadinessAnswer",
    "ReplicaAnswers",
    "ReplicaMetrics",
    "StoredCertificates",
    "Unread",
    "WebhookCalls",
    "bound_text",
    "calls_in",
    "diagnose",
    "preflight",
    "wanted_objects",
    "webhooks_in",
]
