"""Device plugin: `spec.devicePlugin` and the ConfigMap that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.configuration.cluster_policy.checks import CLUSTER_POLICY
from policies.configuration.config_maps.device_plugin.usage import NODE_LABEL
from policies.configuration.usage import listed, the_nodes
from policies.decision import Severity
from policies.kubernetes.misspellings import closest
from policies.kubernetes.names import is_dns_label
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change
    from policies.kubernetes.objects import Object
    from policies.view import Unknown

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
