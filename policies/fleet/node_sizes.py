"""Sizes of nodes: the node with the most GPUs, and nodes that give one share to a container."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.devices.published_devices import gpu_groups, largest_node
from policies.fleet.device_plugin import active_cluster_policy
from policies.fleet.gpu_nodes import gpu_nodes
from policies.fleet.known_classes import GPU_TYPES, known_classes
from policies.fleet.offers.shown import STRATEGY_SUFFIX, sharing_strategy
from policies.kubernetes.names import printable
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import lookup
from policies.kubernetes.view import UNKNOWN
from policies.kubernetes.yaml import YAMLError, load_document
from policies.nvidia.identifiers import PLUGIN_CONFIG_LABEL
from policies.nvidia.plugin_configs import LIMITS, PluginConfig
from policies.rules.decision import Severity
from policies.rules.registry import rule

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from policies.devices.published_devices import DeviceGroup
    from policies.kubernetes.objects import FieldPath, Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Finding
    from policies.rules.settings import GPUAdmissionPolicy

__all__ = [
    "MORE_THAN_A_NODE",
    "SingleShares",
    "largest_below",
    "largest_of_class",
    "oversized_finding",
    "sharing_labels",
]


MORE_THAN_A_NODE = rule(
    "GA414",
    "A node must have as many GPUs as a pod requests",
    default=Severity.WARN,
    why="""
    All containers of a pod run on one node, so a pod that requests more GPUs than the largest node has stays Pending. The
    scheduler only says that they are insufficient. That may pass: a larger node may join. More often the total of a job
    was written into one pod. All nodes count, full or not, also those that the pod does not select. While nodes are
    unknown, or none has such a GPU, the rule is silent.""",
    remedy="request no more than the largest node has, and use more pods",
    source="status.allocatable of the nodes; ResourceSlices",
)


def oversized_finding(path: FieldPath, requested: str, largest: tuple[str, int], described: str = "") -> Finding:
    """The finding for a pod that requests more than the largest node has.

    Args:
        path: Of the request.
        requested: What is requested, as a clause.
        largest: The largest node, and how many GPUs it has.
        described: These GPUs in words; empty for their number.
    """
    node, most = largest
    text = f"{requested} in all, and no node has more than {described or f'{most:,}'} ({printable(node)})"
    return MORE_THAN_A_NODE.finding(path, text, f"request at most {most:,} per pod, and use more pods")


def largest_below(resource: str, wanted: int, view: ClusterView) -> tuple[str, int] | None:
    """The node with the most of an extended resource, and how much, if that is less than `wanted`.

    None also if it is unknown, zero or shared.
    """
    nodes, classes = gpu_nodes(view), known_classes(view)
    if nodes is UNKNOWN:
        return None
    largest = nodes.largest_offers.get(resource, ("", 0))
    types = frozenset[str]().union(*(classes.gpu_types(name) for name in classes.standing_for(resource)))
    if types and largest[1] < wanted:
        devices = _unshared_devices(types, view)
        # Few pods request more than a node has, and only for these is it worth counting on every node.
        if devices is None or any(group.most_on_a_node >= wanted for group in devices):
            return None
        largest = max(largest, largest_node(group.by_node for group in devices), key=lambda each: each[1])
    return largest if 0 < largest[1] < wanted else None


def largest_of_class(name: str, view: ClusterView) -> tuple[str, int] | None:
    """The node with the most GPUs of a DeviceClass, and how many; None if that is unknown, zero or shared."""
    classes = known_classes(view)
    types = classes.types(name) if name in classes else None
    if not types or not types <= GPU_TYPES:
        return None
    devices = _unshared_devices(types, view)
    largest = ("", 0) if devices is None else largest_node(group.by_node for group in devices)
    return largest if largest[1] else None


def _unshared_devices(types: Collection[str], view: ClusterView) -> list[DeviceGroup] | None:
    """The GPUs of some types; None if they are unknown or shared."""
    groups = gpu_groups(view)
    if groups is UNKNOWN:
        return None
    devices = [group for group in groups if group.type in types]
    return None if any(group.is_shareable for group in devices) else devices


_FIELDS = {"mps": "mps", "time-slicing": "timeSlicing"}


class SingleShares:
    """The nodes whose device plugin refuses a container that requests more than one share of a resource.

    Source: github.com/NVIDIA/k8s-device-plugin cmd/config-manager; gpu-operator ClusterPolicy devicePlugin.config.
    """

    def __init__(self, view: ClusterView, settings: GPUAdmissionPolicy) -> None:
        config = lookup(active_cluster_policy(view), ("spec", "devicePlugin", "config"))
        name = lookup(config, ("name",))
        self._default = lookup(config, ("default",))
        self._texts: list[Any] = []
        if isinstance(name, str) and name:
            namespaces = settings.configuration.operator_namespaces
            self._texts = [lookup(view.get("ConfigMap", name, namespace), ("data",)) for namespace in namespaces]
        self._read: dict[str, PluginConfig] = {}
        self._single: dict[tuple[str, str], bool] = {}

    def is_single(self, labels: Mapping[str, str], resource: str) -> bool:
        """True if a container may request only one share of a resource on a node with these labels.

        Under MPS that is so unless the configuration sets failRequestsGreaterThanOne to false; under time-slicing only if
        it is true.

        Source: github.com/NVIDIA/k8s-device-plugin api/config/v1/config.go NewConfig, internal/rm/rm.go
        ValidateRequest.
        """
        strategy = sharing_strategy(labels, resource)
        if strategy is None:
            return False
        config = labels.get(PLUGIN_CONFIG_LABEL, "")
        if (strategy, config) not in self._single:
            self._single[strategy, config] = self._says_single(strategy, config or self._default)
        return self._single[strategy, config]

    def _says_single(self, strategy: str, key: Any) -> bool:
        written = self._config(key).strategy(_FIELDS[strategy]) if isinstance(key, str) else None
        fails = None if written is None else written.get("failRequestsGreaterThanOne")
        return fails is True or (strategy == "mps" and fails is not False)

    def _config(self, key: str) -> PluginConfig:
        """The device plugin configuration of a name; an empty one if it is unknown or unreadable."""
        if key not in self._read:
            text = next((data[key] for data in self._texts if isinstance(data, dict) and key in data), None)
            try:
                value = load_document(text, limits=LIMITS).value if isinstance(text, str) else None
            except YAMLError:
                value = None
            self._read[key] = PluginConfig(value)
        return self._read[key]


def sharing_labels(node: Object) -> frozenset[tuple[str, str]]:
    """The labels of a node that `SingleShares.is_single` reads, for all resources."""
    return frozenset(
        (name, value)
        for name, value in labels_of(node).items()
        if name == PLUGIN_CONFIG_LABEL or name.endswith(STRATEGY_SUFFIX)
    )
