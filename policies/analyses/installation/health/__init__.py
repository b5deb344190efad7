"""The health of a running installation: checks as functions of facts that were read."""

from policies.analyses.installation.health.diagnosis import MEDIAN, SLOWEST, Diagnosis, bound_text, diagnose
from policies.analyses.installation.health.facts import (
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
from policies.analyses.installation.health.installed_objects import wanted_objects

__all__ = [
    "MEDIAN",
    "METRICS",
    "SLOWEST",
    "APIServerCalls",
    "Bundle",
    "Diagnosis",
    "InstallationFacts",
    "ReadinessAnswer",
    "ReplicaAnswers",
    "ReplicaMetrics",
    "StoredCertificates",
    "Unread",
    "WebhookCalls",
    "bound_text",
    "calls_in",
    "diagnose",
    "wanted_objects",
]
