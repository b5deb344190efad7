"""Configurations that labels name: of the MIG manager, and of the device plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.named_objects import quoted_names
from policies.configuration.nodes.labels import NODE, label_path, newly_set
from policies.configuration.operator_objects import data_keys
from policies.configuration.selectable_configs import selectable_configs
from policies.decision import Severity
from policies.kubernetes.misspellings import closest, write_closest
from policies.kubernetes.names import is_label_value
from policies.nvidia.identifiers import MIG_CONFIG_LABEL, PLUGIN_CONFIG_LABEL
from policies.nvidia.mig_products import shipped_configs
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from policies.configuration.change import Change

_FAILED = "nvidia.com/mig.config.state would become failed"


@NODE.rule(
    "GA154",
    "Labels of a node must name configurations that exist",
    default=Severity.DENY,
    remedy="write the name of a configuration that exists",
    source="github.com/NVIDIA/k8s-device-plugin cmd/config-manager/main.go; "
    "github.com/NVIDIA/mig-parted deployments/systemd/config-default.yaml; docs gpu-operator-mig",
    rows=("A-04", "G-05", "H-07", "S-51"),
)
def existing_configs(change: Change) -> Iterator[Problem]:
    """The label's value is a name inside a ConfigMap, not the name of the ConfigMap.

    For `nvidia.com/device-plugin.config` it is a key of `data`; with another value the device plugin and GPU Feature
    Discovery crash-loop on that node. For `nvidia.com/mig.config` it is a name under `mig-configs`, and no list of
    profiles; with another value the GPUs stay as they are, and the state becomes `failed`.
    """
    if mig_config := newly_set(change, MIG_CONFIG_LABEL):
        yield from _mig_config(change, mig_config)
    if key := newly_set(change, PLUGIN_CONFIG_LABEL):
        yield from _device_plugin_config(change, key)


def _mig_config(change: Change, value: str) -> Iterator[Problem]:
    path = label_path(MIG_CONFIG_LABEL)
    known = selectable_configs(change.facts, change.name)
    if not is_label_value(value):
        text = f'"{value}" cannot be the value of a label, and is to be the name of a configuration'
        yield problem(path, text, "define a configuration in a mig-parted ConfigMap and write its name")
        return
    if value in known.names:
        return
    if known.config_map and value == known.config_map:
        text = f'"{value}" is the name of the ConfigMap itself{_has(known.names)}; {_FAILED}'
        severity = Severity.WARN if known.missing else None
        yield problem(path, text, _among(value, known.names), severity=severity)
    elif known.config_map and not known.missing:
        text = f'"{value}" is not a configuration of the ConfigMap "{known.config_map}"{_has(known.names)}; {_FAILED}'
        yield problem(path, text, _among(value, known.names))
    elif known.config_map:
        if value not in shipped_configs():
            text = f'"{value}" is not a configuration that the operator brings, and {known.missing}; {_FAILED}'
            yield problem(path, text, severity=Severity.WARN)
    else:
        yield _not_shipped(change, value)


def _not_shipped(change: Change, value: str) -> Problem:
    """The problem of a name that the operator does not ship, if no custom ConfigMap is known."""
    known = selectable_configs(change.facts, change.name)
    path = label_path(MIG_CONFIG_LABEL)
    if not known.missing:
        text = f'"{value}" is not a configuration that the MIG manager made for this node{_has(known.names)}; {_FAILED}'
        return problem(path, text, _among(value, known.names))
    has_policy = isinstance(change.facts.cluster_policy(), dict)
    certain = has_policy and not value.startswith("all-")
    text = f'"{value}" is not a configuration that the operator brings'
    if certain:
        text += f", and the ClusterPolicy names no ConfigMap in migManager.config.name; {_FAILED}"
    else:
        text += f", and {known.missing}"
    guess = closest(value, known.names)
    remedy = f'write "{guess}"' if guess else "define it in a mig-parted ConfigMap that migManager.config.name names"
    return problem(path, text, remedy, severity=None if certain else Severity.WARN)


def _device_plugin_config(change: Change, value: str) -> Iterator[Problem]:
    if not isinstance(change.facts.cluster_policy(), dict):
        return
    path = label_path(PLUGIN_CONFIG_LABEL)
    name = change.facts.policy_value("devicePlugin", "config", "name")
    if not isinstance(name, str) or not name:
        text = f'"{value}" is never read, because the ClusterPolicy names no ConfigMap in devicePlugin.config.name'
        yield problem(path, text, "name a ConfigMap in the ClusterPolicy first", severity=Severity.WARN)
        return
    config_map = change.facts.operator_object("ConfigMap", name)
    if not isinstance(config_map, dict):
        said = "is not known here" if config_map is UNKNOWN else "does not exist"
        if config_map is None or value == name:
            text = f'"{value}" must be a key of the ConfigMap "{name}", which {said}'
            yield problem(path, text, "write one of its keys", severity=Severity.WARN)
        return
    keys = data_keys(config_map)
    if value not in keys:
        what = "the name of the ConfigMap itself" if value == name else f'not a key of the ConfigMap "{name}"'
        error = f"the device plugin would exit with: specified config {value} does not exist"
        yield problem(path, f'"{value}" is {what}{_has(keys)}; {error}', _among(value, keys))


def _has(names: Collection[str]) -> str:
    """The names that exist, custom ones first."""
    return (
        f", which has {quoted_names(sorted(names, key=lambda name: (name.startswith('all-'), name)))}" if names else ""
    )


def _among(value: str, names: Collection[str]) -> str:
    return write_closest(value, names, "write one of these" if names else "add it to the ConfigMap first")
