"""MIG: `spec.mig` and `spec.migManager`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.checks import CLUSTER_POLICY
from policies.configuration.named_objects import quoted_names, the_nodes
from policies.configuration.operator_objects import check_object
from policies.configuration.selectable_configs import PluginRefusal, configs_named, plugin_refusal_of
from policies.decision import Severity
from policies.fleet.device_plugin import runs_device_plugin
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import name_of
from policies.kubernetes.printable import shown
from policies.nvidia.identifiers import MIG_CONFIG_LABEL
from policies.nvidia.mig_configs import DEFAULT, WHOLE, configs_of
from policies.nvidia.mig_products import is_capable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change
    from policies.kubernetes.objects import Object


_FILES = {"config": "config.yaml", "gpuClientsConfig": "clients.yaml"}
"""The fields of `migManager` that name a ConfigMap, and the file that is mounted from each."""


@CLUSTER_POLICY.rule(
    "GA146",
    "ConfigMaps of the MIG manager must exist and have the files that it reads",
    default=Severity.DENY,
    remedy="create the ConfigMap first",
    source="github.com/NVIDIA/gpu-operator assets/state-mig-manager, controllers/object_controls.go",
    rows=("H-03", "H-04", "H-10"),
)
def mounted_files(change: Change) -> Iterator[Problem]:
    """The pods of the MIG manager stay in ContainerCreating until the ConfigMap and the file exist.

    Nodes without a label get `nvidia.com/mig.config: all-disabled` from the operator, so a custom ConfigMap needs that
    name too. A ConfigMap that is not known here is judged when it is applied.
    """
    manager = change.section("migManager")
    if not manager.flag("enabled", default=True):
        return
    for field, file in _FILES.items():
        path = manager.at(field, "name")
        yield from check_object(change, path, "ConfigMap", "the MIG manager's pods would not start", [file])
    name = manager.text("config", "name")
    config_map = change.facts.operator_object("ConfigMap", name) if name else None
    configs = configs_of(config_map) if isinstance(config_map, dict) else None
    if configs and DEFAULT not in configs and manager.value("config", "default") in (None, DEFAULT):
        text = f'"{name}" has {quoted_names(sorted(configs))} and not {DEFAULT}, which nodes without a label get'
        yield problem(manager.at("config", "name"), text, f'add {DEFAULT} to ConfigMap "{name}", or write default: ""')


@CLUSTER_POLICY.rule(
    "GA148",
    "The MIG manager must be enabled if nodes have its label, and its settings must have an effect",
    default=Severity.WARN,
    remedy="write migManager: {enabled: true}, or divide the GPUs yourself and remove the labels",
    source="github.com/NVIDIA/gpu-operator controllers/state_manager.go hasMIGCapableGPU, docs gpu-operator-mig",
    rows=("H-08", "H-09", "H-11"),
)
def manager_settings(change: Change) -> Iterator[Problem]:
    """Without the MIG manager the label `nvidia.com/mig.config` silently has no effect.

    The operator runs it only on nodes whose GPUs MIG can divide, so custom configurations have no effect if no node has
    such GPUs. `WITH_REBOOT` is compared as a string: any value but "true" means no, also "True" and "1".
    """
    manager = change.section("migManager")
    if not manager.flag("enabled", default=True):
        labelled = change.facts.nodes_with(MIG_CONFIG_LABEL)
        waiting = [node for node in labelled if labels_of(node)[MIG_CONFIG_LABEL] not in WHOLE]
        if waiting and change.text("mig", "strategy") in ("single", "mixed"):
            text = f"is false, so the label {MIG_CONFIG_LABEL} of {the_nodes(waiting)} has no effect"
            yield problem(manager.at("enabled"), text)
        return
    nodes, name = change.facts.known_gpu_nodes(), manager.text("config", "name")
    if name and nodes and all(is_capable(labels_of(node)) is False for node in nodes):
        text = f'"{name}" is never read, because MIG cannot divide any GPU of {the_nodes(nodes)}'
        remedy = "remove it, or add nodes with GPUs such as A100, H100 or B200"
        yield problem(manager.at("config", "name"), text, remedy, severity=Severity.AUDIT)
    for index, variable, value in manager.variables("env"):
        if variable == "WITH_REBOOT" and value not in ("true", "false"):
            is_meant = (value or "").lower() in ("1", "true", "yes", "on", "y", "t")
            text = f'is {shown(value or "")}, and only "true" lets the MIG manager reboot a node that needs it'
            yield problem(manager.at("env", index, "value"), text, f'write "{str(is_meant).lower()}"')


@CLUSTER_POLICY.rule(
    "GA147",
    "The MIG strategy must suit the MIG configurations of the nodes",
    default=Severity.DENY,
    remedy="write strategy: mixed, and let pods request resources such as nvidia.com/mig-1g.10gb",
    source="github.com/NVIDIA/k8s-device-plugin internal/rm/device_map.go, internal/lm/mig-strategy.go; "
    "github.com/NVIDIA/gpu-operator issue 603",
    rows=("H-01", "H-02"),
)
def strategy_suits_nodes(change: Change) -> Iterator[Problem]:
    """Under "single" all MIG devices of a node are `nvidia.com/gpu`, so they must be of one kind.

    Otherwise the node gets the label `<product>-MIG-INVALID` and no GPU at all. Under "mixed" each profile is a resource,
    but those of compute instances that share a GPU instance are not. Under "none", which is also the default, the device
    plugin offers GPUs that MIG divides as if they were whole. A change that sets the strategy is refused; a policy that
    already had it gets a warning. Nodes without the device plugin do not count: DRA hands out MIG devices of all kinds.
    """
    strategy, path = change.text("mig", "strategy"), change.at("mig", "strategy")
    labelled = [
        node
        for node in change.facts.nodes_with(MIG_CONFIG_LABEL)
        if labels_of(node)[MIG_CONFIG_LABEL] not in WHOLE and runs_device_plugin(node, change.facts.view, change.object)
    ]
    if strategy in ("single", "mixed"):
        is_kept = change.value_before("mig", "strategy") == strategy
        remedy = "write strategy: single, or profiles that fill their GPU instances" if strategy == "mixed" else None
        for (name, refusal), nodes in _unfit_configs(change, labelled, strategy).items():
            text = f'is "{strategy}", and the configuration "{name}" of {the_nodes(nodes)} {refusal.text}'
            severity = Severity.WARN if is_kept or not refusal.is_certain else None
            yield problem(path, text, remedy, severity=severity)
    elif strategy in ("", "none") and labelled:
        said = "is none" if strategy else "is not set"
        text = f"{said}, so the MIG devices that {MIG_CONFIG_LABEL} sets on {the_nodes(labelled)} are not advertised"
        remedy = "write strategy: single or strategy: mixed, or label the nodes all-disabled"
        yield problem(path, text, remedy, severity=Severity.WARN)


def _unfit_configs(
    change: Change, labelled: list[Object], strategy: str
) -> dict[tuple[str, PluginRefusal], list[Object]]:
    """The nodes of each configuration at which the device plugin would exit, by its name and the reason."""
    config_map = change.text("migManager", "config", "name")
    found: dict[tuple[str, PluginRefusal], list[Object]] = {}
    for node in labelled:
        name, labels = labels_of(node)[MIG_CONFIG_LABEL], labels_of(node)
        entries = configs_named(change.facts, config_map, name_of(node)).entries(name, labels)
        if refusal := plugin_refusal_of(entries, labels, strategy):
            found.setdefault((name, refusal), []).append(node)
    return found
