"""Node configuration: what the operator's components read about the GPUs of one node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.configuration.change import Change
from policies.configuration.cluster_facts import Facts, selectable_configs
from policies.configuration.config_maps.plugin_documents import configurations
from policies.fleet.device_plugin import WORKLOADS, node_workload, runs_device_plugin
from policies.fleet.offers.hardware import NO_CONFIG, config_by_labels
from policies.kubernetes.nodes import labels_of, tolerates_taint
from policies.kubernetes.objects import lookup, mappings_at, name_of, namespace_of
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.config_grammar import STRATEGIES
from policies.nvidia.identifiers import GPU_RESOURCE, MIG_CONFIG_LABEL, MIG_STRATEGY_LABEL, PLUGIN_CONFIG_LABEL
from policies.nvidia.mig import MIGProfile
from policies.nvidia.mig_configs import DEFAULT, WHOLE
from policies.nvidia.mig_products import is_capable, node_product
from policies.nvidia.plugin_configs import PluginConfig
from policies.rules.request import Request

if TYPE_CHECKING:
    from collections.abc import Mapping

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


class Configurations:
    """The configurations of the nodes of one situation."""

    def __init__(self, situation: Situation) -> None:
        self._view = situation.view
        self._facts = Facts(situation.view, situation.settings)
        self._policy = self._facts.cluster_policy()
        self._documents: dict[str, tuple[PluginConfig | None, str]] = {}

    def of(self, node: Object, before: Object | None = None) -> NodeConfiguration:
        """The configuration of a node with GPUs.

        Args:
            node: The node.
            before: The node before it was changed, if it was; pods that run there stay despite a new NoSchedule taint.
        """
        labels = labels_of(node)
        policy = self._policy if isinstance(self._policy, dict) else None
        configuration, unknown = self._plugin_configuration(labels)
        is_broken = bool(unknown) and unknown.startswith("the device plugin")
        advertises = (
            runs_device_plugin(node, self._view, policy) and self._is_tolerated(node, before or node) and not is_broken
        )
        mig_config, entries, unknown_cut = self._mig(node)
        workload = node_workload(labels, self._policy)
        of_policy = self._facts.policy_value("mig", "strategy")
        of_file = configuration.mig_strategy if configuration is not None else ""
        of_label = labels.get(MIG_STRATEGY_LABEL) if not isinstance(self._policy, dict) else ""
        return NodeConfiguration(
            advertises=advertises,
            workload=workload,
            serves_machines=workload != WORKLOADS[0] and self._has_plugin_for_machines(),
            strategy=next((each for each in (of_policy, of_file, of_label) if each in STRATEGIES), "none"),
            # Without a known ClusterPolicy, the labels of the node say how it shares.
            config=config_by_labels(labels) if self._policy is UNKNOWN else configuration or NO_CONFIG,
            mig_config=mig_config,
            mig_entries=entries,
            unknown="" if is_broken else unknown,
            unknown_cut=unknown_cut,
        )

    def _has_plugin_for_machines(self) -> bool:
        """False if the ClusterPolicy disables the device plugin for its kind of virtual machines."""
        is_kata = self._facts.policy_value("sandboxWorkloads", "mode") == "kata"
        plugin = "kataSandboxDevicePlugin" if is_kata else "sandboxDevicePlugin"
        return self._facts.deploys(plugin)

    def _plugin_configuration(self, labels: Mapping[str, str]) -> tuple[PluginConfig | None, str]:
        """The document that the device plugin of a node reads; None without one; and why it is not known."""
        config = lookup(self._policy, ("spec", "devicePlugin", "config"))
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

    def _is_tolerated(self, node: Object, before: Object) -> bool:
        """False if a taint of the node keeps the operator's pods away once they start again."""
        told: Any = self._facts.policy_value("daemonsets", "tolerations")
        tolerations = (
            [each for each in told if isinstance(each, dict)] if isinstance(told, list) and told else _TOLERATED
        )
        taints, known = (mappings_at(each, ("spec", "taints")) for each in (node, before))
        return all(
            tolerates_taint(tolerations, taint)
            for taint in taints
            if (taint.get("effect") == "NoExecute" or (taint.get("effect") == "NoSchedule" and taint in known))
            and not str(taint.get("key")).startswith("node.kubernetes.io/")
        )

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
        is_labelled = isinstance(self._policy, dict) and default != "" and is_capable(labels) is True
        return DEFAULT if is_labelled else ""


def _is_for_known_gpus(name: str, product: MIGProduct | None) -> bool:
    """True if it is known what a configuration that the operator brings makes of a product."""
    profile = MIGProfile.from_label(name.removeprefix("all-"))
    return product is not None and (profile is None or product.match(profile) is not None)
