"""The objects of a GPU cluster that configuration is judged by, and its MIG configurations."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.devices.resource_claims import Claim
from policies.fleet import holds_gpu
from policies.fleet.device_plugin import active_cluster_policy
from policies.fleet.gpu_nodes import has_gpu_labels
from policies.fleet.offers.hardware import Cut
from policies.fleet.offers.offer import cut_refusal
from policies.fleet.operands import is_deployed, operator_place
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import Object, has_ended, items_at, lookup, name_of, namespace_of
from policies.kubernetes.view import UNKNOWN, ChangedView, ClusterView, Unknown
from policies.nvidia.identifiers import DRIVER, MIG_CONFIG_LABEL
from policies.nvidia.mig_configs import configs_of, shipped_entries
from policies.nvidia.mig_parted import apply_on_node
from policies.nvidia.mig_products import gpu_count, is_capable, is_lacking, node_product, shipped_configs
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from policies.fleet.operands import OperatorPlace
    from policies.nvidia.mig_configs import Configs, Entry
    from policies.rules.settings import GPUAdmissionPolicy


_VERSION = re.compile(r"(?:gpu-operator-)?v?(\d+)\.(\d+)\.\d+")


class Facts:
    """The objects around the GPU Operator, by a view. Every result may be `UNKNOWN`."""

    def __init__(self, view: ClusterView, settings: GPUAdmissionPolicy) -> None:
        self.view = view
        self._settings = settings

    @cached_property
    def operator_place(self) -> OperatorPlace:
        """Where the GPU Operator looks for ConfigMaps and Secrets; it reads them from its own namespace only."""
        return operator_place(self.view, self._settings)

    @property
    def operator_namespaces(self) -> tuple[str, ...]:
        """The namespaces of `operator_place`."""
        return self.operator_place.namespaces

    @property
    def config_map_namespaces(self) -> tuple[str, ...]:
        """The namespaces whose ConfigMaps are reviewed as the operator's; a tenant excludes none of them."""
        return (*self.operator_place.namespaces, *self.operator_place.others)

    @property
    def trusted_namespaces(self) -> tuple[str, ...]:
        """The namespaces whose accounts the administrator takes for the operator's, by the settings alone."""
        return self._settings.configuration.operator_namespaces

    @property
    def cluster_policy_deletion(self) -> Severity:
        """The setting `configuration.clusterPolicyDeletion`."""
        return Severity(self._settings.configuration.cluster_policy_deletion)

    def operator_object(self, kind: str, name: str) -> Object | Unknown | None:
        """A ConfigMap or Secret of the operator's namespace; None only if it certainly does not exist.

        A file under review may name no namespace, because `kubectl apply --namespace` names it.
        """
        answers = [self.view.get(kind, name, namespace) for namespace in self.operator_namespaces]
        applied = (
            each for each in self.view.objects_under_review(kind) if name_of(each) == name and not namespace_of(each)
        )
        found = next((answer for answer in (*answers, *applied) if isinstance(answer, dict)), None)
        return found if found is not None else UNKNOWN if UNKNOWN in answers else None

    def is_reviewed(self, document: Object) -> bool:
        """True if an object is under review together with the current one."""
        return any(each is document for each in self.view.objects_under_review(str(document.get("kind"))))

    def after(self, document: Object) -> Facts:
        """The facts after an object is stored."""
        return Facts(_AfterStored(self.view, document), self._settings)

    def cluster_policy(self) -> Object | Unknown | None:
        """The ClusterPolicy that the operator follows: the oldest, then the first by name."""
        return active_cluster_policy(self.view)

    def policy_value(self, *steps: str) -> Any:
        """The value at `spec.<steps>` of the active ClusterPolicy; None if it is missing or unknown."""
        policy = self.cluster_policy()
        return lookup(policy, ("spec", *steps)) if isinstance(policy, dict) else None

    def deploys(self, component: str) -> bool:
        """False if the active ClusterPolicy does not deploy a component; true also while it is unknown."""
        policy = self.cluster_policy()
        return not isinstance(policy, dict) or is_deployed(policy, component)

    def gpu_nodes(self) -> list[Object] | Unknown:
        """The nodes whose labels say that they have a GPU."""
        return UNKNOWN if self.view.list("Node") is UNKNOWN else self.known_gpu_nodes()

    def known_gpu_nodes(self) -> list[Object]:
        """The nodes with GPUs; empty if nodes are unknown. For findings that need a node."""
        return [node for node in self.view.known_objects("Node") if has_gpu_labels(labels_of(node))]

    def nodes_with(self, label: str, value: str | None = None) -> list[Object]:
        """The known nodes with a label, and with a value if it is given."""
        return [
            node
            for node in self.view.known_objects("Node")
            if label in labels_of(node) and (value is None or labels_of(node)[label] == value)
        ]

    def applies_default_layout(self) -> bool:
        """False if every node that MIG can divide selects a MIG configuration itself.

        True as long as nodes are unknown: the operator labels the others with the default one.

        Source: github.com/NVIDIA/gpu-operator controllers/nodelabeling_controller.go.
        """
        nodes = self.gpu_nodes()
        if nodes is UNKNOWN:
            return True
        return any(
            is_capable(labels_of(node)) is not False and MIG_CONFIG_LABEL not in labels_of(node) for node in nodes
        )

    def operator_variables(self) -> set[str] | Unknown:
        """The names of the environment variables of the operator, which hold its default images."""
        deployment = self.operator_object("Deployment", "gpu-operator")
        if not isinstance(deployment, dict):
            return UNKNOWN
        variables = items_at(deployment, ("spec", "template", "spec", "containers", 0, "env"))
        return {name for each in variables if isinstance(name := lookup(each, ("name",)), str)}

    def operator_version(self, policy: Object) -> str | Unknown:
        """The operator's version, by its running pod, its Deployment or the chart's label on a ClusterPolicy."""
        labels = lookup(policy, ("metadata", "labels"))
        chart = labels.get("helm.sh/chart") if isinstance(labels, dict) else None
        pods = [
            pod
            for pod in self.view.known_objects("Pod")
            if namespace_of(pod) in self.operator_namespaces
            and lookup(pod, ("metadata", "labels", "app")) == "gpu-operator"
        ]
        template = lookup(self.operator_object("Deployment", "gpu-operator"), ("spec", "template"))
        images = (lookup(each, ("spec", "containers", 0, "image")) for each in (*pods, template))
        tags = (text.rpartition(":")[2] for text in (*images, chart) if isinstance(text, str))
        match = next(filter(None, map(_VERSION.match, tags)), None)
        return f"{int(match[1])}.{int(match[2])}" if match else UNKNOWN


class _AfterStored(ChangedView):
    """The cluster after an object is stored, the only one of its kind under review."""

    def __init__(self, view: ClusterView, document: Object) -> None:
        self._document = document
        self._kind = str(document.get("kind"))
        super().__init__(view, {(self._kind, namespace_of(document), name_of(document)): document})

    def objects_under_review(self, kind: str) -> Sequence[Object]:
        """The objects of a kind under review; of the stored object's kind, only that one."""
        return self._view.objects_under_review(kind) if kind != self._kind else (self._document,)


def runtime_of(node: Object) -> str:
    """The container runtime and its version, `containerd://2.1.4`; empty if the node does not report it."""
    return _info(node, "containerRuntimeVersion")


def is_rancher(node: Object) -> bool:
    """True for a node of K3s or RKE2, which bring their own containerd."""
    version = _info(node, "kubeletVersion")
    return "+k3s" in version or "+rke2" in version


def is_k0s(node: Object) -> bool:
    """True for a node of k0s, whose kubelet uses /var/lib/k0s."""
    return "+k0s" in _info(node, "kubeletVersion")


def is_microk8s(node: Object) -> bool:
    """True for a node of MicroK8s, whose kubelet is below /var/snap, with a link at the usual path."""
    return "microk8s.io/cluster" in labels_of(node)


def is_openshift(node: Object) -> bool:
    """True for a node of OpenShift."""
    return any(key.startswith("node.openshift.io/") for key in labels_of(node))


def _info(node: Object, field: str) -> str:
    value = lookup(node, ("status", "nodeInfo", field))
    return value if isinstance(value, str) else ""


_SHOWN = 3


def gpu_pods(facts: Facts, matches: Callable[[Object], bool] | None = None) -> list[str]:
    """The pods, as `namespace/name`, that run and request an extended resource that gives a GPU, or could."""
    return sorted(
        namespaced_name(pod)
        for pod in facts.view.known_objects("Pod")
        if (matches is None or matches(pod))
        and lookup(pod, ("spec", "nodeName"))
        and not has_ended(pod)
        and holds_gpu(pod, facts.view)
    )


def gpu_claims(facts: Facts) -> list[str]:
    """The claims, as `namespace/name`, that hold a GPU and are in use."""
    return sorted(
        namespaced_name(claim)
        for claim in facts.view.known_objects("ResourceClaim")
        if Claim(claim).consumers and any(device.get("driver") == DRIVER for device in Claim(claim).allocated_devices)
    )


def quoted_names(names: Sequence[str]) -> str:
    """The first few names in quotes, and how many more there are."""
    shown = ", ".join(f'"{name}"' for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def counted_names(noun: str, names: Sequence[str]) -> str:
    """`the node "a"`, or `2 nodes ("a", "b")`."""
    quoted = quoted_names(names)
    return f"the {noun} {quoted}" if len(names) == 1 else f"{len(names)} {noun}s ({quoted})"


def the_nodes(nodes: Sequence[Object], noun: str = "node") -> str:
    """`the node "gpu-1"`, or `2 nodes ("gpu-1", "gpu-2")`."""
    return counted_names(noun, [name_of(node) for node in nodes])


def namespaced_name(document: Object) -> str:
    """`namespace/name` of an object."""
    return f"{namespace_of(document) or 'default'}/{name_of(document)}"


_SHIPPED = "default-mig-parted-config"


class PluginRefusal(NamedTuple):
    """The reason for which the device plugin would exit on a node with a MIG configuration."""

    text: str
    """The end of a sentence about the configuration."""
    is_certain: bool
    """False if the GPUs are unknown, or the plugin starts where some of them are cut otherwise: by hand, or as they are now."""


OTHER_STRATEGY = {
    "single": "write a configuration with one profile for all GPUs, or set mig.strategy: mixed in the ClusterPolicy",
    "mixed": "write profiles that fill their GPU instances, such as 3g.20gb, or set mig.strategy: single in the ClusterPolicy",
}
"""The remedy for a MIG configuration at which the device plugin exits, by the strategy."""
_CUT_BY_HAND = "all-enabled"
"""The configuration that NVIDIA ships for GPUs that an administrator cuts by hand: MIG is on, without devices.

Source: github.com/NVIDIA/mig-parted deployments/systemd/config-default.yaml.
"""


@dataclass(frozen=True, slots=True)
class SelectableConfigs:
    """The configurations among which a node can choose."""

    configs: Configs
    """Those whose entries are known."""
    names: frozenset[str]
    """Those that are known to exist."""
    config_map: str = ""
    """The ConfigMap of the administrator's own, where the ClusterPolicy names one."""
    missing: str = ""
    """The facts that are missing to name all configurations, as the end of a sentence; empty if none is missing."""

    def entries(self, name: str, labels: Mapping[str, str]) -> Sequence[Entry]:
        """The entries of a configuration for the GPUs of a node; empty if it or the GPU is unknown."""
        product = node_product(labels)
        if name in self.configs:
            return [each for each in self.configs[name] if (each.is_for(product) if product else not each.filters)]
        if self.config_map or name not in shipped_configs():
            return ()
        return shipped_entries(name, product)

    def plugin_refusal(self, name: str, labels: Mapping[str, str], strategy: str) -> PluginRefusal | None:
        """The reason for which the device plugin exits on a node with a configuration; None if it starts.

        None as well if mig-parted fails, or ignores profiles that the GPUs may have under another driver. A configuration
        that the MIG manager makes for each node has no profiles that the GPUs lack.
        """
        entries = self.entries(name, labels)
        run = apply_on_node(entries, labels)
        ignored = [profile for profiles in run.ignored.values() for profile in profiles]
        if run.error is not None or (ignored and name not in self.configs):
            return None
        if not all(is_lacking(profile, labels) for profile in ignored):
            return None
        by_gpu = [state.devices if state.is_mig_enabled else None for state in run.states]
        cut = Cut.of(by_gpu)
        words = cut_refusal(len(by_gpu), cut, strategy)
        if not words:
            return None
        empty = cut.first_empty_gpu(len(by_gpu))
        if strategy == "single" and empty is not None:
            made = f"enables MIG on GPU {empty} and makes no devices there"
            is_certain = is_capable(labels) is True and (empty == 0 or gpu_count(labels) is not None)
            is_certain = is_certain and name != _CUT_BY_HAND
        else:
            is_partial = strategy == "single" and len(cut.devices) == 1
            profiles = ", ".join(map(str, sorted(cut.devices)))
            made = "cuts some GPUs and leaves others whole" if is_partial else f"makes {profiles}"
            is_certain = all(any(entry.is_for_number(number) for entry in entries) for number in range(len(by_gpu)))
        return PluginRefusal(f"{made}; the device plugin would exit with: {words}", is_certain)


def selectable_configs(facts: Facts, node: str = "") -> SelectableConfigs:
    """The configurations that a node can select, as far as they are known.

    If the ClusterPolicy is unknown, those that the operator ships.
    """
    policy = facts.cluster_policy()
    if not isinstance(policy, dict):
        said = "no ClusterPolicy is known here" if policy is None else "the ClusterPolicy is not known here"
        return SelectableConfigs({}, shipped_configs(), missing=said)
    name = facts.policy_value("migManager", "config", "name")
    return configs_named(facts, name if isinstance(name, str) else "", node)


def configs_named(facts: Facts, name: str, node: str = "") -> SelectableConfigs:
    """The configurations that a node can select if the ClusterPolicy names this ConfigMap, or none.

    Without one, the MIG manager makes a ConfigMap for each node since 26.3; before that it used the same for all.

    Source: github.com/NVIDIA/gpu-operator assets/state-mig-manager; github.com/NVIDIA/mig-parted.
    """
    if name:
        config_map = facts.operator_object("ConfigMap", name)
        configs = configs_of(config_map) if isinstance(config_map, dict) else None
        if configs is not None:
            return SelectableConfigs(configs, frozenset(configs), name)
        said = "is not known here" if config_map is UNKNOWN else "cannot be read" if config_map else "does not exist"
        return SelectableConfigs({}, frozenset(), name, f'the ConfigMap "{name}" {said}')
    made = facts.operator_object("ConfigMap", f"{node}-mig-config") if node else None
    configs = configs_of(made) if isinstance(made, dict) else None
    if configs is not None:
        return SelectableConfigs(configs, frozenset(configs))
    shared = facts.operator_object("ConfigMap", _SHIPPED)
    configs = (configs_of(shared) if isinstance(shared, dict) else None) or {}
    said = "what the MIG manager makes for this node is not known here"
    return SelectableConfigs(configs, shipped_configs() | frozenset(configs), missing=said)
