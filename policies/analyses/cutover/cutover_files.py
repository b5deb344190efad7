"""Files of a cutover: new objects, values for Helm, and what the way back needs."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Any

from policies.devices.deviceclasses import GPU_CLASS, MIG_CLASS
from policies.devices.selected_types import shipped_class
from policies.fleet.operands import GPU_CLUSTER, driver_sharing, is_deployed
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import lookup, mapping_at, name_of
from policies.nvidia.identifiers import DRIVER_VERSION_LABEL, GPU_RESOURCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.analyses.cutover.inventory import Inventory
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView


DRA_NODES = "nvidia.com/dra-kubelet-plugin"
"""The label of nodes that run the DRA driver of its own chart, as NVIDIA's documentation has it."""
NVIDIA_DRIVER = "default"
"""The NVIDIADriver that the operator's chart makes."""
_IMAGE = {"repository": "nvcr.io/nvidia", "image": "dra-driver-nvidia-gpu", "version": "v0.5.0"}
"""The DRA driver of the operator's chart. Source: github.com/NVIDIA/gpu-operator deployments/gpu-operator/values.yaml v26.7."""
_DRIVER_IMAGE = {"repository": "nvcr.io/nvidia", "image": "driver"}
_TOLERATION = {"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"}
_INSTALLED_DRIVER = "/run/nvidia/driver"
_COPIED = (
    "annotations",
    "args",
    "config",
    "enablePodLabels",
    "enablePodUID",
    "env",
    "hostNetwork",
    "hostPID",
    "hpcJobMapping",
    "image",
    "imagePullPolicy",
    "imagePullSecrets",
    "podLabelAllowlistRegex",
    "repository",
    "resources",
    "service",
    "serviceMonitor",
    "version",
)
"""Fields of DCGM and of its exporter that mean the same in a GPUCluster."""
_OF_DRIVER = (
    "args",
    "env",
    "hostNetwork",
    "image",
    "imagePullPolicy",
    "imagePullSecrets",
    "kernelModuleConfig",
    "kernelModuleType",
    "manager",
    "rdma",
    "repository",
    "resources",
    "secretEnv",
    "startupProbe",
    "usePrecompiled",
    "version",
)
"""Fields of a driver that mean the same in an NVIDIADriver."""
_OF_DAEMONSETS = ("annotations", "labels", "podSecurityContext", "priorityClassName", "tolerations")


def gpu_cluster(policy: Object, shares: str) -> Object:
    """The GPUCluster with what a ClusterPolicy says of the same parts.

    DCGM is written in both cases, because a missing `enabled` means true in a ClusterPolicy and false in a GPUCluster.

    Args:
        policy: The ClusterPolicy.
        shares: The consumable shares of the driver; empty for whole devices.
    """
    spec = mapping_at(policy, ("spec",))
    driver: dict[str, Any] = {**_IMAGE, "computeDomains": {"enabled": True}}
    if secrets := lookup(spec, ("devicePlugin", "imagePullSecrets")):
        driver["imagePullSecrets"] = secrets
    if shares:
        driver |= driver_sharing(shares)
    paths = mapping_at(spec, ("hostPaths",))
    host_paths = {name: paths[name] for name in ("driverInstallDir", "kubeletRootDir") if paths.get(name)}
    # The operator's manifests tolerate this taint for a ClusterPolicy that names none, and nothing for a GPUCluster.
    daemonsets = {"tolerations": [_TOLERATION], **mapping_at(spec, ("daemonsets",))}
    written = {
        "draDriver": driver,
        **{
            name: {"enabled": is_deployed(policy, name), **_fields(mapping_at(spec, (name,)), _COPIED)}
            for name in ("dcgm", "dcgmExporter")
        },
        **({"hostPaths": host_paths} if host_paths else {}),
        "daemonsets": daemonsets,
    }
    return {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "GPUCluster",
        "metadata": {"name": GPU_CLUSTER},
        "spec": written,
    }


def nvidia_driver(policy: Object, view: ClusterView) -> Object:
    """The NVIDIADriver for the driver of a ClusterPolicy, by the names that its fields have there.

    Automatic upgrades are off: the operator would empty nodes in an order of its own.
    """
    spec = mapping_at(policy, ("spec",))
    driver = mapping_at(spec, ("driver",))
    renamed = {
        "repoConfig": ("repoConfig", "configMapName"),
        "certConfig": ("certConfig", "name"),
        "virtualTopologyConfig": ("virtualTopology", "config"),
    }
    licence = mapping_at(driver, ("licensingConfig",))
    versions = sorted({labels_of(each).get(DRIVER_VERSION_LABEL, "") for each in view.known_objects("Node")} - {""})
    written = {
        "default": True,
        "driverType": "gpu",
        **_DRIVER_IMAGE,
        **({"version": versions[-1]} if versions else {}),
        **_fields(driver, _OF_DRIVER),
        **{name: {"name": value} for name, path in renamed.items() if (value := lookup(driver, path))},
        **(
            {"licensingConfig": {"nlsEnabled": licence.get("nlsEnabled", False), **_fields(licence, ("secretName",))}}
            if licence.get("secretName")
            else {}
        ),
        **{name: spec[name] for name in ("gds", "gdrcopy") if is_deployed(policy, name)},
        **_fields(mapping_at(spec, ("daemonsets",)), _OF_DAEMONSETS),
        "upgradePolicy": {**mapping_at(driver, ("upgradePolicy",)), "autoUpgrade": False},
    }
    return {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "NVIDIADriver",
        "metadata": {"name": NVIDIA_DRIVER},
        "spec": written,
    }


def _fields(part: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: part[name] for name in names if part.get(name) not in (None, "", [], {})}


def device_classes() -> list[Object]:
    """The DeviceClasses of the driver, without `extendedResourceName`, as the operator writes them."""
    return [shipped_class(name) for name in (GPU_CLASS, MIG_CLASS)]


def driver_chart_values(policy: Object, inventory: Inventory, shares: str) -> Object:
    """Values for the DRA driver's own chart, which runs on labelled nodes beside the ClusterPolicy.

    Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu deployments/helm/dra-driver-nvidia-gpu/values.yaml.
    """
    root = lookup(policy, ("spec", "hostPaths", "driverInstallDir")) or _INSTALLED_DRIVER
    plugin: dict[str, Any] = {"nodeSelector": {DRA_NODES: "true"}}
    if tolerations := lookup(policy, ("spec", "daemonsets", "tolerations")):
        plugin["tolerations"] = tolerations
    return {
        "gpuResourcesEnabledOverride": True,
        "nvidiaDriverRoot": "/" if inventory.driver_owner == "host" else root,
        "resources": {"gpus": {"enabled": True}},
        "kubeletPlugin": plugin,
        **({"consumableShares": shares, "featureGates": {"ConsumableShares": True}} if shares else {}),
    }


def operator_values(cluster: Object, inventory: Inventory) -> Object:
    """Values for the operator's chart that exchange the ClusterPolicy for a GPUCluster.

    Source: github.com/NVIDIA/gpu-operator deployments/gpu-operator/templates/gpucluster.yaml, validations.yaml.
    """
    spec = cluster["spec"]
    driver = {} if inventory.driver_owner == "host" else {"driver": {"nvidiaDriverCRD": {"enabled": True}}}
    return {
        "clusterPolicy": {"deployCR": False},
        "gpuCluster": {"deployCR": True},
        **driver,
        **{
            name: spec[name]
            for name in ("draDriver", "dcgm", "dcgmExporter", "hostPaths", "daemonsets")
            if name in spec
        },
    }


def stored_policy(policy: Object) -> Object:
    """The ClusterPolicy as a manifest, for the way back."""
    metadata = mapping_at(policy, ("metadata",))
    kept = {name: metadata[name] for name in ("name", "labels", "annotations") if metadata.get(name)}
    return {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": kept, "spec": policy.get("spec")}


def label_commands(view: ClusterView, labels: tuple[str, ...]) -> Iterator[str]:
    """Commands that give nodes the labels of GPU Feature Discovery that they have now."""
    for node in view.known_objects("Node"):
        found = {key: value for key, value in sorted(labels_of(node).items()) if key in labels}
        if found:
            pairs = " ".join(quote(f"{key}={value}") for key, value in found.items())
            yield f"kubectl label node {quote(name_of(node))} --overwrite {pairs}"
