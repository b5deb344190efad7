"""InstallationFacts of an installation that works, of which tests change one part."""

from datetime import UTC, datetime, timedelta

from policies.analyses.installation import (
    APIServerCalls,
    Bundle,
    InstallationFacts,
    ReadinessAnswer,
    ReplicaAnswers,
    ReplicaMetrics,
    StoredCertificates,
)
from policies.rules.settings import DEFAULTS
from testbed.webhook_configurations import current_configurations

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
IMAGE = "registry.example/gpu-admission:0.1.0"
NAMES = ("gpu-admission-0", "gpu-admission-1")


def ago(**amounts):
    """A time before NOW, as objects have it."""
    return (NOW - timedelta(**amounts)).isoformat().replace("+00:00", "Z")


def pod(name=NAMES[0], node="node-1", *, ready=True, image=IMAGE, **container):
    """The pod of a replica."""
    condition = {"type": "Ready", "status": str(ready), **({} if ready else {"message": "probe failed"})}
    return {
        "metadata": {"name": name, "namespace": "gpu-admission"},
        "spec": {"nodeName": node, "containers": [{"name": "gpu-admission", "image": image}]},
        "status": {
            "phase": "Running",
            "conditions": [condition],
            "containerStatuses": [{"name": "gpu-admission", **container}],
        },
    }


def deployment(replicas=2, available=2, updated=2):
    """The Deployment."""
    status = {"availableReplicas": available, "updatedReplicas": updated}
    return {"metadata": {"name": "gpu-admission"}, "spec": {"replicas": replicas}, "status": status}


def replica(*notes, reasons=(), version="0.1.0", days=20, drift=0):
    """What a replica answers."""
    metrics = ReplicaMetrics(version, NOW + timedelta(days=days), drift)
    return ReplicaAnswers(ReadinessAnswer(not reasons, tuple(reasons), notes), metrics)


def configurations(update=None):
    """Both webhook configurations of deploy/, whose webhooks pass through `update` with their kind."""
    return {
        each["kind"]: {**each, "webhooks": update(each["kind"], each["webhooks"]) if update else each["webhooks"]}
        for each in current_configurations()
    }


def facts(**changed):
    """The facts, with changes."""
    healthy = {
        "now": NOW,
        "version": "0.1.0",
        "deployment": deployment(),
        "pods": [pod(name, f"node-{number}") for number, name in enumerate(NAMES)],
        "nodes": 3,
        "replicas": {name: replica() for name in NAMES},
        "configurations": configurations(),
        "bundles": [Bundle("MutatingWebhookConfiguration gpu-admission", "convert-pods.gpu-admission.io", True, "")],
        "certificates": StoredCertificates("", NOW + timedelta(days=20), NOW + timedelta(days=200)),
        "issues_certificates": True,
        "calls": APIServerCalls(NOW - timedelta(days=2), {}),
        "api_servers": 1,
        "lease": {"spec": {"holderIdentity": "gpu-admission-0_ab", "renewTime": ago(seconds=3)}},
        "replica_leases": [],
        "quotas": [],
        "waiting_pods": [],
        "templates": [],
        "policies": [],
        "cluster_policies": [],
        "settings": DEFAULTS,
        "installed": [],
    }
    return InstallationFacts(**{**healthy, **changed})


def bad(checks, *fields):
    """Status and fields of the checks that are not ok."""
    fields = fields or ("what",)
    return [(str(each.status), *(getattr(each, field) for field in fields)) for each in checks if each.status != "ok"]


def good(checks):
    """The texts of the checks that are ok."""
    return [each.what for each in checks if each.status == "ok"]
