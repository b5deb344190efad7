"""The device plugin, MIG and its manager, and the DRA driver beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from policies.configuration.change import CLUSTER_POLICY, check_object, data_keys
from policies.configuration.cluster_facts import (
    PluginRefusal,
    configs_named,
    quoted_names,
    the_nodes,
)
from policies.configuration.config_maps.plugin_documents import configurations
from policies.devices.published_devices import gpu_groups
from policies.fleet.device_plugin import runs_device_plugin
from policies.fleet.offers.hardware import gpu_labels
from policies.fleet.offers.offer import MPS_WITH_MIXED
from policies.fleet.operands import is_deployed
from policies.kubernetes.names import closest, is_dns_label, shown
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import name_of
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.config_grammar import STRATEGIES
from policies.nvidia.identifiers import MIG_CONFIG_LABEL, PLUGIN_CONFIG_LABEL
from policies.nvidia.mig_configs import DEFAULT, WHOLE, configs_of
from policies.nvidia.mig_products import is_capable
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change
    from policies.configuration.config_maps.plugin_documents import Configuration
    from policies.kubernetes.objects import Object


_CONFIG = ("devicePlugin", "config")
_VOLUMES = (
    *("config", "nvidia-device-plugin-entrypoint", "device-plugin", "run-nvidia-validations", "driver-install-dir"),
    *("host-root", "cdi-root", "mps-root", "mps-shm"),
)
"""The volumes of the device plugin's DaemonSet; the ConfigMap's becomes another, named after the ConfigMap."""
_MISSING_KEY = "the config manager would exit with: specified config"


def _reads_config_map(change: Change) -> bool:
    return any(is_deployed(change.object, component) for component in ("devicePlugin", "gfd"))


def _config_map(change: Change) -> Object | None:
    """The ConfigMap that the device plugin reads; None if there is none, or it is unknown."""
    name = change.text(*_CONFIG, "name")
    found = change.facts.operator_object("ConfigMap", name) if name and _reads_config_map(change) else None
    return found if isinstance(found, dict) else None


@CLUSTER_POLICY.rule(
    "GA130",
    "The ConfigMap of the device plugin must exist and be mountable",
    remedy="create the ConfigMap in the operator's namespace first",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go handleDevicePluginConfig, issue 412",
    rows=("G-01", "G-06"),
)
def mountable_config_map(change: Change) -> Iterator[Problem]:
    """The operator looks for the ConfigMap in its own namespace, and mounts it from there.

    Without it the pods of the device plugin, of GPU Feature Discovery and of the MPS daemon stay in ContainerCreating,
    on every node. The volume is named after the ConfigMap, so a name that is none for a volume, or that the DaemonSet
    has already, keeps the operator from updating the DaemonSet.
    """
    path, name = change.at(*_CONFIG, "name"), change.text(*_CONFIG, "name")
    if not name or not _reads_config_map(change):
        return
    if name in _VOLUMES:
        error = f'Duplicate value: "{name}"'
        text = f'"{name}" is also a volume of the device plugin\'s DaemonSet; the operator would report: {error}'
        yield Problem(path, text, 'rename the ConfigMap, for example to "device-plugin-config"')
    elif not is_dns_label(name):
        text = f'"{name}" cannot name a volume, and the operator mounts the ConfigMap as a volume of its name'
        yield Problem(path, text, "rename the ConfigMap to at most 63 lower-case letters, digits and dashes")
    else:
        consequence = "the device plugin's pods would stay in ContainerCreating"
        yield from check_object(change, path, "ConfigMap", consequence)


@CLUSTER_POLICY.rule(
    "GA131",
    "A selected device-plugin configuration must be a key of the ConfigMap",
    remedy="write a key of the ConfigMap",
    source="github.com/NVIDIA/k8s-device-plugin cmd/config-manager/main.go updateConfigName; "
    "github.com/NVIDIA/gpu-operator controllers/object_controls.go isCustomPluginConfigSet",
    rows=("G-02", "G-03", "G-04", "G-05", "S-03"),
)
def selected_keys(change: Change) -> Iterator[Problem]:
    """A node's label selects a configuration by its key, and config.default does if the label is missing.

    If the key is missing, the config manager exits again and again, and the node has no device plugin. A default is read
    for nodes without the label only. Without a default, they get an empty configuration, which silently hands out whole
    GPUs.
    """
    name, default = change.text(*_CONFIG, "name"), change.text(*_CONFIG, "default")
    if default and not name:
        text = f'is "{default}", but config.name is empty, so the operator ignores both'
        remedy = "write config.name, the name of the ConfigMap"
        yield Problem(change.at(*_CONFIG, "default"), text, remedy, severity=Severity.WARN)
    if name and _reads_config_map(change):
        config_map = _config_map(change)
        keys = data_keys(config_map)
        if config_map is not None:
            yield from _missing_keys(change, name, default, keys)
        if not default:
            yield from _without_default(change, keys)


def _missing_keys(change: Change, name: str, default: str, keys: list[str]) -> Iterator[Problem]:
    if default and default not in keys:
        has = f"which has {quoted_names(keys)}" if keys else "which has no key"
        text = f'"{default}" is not a key of ConfigMap "{name}", {has}; {_MISSING_KEY}  does not exist'
        guess = closest(default, keys) or (keys[0] if len(keys) == 1 else None)
        known = change.facts.known_gpu_nodes()
        is_read = not known or any(not labels_of(node).get(PLUGIN_CONFIG_LABEL) for node in known)
        severity = None if is_read else Severity.WARN
        yield Problem(change.at(*_CONFIG, "default"), text, f'write "{guess}"' if guess else None, severity=severity)
    for key in sorted({labels_of(node)[PLUGIN_CONFIG_LABEL] for node in change.facts.nodes_with(PLUGIN_CONFIG_LABEL)}):
        if key and key not in keys:
            nodes = the_nodes(change.facts.nodes_with(PLUGIN_CONFIG_LABEL, key))
            text = f'ConfigMap "{name}" has no key "{key}", which the label {PLUGIN_CONFIG_LABEL} of {nodes} selects; '
            remedy = f'add "{key}" to the ConfigMap, or label the nodes with an existing key'
            message = f"{text}{_MISSING_KEY} {key} does not exist"
            yield Problem(change.at(*_CONFIG, "name"), message, remedy, severity=Severity.WARN)


def _without_default(change: Change, keys: list[str]) -> Iterator[Problem]:
    """A warning if no GPU node has the label; if some have it, the others may have none on purpose."""
    nodes = change.facts.known_gpu_nodes()
    bare = [node for node in nodes if not labels_of(node).get(PLUGIN_CONFIG_LABEL)]
    if bare:
        without = f"{the_nodes(bare)} without the label {PLUGIN_CONFIG_LABEL}"
        text = f"is empty, and {without} would get an empty configuration"
        which = f"one of {quoted_names(keys)}" if len(keys) > 1 else keys[0] if keys else "a key of the ConfigMap"
        remedy = f"set default to {which}, or label the nodes with {PLUGIN_CONFIG_LABEL}"
        severity = Severity.WARN if len(bare) == len(nodes) else Severity.AUDIT
        yield Problem(change.at(*_CONFIG, "default"), text, remedy, severity=severity)


@CLUSTER_POLICY.rule(
    "GA143",
    "The ClusterPolicy and the ConfigMap of the device plugin must agree",
    remedy="write the setting in one place only",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go applyMIGConfiguration; "
    "github.com/NVIDIA/k8s-device-plugin api/config/v1/flags.go UpdateFromCLIFlags, "
    "cmd/nvidia-device-plugin/main.go validateFlags",
    rows=("G-12", "G-21", "G-28"),
)
def agreeing_settings(change: Change) -> Iterator[Problem]:
    """The operator passes spec.mig.strategy and args to the device plugin, and both win over the file.

    With another strategy than the file was written for, nodes offer other resources than pods request, which is a warning.
    Mixed with MPS keeps the plugin from starting on nodes that read the configuration. An argument silently overrides the
    same setting of every configuration.
    """
    arguments = _arguments(change.items("devicePlugin", "args"))
    strategy = change.text("mig", "strategy")
    index, value = arguments.get("migstrategy", (0, ""))
    if strategy and value and value != strategy:
        text = f"sets the MIG strategy {value}, but spec.mig.strategy is {strategy}, which GPU Feature Discovery uses"
        remedy = "remove it, and write spec.mig.strategy"
        yield Problem(change.at("devicePlugin", "args", index), text, remedy, severity=Severity.WARN)
    config_map = _config_map(change)
    if config_map is not None:
        for configuration in configurations(replace(change, object=config_map, old=None, kind="ConfigMap")):
            where = f'"{configuration.key}" of ConfigMap "{change.text(*_CONFIG, "name")}"'
            yield from _other_strategy(change, configuration, strategy, where)
            yield from _overridden_fields(change, configuration, arguments, where)


def _other_strategy(change: Change, configuration: Configuration, strategy: str, where: str) -> Iterator[Problem]:
    path, of_file = change.at("mig", "strategy"), configuration.mig_strategy
    if strategy == "mixed" and configuration.strategy("mps") is not None:
        text = f"is mixed, and {where} shares GPUs by mps; the device plugin would exit with:"
        severity = None if _reads_key(change, configuration.key) else Severity.WARN
        yield Problem(path, f"{text} {MPS_WITH_MIXED}", "write single or none", severity=severity)
    # A configuration for nodes without MIG says none, and is right whatever the strategy is.
    elif strategy and of_file in STRATEGIES and of_file not in (strategy, "none"):
        text = f"is {strategy}, which overrides migStrategy: {of_file} in {where}"
        yield Problem(path, text, f"write {of_file}, or remove migStrategy there", severity=Severity.WARN)


def _reads_key(change: Change, key: str) -> bool:
    """True if device plugins read a key of the ConfigMap: the default, or that of a node's label."""
    nodes = change.facts.nodes_with(PLUGIN_CONFIG_LABEL, key)
    is_selected = any(runs_device_plugin(node, change.facts.view, change.object) for node in nodes)
    is_default = key == change.text(*_CONFIG, "default")
    return (is_default or is_selected) and is_deployed(change.object, "devicePlugin")


def _overridden_fields(
    change: Change, configuration: Configuration, arguments: dict[str, tuple[int, str]], where: str
) -> Iterator[Problem]:
    for parent in (("flags",), ("flags", "plugin")):
        fields = configuration.get(*parent)
        for field, value in fields.items() if isinstance(fields, dict) else ():
            index, argument = arguments.get(field.lower(), (0, None))
            in_file = str(value).lower() if isinstance(value, bool) else str(value)
            if argument is not None and not isinstance(value, dict | list | None) and argument != in_file:
                text = f"overrides {field}: {shown(value)} in {where}, because the command line wins over the file"
                path = change.at("devicePlugin", "args", index)
                yield Problem(path, text, f"write {field} in one place only", severity=Severity.WARN)


def _arguments(arguments: list[Any]) -> dict[str, tuple[int, str]]:
    """The flags among arguments, by the name of their field in lower case, with their index and value."""
    found = {}
    texts = [argument if isinstance(argument, str) else "" for argument in arguments]
    for index, (text, following) in enumerate(zip(texts, [*texts, ""][1:], strict=True)):
        name, sign, value = text.partition("=")
        if name.startswith("--"):
            separate = "" if following.startswith("-") else following
            found[name.replace("-", "").lower()] = (index, value if sign else separate or "true")
    return found


@CLUSTER_POLICY.rule(
    "GA145",
    "The device plugin must not run on nodes whose GPUs are handed out by DRA",
    remedy='write devicePlugin.enabled: false, or label nodes of DRA nvidia.com/gpu.deploy.device-plugin: "false"',
    source="github.com/kubernetes-sigs/dra-driver-nvidia-gpu deployments/helm/dra-driver-nvidia-gpu/templates/validation.yaml: "
    "gpuResourcesEnabledOverride; github.com/NVIDIA/gpu-operator pull 1541",
    rows=("G-26", "S-06"),
)
def one_way_to_a_gpu(change: Change) -> Iterator[Problem]:
    """The device plugin and the DRA driver are independent: both hand out every GPU of their nodes.

    Two pods can then get the same GPU, and the second one fails to allocate memory. A change that enables the device
    plugin is refused; if it is already enabled, this is a warning.
    """
    groups = gpu_groups(change.facts.view)
    by_dra = frozenset(
        node
        for group in (() if groups is UNKNOWN else groups)
        if group.type in ("gpu", "mig")
        for node in group.by_node
    )
    nodes = [
        node
        for node in change.facts.view.known_objects("Node")
        if name_of(node) in by_dra and runs_device_plugin(node, change.facts.view, change.object)
    ]
    if nodes:
        hand_out = "hands out its GPUs" if len(nodes) == 1 else "hand out their GPUs"
        text = f"is true, and {the_nodes(nodes)} {hand_out} by DRA (gpu.nvidia.com) already; two pods could get one GPU"
        was_on = not change.is_created and change.value_before("devicePlugin", "enabled") is not False
        severity = Severity.WARN if was_on else None
        yield Problem(change.at("devicePlugin", "enabled"), text, severity=severity)


_FILES = {"config": "config.yaml", "gpuClientsConfig": "clients.yaml"}
"""The fields of `migManager` that name a ConfigMap, and the file that is mounted from each."""


@CLUSTER_POLICY.rule(
    "GA146",
    "ConfigMaps of the MIG manager must exist and have the files that it reads",
    remedy="create the ConfigMap first",
    source="github.com/NVIDIA/gpu-operator assets/state-mig-manager, controllers/object_controls.go "
    "TransformMIGManager, controllers/nodelabeling_controller.go updateGPUStateLabels",
    rows=("H-03", "H-04", "H-10"),
)
def mounted_files(change: Change) -> Iterator[Problem]:
    """The pods of the MIG manager stay in ContainerCreating until the ConfigMap exists.

    They run on nodes whose GPUs MIG can divide, and read the file for each change of a node. If no known node is one, this
    is a warning. Nodes without a label get `nvidia.com/mig.config: all-disabled` from the operator, so a custom ConfigMap needs that
    name too. A ConfigMap that is not known here is judged when it is applied.
    """
    manager = change.section("migManager")
    if not is_deployed(change.object, "migManager"):
        return
    nodes = change.facts.known_gpu_nodes()
    is_idle = bool(nodes) and all(is_capable(labels_of(node)) is False for node in nodes)
    for field, file in _FILES.items():
        path = manager.at(field, "name")
        consequence = "the MIG manager could cut no GPU"
        for found in check_object(change, path, "ConfigMap", consequence, [file]):
            yield replace(found, severity=Severity.WARN) if is_idle else found
    name = manager.text("config", "name")
    config_map = change.facts.operator_object("ConfigMap", name) if name else None
    configs = configs_of(config_map) if isinstance(config_map, dict) else None
    if configs and DEFAULT not in configs and manager.value("config", "default") in (None, DEFAULT):
        text = f'"{name}" has {quoted_names(sorted(configs))} and not {DEFAULT}, which nodes without a label get'
        remedy = f'add {DEFAULT} to ConfigMap "{name}", or write default: ""'
        severity = None if change.facts.applies_default_layout() else Severity.WARN
        yield Problem(manager.at("config", "name"), text, remedy, severity=severity)


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
    if not is_deployed(change.object, "migManager"):
        labelled = change.facts.nodes_with(MIG_CONFIG_LABEL)
        waiting = [node for node in labelled if labels_of(node)[MIG_CONFIG_LABEL] not in WHOLE]
        if waiting and change.text("mig", "strategy") in ("single", "mixed"):
            text = f"is false, so the label {MIG_CONFIG_LABEL} of {the_nodes(waiting)} has no effect"
            yield Problem(manager.at("enabled"), text)
        return
    nodes, name = change.facts.known_gpu_nodes(), manager.text("config", "name")
    if name and nodes and all(is_capable(labels_of(node)) is False for node in nodes):
        text = f'"{name}" is never read, because MIG cannot divide any GPU of {the_nodes(nodes)}'
        remedy = "remove it, or add nodes with GPUs such as A100, H100 or B200"
        yield Problem(manager.at("config", "name"), text, remedy, severity=Severity.AUDIT)
    for index, variable, value in manager.variables("env"):
        if variable == "WITH_REBOOT" and value not in ("true", "false"):
            is_meant = (value or "").lower() in ("1", "true", "yes", "on", "y", "t")
            text = f'is {shown(value or "")}, and only "true" lets the MIG manager reboot a node that needs it'
            yield Problem(manager.at("env", index, "value"), text, f'write "{str(is_meant).lower()}"')


@CLUSTER_POLICY.rule(
    "GA147",
    "The MIG strategy must suit the MIG configurations of the nodes",
    remedy="write strategy: mixed, and let pods request resources such as nvidia.com/mig-1g.10gb",
    source="github.com/NVIDIA/k8s-device-plugin internal/rm/device_map.go assertAllMigDevicesAreValid, "
    "buildMigDeviceMap, internal/lm/mig-strategy.go newMigStrategySingleLabeler; "
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
            yield Problem(path, text, remedy, severity=severity)
    elif strategy in ("", "none") and labelled:
        said = "is none" if strategy else "is not set"
        text = f"{said}, so the MIG devices that {MIG_CONFIG_LABEL} sets on {the_nodes(labelled)} are not advertised"
        remedy = "write strategy: single or strategy: mixed, or label the nodes all-disabled"
        yield Problem(path, text, remedy, severity=Severity.WARN)


def _unfit_configs(
    change: Change, labelled: list[Object], strategy: str
) -> dict[tuple[str, PluginRefusal], list[Object]]:
    """The nodes of each configuration at which the device plugin would exit, by its name and the reason."""
    config_map = change.text("migManager", "config", "name")
    found: dict[tuple[str, PluginRefusal], list[Object]] = {}
    for node in labelled:
        name, labels = labels_of(node)[MIG_CONFIG_LABEL], gpu_labels(node)
        selectable = configs_named(change.facts, config_map, name_of(node))
        if refusal := selectable.plugin_refusal(name, labels, strategy):
            found.setdefault((name, refusal), []).append(node)
    return found
