"""The registry of checks of a node, and which of its labels a change sets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.checks import Checks
from policies.decision import Severity
from policies.fleet.device_plugin import WORKLOAD_CONFIG
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.paths import FieldPath
from policies.nvidia.identifiers import MIG_CONFIG_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change
    from policies.decision import Finding
    from policies.request import UserInfo

__all__ = ["DEVICE_PLUGIN_CONFIG", "NODE", "RESERVED", "is_kubelet", "label_path", "newly_set"]

DEVICE_PLUGIN_CONFIG = "nvidia.com/device-plugin.config"
RESERVED = {
    "nvidia.com/gpu-operator.driver.owner": "says which NVIDIADriver a node belongs to",
    "nvidia.com/mig.config.state": "says how far the MIG manager is",
    "nvidia.com/vgpu.config.state": "says how far the vGPU device manager is",
}
"""Labels that the operator and its managers set, and what they say by them."""
_WATCHED = (MIG_CONFIG_LABEL, DEVICE_PLUGIN_CONFIG, WORKLOAD_CONFIG, *RESERVED)


def newly_set(change: Change, label: str) -> str:
    """The value that a change gives to a label; empty where it leaves or removes the label."""
    value = labels_of(change.object).get(label, "")
    return "" if labels_of(change.old or {}).get(label) == value else value


def is_kubelet(user: UserInfo) -> bool:
    """True for the kubelet of any node."""
    return user.username.startswith("system:node:")


def label_path(label: str) -> FieldPath:
    """Where a node's label is."""
    return FieldPath(["metadata", "labels", label])


class _NodeChecks(Checks["Change"]):
    """The checks of a node: only labels that a change sets are judged, so that a heartbeat costs nothing.

    What kubelets set for themselves is only warned about: a kubelet that may not register its node leaves the cluster.
    """

    def run(self, subject: Change) -> Iterator[Finding]:
        """Everything that the checks find."""
        before, after = labels_of(subject.old or {}), labels_of(subject.object)
        if subject.deleted or all(before.get(label) == after.get(label) for label in _WATCHED):
            return
        for finding in super().run(subject):
            lowered = is_kubelet(subject.user) and finding.severity is Severity.DENY
            yield replace(finding, severity=Severity.WARN) if lowered else finding


NODE = _NodeChecks(cluster_scoped=True)
