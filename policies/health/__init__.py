"""The health of a running installation: checks as functions of facts that were read."""

from policies.health.call_metrics import METRICS, APIServerCalls, WebhookCalls, calls_in
from policies.health.calls import MEDIAN, SLOWEST, bound_text
from policies.health.diagnosis import Diagnosis, diagnose
from policies.health.facts import (
    Bundle,
    InstallationFacts,
    ReadinessAnswer,
    ReplicaAnswers,
    ReplicaMetrics,
    StoredCertificates,
    Unread,
)
from policies.health.installed_objects import wanted_objects

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
