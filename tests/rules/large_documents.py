"""Objects beyond a limit, which are too long for the files of `places/`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLASS = "gpu.nvidia.com"
_PARAMETERS = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig"}
_AMOUNTS = {"nvidia.com/gpu": "1"}
_GPU = {"limits": _AMOUNTS, "requests": _AMOUNTS}
DEVICE_CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": _CLASS},
    "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{_CLASS}"'}}]},
}
_CONVERTING = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "team-a", "labels": {"gpu-admission.io/dra": "enabled"}},
}


def large_documents() -> Iterator[tuple[str, dict[str, Any], list[dict[str, Any]]]]:
    """Each with what it has too much of, and with what the cluster has."""
    for name, devices in _devices():
        yield name, _object("resource.k8s.io/v1", "ResourceClaim", {"devices": devices}), []
    claim = _object("resource.k8s.io/v1", "ResourceClaim", {"devices": {"requests": [_request()]}})
    yield "annotations", {**claim, "metadata": {**claim["metadata"], "annotations": {"a": "a" * 300_000}}}, []
    every = {"requests": [_request(allocationMode="All")]}
    of_node = [DEVICE_CLASS, _slice(40)]
    yield "devices", _object("resource.k8s.io/v1", "ResourceClaim", {"devices": every}), of_node
    data = {f"key-{number}": "version: v1" for number in range(129)}
    metadata = {"name": "plugin", "namespace": "gpu-operator", "labels": {"gpu-admission.io/config": "device-plugin"}}
    yield "configurations", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}, []
    values = {"any": f"version: v1\nflags: {[0] * 10_001}"}
    yield "values", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": values}, []
    yield from _pods()
    limits = [{"name": f"limit-{number}", "gpus": 1} for number in range(33)]
    yield "limits", _object("gpu-admission.io/v1alpha1", "GPUQuota", {"limits": limits}), []
    globs = {"name": "a", "gpus": 1, "selector": {"products": [f"H{number}*" for number in range(17)]}}
    yield "globs", _object("gpu-admission.io/v1alpha1", "GPUQuota", {"limits": [globs]}), []
    nested: dict[str, Any] = {}
    for _ in range(3000):
        nested = {"rules": nested}
    settings = _object("gpu-admission.io/v1alpha1", "GPUAdmissionPolicy", nested)
    yield "levels", {**settings, "metadata": {"name": "default"}}, []


def _object(version: str, kind: str, spec: dict[str, Any], **annotations: str) -> dict[str, Any]:
    metadata = {"name": "gpu", "namespace": "team-a", "annotations": annotations}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _request(name: str = "gpu", **fields: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": _CLASS, **fields}}


def _devices() -> Iterator[tuple[str, dict[str, Any]]]:
    names = [f"r{number}" for number in range(33)]
    requests, config = [_request(name) for name in names], {"driver": _CLASS, "parameters": _PARAMETERS}
    yield "requests", {"requests": requests}
    yield "configs", {"requests": [_request()], "config": [{"opaque": config}] * 33}
    referring = {"requests": [*names[:32], "r0"], "opaque": config}
    yield "names of requests", {"requests": requests[:32], "config": [referring]}
    tolerations = [{"key": name, "operator": "Exists"} for name in names]
    yield "tolerations", {"requests": [_request(tolerations=tolerations)]}
    long = {**config, "parameters": {**_PARAMETERS, "x": "a" * 11_000}}
    yield "parameters", {"requests": [_request()], "config": [{"opaque": long}]}
    for name, parts, number in (("selector", 400, 1), ("selectors", 250, 2)):
        text = " || ".join(f'device.driver == "gpu.nvidia.co{part}"' for part in range(parts))
        yield name, {"requests": [_request(selectors=[{"cel": {"expression": text}}] * number)]}


def _slice(count: int) -> dict[str, Any]:
    attributes = {"type": {"string": "gpu"}}
    devices = [{"name": f"gpu-{number}", "attributes": attributes} for number in range(count)]
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": _CLASS, "nodeName": "a", "pool": pool, "devices": devices}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "a"}, "spec": spec}


def _pods() -> Iterator[tuple[str, dict[str, Any], list[dict[str, Any]]]]:
    main = {"name": "main", "image": "cuda", "resources": _GPU}
    more = [{"name": f"c{number}", "image": "cuda"} for number in range(1000)]
    yield "containers", _object("v1", "Pod", {"containers": [main, *more]}), [DEVICE_CLASS, _CONVERTING]
    terms = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": [f"z{number}"]}]} for number in range(1001)
    ]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    wish = {"gpu-admission.io/product": "NVIDIA-H100-80GB-HBM3"}
    spec = {"affinity": affinity, "containers": [main]}
    yield "terms for a wish", _object("v1", "Pod", spec, **wish), [_node()]
    policy = {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUAdmissionPolicy", "metadata": {"name": "default"}}
    policy = {**policy, "spec": {"placement": {"avoidSharedGPUs": True}}}
    yield "terms", _object("v1", "Pod", spec), [_node(), policy]
    waivers = {"gpu-admission.io/ignore": "\n".join(["GA301 because the GPUs arrive on Monday"] * 110)}
    yield "waivers", _object("v1", "Pod", {"containers": [main]}, **waivers), []
    claims = [{"name": f"c{number}", "resourceClaimTemplateName": "gpu"} for number in range(1001)]
    quota = _object("gpu-admission.io/v1alpha1", "GPUQuota", {"limits": [{"name": "all", "gpus": 4}]})
    yield "claims", _object("v1", "Pod", {"containers": [main], "resourceClaims": claims}), [quota]


def _node() -> dict[str, Any]:
    labels = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": "8"}
    metadata = {"name": "a", "labels": {**labels, "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}}
    status = {"allocatable": {"nvidia.com/gpu": "8"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
