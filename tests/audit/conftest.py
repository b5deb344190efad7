"""Small clusters, and the audit of one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from policies.admission import review
from policies.analyses.audit import Survey, audit
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

KNOWN = {
    "Pod": "v1",
    "Node": "v1",
    "Namespace": "v1",
    "ConfigMap": "v1",
    "LimitRange": "v1",
    "ResourceQuota": "v1",
    "ResourceClaim": "resource.k8s.io/v1",
    "ResourceClaimTemplate": "resource.k8s.io/v1",
    "ClusterPolicy": "nvidia.com/v1",
    "GPUCluster": "nvidia.com/v1alpha1",
    "NVIDIADriver": "nvidia.com/v1alpha1",
}
"""Kinds that there are none of, unless a test makes some."""

H100 = "NVIDIA-H100-80GB-HBM3"


def thing(kind, name, namespace=None, version="v1", *, labels=None, **fields):
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {}) | ({"labels": labels} if labels else {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def namespace(name="team-a", mode="enabled", **labels):
    opted = {"gpu-admission.io/dra": mode} if mode else {}
    return thing("Namespace", name, labels={**opted, **labels})


def spec(gpus=1, resource="nvidia.com/gpu", **fields):
    limits = {resource: str(gpus)} if gpus else {"cpu": "1"}
    container = {"name": "main", "image": "train:1", "resources": {"limits": limits, "requests": dict(limits)}}
    return {"containers": [container], **fields}


def owner(kind, name, version="apps/v1"):
    return [{"apiVersion": version, "kind": kind, "name": name, "uid": name, "controller": True}]


def pod(name="train", namespace="team-a", *, node="node-1", owners=(), labels=None, annotations=None, **fields):
    made = thing("Pod", name, namespace, labels=labels, spec=spec(**fields))
    if owners:
        made["metadata"]["ownerReferences"] = owners
    if annotations:
        made["metadata"]["annotations"] = annotations
    if node:
        made["spec"]["nodeName"] = node
        made["status"] = {"phase": "Running", "podIP": name}
    return made


def workload(kind="Deployment", name="train", namespace="team-a", *, owners=(), labels=None, **fields):
    group = {"Job": "batch/v1", "CronJob": "batch/v1"}.get(kind, "apps/v1")
    template = {"metadata": {"labels": labels or {}}, "spec": spec(**fields)}
    held = {"jobTemplate": {"spec": {"template": template}}} if kind == "CronJob" else {"template": template}
    made = thing(kind, name, namespace, group, spec=held)
    if owners:
        made["metadata"]["ownerReferences"] = owners
    return made


def quota(name="gpus", namespace="team-a", **hard):
    return thing("ResourceQuota", name, namespace, spec={"hard": hard or {"requests.nvidia.com/gpu": "8"}})


def device_class(name="gpu.nvidia.com", **fields):
    selector = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"
    held = {"selectors": [{"cel": {"expression": selector}}], **fields}
    return thing("DeviceClass", name, None, "resource.k8s.io/v1", spec=held)


def gpu_node(name="node-1"):
    attributes = {
        "type": {"string": "gpu"},
        "productName": {"string": "NVIDIA H100 80GB HBM3"},
        "architecture": {"string": "Hopper"},
    }
    device = {"name": "gpu-0", "attributes": attributes, "capacity": {"memory": {"value": "81559Mi"}}}
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    held = {"driver": "gpu.nvidia.com", "nodeName": name, "pool": pool, "devices": [device]}
    return thing("ResourceSlice", name, None, "resource.k8s.io/v1", spec=held)


def node_pool(name="gpus", *, key="karpenter.k8s.aws/instance-gpu-name", **fields):
    requirements = [{"key": key, "operator": "Exists"}]
    held = {"template": {"spec": {"requirements": requirements}}, **fields}
    return thing("NodePool", name, None, "karpenter.sh/v1", spec=held)


VERSION = {"serverVersion": {"gitVersion": "v1.35.0"}}
BASE = (VERSION, device_class(), gpu_node())


def listed(kind, version="v1"):
    return {"apiVersion": version, "kind": f"{kind}List", "items": []}


def view_of(*objects, base=BASE, known=KNOWN):
    return ManifestsView([*base, *(listed(kind, version) for kind, version in known.items()), *objects])


def surveyed(view, objects, settings=DEFAULTS, namespace=""):
    survey = Survey(view, settings, namespace)
    survey.add(objects)
    return survey


@pytest.fixture(name="k8s", scope="session")
def _makers():
    """Makers of objects."""
    return SimpleNamespace(
        BASE=BASE,
        H100=H100,
        KNOWN=KNOWN,
        VERSION=VERSION,
        device_class=device_class,
        gpu_node=gpu_node,
        listed=listed,
        namespace=namespace,
        node_pool=node_pool,
        owner=owner,
        pod=pod,
        quota=quota,
        spec=spec,
        surveyed=surveyed,
        thing=thing,
        view_of=view_of,
        workload=workload,
    )


@pytest.fixture(scope="session")
def audited():
    """The report on a cluster of these objects, of which everything else is known and there is nothing."""

    def audited(*objects, settings=DEFAULTS, namespace="", base=BASE, known=KNOWN):
        view = view_of(*objects, base=base, known=known)
        return audit(view, settings, surveyed(view, objects, settings, namespace))

    return audited


@pytest.fixture(scope="session")
def converted():
    """A pod as conversion stores it in `team-a`, and its template."""

    def converted(document):
        view = view_of(namespace())
        decision = review(Request(document, namespace="team-a", entry="convert-pods"), view, DEFAULTS)
        return decision.object, decision.templates[0].manifest()

    return converted
