"""Labels of a node that steer the GPU Operator, and those that only the operator sets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.checks import Checks, Problem, problem
from policies.configuration.leniency import is_operator
from policies.decision import Severity
from policies.fleet.device_plugin import WORKLOAD_CONFIG, WORKLOADS
from policies.kubernetes.misspellings import closest
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.paths import FieldPath
from policies.nvidia.identifiers import MIG_CONFIG_LABEL, PLUGIN_CONFIG_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change
    from policies.decision import Finding
    from policies.request import UserInfo

__all__ = ["NODE", "RESERVED", "is_kubelet", "label_path", "newly_set"]

RESERVED = {
    "nvidia.com/gpu-operator.driver.owner": "says which NVIDIADriver a node belongs to",
    "nvidia.com/mig.config.state": "says how far the MIG manager is",
    "nvidia.com/vgpu.config.state": "says how far the vGPU device manager is",
}
"""Labels that the operator and its managers set, and what they say by them."""
_WATCHED = (MIG_CONFIG_LABEL, PLUGIN_CONFIG_LABEL, WORKLOAD_CONFIG, *RESERVED)


def newly_set(change: Change, label: str) -> str:
    """The new value of a label; empty if the change keeps or removes the label."""
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
        if subject.is_deleted or all(before.get(label) == after.get(label) for label in _WATCHED):
            return
        for finding in super().run(subject):
            lowered = is_kubelet(subject.user) and finding.severity is Severity.DENY
            yield replace(finding, severity=Severity.WARN) if lowered else finding


NODE = _NodeChecks("Node", cluster_scoped=True)


@NODE.rule(
    "GA157",
    "Labels of the operator must have values that it knows; labels that it sets must be left to it",
    default=Severity.DENY,
    remedy=f"write one of {', '.join(WORKLOADS)}",
    source="github.com/NVIDIA/gpu-operator controllers/state_manager.go getWorkloadConfig, internal/nvidiadriver",
    rows=("J-14",),
)
def known_values(change: Change) -> Iterator[Problem]:
    """With an unknown workload the node gets the default one, which only a log shows.

    Labels by which the operator and its managers keep their own account are overwritten, or believed: a node with
    another owner gets another driver. A node for vGPUs needs the vGPU Manager.
    """
    workload = newly_set(change, WORKLOAD_CONFIG)
    if workload and workload not in WORKLOADS:
        default = change.facts.policy_value("sandboxWorkloads", "defaultWorkload")
        applied = default if isinstance(default, str) and default else "the default"
        guess = closest(workload, WORKLOADS)
        text = f'"{workload}" is not a workload that the operator knows; {applied} would apply, and only its log tells'
        yield problem(label_path(WORKLOAD_CONFIG), text, f'write "{guess}"' if guess else None)
    if workload == "vm-vgpu" and _lacks_vgpu_manager(change):
        text = '"vm-vgpu" needs the vGPU Manager, which the ClusterPolicy does not enable; the node would get no driver'
        remedy = "enable vgpuManager in the ClusterPolicy with repository, image and version first"
        yield problem(label_path(WORKLOAD_CONFIG), text, remedy, severity=Severity.WARN)
    if change.old is None or is_kubelet(change.user) or is_operator(change.user, change.facts.operator_namespaces):
        return
    before, after = labels_of(change.old), labels_of(change.object)
    for label, meaning in RESERVED.items():
        if label in after and before.get(label) != after[label]:
            text = f"{meaning} and is the operator's to set; it would be overwritten, or believed"
            yield problem(label_path(label), text, "leave it as it is", severity=Severity.WARN)


def _lacks_vgpu_manager(change: Change) -> bool:
    """True if sandbox workloads are enabled, and neither the policy nor NVIDIADrivers manage vGPUs."""
    value = change.facts.policy_value
    return (
        value("sandboxWorkloads", "enabled") is True
        and value("vgpuManager", "enabled") is not True
        and value("driver", "useNvidiaDriverCRD") is not True
    )
