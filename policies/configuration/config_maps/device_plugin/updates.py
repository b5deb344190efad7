"""Updates: what becomes of a changed ConfigMap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.config_maps.device_plugin.configuration import texts
from policies.configuration.config_maps.device_plugin.documents import DEVICE_PLUGIN
from policies.configuration.config_maps.device_plugin.usage import (
    NODE_LABEL,
    default_key,
    is_governed,
    is_used,
)
from policies.configuration.usage import the_nodes
from policies.decision import Severity
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.paths import FieldPath

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change
    from policies.kubernetes.objects import Object

_DATA = FieldPath(["data"])
_DAEMON_SET = "daemonset/nvidia-device-plugin-daemonset"


@DEVICE_PLUGIN.rule(
    "GA144",
    "The device plugin must be able to find and read its ConfigMap",
    default=Severity.WARN,
    remedy="restart the device plugin after the change",
    source="docs.nvidia.com/datacenter/cloud-native/gpu-operator gpu-sharing; "
    "github.com/NVIDIA/k8s-device-plugin cmd/config-manager/main.go",
    rows=("G-02", "G-05", "G-27"),
)
def read_again(change: Change) -> Iterator[Problem]:
    """The operator does not watch this ConfigMap, and the config manager looks again only when a node's label changes.

    An edit therefore does nothing until the DaemonSet is restarted, or a node gets another key by its label. A key that
    the ClusterPolicy or a label names and that is missing makes the config manager exit on these nodes.
    """
    if not is_governed(change):
        return
    if change.created:
        yield from _missing(change)
    before, after = texts(change.old), texts(change.object)
    for key, text in after.items():
        if change.old is not None and key in before and before[key] != text and is_used(change, key):
            said = "is changed, and the device plugin reads it again only when it restarts"
            remedy = f"run kubectl rollout restart -n {change.namespace} {_DAEMON_SET} afterwards"
            yield problem(_DATA / key, said, remedy)


def _missing(change: Change) -> Iterator[Problem]:
    binary = change.object.get("binaryData")
    keys = {*texts(change.object), *(binary if isinstance(binary, dict) else ())}
    default = default_key(change)
    if not keys:
        return
    listed = ", ".join(f'"{key}"' for key in sorted(keys)[:5])
    exits = "the config manager would exit with: specified config"
    if default and default not in keys:
        text = f'has no "{default}", which spec.devicePlugin.config.default of the ClusterPolicy names; {exits}  does not exist'
        yield problem(_DATA, text, f'add "{default}", or name one of {listed} there')
    selected: dict[str, list[Object]] = {}
    for node in change.facts.nodes_with(NODE_LABEL):
        selected.setdefault(labels_of(node)[NODE_LABEL], []).append(node)
    for key, nodes in sorted(selected.items()):
        if key and key not in keys:
            text = f'has no "{key}", which the label {NODE_LABEL} of {the_nodes(nodes)} names; {exits} {key} does not exist'
            yield problem(_DATA, text, f'add "{key}", or label with one of {listed}')
