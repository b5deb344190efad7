"""Workloads that a node is for, and labels that only the operator sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.leniency import is_operator
from policies.configuration.nodes.checks import NODE, RESERVED, is_kubelet, label_path, newly_set
from policies.decision import Severity
from policies.fleet.device_plugin import WORKLOAD_CONFIG, WORKLOADS
from policies.kubernetes.misspellings import closest
from policies.kubernetes.nodes import labels_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change


@NODE.rule(
    "GA157",
    "Labels of the operator must have values that it knows; labels that it sets must be left to it",
    default=Severity.DENY,
    remedy=f"write one of {', '.join(WORKLOADS)}",
    source="github.com/NVIDIA/gpu-operator controllers/state_manager.go getWorkloadConfig, internal/nvidiadriver",
    rows=("J-14",),
)
def known_values(change: Change) -> Iterator[Problem]:
    """With a workload that the operator does not know, the node gets the default one, and only a log tells.

    Labels by which the operator and its managers keep their own account are overwritten, or believed: a node with
    somebody else's owner gets another driver. A node for vGPUs needs the vGPU Manager.
    """
    workload = newly_set(change, WORKLOAD_CONFIG)
    if workload and workload not in WORKLOADS:
        default = change.facts.policy_value("sandboxWorkloads", "defaultWorkload")
        applied = default if isinstance(default, str) and default else "the default"
        guess = closest(workload, WORKLOADS)
        text = f'"{workload}" is no workload that the operator knows; {applied} would apply, and only its log tells'
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
    """True if a ClusterPolicy with sandbox workloads is known, and neither it nor an NVIDIADriver brings the vGPU Manager."""
    value = change.facts.policy_value
    return (
        value("sandboxWorkloads", "enabled") is True
        and value("vgpuManager", "enabled") is not True
        and value("driver", "useNvidiaDriverCRD") is not True
    )
