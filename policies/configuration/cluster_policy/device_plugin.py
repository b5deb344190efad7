"""The device plugin: its ConfigMap, its arguments, and the DRA driver beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.configuration.checks import CLUSTER_POLICY
from policies.configuration.config_maps.device_plugin.configuration import configurations
from policies.configuration.config_maps.device_plugin.grammar import STRATEGIES
from policies.configuration.config_maps.device_plugin.usage import NODE_LABEL
from policies.configuration.usage import listed, the_nodes
from policies.decision import Severity
from policies.dra.published_devices import gpu_groups
from policies.fleet.device_plugin import runs_device_plugin
from policies.kubernetes.misspellings import closest
from policies.kubernetes.names import is_dns_label
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.printable import shown
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change
    from policies.configuration.config_maps.device_plugin.configuration import Configuration
    from policies.kubernetes.objects import Object
    from policies.view import ClusterView, Unknown

__all__ = ["config_map", "reads_config_map"]

_CONFIG = ("devicePlugin", "config")
_VOLUMES = frozenset(
    {
        *("config", "nvidia-device-plugin-entrypoint", "device-plugin", "run-nvidia-validations"),
        *("driver-install-dir", "host-root", "cdi-root", "mps-root", "mps-shm"),
    }
)
"""The volumes of the device plugin's DaemonSet; the ConfigMap's becomes another, named after the ConfigMap."""


def reads_config_map(change: Change) -> bool:
    """Whether a ClusterPolicy deploys something that reads the device plugin's ConfigMap, and names one."""
    enabled = any(change.flag(component, "enabled", default=True) for component in ("devicePlugin", "gfd"))
    return enabled and not change.deleted and change.text(*_CONFIG, "name") != ""


def config_map(change: Change) -> Object | Unknown | None:
    """The device plugin's ConfigMap; None only where it certainly does not exist."""
    return change.facts.operator_object("ConfigMap", change.text(*_CONFIG, "name"))


@CLUSTER_POLICY.rule(
    "GA130",
    "The ConfigMap of the device plugin must exist and be mountable",
    default=Severity.DENY,
    remedy="create the ConfigMap in the operator's namespace first",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go handleDevicePluginConfig, issue 412",
    rows=("G-01", "G-06"),
)
def mountable_config_map(change: Change) -> Iterator[Problem]:
    """A ClusterPolicy has no namespace; the operator looks for the ConfigMap in its own, and mounts it from there.

    Without it the pods of the device plugin, of GPU Feature Discovery and of the MPS daemon stay in ContainerCreating,
    on every node. The volume is named after the ConfigMap, so a name that is none for a volume, or that the DaemonSet
    has already, keeps the operator from updating the DaemonSet.
    """
    if not reads_config_map(change):
        return
    path, name = change.at(*_CONFIG, "name"), change.text(*_CONFIG, "name")
    if name in _VOLUMES:
        text = (
            f'"{name}" is also a volume of the device plugin\'s DaemonSet; the operator would report: Duplicate value'
        )
        yield problem(path, f'{text}: "{name}"', 'rename the ConfigMap, for example to "device-plugin-config"')
    elif not is_dns_label(name):
        text = f'"{name}" cannot name a volume, and the operator mounts the ConfigMap as a volume of its name'
        yield problem(path, text, "rename the ConfigMap to at most 63 lower-case letters, digits and dashes")
    elif config_map(change) is None:
        yield from _missing(change, name)


def _missing(change: Change, name: str) -> Iterator[Problem]:
    namespaces = change.facts.operator_namespaces
    where = " or ".join(namespaces)
    text = f'there is no ConfigMap "{name}" in {where}; the device plugin\'s pods would stay in ContainerCreating'
    others = [document for document in change.facts.known("ConfigMap") if namespace_of(document) in namespaces]
    elsewhere = sorted(
        namespace_of(document) for document in change.facts.known("ConfigMap") if name_of(document) == name
    )
    guess = closest(name, [name_of(document) for document in others])
    if elsewhere:
        text = f"{text}; there is one in {elsewhere[0] or 'default'}, where the operator does not look"
        yield problem(
            change.at(*_CONFIG, "name"), text, f"create it in the operator's namespace, such as {namespaces[0]}"
        )
    else:
        yield problem(change.at(*_CONFIG, "name"), text, f'write "{guess}"' if guess else None)


@CLUSTER_POLICY.rule(
    "GA131",
    "A selected device-plugin configuration must be a key of the ConfigMap",
    default=Severity.DENY,
    remedy="write a key of the ConfigMap",
    source="github.com/NVIDIA/k8s-device-plugin cmd/config-manager/main.go",
    rows=("G-02", "G-03", "G-04", "G-05", "S-03"),
)
def selected_keys(change: Change) -> Iterator[Problem]:
    """A configuration is chosen by its key: by a node's label, or else by config.default; the two names get mixed up.

    Where the key is missing, the config manager exits again and again, and the node has no device plugin. Without a
    default, nodes without the label get an empty configuration, which hands out whole GPUs and says nothing.
    """
    default = change.text(*_CONFIG, "default")
    if default and not change.deleted and not change.text(*_CONFIG, "name"):
        text = f'is "{default}", a key of no ConfigMap, because config.name is empty; the operator ignores both'
        yield problem(change.at(*_CONFIG, "default"), text, "write config.name, the name of the ConfigMap")
    if not reads_config_map(change):
        return
    document = config_map(change)
    if isinstance(document, dict):
        yield from _missing_keys(change, default, _keys(document))
    if not default:
        yield from _without_default(change, _keys(document) if isinstance(document, dict) else [])


def _keys(document: Object) -> list[str]:
    return [key for field in ("data", "binaryData") for key in _mapping(document.get(field))]


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _missing_keys(change: Change, default: str, keys: list[str]) -> Iterator[Problem]:
    name = change.text(*_CONFIG, "name")
    there_are = f"it has {listed(keys)}" if keys else "it has none"
    if default and default not in keys:
        text = (
            f'"{default}" is no key of ConfigMap "{name}"; {there_are}; the config manager would exit with: specified'
        )
        guess = closest(default, keys) or (keys[0] if len(keys) == 1 else None)
        remedy = f'write "{guess}"' if guess else None
        yield problem(change.at(*_CONFIG, "default"), f"{text} config  does not exist", remedy)
    for key in sorted({labels_of(node)[NODE_LABEL] for node in change.facts.nodes_with(NODE_LABEL)}):
        if key and key not in keys:
            nodes = the_nodes(change.facts.nodes_with(NODE_LABEL, key))
            text = (
                f'ConfigMap "{name}" has no key "{key}", which the label {NODE_LABEL} of {nodes} names; '
                f"the config manager would exit there with: specified config {key} does not exist"
            )
            remedy = f'add "{key}" to the ConfigMap, or label with a key that there is'
            yield problem(change.at(*_CONFIG, "name"), text, remedy, severity=Severity.WARN)


def _without_default(change: Change, keys: list[str]) -> Iterator[Problem]:
    """Nodes may all be meant to be labelled, and some to be left alone; none with a label is another matter."""
    nodes = change.facts.known_gpu_nodes()
    bare = [node for node in nodes if not labels_of(node).get(NODE_LABEL)]
    if not bare:
        return
    text = f"is empty, and {the_nodes(bare)} without the label {NODE_LABEL} would get an empty configuration"
    key = f"write default: {keys[0]}" if len(keys) == 1 else f"set default to one of {listed(keys)}" if keys else ""
    remedy = f"{key or 'set default to a key of the ConfigMap'}, or label the nodes with {NODE_LABEL}"
    severity = Severity.WARN if len(bare) == len(nodes) else Severity.AUDIT
    yield problem(change.at(*_CONFIG, "default"), text, remedy, severity=severity)


_MIG_STRATEGY = "migstrategy"


@CLUSTER_POLICY.rule(
    "GA143",
    "The ClusterPolicy and the ConfigMap of the device plugin must agree",
    default=Severity.DENY,
    remedy="change one of them",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go; "
    "github.com/NVIDIA/k8s-device-plugin api/config/v1/flags.go, cmd/nvidia-device-plugin/main.go",
    rows=("G-12", "G-21", "G-28"),
)
def agreeing_settings(change: Change) -> Iterator[Problem]:
    """The operator hands spec.mig.strategy and args to the device plugin, and both win over the file.

    A strategy that a file was not written for gives other resources than pods ask for, and mixed with MPS keeps the
    plugin from starting. An argument silently undoes what every configuration says of the same setting.
    """
    if change.deleted:
        return
    arguments = _arguments(change.items("devicePlugin", "args"))
    strategy = change.text("mig", "strategy")
    index, value = arguments.get(_MIG_STRATEGY, (0, ""))
    if strategy and value and value != strategy:
        text = f"sets the MIG strategy {value}, and spec.mig.strategy is {strategy}; GPU Feature Discovery uses that"
        remedy = "remove it, and write spec.mig.strategy"
        yield problem(change.at("devicePlugin", "args", index), text, remedy, severity=Severity.WARN)
    document = config_map(change) if reads_config_map(change) else None
    if not isinstance(document, dict):
        return
    for configuration in configurations(replace(change, object=document, old=None, kind="ConfigMap")):
        yield from _of_strategy(change, configuration, strategy)
        yield from _of_arguments(change, configuration, arguments)


def _of_strategy(change: Change, configuration: Configuration, strategy: str) -> Iterator[Problem]:
    path = change.at("mig", "strategy")
    name = change.text("devicePlugin", "config", "name")
    where = f'"{configuration.key}" of ConfigMap "{name}"'
    of_file = configuration.mig_strategy
    if strategy == "mixed" and configuration.strategy("mps") is not None:
        text = f"is mixed, and {where} shares GPUs by mps; the device plugin would exit with: using"
        yield problem(path, f"{text} --mig-strategy=mixed is not supported with MPS", "write single or none")
    # A configuration for nodes without MIG says none, and is right whatever the strategy is.
    elif strategy and of_file in STRATEGIES and of_file not in (strategy, "none"):
        text = f"is {strategy}, and {where} says migStrategy: {of_file}, which it overrides"
        yield problem(path, text, f"write {of_file}, or remove migStrategy there")


def _of_arguments(
    change: Change, configuration: Configuration, arguments: dict[str, tuple[int, str]]
) -> Iterator[Problem]:
    name = change.text("devicePlugin", "config", "name")
    for parent in (("flags",), ("flags", "plugin")):
        fields = configuration.get(*parent)
        for field, value in fields.items() if isinstance(fields, dict) else ():
            index, argument = arguments.get(field.lower(), (0, None))
            if argument is not None and not isinstance(value, dict | list | None) and argument != _text(value):
                text = (
                    f'overrides {field}: {shown(value)} in "{configuration.key}" of ConfigMap "{name}", because the '
                    "command line wins over the file"
                )
                path = change.at("devicePlugin", "args", index)
                yield problem(path, text, "say it in one place only", severity=Severity.WARN)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


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
    default=Severity.DENY,
    remedy='write devicePlugin.enabled: false, or label nodes of DRA nvidia.com/gpu.deploy.device-plugin: "false"',
    source="github.com/NVIDIA/gpu-operator pull 1541; github.com/kubernetes-sigs/dra-driver-nvidia-gpu",
    rows=("G-26", "S-06"),
)
def one_way_to_a_gpu(change: Change) -> Iterator[Problem]:
    """The device plugin and the DRA driver do not know of each other: both hand out every GPU of a node they run on.

    Two pods then share a GPU that each believes to have alone, and the second to allocate memory fails. Refused is the
    change that turns the device plugin on; where it is on already, this only warns.
    """
    if change.deleted:
        return
    by_dra = _nodes_of_driver(change.facts.view)
    nodes = [
        node
        for node in change.facts.known("Node")
        if name_of(node) in by_dra and runs_device_plugin(node, change.facts.view, change.object)
    ]
    if nodes:
        hand_out = "hands out its GPUs" if len(nodes) == 1 else "hand out their GPUs"
        text = f"is true, and {the_nodes(nodes)} {hand_out} by DRA (gpu.nvidia.com) already; two pods could get one GPU"
        was_on = not change.created and change.before("devicePlugin", "enabled") is not False
        severity = Severity.WARN if was_on else None
        yield problem(change.at("devicePlugin", "enabled"), text, severity=severity)


def _nodes_of_driver(view: ClusterView) -> frozenset[str]:
    """The nodes whose GPUs or MIG devices NVIDIA's DRA driver publishes; empty if ResourceSlices are unknown."""
    groups = gpu_groups(view)
    return frozenset(
        node
        for group in (() if groups is UNKNOWN else groups)
        if group.type in ("gpu", "mig")
        for node in group.by_node
    )
