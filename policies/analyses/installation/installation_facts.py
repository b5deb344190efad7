"""Facts of an installation: the calls of its webhooks, its replicas, its certificates and its objects."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.analyses.installation.cluster_checks import Check, Topic
    from policies.kubernetes.objects import Object
    from policies.rules.settings import GPUAdmissionPolicy


_WEBHOOK, _CONDITION = "apiserver_admission_webhook_", "apiserver_admission_match_condition_"
_REQUESTS = f"{_WEBHOOK}request_total"
_REJECTIONS = f"{_WEBHOOK}rejection_count"
_FAIL_OPEN = f"{_WEBHOOK}fail_open_count"
_BUCKETS = f"{_WEBHOOK}admission_duration_seconds_bucket"
_EXCLUSIONS = f"{_CONDITION}exclusions_total"
_ERRORS = f"{_CONDITION}evaluation_errors_total"
_START = "process_start_time_seconds "
METRICS = (*(f"{name}{{" for name in (_REQUESTS, _REJECTIONS, _FAIL_OPEN, _BUCKETS, _EXCLUSIONS, _ERRORS)), _START)
"""The beginnings of the lines that are read.

Source: k8s.io/apiserver pkg/admission/metrics; seen on Kubernetes 1.36.2.
"""
_LINE = re.compile(r"(\w+)\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_OURS = ".gpu-admission.io"
_ANSWERED = "no_error"
_FAILED_REVIEW = "500"
"""The code of our own refusal where a review that fails closed could not be completed."""


@dataclass(slots=True)
class WebhookCalls:
    """The calls of one webhook; one that is in both configurations is counted once."""

    calls: int = 0
    refused: int = 0
    """Answers that refused the object."""
    failed_closed: int = 0
    """Failed calls that refused the object."""
    failed_open: int = 0
    """Failed calls that let the object pass."""
    excluded: int = 0
    """Objects for which a matchCondition prevented the call."""
    condition_errors: int = 0
    """Objects for which a matchCondition could not be evaluated."""
    buckets: dict[float, int] = field(default_factory=dict)
    """Calls that took at most so many seconds."""

    @property
    def failed(self) -> int:
        """Calls without an answer."""
        return self.failed_closed + self.failed_open

    def bound(self, share: float) -> float | None:
        """A bucket's bound in seconds within which this share of the calls was answered; None without calls.

        It is infinite if more calls than that are in the last bucket.
        """
        total = max(self.buckets.values(), default=0)
        return (
            min((bound for bound, count in self.buckets.items() if count >= share * total), default=None)
            if total
            else None
        )


class APIServerCalls(NamedTuple):
    """The counters of one API server."""

    since: datetime | None
    """When it started; None if it does not say so."""
    webhooks: dict[str, WebhookCalls]
    """By the full name of the webhook."""


def calls_in(lines: Iterable[str]) -> APIServerCalls:
    """The calls in lines of the metrics of an API server; other lines are ignored."""
    since = None
    webhooks: dict[str, WebhookCalls] = {}
    for line in lines:
        if line.startswith(_START):
            since = datetime.fromtimestamp(float(line.removeprefix(_START)), UTC)
        elif match := _LINE.fullmatch(line):
            labels = dict(_LABEL.findall(match[2]))
            if labels.get("name", "").endswith(_OURS) and labels.get("kind", "webhook") == "webhook":
                _add(webhooks.setdefault(labels["name"], WebhookCalls()), match[1], labels, int(float(match[3])))
    return APIServerCalls(since, webhooks)


def _add(found: WebhookCalls, metric: str, labels: dict[str, str], count: int) -> None:
    if metric == _REQUESTS:
        found.calls += count
    elif (
        metric == _REJECTIONS
        and labels.get("error_type") == _ANSWERED
        and labels.get("rejection_code") != _FAILED_REVIEW
    ):
        found.refused += count
    elif metric == _REJECTIONS:
        found.failed_closed += count
    elif metric == _FAIL_OPEN:
        found.failed_open += count
    elif metric == _EXCLUSIONS:
        found.excluded += count
    elif metric == _ERRORS:
        found.condition_errors += count
    elif metric == _BUCKETS:
        bound = float(labels.get("le", "inf"))
        found.buckets[bound] = found.buckets.get(bound, 0) + count


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


def unread_check(topic: Topic, what: str, unread: Unread) -> Check:
    """The check that is unknown because a fact could not be read."""
    if unread.right:
        return topic.unknown(what, why=f"you may not {unread.right}", remedy=_GRANT)
    return topic.unknown(what, why=unread.error)


class ReadinessAnswer(NamedTuple):
    """The answer of a replica's `/readyz`."""

    is_ready: bool
    reasons: tuple[str, ...]
    notes: tuple[str, ...]


class ReplicaMetrics(NamedTuple):
    """The metrics of a replica that doctor reads."""

    version: str
    """Empty if it is missing, like None below."""
    certificate_expiry: datetime | None
    drift: int
    """Pods and claims that the replica found without a charge, while it led."""


class ReplicaAnswers(NamedTuple):
    """The answers of a replica through the API server."""

    readiness: ReadinessAnswer | Unread
    metrics: ReplicaMetrics | Unread


class Bundle(NamedTuple):
    """The caBundle of a webhook."""

    configuration: str
    """Kind and name: `MutatingWebhookConfiguration gpu-admission`."""
    webhook: str
    is_present: bool
    refusal: str
    """The reason why it does not verify the certificate in the Secret; empty if it does, or the Secret is unread."""


class StoredCertificates(NamedTuple):
    """The Secret with the certificates, without keys."""

    problem: str
    """The reason why its content cannot be used; empty if it can."""
    certificate_expiry: datetime | None = None
    authority_expiry: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationFacts:
    """The facts of a running installation that were read; None stands for an object that does not exist."""

    now: datetime
    """The time of the API server, so that a wrong local clock does not matter."""
    version: str
    """The version of this command."""
    deployment: Object | Unread | None
    pods: Sequence[Object] | Unread
    """The pods of the service."""
    nodes: int | Unread
    """The number of nodes that are ready and accept all pods; counted to 2, because more make no difference."""
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
    """The number of API servers that have a Lease; 0 if it is unknown."""
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
    cluster_policies: Sequence[Object] | Unread
    """All ClusterPolicies of the GPU Operator."""
    settings: GPUAdmissionPolicy
    """The settings in use, as far as they could be read."""
    installed: Sequence[tuple[Object, Object | Unread | None]]
    """The other objects of the manifests, each with what is stored."""
    static: Mapping[str, Object] = field(default_factory=dict)
    """The webhook configurations in files of the API servers, by kind; empty if there are none, or they are not known."""

    @property
    def called(self) -> Mapping[str, Object | Unread | None]:
        """The webhook configurations by kind: those of the API, and in files those that it lacks."""
        return {kind: found or self.static.get(kind) for kind, found in self.configurations.items()}
