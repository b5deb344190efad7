"""Node configuration: what the operator's components read about the GPUs of one node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.configuration.change import Change
from policies.configuration.cluster_facts import Facts, selectable_configs
from policies.configuration.config_maps.plugin_documents import configurations
from policies.configuration.v1alpha1 import LEAST_BRANCH, is_old_branch, selector_of, selects
from policies.fleet.device_plugin import WORKLOADS, node_workload, runs_device_plugin
from policies.fleet.offers.hardware import NO_CONFIG, config_by_labels
from policies.fleet.operands import (
    cluster_driver,
    domain_devices,
    dropped_gates,
    gpu_cluster,
    is_deployed,
    is_let_run,
    keeping_taint,
    missing_driver_reason,
)
from policies.kubernetes.names import format_list, list_command
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import lookup, mapping_at, name_of, namespace_of
from policies.kubernetes.versions import Feature, version_text
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.config_grammar import STRATEGIES
from policies.nvidia.identifiers import (
    DEPLOY_DRIVER_LABEL,
    DRIVER_VERSION_LABEL,
    GPU_RESOURCE,
    MIG_CONFIG_LABEL,
    MIG_STRATEGY_LABEL,
    PLUGIN_CONFIG_LABEL,
)
from policies.nvidia.mig import MIGProfile, parse_resource
from policies.nvidia.mig_configs import DEFAULT, WHOLE
from policies.nvidia.mig_products import is_capable, node_product
from policies.nvidia.plugin_configs import PluginConfig
from policies.nvidia.releases import NVIDIAFeature
from policies.rules.request import Request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.fleet.offers import DriverState
    from policies.kubernetes.objects import Object
    from policies.nvidia.mig_configs import Entry
    from policies.nvidia.mig_products import MIGProduct
    from policies.outcome import Situation


_TOLERATED = ({"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"},)
"""The tolerations of the operator's DaemonSets if the ClusterPolicy does not say."""


@dataclass(frozen=True, slots=True)
class NodeConfiguration:
    """The configuration of the GPUs of a node."""

    advertises: bool
    """True if the device plugin runs there."""
    workload: str
    """The purpose of its GPUs: `container`, `vm-passthrough` or `vm-vgpu`; empty if the operator is removed."""
    stack: str
    """The kind of the resource that the operator follows: `ClusterPolicy` or `GPUCluster`; empty for none."""
    serves_machines: bool
    """True if a device plugin for virtual machines runs there."""
    strategy: str
    """`none`, `single` or `mixed`."""
    config: PluginConfig = NO_CONFIG
    """The document that the device plugin and GPU Feature Discovery read."""
    mig_config: str = ""
    """The name of the MIG configuration; empty if the GPUs are left as they are."""
    mig_entries: tuple[Entry, ...] = ()
    unknown: str = ""
    """The reason why the configuration of the device plugin is unknown, as a clause; empty if it is known."""
    unknown_cut: str = ""
    """The reason why the cut of the GPUs by the MIG configuration is unknown; empty if it is known."""
    has_mig_manager: bool = True
    """False if nothing cuts its GPUs, so that they stay as they are."""
    keeps_labels: bool = True
    """True if the labels of GPU Feature Discovery stay: it runs, or does not take them along."""
    gpu_driver: str = ""
    """The resource by which the operator installs the driver of the GPUs: `NVIDIADriver default`; empty if it does not."""
    driver: DriverState | None = None
    """The DRA driver that the operator runs there."""
    missing_driver: str = ""
    """The reason why the DRA driver of the GPUCluster does not run there, as a clause; empty if it does."""
    domains: tuple[str, ...] = ()
    """The devices that the operator's driver of ComputeDomains publishes; the driver sets `nvidia.com/gpu.clique` too."""
    new_driver_version: str = ""
    """The version of a driver that replaces the one before the change; empty if it is unknown or none does."""

    @property
    def has_foreign_plugin(self) -> bool:
        """True if a device plugin runs there that is not the operator's, and stays as it is."""
        return self.advertises and (self.stack == "GPUCluster" or not self.workload)

    def manages_dra(self, was: NodeConfiguration) -> bool:
        """True if the operator runs the DRA driver of a GPUCluster, or did before."""
        return "GPUCluster" in (was.stack, self.stack)

    def loses_driver(self, was: NodeConfiguration) -> bool:
        """True if the operator takes the driver of the GPUs from the node."""
        is_for_machines = was.workload == WORKLOADS[0] and self.workload not in (WORKLOADS[0], "")
        return is_for_machines or bool(was.gpu_driver and not self.gpu_driver)

    def reloads_driver(self, was: NodeConfiguration) -> bool:
        """True if a driver that another resource describes takes the place of the one before.

        Between a ClusterPolicy and its NVIDIADrivers the operator replaces drivers one by one, as in an upgrade.
        """
        is_other = was.stack != self.stack and was.gpu_driver != self.gpu_driver
        return bool(is_other and was.gpu_driver and self.gpu_driver)


class Configurations:
    """The configurations of the nodes of one situation."""

    def __init__(self, situation: Situation, before: Configurations | None = None) -> None:
        """Read what the operator follows.

        Args:
            situation: The cluster.
            before: The configurations before a change; None if this is the cluster before it.
        """
        self._view = situation.view
        self._facts = Facts(situation.view, situation.settings)
        self.policy = self._facts.cluster_policy()
        """The ClusterPolicy that the operator follows; None without one."""
        self.cluster = gpu_cluster(situation.view)
        self._documents: dict[str, tuple[PluginConfig | None, str]] = {}
        self._was = before

    @property
    def conflict(self) -> str:
        """The two resources that exclude each other, as a clause; empty if the operator can follow one.

        Source: github.com/NVIDIA/gpu-operator controllers/clusterpolicy_controller.go Reconcile, gpucluster_controller.go
        validatePrerequisites, nodelabeling_controller.go Reconcile.
        """
        if not isinstance(self.policy, dict) or self.cluster is None:
            return ""
        return f"ClusterPolicy {name_of(self.policy)} and GPUCluster {name_of(self.cluster)} exclude each other"

    def of(self, node: Object, before: Object | None = None) -> NodeConfiguration:
        """The configuration of a node with GPUs.

        Args:
            node: The node.
            before: The node before it was changed, if it was; pods that run there stay despite a new NoSchedule taint.
        """
        if self.cluster is not None and not isinstance(self.policy, dict):
            return self._of_cluster(self.cluster, node, before or node)
        if self._is_uninstalled:
            return NodeConfiguration(
                advertises=self._is_foreign and _offers_plugin_resources(node),
                workload="",
                stack="",
                serves_machines=False,
                strategy=labels_of(node).get(MIG_STRATEGY_LABEL, "none"),
                config=config_by_labels(labels_of(node)),
                has_mig_manager=False,
                keeps_labels=self._is_foreign or self.has_old_discovery,
                gpu_driver=self.gpu_driver(node),
                new_driver_version=self._new_driver_version(node),
            )
        labels = labels_of(node)
        policy = self.policy if isinstance(self.policy, dict) else None
        configuration, unknown = self._plugin_configuration(labels)
        is_broken = bool(unknown) and unknown.startswith("the device plugin")
        gpu_driver = self.gpu_driver(node)
        advertises = (
            runs_device_plugin(node, self._view, policy)
            and not self._keeping_taint(node, before or node)
            and not is_broken
            and not self._loses_driver(node, gpu_driver)
        )
        mig_config, entries, unknown_cut = self._mig(node)
        workload = node_workload(labels, self.policy)
        of_policy = self._facts.policy_value("mig", "strategy")
        of_file = configuration.mig_strategy if configuration is not None else ""
        of_label = labels.get(MIG_STRATEGY_LABEL) if not isinstance(self.policy, dict) else ""
        return NodeConfiguration(
            advertises=advertises,
            workload=workload,
            stack="ClusterPolicy" if isinstance(self.policy, dict) else "",
            serves_machines=workload != WORKLOADS[0] and self._has_plugin_for_machines(),
            strategy=next((each for each in (of_policy, of_file, of_label) if each in STRATEGIES), "none"),
            # Without a known ClusterPolicy, the labels of the node say how it shares.
            config=config_by_labels(labels) if self.policy is UNKNOWN else configuration or NO_CONFIG,
            mig_config=mig_config,
            mig_entries=entries,
            unknown="" if is_broken else unknown,
            unknown_cut=unknown_cut,
            has_mig_manager=self._facts.deploys("migManager"),
            keeps_labels=self._facts.deploys("gfd") or self.has_old_discovery,
            gpu_driver=gpu_driver,
        )

    def _of_cluster(self, cluster: Object, node: Object, before: Object) -> NodeConfiguration:
        """The configuration where the operator follows a GPUCluster.

        It runs no device plugin, GPU Feature Discovery or MIG manager.

        Source: github.com/NVIDIA/gpu-operator internal/state/manager.go newGPUClusterStates.
        """
        labels, was = labels_of(node), self._was
        is_running = was is not None and was.cluster is not None
        gpu_driver = self.gpu_driver(node)
        missing = missing_driver_reason(cluster, node, before if is_running else node) or self._version_reason()
        unknown = "" if missing else self._unknown_driver(cluster, node)
        if not missing and self._loses_driver(node, gpu_driver):
            if self._view.list("NVIDIADriver") is UNKNOWN and not self._view.known_or_reviewed("NVIDIADriver"):
                unknown = "NVIDIADrivers are not known, and the DRA driver waits for one on the node; add those of the cluster"
            else:
                missing = "it waits for a driver of the GPUs, and no NVIDIADriver is for the node"
        if self.policy is UNKNOWN and was is not None and was.cluster is None:
            unknown = (
                f"no ClusterPolicy is known, which would stop the operator; add it: {list_command('ClusterPolicy')}"
            )
        return NodeConfiguration(
            advertises=self._is_foreign and _offers_plugin_resources(node),
            workload=WORKLOADS[0],
            stack="GPUCluster",
            serves_machines=False,
            strategy=labels.get(MIG_STRATEGY_LABEL, "none"),
            config=config_by_labels(labels),
            unknown=unknown,
            has_mig_manager=False,
            keeps_labels=self._is_foreign or self.has_old_discovery,
            gpu_driver=gpu_driver,
            driver=None if missing else cluster_driver(cluster, self._view),
            missing_driver=missing,
            domains=() if missing else domain_devices(cluster),
            new_driver_version=self._new_driver_version(node),
        )

    def _version_reason(self) -> str:
        """The reason why the operator cannot install the DRA driver in this version of Kubernetes, or empty.

        Source: github.com/NVIDIA/gpu-operator internal/state/gpucluster.go draResourceAPIVersion.
        """
        version = self._view.server_version()
        if version is UNKNOWN or Feature.ResourceV1.default_in(version) or Feature.ResourceV1Beta1.stage_in(version):
            return ""
        return f"Kubernetes {version_text(version)} does not serve DeviceClasses"

    def _unknown_driver(self, cluster: Object, node: Object) -> str:
        """The reason why it is not known what the DRA driver publishes on a node, as a clause."""
        if dropped := dropped_gates(cluster_driver(cluster, self._view), self._view):
            return f"{format_list(dropped)} of Kubernetes is off, and the API server drops what the DRA driver publishes by it"
        version = self._new_driver_version(node) or labels_of(node).get(DRIVER_VERSION_LABEL, "")
        if is_old_branch(version):
            return f"its driver {version} is older than {LEAST_BRANCH}, which a GPUCluster needs"
        return ""

    @property
    def _is_uninstalled(self) -> bool:
        """True if the operator followed something before the change, and follows nothing now."""
        was = self._was
        has_followed = was is not None and (isinstance(was.policy, dict) or was.cluster is not None)
        return has_followed and self.policy is None and self.cluster is None

    @property
    def _is_foreign(self) -> bool:
        """True if the device plugin and GPU Feature Discovery of nodes are not the operator's, and stay."""
        return not isinstance(self.policy, dict) and (self._was is None or not isinstance(self._was.policy, dict))

    @property
    def has_old_discovery(self) -> bool:
        """True if GPU Feature Discovery leaves its labels behind, as releases before 0.19 do.

        Those of an operator that names no version are not that old where a GPUCluster can be.
        """
        was = self._was
        policies = (self.policy, None if was is None else was.policy)
        policy = next((each for each in policies if isinstance(each, dict)), None)
        version = lookup(policy, ("spec", "gfd", "version"))
        return isinstance(version, str) and NVIDIAFeature.OwnedLabels.is_in(version) is False

    def gpu_driver(self, node: Object) -> str:
        """The resource by which the operator installs the driver on a node: `NVIDIADriver default`; or empty.

        Source: github.com/NVIDIA/gpu-operator controllers/nvidiadriver_controller.go Reconcile,
        internal/nvidiadriver/nvidiadriver.go desiredOwnerForNode.
        """
        if not is_let_run(labels_of(node), DEPLOY_DRIVER_LABEL):
            return ""
        if isinstance(self.policy, dict):
            if is_deployed(self.policy, "driver"):
                return f"ClusterPolicy {name_of(self.policy)}"
            if lookup(self.policy, ("spec", "driver", "useNvidiaDriverCRD")) is not True:
                return ""
        elif self.policy is UNKNOWN:
            return ""
        drivers = self._view.known_or_reviewed("NVIDIADriver")
        chosen = [each for each in drivers if not _is_default(each) and selects(selector_of(each), node)]
        found = chosen or [each for each in drivers if _is_default(each)]
        return f"NVIDIADriver {name_of(found[0])}" if len(found) == 1 else ""

    def _loses_driver(self, node: Object, gpu_driver: str) -> bool:
        """True if the operator installed the driver of a node before the change, and does not any more."""
        return self._was is not None and not gpu_driver and bool(self._was.gpu_driver(node))

    def _new_driver_version(self, node: Object) -> str:
        """The version of an NVIDIADriver that takes the place of another driver; empty if it is unknown."""
        gpu_driver = self.gpu_driver(node)
        if self._was is None or self._was.gpu_driver(node) == gpu_driver:
            return ""
        kind, _, name = gpu_driver.partition(" ")
        version = lookup(self._view.get(kind, name), ("spec", "version")) if kind == "NVIDIADriver" else None
        return version if isinstance(version, str) else ""

    def _has_plugin_for_machines(self) -> bool:
        """False if the ClusterPolicy disables the device plugin for its kind of virtual machines."""
        is_kata = self._facts.policy_value("sandboxWorkloads", "mode") == "kata"
        plugin = "kataSandboxDevicePlugin" if is_kata else "sandboxDevicePlugin"
        return self._facts.deploys(plugin)

    def _plugin_configuration(self, labels: Mapping[str, str]) -> tuple[PluginConfig | None, str]:
        """The document that the device plugin of a node reads; None without one; and why it is not known."""
        config = lookup(self.policy, ("spec", "devicePlugin", "config"))
        name, key = lookup(config, ("name",)), labels.get(PLUGIN_CONFIG_LABEL) or lookup(config, ("default",))
        if not isinstance(name, str) or not name or not isinstance(key, str) or not key:
            return None, ""
        if key not in self._documents:
            self._documents[key] = self._find_document(name, key)
        return self._documents[key]

    def _find_document(self, name: str, key: str) -> tuple[PluginConfig | None, str]:
        config_map = self._facts.operator_object("ConfigMap", name)
        if config_map is UNKNOWN:
            return None, f"ConfigMap {name} is not known"
        if not isinstance(config_map, dict):
            return None, f"the device plugin does not start, because ConfigMap {name} does not exist"
        request = Request(config_map, kind="ConfigMap", namespace=namespace_of(config_map), name=name_of(config_map))
        change = Change.of(request, self._facts)
        found = next((each for each in configurations(change) if each.key == key), None) if change else None
        if found is None:
            return None, f"the device plugin does not start, because ConfigMap {name} has no {key}"
        return PluginConfig(found.value, found.replaced_flags), ""

    def _keeping_taint(self, node: Object, before: Object) -> str:
        """The taint of the node that keeps the operator's pods away once they start again; empty if none does."""
        told: Any = self._facts.policy_value("daemonsets", "tolerations")
        tolerations = (
            [each for each in told if isinstance(each, dict)] if isinstance(told, list) and told else _TOLERATED
        )
        return keeping_taint(tolerations, node, before)

    def _mig(self, node: Object) -> tuple[str, tuple[Entry, ...], str]:
        """The name of the MIG configuration of a node, its entries, and why they are not known."""
        labels = labels_of(node)
        name = labels.get(MIG_CONFIG_LABEL) or self._default_mig_config(labels)
        if not name or is_capable(labels) is False or not self._facts.deploys("migManager"):
            return "", (), ""
        if name in WHOLE:
            return name, (), ""
        selectable = selectable_configs(self._facts, name_of(node))
        entries = tuple(selectable.entries(name, labels))
        if name not in selectable.configs and not _is_for_known_gpus(name, node_product(labels)):
            entries = ()
        return name, entries, "" if entries else f"the MIG configuration {name} is not known for its GPUs"

    def _default_mig_config(self, labels: Mapping[str, str]) -> str:
        """The configuration that the operator labels nodes with that have none; empty if it does not."""
        default = self._facts.policy_value("migManager", "config", "default")
        is_labelled = isinstance(self.policy, dict) and default != "" and is_capable(labels) is True
        return DEFAULT if is_labelled else ""


def _offers_plugin_resources(node: Object) -> bool:
    return any(parse_resource(name) is not None for name in mapping_at(node, ("status", "allocatable")))


def _is_default(driver: Object) -> bool:
    return lookup(driver, ("spec", "default")) is True


def _is_for_known_gpus(name: str, product: MIGProduct | None) -> bool:
    """True if it is known what a configuration that the operator brings makes of a product."""
    profile = MIGProfile.from_label(name.removeprefix("all-"))
    return product is not None and (profile is None or product.match(profile) is not None)
