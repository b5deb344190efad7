"""The device plugin: the nodes that run it, the shares that it refuses, and the most GPUs of one node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from policies.devices.published_devices import gpu_groups, largest_node, published_devices
from policies.fleet.gpu_nodes import gpu_nodes
from policies.fleet.known_classes import GPU_TYPES, known_classes
from policies.fleet.offers.shown import STRATEGY_SUFFIX, sharing_strategy
from policies.fleet.operands import gpu_cluster, is_deployed, is_let_run, operator_place
from policies.kubernetes.names import printable
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import lookup, name_of
from policies.kubernetes.versions import Feature
from policies.kubernetes.view import UNKNOWN
from policies.kubernetes.yaml import YAMLError, first_document
from policies.nvidia.identifiers import DEPLOY_OPERANDS_LABEL, DEPLOY_PLUGIN_LABEL, PLUGIN_CONFIG_LABEL
from policies.nvidia.plugin_configs import LIMITS, PluginConfig
from policies.nvidia.releases import NVIDIAFeature
from policies.rules.checks import PODS, Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from policies.devices.published_devices import DeviceGroup
    from policies.fleet.gpu_nodes import GPUNode, NodeTraits
    from policies.kubernetes.objects import FieldPath, Object
    from policies.kubernetes.view import ClusterView, Unknown
    from policies.rules.settings import GPUAdmissionPolicy


WORKLOAD_CONFIG = "nvidia.com/gpu.workload.config"
"""The label that says what the GPUs of a node are for, if the ClusterPolicy enables sandbox workloads."""
WORKLOADS = ("container", "vm-passthrough", "vm-vgpu")


def active_cluster_policy(view: ClusterView) -> Object | Unknown | None:
    """The ClusterPolicy that the operator follows: the oldest, then the first by name.

    If none are known, the one under review; unknown if several are, since any of them may be applied first.
    """
    policies = view.list("ClusterPolicy")
    if policies is UNKNOWN:
        reviewed = view.objects_under_review("ClusterPolicy")
        return reviewed[0] if len(reviewed) == 1 else UNKNOWN
    return min(policies, key=_age, default=None)


def node_workload(labels: Mapping[str, str], policy: Object | Unknown | None) -> str:
    """The purpose of a node's GPUs: `container`, `vm-passthrough` or `vm-vgpu`.

    The operator ignores unknown values, and every label if the ClusterPolicy does not enable sandbox workloads. Without a
    known ClusterPolicy the label counts.
    """
    sandbox = lookup(policy, ("spec", "sandboxWorkloads"))
    if isinstance(policy, dict) and lookup(sandbox, ("enabled",)) is not True:
        return "container"
    candidates = (labels.get(WORKLOAD_CONFIG), lookup(sandbox, ("defaultWorkload",)))
    return next((each for each in candidates if each in WORKLOADS), "container")


def runs_device_plugin(node: Object, view: ClusterView, policy: Object | None = None) -> bool:
    """False if the operator keeps its device plugin off a node; true as long as nothing says so.

    Args:
        node: A node with GPUs.
        view: The cluster, with its ClusterPolicy or GPUCluster.
        policy: The ClusterPolicy as it is to be, while it is under review.
    """
    labels = labels_of(node)
    if not is_let_run(labels, DEPLOY_PLUGIN_LABEL) or labels.get(DEPLOY_OPERANDS_LABEL) == "false":
        return False
    followed = active_cluster_policy(view) if policy is None else policy
    if not isinstance(followed, dict) and gpu_cluster(view) is not None:
        return False
    enabled = not isinstance(followed, dict) or is_deployed(followed, "devicePlugin")
    return enabled and node_workload(labels, followed) == WORKLOADS[0]


def _age(policy: Object) -> tuple[str, str]:
    # A ClusterPolicy that is not stored yet has no timestamp, and is the youngest.
    return str(lookup(policy, ("metadata", "creationTimestamp")) or "~"), name_of(policy)


class OldKubelet(NamedTuple):
    """A kubelet that reads only versions before `resource.k8s.io/v1`, and so not the claims of its pods.

    Source: k8s.io/kubernetes pkg/kubelet/cm/dra; dra-driver-nvidia-gpu issue 766.
    """

    node: str
    version: str


def nodes_with_both(view: ClusterView) -> tuple[str, ...]:
    """The nodes that hand out GPUs by a device plugin and by DRA; empty while they are unknown."""
    return view.derive(_nodes_with_both)


def old_kubelets(view: ClusterView) -> tuple[OldKubelet, ...]:
    """The kubelets before 1.34 on nodes with published GPUs, if the API server is newer."""
    return view.derive(_old_kubelets) if Feature.ResourceV1.is_on(view) is True else ()


def _nodes_with_both(view: ClusterView) -> tuple[str, ...]:
    return tuple(sorted(node.name for node in _nodes_with_devices(view, lambda traits: traits.has_device_plugin)))


def _old_kubelets(view: ClusterView) -> tuple[OldKubelet, ...]:
    old = _nodes_with_devices(view, lambda traits: Feature.ResourceV1.default_in(traits.kubelet_version) is False)
    return tuple(sorted(OldKubelet(node.name, node.traits.kubelet) for node in old))


def _nodes_with_devices(view: ClusterView, condition: Callable[[NodeTraits], bool]) -> list[GPUNode]:
    """The nodes with published GPUs whose traits fulfil a condition."""
    nodes, devices = gpu_nodes(view), view.derive(published_devices)
    if nodes is UNKNOWN or devices is UNKNOWN:
        return []
    return [node for node in nodes.nodes_with(condition) if node.name in devices.types_by_node]


@PODS.rule(
    "GA414",
    "A node must have as many GPUs as a pod requests",
    default=Severity.WARN,
    remedy="request no more than the largest node has, and use more pods",
    source="status.allocatable of the nodes; ResourceSlices",
)
def enough_on_a_node(
    path: FieldPath, requested: str, largest: tuple[str, int], described: str = ""
) -> Iterator[Problem]:
    """All containers of a pod run on one node.

    So a pod that requests more GPUs than the largest node has stays Pending. The scheduler only says that they are
    insufficient. That may pass: a larger node may join. More often the total of a job was written into one pod. All
    nodes count, full or not, also those that the pod does not select. While nodes are unknown, or none has such a
    GPU, the rule is silent.
    """
    node, most = largest
    text = f"{requested} in all, and no node has more than {described or f'{most:,}'} ({printable(node)})"
    yield Problem(path, text, f"request at most {most:,} per pod, and use more pods")


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
        plugin = lookup(active_cluster_policy(view), ("spec", "devicePlugin"))
        config, version = lookup(plugin, ("config",)), lookup(plugin, ("version",))
        name = lookup(config, ("name",))
        release = version if isinstance(version, str) else UNKNOWN
        self._is_limited = NVIDIAFeature.OptionalLimitOfMPS.is_in(release) is False
        self._default = lookup(config, ("default",))
        self._texts: list[Any] = []
        if isinstance(name, str) and name:
            namespaces = operator_place(view, settings).namespaces
            self._texts = [lookup(view.get("ConfigMap", name, namespace), ("data",)) for namespace in namespaces]
        self._read: dict[str, PluginConfig] = {}
        self._single: dict[tuple[str, str], bool] = {}

    def is_single(self, labels: Mapping[str, str], resource: str) -> bool:
        """True if a container may request only one share of a resource on a node with these labels.

        Under MPS that is so unless the configuration sets failRequestsGreaterThanOne to false, which device plugins before
        0.20 do not follow; under time-slicing only if it is true.

        Source: github.com/NVIDIA/k8s-device-plugin api/config/v1/config.go NewConfig, internal/rm/rm.go
        ValidateRequest.
        """
        strategy = sharing_strategy(labels, resource)
        if strategy is None:
            return False
        config = labels.get(PLUGIN_CONFIG_LABEL, "")
        if (strategy, config) not in self._single:
            key = config or self._default
            written = self._config(key).strategy(_FIELDS[strategy]) if isinstance(key, str) else None
            fails = None if written is None else written.get("failRequestsGreaterThanOne")
            self._single[strategy, config] = fails is True or (
                strategy == "mps" and (fails is not False or self._is_limited)
            )
        return self._single[strategy, config]

    def _config(self, key: str) -> PluginConfig:
        """The device plugin configuration of a name; an empty one if it is unknown or unreadable."""
        if key not in self._read:
            text = next((data[key] for data in self._texts if isinstance(data, dict) and key in data), None)
            try:
                value = first_document(text, limits=LIMITS).value if isinstance(text, str) else None
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
