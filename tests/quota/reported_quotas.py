"""GPUQuotas with and without a status, and the cluster of their report."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from policies.quota.ledger.open_charges import compact_text
from policies.quota.ledger.status import read_charge
from policies.quota.limits.quota import parse_quota
from policies.quota.quota_report import quota_report
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}


def before(**ago):
    return (NOW - timedelta(**ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(name="gpu-1", labels=H100):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"nvidia.com/gpu": "8"}},
    }


def namespace(name="team-a", **labels):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def pod(name, gpus=1, *, created=None, node="gpu-1", phase="Running"):
    limits = {"nvidia.com/gpu": str(gpus)}
    metadata = {"name": name, "namespace": "team-a", "uid": f"uid-{name}"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata | ({"creationTimestamp": created} if created else {}),
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "image": "train:1", "resources": {"limits": limits}}],
        },
        "status": {"phase": phase},
    }


def quota(*limits, status=None, uid="uid-quota", **spec):
    document = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": "team-a"} | ({"uid": uid} if uid else {}),
        "spec": {"limits": list(limits) or [{"name": "all", "gpus": 8}], **spec},
    }
    return document if status is None else {**document, "status": status}


def counted(document, *charges, **used):
    """A status that says what is used of each limit, and these charges."""
    limits = [
        {"name": limit.name, "key": limit.key, "hard": str(limit.hard), "reserved": "0", "used": used[limit.name]}
        for limit in parse_quota(document).limits
    ]
    status = {
        "limits": limits,
        "openCharges": compact_text(map(read_charge, charges)),
        "counted": {"pods": "7", "claims": "7"},
    }
    return {**document, "status": status}


def charge(name="next", kind="Pod", *, time="", pieces=("",), amount="1", of=None):
    document = {"uid": f"uid-{name}", "kind": kind, "name": name, "time": time}
    bill = {"amounts": {"all": amount}, "most": {"gpus": amount, "memory": "0", "devices": amount}}
    return document | ({"of": of} if of else {}) | {"pieces": [{"name": piece, **bill} for piece in pieces]}


EMPTY = [
    {"apiVersion": version, "kind": f"{kind}List", "items": []}
    for version, kind in (
        ("v1", "Pod"),
        ("resource.k8s.io/v1", "ResourceClaim"),
        ("resource.k8s.io/v1", "ResourceSlice"),
    )
]


def reported(document, *objects, known=EMPTY):
    return quota_report(document, ManifestsView([*known, *objects]), DEFAULTS, NOW)
