"""Small clusters, and explanations for them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from policies.analyses.explain import explain
from policies.outcome import questions
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

SELECTOR = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"


def empty_list(kind, version="v1"):
    return {"apiVersion": version, "kind": f"{kind}List", "items": []}


def device_class(name="gpu.nvidia.com", selector=SELECTOR, **spec):
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": selector}}], **spec},
    }


def namespace(name="team-a", **labels):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def node(name="node-1", labels=None, taints=(), allocatable=None, **spec):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {"taints": list(taints), **spec},
        "status": {"allocatable": {"cpu": "128", "memory": "1Ti", "pods": "110", **(allocatable or {})}},
    }


def gpu(number, memory="81559Mi", product="NVIDIA H100 80GB HBM3", root=None, **rest):
    attributes = {
        "type": {"string": "gpu"},
        "productName": {"string": product},
        "uuid": {"string": f"GPU-{number}"},
        "cudaComputeCapability": {"version": "9.0.0"},
    }
    if root is not None:
        attributes["resource.kubernetes.io/pcieRoot"] = {"string": root}
    return {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": memory}}, **rest}


def gpus(count, **facts):
    return [gpu(number, **facts) for number in range(count)]


def resource_slice(devices, node_name="node-1", *, count=1, generation=1, driver="gpu.nvidia.com", pool=None, **spec):
    reach = {"nodeName": node_name} if node_name else spec
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{driver}-{pool or node_name}"},
        "spec": {
            "driver": driver,
            "pool": {"name": pool or node_name, "generation": generation, "resourceSliceCount": count},
            "devices": devices,
            **reach,
        },
    }


def taint_rule(effect="NoSchedule", *, name="repair", version="v1", taint=None, **selector):
    """A DeviceTaintRule whose `deviceSelector` has the given fields."""
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": {"deviceSelector": selector, "taint": {"key": "example.com/repair", "effect": effect, **(taint or {})}},
    }


def claim(request=None, *, name="gpus", namespace="team-a", version="v1", stored=False, **devices):
    """A claim with one request, `gpu`, for GPUs."""
    exactly = {"deviceClassName": "gpu.nvidia.com", **(request or {})}
    requests = [{"name": "gpu", **exactly} if version == "v1beta1" else {"name": "gpu", "exactly": exactly}]
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace, **({"uid": f"uid-{name}"} if stored else {})},
        "spec": {"devices": {"requests": requests, **devices}},
    }


def selecting(*expressions, **request):
    return {"selectors": [{"cel": {"expression": expression}} for expression in expressions], **request}


def holding(pod, numbers, node_name="node-1", namespace="team-b"):
    """A claim that holds GPUs of a node for a pod, or for nobody."""
    results = [
        {"request": "gpu", "driver": "gpu.nvidia.com", "pool": node_name, "device": f"gpu-{number}"}
        for number in numbers
    ]
    held = claim(name=f"{pod}-gpu", namespace=namespace, stored=True)
    only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node_name]}]}
    allocation = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [only]}}
    return {**held, "status": {"allocation": allocation, "reservedFor": [{"resource": "pods", "name": pod}]}}


def template(request=None, *, name="gpus", **devices):
    made = claim(request, **devices)
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"spec": made["spec"]},
    }


def pod(limits=None, *, name="train", namespace="team-a", stored=False, **spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, **({"uid": f"uid-{name}"} if stored else {})},
        "spec": {"containers": [{"name": "main", "image": "train", "resources": {"limits": limits or {}}}], **spec},
    }


def claiming(**references):
    """`resourceClaims` of a pod."""
    return [{"name": "gpus", **references}]


def running(name="train", devices=(0,), tolerations=None, *, node="node-1", **spec):
    """A pod that holds GPUs by a claim, and the claim."""
    held = holding(name, devices, node, "team-a")
    if tolerations is not None:
        for result in held["status"]["allocation"]["devices"]["results"]:
            result["tolerations"] = tolerations
    names = {"resourceClaimTemplateName": "gpus"}
    found = pod(name=name, nodeName=node, resourceClaims=claiming(**names), **spec)
    found["status"] = {"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": f"{name}-gpu"}]}
    return found, held


BASE = (device_class(), namespace(), empty_list("Pod"), empty_list("ResourceClaim", "resource.k8s.io/v1"))


@pytest.fixture
def k8s():
    """Makers of objects."""
    return SimpleNamespace(
        claim=claim,
        claiming=claiming,
        device_class=device_class,
        empty_list=empty_list,
        gpu=gpu,
        gpus=gpus,
        holding=holding,
        namespace=namespace,
        node=node,
        pod=pod,
        resource_slice=resource_slice,
        selecting=selecting,
        taint_rule=taint_rule,
        template=template,
    )


@pytest.fixture
def ask():
    """The one explanation of a document in a cluster of these objects, beside classes, namespaces and no pods."""

    def ask(document, *objects, base=BASE):
        view = ManifestsView([*base, *objects])
        (question,) = questions(document, "team-a", view, DEFAULTS)
        return explain(question, view, DEFAULTS)

    return ask


@pytest.fixture
def ask_all():
    """The explanations of a document with several pods."""

    def ask_all(document, *objects):
        view = ManifestsView([*BASE, *objects])
        return [explain(question, view, DEFAULTS) for question in questions(document, "team-a", view, DEFAULTS)]

    return ask_all
