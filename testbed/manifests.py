"""The objects that scenarios write."""

from __future__ import annotations

from typing import Any
from uuid import NAMESPACE_DNS, uuid5

CLASS = "gpu.nvidia.com"
_PRODUCT = "NVIDIA H100 80GB HBM3"
_MEMORY = "81559Mi"


def namespace(name: str, labels: dict[str, str]) -> dict[str, Any]:
    """A namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def pod(namespace: str, name: str = "train", gpus: int = 1, **spec: Any) -> dict[str, Any]:
    """A pod of one container that requests GPUs of the device plugin; `spec` is added."""
    container = {"name": "main", "image": "registry.example/train:1", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }


def deployment(namespace: str, name: str, replicas: int) -> dict[str, Any]:
    """A Deployment whose pods request one GPU each."""
    template = pod(namespace)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": template["spec"]["containers"]},
            },
        },
    }


def pod_group(namespace: str, name: str, entry: dict[str, Any], api_version: str) -> dict[str, Any]:
    """A PodGroup whose pods share one claim."""
    return {
        "apiVersion": api_version,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": [entry]},
    }


def claim(namespace: str, name: str, expression: str) -> dict[str, Any]:
    """A claim for one GPU that a CEL expression selects."""
    exactly = {"deviceClassName": CLASS, "selectors": [{"cel": {"expression": expression}}]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def template(namespace: str, name: str, gpus: int = 1) -> dict[str, Any]:
    """A template of claims for some GPUs."""
    exactly = {"deviceClassName": CLASS, "count": gpus}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}},
    }


def quota(namespace: str, gpus: int, **spec: Any) -> dict[str, Any]:
    """A GPUQuota of one limit, called `gpus`, of whatever GPUs; `spec` is added."""
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": namespace},
        "spec": {"limits": [{"name": "gpus", "gpus": gpus}], **spec},
    }


def limit_range(namespace: str, resource: str, amount: int) -> dict[str, Any]:
    """A LimitRange that gives every container some of a resource."""
    default = {resource: str(amount)}
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "defaults", "namespace": namespace},
        "spec": {"limits": [{"type": "Container", "default": default, "defaultRequest": default}]},
    }


def config_map(namespace: str, name: str, data: dict[str, str]) -> dict[str, Any]:
    """A ConfigMap."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def cluster_policy(**spec: Any) -> dict[str, Any]:
    """A ClusterPolicy with the sections that its CRD wants."""
    wanted: dict[str, Any] = {
        section: {} for section in ("daemonsets", "dcgm", "dcgmExporter", "devicePlugin", "driver", "gfd")
    }
    wanted |= {"nodeStatusExporter": {}, "operator": {}, "toolkit": {}}
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy"},
        "spec": wanted | spec,
    }


def settings(**spec: Any) -> dict[str, Any]:
    """The administrator's choices."""
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUAdmissionPolicy",
        "metadata": {"name": "default"},
        "spec": spec,
    }


def node(name: str) -> dict[str, Any]:
    """A node whose two GPUs the DRA driver allocates."""
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": _PRODUCT.replace(" ", "-"),
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.family": "hopper",
        "nvidia.com/gpu.memory": "81559",
        "nvidia.com/dra-kubelet-plugin": "true",
    }
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", "ephemeral-storage": "1Ti"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "made up"}],
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": "containerd://2.1.4",
                "kernelVersion": "6.8.0",
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.36.2",
                "machineID": "",
                "operatingSystem": "linux",
                "osImage": "Ubuntu 24.04.3 LTS",
                "systemUUID": "",
            },
        },
    }


def resource_slice(node_name: str, devices: int) -> dict[str, Any]:
    """The ResourceSlice of a node's GPUs."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node_name}-gpu.nvidia.com"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": node_name,
            "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
            "devices": [_device(node_name, number) for number in range(devices)],
        },
    }


def _device(node_name: str, number: int) -> dict[str, Any]:
    return {
        "name": f"gpu-{number}",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": f"GPU-{uuid5(NAMESPACE_DNS, f'{node_name}/{number}')}"},
            "productName": {"string": _PRODUCT},
            "brand": {"string": "Nvidia"},
            "architecture": {"string": "Hopper"},
            "cudaComputeCapability": {"version": "9.0.0"},
            "driverVersion": {"version": "580.95.5"},
            "cudaDriverVersion": {"version": "13.0.0"},
        },
        "capacity": {"memory": {"value": _MEMORY}},
    }


def device_class() -> dict[str, Any]:
    """The class of whole GPUs, as the Helm chart of NVIDIA's DRA driver has it."""
    expression = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": CLASS},
        "spec": {"selectors": [{"cel": {"expression": expression}}], "extendedResourceName": "nvidia.com/gpu"},
    }
