"""Nodes with sandbox workloads: their label, their GPUs, their MIG configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.cluster_policy.checks import CLUSTER_POLICY
from policies.configuration.cluster_policy.sandbox import mode_of, runs_sandboxes
from policies.configuration.usage import counted, listed
from policies.decision import Severity
from policies.fleet.device_plugin import WORKLOAD_CONFIG, WORKLOADS, node_workload
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import Object, name_of
from policies.nvidia.identifiers import FAMILY_LABEL, MIG_CONFIG_LABEL
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

_CONFIDENTIAL = ("hopper", "blackwell")
_WHOLE = ("", "all-disabled")
"""Values of `nvidia.com/mig.config` that do not cut GPUs."""


@CLUSTER_POLICY.rule(
    "GA191",
    "Nodes must be able to run the sandbox workloads that they are for",
    default=Severity.WARN,
    remedy="label the nodes with the workload that they are for",
    source="github.com/NVIDIA/gpu-operator controllers/state_manager.go getWorkloadConfig, docs gpu-operator-kubevirt",
    rows=("J-12", "J-14", "J-17"),
)
def nodes_fit_workloads(change: Change) -> Iterator[Problem]:
    """A node has one kind of workload, by its label `nvidia.com/gpu.workload.config` or else by the default.

    A label that is none of the three is only logged, and the default applies. A GPU that a machine gets whole cannot be
    cut by MIG, and only Hopper and later can do confidential computing.
    """
    nodes = change.facts.gpu_nodes()
    if not runs_sandboxes(change) or nodes is UNKNOWN or not nodes:
        return
    default = change.text("sandboxWorkloads", "defaultWorkload") or "container"
    path = change.at("sandboxWorkloads", "defaultWorkload")
    mislabelled = [node for node in nodes if labels_of(node).get(WORKLOAD_CONFIG, "container") not in WORKLOADS]
    if mislabelled:
        values = listed(sorted({labels_of(node)[WORKLOAD_CONFIG] for node in mislabelled}))
        text = f'"{default}" applies to {_named(mislabelled)}, whose label {WORKLOAD_CONFIG} is {values}, which is no workload'
        yield problem(path, text, f"label them with one of {', '.join(WORKLOADS)}")
    cut = [
        node for node in nodes if node_workload(labels_of(node), change.object) == "vm-passthrough" and _is_cut(node)
    ]
    if cut:
        text = f"vm-passthrough hands out whole GPUs, but {_named(cut)} are to be cut by nvidia.com/mig.config"
        text = text.replace(" are to be ", " is to be ") if len(cut) == 1 else text
        remedy = f"label them {WORKLOAD_CONFIG}: container, or nvidia.com/mig.config: all-disabled"
        yield problem(path if default == "vm-passthrough" else change.at("sandboxWorkloads", "enabled"), text, remedy)
    families = [labels_of(node).get(FAMILY_LABEL) for node in nodes]
    manages = mode_of(change) == "kata" and change.flag("ccManager", "enabled") and _wants_confidence(change)
    if manages and all(families) and not any(family in _CONFIDENTIAL for family in families):
        text = (
            f"needs GPUs of Hopper or later, and {_named(nodes)} have only {listed(sorted({str(f) for f in families}))}"
        )
        text = text.replace(" have only ", " has only ") if len(nodes) == 1 else text
        yield problem(change.at("ccManager", "enabled"), text, 'disable it, or write defaultMode: "off"')


def _named(nodes: list[Object]) -> str:
    return counted(len(nodes), "GPU node", listed([name_of(node) for node in nodes]))


def _is_cut(node: Object) -> bool:
    return labels_of(node).get(MIG_CONFIG_LABEL, "") not in _WHOLE


def _wants_confidence(change: Change) -> bool:
    return change.value("ccManager", "defaultMode") not in ("off", False)
