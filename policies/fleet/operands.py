"""The components that the GPU Operator deploys, and the namespaces where it looks for objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from policies.devices.deviceclasses import SHIPPED_TYPES
from policies.devices.selected_types import shipped_class
from policies.fleet.offers import DriverState
from policies.kubernetes.names import format_list, is_dns_label
from policies.kubernetes.nodes import labels_of, tolerates_taint
from policies.kubernetes.objects import items_at, lookup, mapping_at, mappings_at, name_of, namespace_of
from policies.kubernetes.versions import Feature
from policies.kubernetes.view import UNKNOWN
from policies.kubernetes.workloads import group_of
from policies.nvidia.identifiers import (
    CHANNEL_CLASS,
    DEPLOY_DRIVER_LABEL,
    DEPLOY_PREFIX,
    IMEX_MODE,
    IMEX_OF_HOST,
    PRESENT_LABEL,
)
from policies.nvidia.releases import NVIDIAFeature
from policies.rules.settings import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.settings import GPUAdmissionPolicy


_OFF_UNLESS_ENABLED = (
    *("ccManager", "gdrcopy", "gds", "kataSandboxDevicePlugin", "nodeStatusExporter", "sandboxDevicePlugin"),
    *("vfioManager", "vgpuDeviceManager", "vgpuManager"),
)
"""Components that are deployed only where `enabled` is true; the others unless it is false."""

_OF_THE_DRIVER = frozenset({"driver", "gds", "gdrcopy"})
_OF_SANDBOXES = {
    **dict.fromkeys(("vfioManager", "vgpuDeviceManager", "vgpuManager"), ("kubevirt", "kata")),
    "sandboxDevicePlugin": ("kubevirt",),
    **dict.fromkeys(("ccManager", "kataSandboxDevicePlugin"), ("kata",)),
}
"""Components that are deployed with sandbox workloads only, and the modes of these."""
_SANDBOX_VALIDATIONS = ("vfioPCI", "vgpuManager", "vgpuDevices", "ccManager")


def is_deployed(document: Object, *steps: str) -> bool:
    """True if the operator deploys a component: it is enabled, and so is what it is a part of.

    Source: github.com/NVIDIA/gpu-operator controllers/state_manager.go isStateEnabled, step.
    """

    def flag(*field: str, default: bool = False) -> bool:
        value = lookup(document, ("spec", *field))
        return value if isinstance(value, bool) else default

    if not steps:
        return True
    name = steps[0]
    if document.get("kind") == "ClusterPolicy":
        is_replaced = flag("driver", "useNvidiaDriverCRD")
        has_driver = flag("driver", "enabled", default=True) and not is_replaced
        if (name in _OF_THE_DRIVER and not has_driver) or (name == "vgpuManager" and is_replaced):
            return False
        is_validation = name == "validator" and steps[1:2] and steps[1] in _SANDBOX_VALIDATIONS
        if (name in _OF_SANDBOXES or is_validation) and not flag("sandboxWorkloads", "enabled"):
            return False
        mode = lookup(document, ("spec", "sandboxWorkloads", "mode")) or "kubevirt"
        if mode not in _OF_SANDBOXES.get(name, (mode,)):
            return False
    return flag(name, "enabled", default=name not in _OFF_UNLESS_ENABLED) and all(
        flag(*steps[:depth], "enabled", default=True) for depth in range(2, len(steps) + 1)
    )


GPU_CLUSTER = "gpu-cluster"
"""The name of the GPUCluster of the operator's chart."""


def gpu_cluster(view: ClusterView) -> Object | None:
    """The GPUCluster, for which the operator runs the DRA driver; None also while it is unknown."""
    return next(iter(view.known_or_reviewed("GPUCluster")), None)


_OF_SLICES = (
    NVIDIAFeature.ConsumableShares,
    NVIDIAFeature.DRAListTypeAttributes,
    NVIDIAFeature.DynamicMIG,
    NVIDIAFeature.FabricManagerPartitioning,
    NVIDIAFeature.PassthroughSupport,
)
"""The feature gates of the DRA driver that change what it publishes."""
_KUBERNETES_GATES = {
    NVIDIAFeature.ConsumableShares.name: Feature.DRAConsumableCapacity,
    NVIDIAFeature.DynamicMIG.name: Feature.DRAPartitionableDevices,
    NVIDIAFeature.DRAListTypeAttributes.name: Feature.DRAListTypeAttributes,
}
"""The feature gates of Kubernetes without which the API server drops what a gate of the driver publishes."""


def has_compute_domains(cluster: Object) -> bool:
    """True if a GPUCluster runs the driver of ComputeDomains.

    Source: github.com/NVIDIA/gpu-operator api/nvidia/v1alpha1/gpucluster_types.go DRADriverComputeDomainsSpec.
    """
    return lookup(cluster, ("spec", "draDriver", "computeDomains", "enabled")) is not False


def domain_devices(cluster: Object) -> tuple[str, ...]:
    """The devices that the driver of ComputeDomains publishes on each node for a GPUCluster, by name.

    Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/compute-domain-kubelet-plugin/driver.go
    computeDomainPublishedDevices.
    """
    if not has_compute_domains(cluster):
        return ()
    is_of_host = driver_variable(cluster, ("computeDomains", "kubeletPlugin"), IMEX_MODE) == IMEX_OF_HOST
    return ("channel-0",) if is_of_host else ("channel-0", "daemon-0")


_SHARES = "CONSUMABLE_SHARES"


def driver_sharing(shares: str) -> dict[str, Any]:
    """The fields of `draDriver` of a GPUCluster by which claims share GPUs.

    Args:
        shares: A number, `memory` or `unlimited`.
    """
    variable = {"name": _SHARES, "value": shares}
    return {
        "featureGates": {NVIDIAFeature.ConsumableShares.name: True},
        "gpus": {"kubeletPlugin": {"env": [variable]}},
    }


def driver_variable(cluster: Object, part: Iterable[str], name: str) -> str:
    """The value of an environment variable of a part of the DRA driver; empty if it is not set."""
    variables = mappings_at(cluster, ("spec", "draDriver", *part, "env"))
    values = [each.get("value") for each in variables if each.get("name") == name]
    return values[-1] if values and isinstance(values[-1], str) else ""


def cluster_driver(cluster: Object, view: ClusterView) -> DriverState:
    """The DRA driver of a GPUCluster, as far as it shapes what the driver publishes.

    Source: github.com/NVIDIA/gpu-operator manifests/state-dra-driver/0500_daemonset.yaml (FEATURE_GATES and env of the container
    gpus); github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin consumable_shares.go
    isConsumableSharesEnabled, driver.go.
    """
    written = mapping_at(cluster, ("spec", "draDriver", "featureGates"))
    gates = frozenset(each.name for each in _OF_SLICES if each.is_on(written))
    shares = driver_variable(cluster, ("gpus", "kubeletPlugin"), _SHARES).strip()
    is_shared = NVIDIAFeature.ConsumableShares.name in gates and shares != "disabled"
    is_combined = Feature.CountersInOwnSlices.is_on(view) is False
    return DriverState(gates, shares if is_shared else "", is_combined)


def dropped_gates(driver: DriverState, view: ClusterView) -> list[str]:
    """The feature gates of Kubernetes that are off, so that it drops fields that the driver publishes."""
    needed = [gate for name, gate in _KUBERNETES_GATES.items() if name in driver.gates]
    return [gate.name for gate in needed if gate.is_on(view) is False]


def cluster_classes(cluster: Object) -> dict[str, Object]:
    """The DeviceClasses that the operator creates for a GPUCluster, or overwrites, by name.

    Source: github.com/NVIDIA/gpu-operator manifests/state-dra-driver/04*_deviceclass-*.yaml; internal/state/state_skel.go
    createOrUpdateObjs.
    """
    internal = (CHANNEL_CLASS, "compute-domain-daemon.nvidia.com")
    return {each: shipped_class(each) for each in SHIPPED_TYPES if each not in internal or has_compute_domains(cluster)}


_OF_GPUS = ("pci-10de.present", "pci-0302_10de.present", "pci-0300_10de.present")
_OF_POLICY = tuple(
    DEPLOY_PREFIX + name
    for name in [
        "cc-manager",
        "client",
        "container-toolkit",
        "dcgm",
        "dcgm-exporter",
        "device-plugin",
        "gpu-feature-discovery",
        "kata-manager",
        "kata-sandbox-device-plugin",
        "mig-manager",
        "node-status-exporter",
        "operator-validator",
        "sandbox-device-plugin",
        "sandbox-validator",
        "vfio-manager",
        "vgpu-device-manager",
    ]
)
"""Labels of nodes for components of a ClusterPolicy only."""
_DRIVER = f"{DEPLOY_PREFIX}dra-driver"
_OF_CLUSTER = (
    DEPLOY_DRIVER_LABEL,
    _DRIVER,
    *(f"{DEPLOY_PREFIX}{name}" for name in ("dra-validator", "dcgm-dra", "dcgm-exporter-dra")),
)
"""Labels of nodes for components of a GPUCluster."""
_PAUSED = "paused-"
"""The beginning of the value that a label has while the operator reloads the driver or the MIG manager divides GPUs."""


def is_let_run(labels: Mapping[str, str], name: str) -> bool:
    """True if the label for a component lets it run on a node: missing, `true`, or paused."""
    value = labels.get(name, "")
    return value in ("", "true") or value.startswith(_PAUSED)


def cluster_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels of a node once the operator has labelled it for a GPUCluster.

    Source: github.com/NVIDIA/gpu-operator controllers/nodelabeling_controller.go reconcileCommonGPULabel, updateGPUStateLabels,
    updateGPUClusterStateLabels.
    """
    found = dict(labels)
    if any(labels.get(f"feature.node.kubernetes.io/{name}") == "true" for name in _OF_GPUS):
        found[PRESENT_LABEL] = "true"
    if found.get(PRESENT_LABEL) != "true":
        return {name: value for name, value in found.items() if name not in (*_OF_POLICY, *_OF_CLUSTER)}
    kept = {name: value for name, value in found.items() if name not in _OF_POLICY}
    return kept | {name: kept.get(name) or "true" for name in _OF_CLUSTER}


def missing_driver_reason(cluster: Object, node: Object, before: Object) -> str:
    """The reason why the DRA driver of a GPUCluster does not run on a node, as a clause; empty if it does.

    Its DaemonSet selects the operator's label, and has no tolerations but those of the GPUCluster.

    Args:
        cluster: The GPUCluster.
        node: The node.
        before: The node before it was changed, if the driver ran there; else the node.

    Source: github.com/NVIDIA/gpu-operator manifests/state-dra-driver/0500_daemonset.yaml.
    """
    labels = cluster_labels(labels_of(node))
    if not labels.get(_DRIVER):
        return f"the label {PRESENT_LABEL} is missing, by which the operator knows nodes with GPUs"
    if not is_let_run(labels, _DRIVER):
        return f"the label {_DRIVER} is {labels[_DRIVER]}"
    taint = keeping_taint(mappings_at(cluster, ("spec", "daemonsets", "tolerations")), node, before)
    if taint:
        return f"daemonsets.tolerations of GPUCluster {name_of(cluster)} do not tolerate the taint {taint}"
    return ""


def keeping_taint(tolerations: Iterable[Object], node: Object, before: Object) -> str:
    """The taint that keeps a DaemonSet's pods away from a node once they start again; empty if none does.

    Args:
        tolerations: Those of the DaemonSet; its controller adds some for the taints of Kubernetes itself.
        node: The node.
        before: The node before it was changed; pods that run there stay despite a new taint with the effect NoSchedule.
    """
    tolerated, known = list(tolerations), mappings_at(before, ("spec", "taints"))
    for taint in mappings_at(node, ("spec", "taints")):
        effect, key = taint.get("effect"), str(taint.get("key"))
        counts = effect == "NoExecute" or (effect == "NoSchedule" and taint in known)
        if counts and not key.startswith("node.kubernetes.io/") and not tolerates_taint(tolerated, taint):
            return f"{key}:{effect}"
    return ""


_PACKAGES = ("gpu-operator", "gpu-operator-certified")
"""The operator's packages in OperatorHub."""


class OperatorPlace(NamedTuple):
    """The namespaces of the GPU Operator."""

    namespaces: tuple[str, ...]
    """At least one; several only if the cluster or the settings name several."""
    is_guess: bool
    """True if they are only the defaults of the settings, so that an object that is not there may be elsewhere."""
    others: tuple[str, ...] = ()
    """Those of the settings, if only a Deployment or a Subscription shows another namespace."""

    def config_map_namespace(self, name: str, view: ClusterView) -> str:
        """The namespace of a ConfigMap whose manifest names none: one that has it, or else one that exists."""
        found = (each for each in self.namespaces if isinstance(view.get("ConfigMap", name, each), dict))
        existing = (each for each in self.namespaces if isinstance(view.get("Namespace", each), dict))
        return next(found, None) or next(existing, self.namespaces[0])


def operator_place(view: ClusterView, settings: GPUAdmissionPolicy) -> OperatorPlace:
    """The place by what the cluster shows, then by the settings, then by their defaults.

    It answers only where the operator looks for an object. No account is trusted for it: exemptions, leniency towards accounts
    and admin access follow the settings alone, because a tenant can make a Deployment that looks like the operator's. Such a
    Deployment adds a namespace only if nothing of the operator is in a namespace of the settings, and it never excludes those.

    Source: github.com/NVIDIA/gpu-operator controllers/clusterpolicy_controller.go, which writes `status.namespace`.
    """
    named = settings.configuration.operator_namespaces
    if by_status := view.derive(_status_namespaces):
        return OperatorPlace(by_status, is_guess=False)
    by_workloads = view.derive(_workload_namespaces)
    if both := tuple(each for each in by_workloads if each in named):
        return OperatorPlace(both, is_guess=False)
    if by_workloads:
        return OperatorPlace(by_workloads, is_guess=False, others=named)
    return OperatorPlace(named, is_guess=named == DEFAULTS.configuration.operator_namespaces)


def unnamed_namespaces_remark(view: ClusterView, settings: GPUAdmissionPolicy) -> str:
    """A remark with the line to add if the settings do not name the operator's namespace, or empty."""
    named, place = settings.configuration.operator_namespaces, operator_place(view, settings)
    others = [each for each in place.namespaces if each not in named]
    if not others:
        return ""
    line = f"configuration: {{operatorNamespaces: [{', '.join((*others, *named))}]}}"
    if place.others:
        return (
            f"a Deployment or Subscription in {format_list(others)} looks like the GPU Operator's, and "
            f"configuration.operatorNamespaces does not name it; if it is the operator's, write {line}, which also trusts "
            "the accounts there"
        )
    return (
        f"the GPU Operator runs in {format_list(others)}, which configuration.operatorNamespaces does not name, so ConfigMaps "
        f"there are not reviewed; write {line}"
    )


def _status_namespaces(view: ClusterView) -> tuple[str, ...]:
    """The namespaces in the status of cluster-scoped resources, which no tenant can write."""
    found: list[Any] = []
    for kind in ("ClusterPolicy", "NVIDIADriver"):
        # A manifest that replaces a stored object has no status.
        stored = view.list_before_review(kind)
        documents = (*(() if stored is UNKNOWN else stored), *view.known_or_reviewed(kind))
        found += [lookup(document, ("status", "namespace")) for document in documents]
    return _namespace_names(found)


def _workload_namespaces(view: ClusterView) -> tuple[str, ...]:
    """The namespaces of the operator's Deployment and Subscription, or of what looks like them.

    A server watches Deployments in the namespaces of the settings only, and no Subscriptions.
    """
    found = []
    for document in view.known_or_reviewed("Deployment"):
        containers = items_at(document, ("spec", "template", "spec", "containers"))
        is_image = any("gpu-operator" in str(lookup(each, ("image",))) for each in containers)
        if group_of(document) == "apps" and name_of(document) == "gpu-operator" and is_image:
            found.append(namespace_of(document))
    found += [
        namespace_of(document)
        for document in view.known_or_reviewed("Subscription")
        if group_of(document) == "operators.coreos.com" and lookup(document, ("spec", "name")) in _PACKAGES
    ]
    return _namespace_names(found)


def _namespace_names(found: list[Any]) -> tuple[str, ...]:
    """The valid names of namespaces, each once."""
    return tuple(dict.fromkeys(each for each in found if is_dns_label(each)))
