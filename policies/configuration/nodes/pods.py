"""Pods on a node that hold its GPUs while somebody changes what the GPUs are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.nodes.checks import NODE, label_path, newly_set
from policies.configuration.usage import counted, gpu_pods, listed
from policies.decision import Severity
from policies.fleet.device_plugin import WORKLOAD_CONFIG
from policies.kubernetes.paths import lookup
from policies.nvidia.identifiers import MIG_CONFIG_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

_EFFECTS = {
    MIG_CONFIG_LABEL: "cuts GPUs anew, which fails while they are in use",
    WORKLOAD_CONFIG: "takes driver and device plugin of the present workload from the node",
}


@NODE.rule(
    "GA156",
    "The GPUs of a node must not be reconfigured while pods hold them",
    default=Severity.WARN,
    remedy="drain the node first",
    source="docs gpu-operator-mig, gpu-operator-kubevirt; github.com/NVIDIA/mig-parted deployments/container",
)
def unused_gpus(change: Change) -> Iterator[Problem]:
    """The MIG manager stops the operator's own pods before it cuts, and no others.

    With pods on the GPUs it fails, or the pods go on with devices that are no longer there. The same holds where a node
    turns from containers to virtual machines, for the driver goes.
    """
    if change.old is None:
        return
    for label, effect in _EFFECTS.items():
        value = newly_set(change, label)
        pods = (
            gpu_pods((pod for pod in change.facts.known("Pod") if _is_on(pod, change.name)), change.facts.view)
            if value
            else []
        )
        if pods:
            text = f'"{value}" {effect}; GPUs of this node are held by {counted(len(pods), "pod", listed(pods))}'
            yield problem(label_path(label), text)


def _is_on(pod: object, node: str) -> bool:
    return bool(node) and lookup(pod, ("spec", "nodeName")) == node
