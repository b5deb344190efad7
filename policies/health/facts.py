"""What doctor reads of an installation: objects, answers of replicas, and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from policies.cluster_checks import Check, Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from policies.health.call_metrics import APIServerCalls
    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy

__all__ = [
    "NAMESPACE",
    "REINSTALL",
    "Bundle",
    "InstallationFacts",
    "ReadinessAnswer",
    "ReplicaAnswers",
    "ReplicaMetrics",
    "StoredCertificates",
    "Unread",
    "unread_check",
]

NAMESPACE = "gpu-admission"
"""The namespace of the service and the name of most of its objects."""
REINSTALL = "apply the manifests that you installed once more (`kubectl apply -k my-overlay`, or `helm upgrade`)"

_GRANT = "bind the ClusterRole of docs/doctor.md to your user"


@dataclass(frozen=True, slots=True)
class Unread:
    """A fact that could not be read, with the missing right or another reason."""

    right: str = ""
    """In the words of `kubectl auth can-i`: `get pods/proxy -n gpu-admission`."""
    error: str = ""
    """The reason if no right is missing."""


def unread_check(name: str, what: str, unread: Unread) -> Check:
    """The check that is unknown because a fact could not be read."""
    if unread.right:
        why = f"you may not {unread.right}"
        return Check(name=name, status=Status.UNKNOWN, what=what, why=why, remedy=_GRANT)
    return Check(name=name, status=Status.UNKNOWN, what=what, why=unread.error)


class ReadinessAnswer(NamedTuple):
    """The answer of a replica's `/readyz`."""

    is_ready: bool
    reasons: tuple[str, ...]
    notes: tuple[str, ...]


class ReplicaMetrics(NamedTuple):
    """What doctor reads of a replica's `/metrics`."""

    version: str
    """Empty if it is missing, like None below."""
    certificate_expiry: datetime | None
    drift: int
    """Pods and claims that the replica found without a charge, while it led."""


class ReplicaAnswers(NamedTuple):
    """What a replica answers through the API server."""

    readiness: ReadinessAnswer | Unread
    metrics: ReplicaMetrics | Unread


class Bundle(NamedTuple):
    """The caBundle of a webhook."""

    configuration: str
    """Kind and name: `MutatingWebhookConfiguration gpu-admission`."""
    webhook: str
    is_present: bool
    refusal: str
    """Why it does not verify the certificate in the Secret; empty if it does, or the Secret is unread."""


class StoredCertificates(NamedTuple):
    """The Secret with the certificates, without keys."""

    problem: str
    """Why its content cannot be used; empty if it can."""
    certificate_expiry: datetime | None = None
    authority_expiry: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationFacts:
    """What was read of a running installation; None stands for an object that does not exist."""

    now: datetime
    """The time of the API server, so that a wrong local clock does not matter."""
    version: str
    """The version of this command."""
    deployment: Object | Unread | None
    pods: Sequence[Object] | Unread
    """The pods of the service."""
    nodes: int | Unread
    """How many nodes are ready and accept all pods; counted to 2, because more make no difference."""
    replicas: Mapping[str, ReplicaAnswers]
    """By the name of the pod, for pods that run."""
    configurations: Mapping[str, Object | Unread | None]
    """The two webhook configurations by kind."""
    bundles: Sequence[Bundle]
    certificates: StoredCertificates | Unread | None
    issues_certificates: bool
    """True if replicas make their own certificates; False if they read files of cert-manager or others."""
    calls: APIServerCalls | Unread
    api_servers: int
    """How many API servers have a Lease; 0 if that is unknown."""
    lease: Object | Unread | None
    replica_leases: Sequence[Object] | Unread
    """The Leases by which replicas show that they run, wherever they do."""
    quotas: Sequence[Object] | Unread
    waiting_pods: Sequence[Object] | Unread
    """Converted pods without a node."""
    templates: Sequence[Object] | Unread
    """ResourceClaimTemplates with our label."""
    policies: Sequence[Object] | Unread
    """All GPUAdmissionPolicies."""
    settings: GPUAdmissionPolicy
    """The settings in use, as far as they could be read."""
    installed: Sequence[tuple[Object, Object | Unread | None]]
    """The other objects of the manifests, each with what is stored."""
