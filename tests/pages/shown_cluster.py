"""A cluster that has everything a report shows: whole GPUs, MIG devices, shares, quotas, namespaces that convert, findings."""

from __future__ import annotations

from datetime import UTC, datetime

from policies.analyses.audit import Survey, audit
from policies.analyses.overview import overview
from policies.rules.settings import DEFAULTS
from tests.usage.usage_objects import NOTHING, claim, device, devices, node, pod, resource_slice
from webhook.cluster.manifests import ManifestsView

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)

A100 = "NVIDIA A100-SXM4-80GB"


def shown_objects():
    """The objects of the cluster."""
    return [
        *NOTHING,
        *map(namespace, ("team-a", "team-b", "team-c")),
        node("h100-01"),
        resource_slice(devices(8), "h100-01"),
        claim("gpu-0", "gpu-1", pool="h100-01", pods=("train-0",)),
        claim("gpu-2", pool="h100-01", pods=("train-0",), name="more"),
        claim("gpu-5", pool="h100-01", namespace="team-b", pods=("chat",), name="chat"),
        node("a100-mig"),
        resource_slice(mig_devices(), "a100-mig"),
        claim("gpu-0-mig-3g40gb-9-0", pool="a100-mig", namespace="team-b", pods=("notebook",), name="notebook"),
        node("t4-shared", gpus=8, labels={"nvidia.com/gpu.product": "Tesla-T4-SHARED", "nvidia.com/gpu.replicas": "4"}),
        pod("web-1", 1, node_name="t4-shared", namespace="team-c"),
        pod("web-2", 1, node_name="t4-shared", namespace="team-c"),
        node("h100-02", gpus=4, unschedulable=True),
        pod("old", 2, node_name="h100-02", namespace="team-c"),
        node("h100-03", gpus=1),
        pod("first", 1, node_name="h100-03", namespace="team-b"),
        pod("second", 1, node_name="h100-03", namespace="team-c"),
        quota("team-a", 4),
        quota("team-b", 1),
        pod("escaped", 1, node_name="", namespace="team-a"),
    ]


def overview_of(objects, before=None):
    """The overview of some objects, compared with those of an earlier cluster."""
    view = ManifestsView(objects)
    survey = Survey(view, DEFAULTS)
    survey.add(objects)
    earlier = None if before is None else ManifestsView(before)
    return overview(view, DEFAULTS, NOW, audit(view, DEFAULTS, survey), earlier)


def namespace(name):
    labels = {"gpu-admission.io/dra": "enabled"} if name == "team-a" else {}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def mig_devices():
    return [
        _mig("3g40gb-9-0", "3g.40gb", 0, 4),
        _mig("2g20gb-14-4", "2g.20gb", 4, 2),
        _mig("1g10gb-19-6", "1g.10gb", 6, 1),
    ]


def _mig(suffix, profile, first, size):
    found = device(f"gpu-0-mig-{suffix}", "mig", A100, f"{9728 * size}Mi", {"profile": profile, "parentUUID": "GPU-a"})
    found["capacity"] |= {f"memorySlice{first + each}": {"value": "1"} for each in range(size)}
    return found


def earlier_objects():
    """The objects before team-a got the GPU of its claim `more`."""
    return [each for each in shown_objects() if each.get("metadata", {}).get("name") != "more"]


def quota(namespace, gpus):
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": namespace},
        "spec": {"limits": [{"name": "all", "gpus": gpus}]},
    }
