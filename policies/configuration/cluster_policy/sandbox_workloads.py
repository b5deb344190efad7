"""Sandbox workloads: KubeVirt and Kata virtual machines that get whole GPUs or vGPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.checks import CLUSTER_POLICY
from policies.configuration.usage import counted_names, quoted_names, the_nodes
from policies.decision import Severity
from policies.fleet.device_plugin import WORKLOAD_CONFIG, WORKLOADS, node_workload
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import Object, name_of
from policies.nvidia.identifiers import FAMILY_LABEL, MIG_CONFIG_LABEL
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

__all__ = ["mode_of", "runs_sandboxes"]

_COMPONENTS = (
    "vgpuManager",
    "vfioManager",
    "vgpuDeviceManager",
    "sandboxDevicePlugin",
    "kataSandboxDevicePlugin",
    "ccManager",
)
_CHART = ("vfioManager", "vgpuDeviceManager", "sandboxDevicePlugin", "kataSandboxDevicePlugin", "ccManager")
"""What the Helm chart and OpenShift's console enable in every ClusterPolicy, as a default for when it is needed."""


_VGPU_MANAGER = "write vgpuManager.enabled: true with repository, image and version"


def runs_sandboxes(change: Change) -> bool:
    """Whether the object is to run sandbox workloads; never while it is deleted."""
    return change.flag("sandboxWorkloads", "enabled")


def mode_of(change: Change) -> str:
    """The kind of machines: `kubevirt`, which is the default, or `kata`."""
    return change.text("sandboxWorkloads", "mode") or "kubevirt"


def _is_enabled(change: Change, component: str) -> bool:
    return change.flag(component, "enabled")


@CLUSTER_POLICY.rule(
    "GA186",
    "Components of sandbox workloads must be enabled together with sandbox workloads",
    default=Severity.WARN,
    remedy="write sandboxWorkloads.enabled: true, or remove it",
    source="github.com/NVIDIA/gpu-operator controllers/state_manager.go isStateEnabled",
    rows=("J-01", "J-04"),
)
def sandbox_enabled(change: Change) -> Iterator[Problem]:
    """Without `sandboxWorkloads.enabled` none of these components is ever deployed, and every node runs containers.

    Nothing changes in the cluster, so this only warns. The Helm chart enables most of them in advance; several of those
    together are not reported.
    """
    if runs_sandboxes(change):
        return
    from_chart = sum(_is_enabled(change, component) for component in _CHART) > 1
    for component in _COMPONENTS:
        if _is_enabled(change, component) and not (from_chart and component in _CHART):
            text = "is true, but the operator never deploys it while sandboxWorkloads.enabled is not true"
            yield problem(change.at(component, "enabled"), text)
    for field, usual in (("defaultWorkload", "container"), ("mode", "kubevirt")):
        value = change.text("sandboxWorkloads", field)
        if value not in ("", usual):
            text = f'"{value}" has no effect, because sandboxWorkloads.enabled is not true; every node runs containers'
            remedy = "remove it, or enable sandboxWorkloads and the components that serve machines"
            yield problem(change.at("sandboxWorkloads", field), text, remedy)


@CLUSTER_POLICY.rule(
    "GA187",
    "Components of sandbox workloads must fit the mode",
    default=Severity.DENY,
    remedy="enable the device plugin of the mode",
    source="github.com/NVIDIA/gpu-operator controllers/state_manager.go isStateEnabled, docs deploy-kata-containers",
    rows=("J-02", "J-03", "J-07"),
)
def components_fit_mode(change: Change) -> Iterator[Problem]:
    """Each mode has its own device plugin, the other one's is not deployed, and no GPU is offered to any machine.

    Confidential computing is only managed for Kata, and Kata cannot use vGPUs. With both device plugins enabled, as the
    Helm chart has them, the right one runs.
    """
    if not runs_sandboxes(change):
        return
    mode = mode_of(change)
    plugins = {"kubevirt": "sandboxDevicePlugin", "kata": "kataSandboxDevicePlugin"}
    own = plugins.pop(mode, None)
    if own is None:
        return
    (other,) = plugins.values()
    if _is_enabled(change, other) and not _is_enabled(change, own):
        text = f"is true, but with mode: {mode} the operator deploys {own} instead, which is not enabled"
        yield problem(change.at(other, "enabled"), text, f"write {own}.enabled: true, or another mode")
    if mode == "kubevirt" and _is_enabled(change, "ccManager") and not _is_enabled(change, other):
        text = "is true, but the operator deploys it only with mode: kata"
        yield problem(change.at("ccManager", "enabled"), text, "write sandboxWorkloads.mode: kata, or disable it")
    if mode == "kata" and change.text("sandboxWorkloads", "defaultWorkload") == "vm-vgpu":
        text = '"vm-vgpu" cannot be: Kata machines get whole GPUs, and vGPU is not supported with mode: kata'
        remedy = 'write "vm-passthrough", or mode: kubevirt'
        yield problem(change.at("sandboxWorkloads", "defaultWorkload"), text, remedy)


@CLUSTER_POLICY.rule(
    "GA188",
    "The default workload must have the components that it needs",
    default=Severity.DENY,
    remedy="enable the component",
    source="docs gpu-operator-kubevirt",
    rows=("J-05", "J-06", "S-29"),
)
def default_workload_served(change: Change) -> Iterator[Problem]:
    """A GPU goes to a machine only after vfio-pci has it, and a vGPU exists only with a vGPU Manager on the host.

    Both components are off unless they are enabled, which `sandboxWorkloads.enabled` does not do by itself; the Helm
    chart does, but not in a ClusterPolicy written by hand.
    """
    if not runs_sandboxes(change):
        return
    workload = change.text("sandboxWorkloads", "defaultWorkload")
    path = change.at("sandboxWorkloads", "defaultWorkload")
    has_vfio = _is_enabled(change, "vfioManager")
    if workload == "vm-passthrough" and not has_vfio:
        plugin = "kataSandboxDevicePlugin" if mode_of(change) == "kata" else "sandboxDevicePlugin"
        text = '"vm-passthrough" needs vfioManager, which is not enabled; nothing binds the GPUs to vfio-pci'
        yield problem(path, text, f"write vfioManager.enabled: true and {plugin}.enabled: true")
    elif workload == "vm-vgpu" and mode_of(change) == "kubevirt":
        yield from _host_driver(change)
        return
    yield from _labelled_for_vgpu(change)
    if workload in ("", "container"):
        labelled = [name_of(node) for node in change.facts.nodes_with(WORKLOAD_CONFIG, "vm-passthrough")]
        if labelled and not has_vfio:
            yield _needed("vfioManager", labelled, "write vfioManager.enabled: true", change)
        elif not any(_is_enabled(change, component) for component in _COMPONENTS):
            text = "is true, but no component that serves machines is enabled"
            remedy = "write vfioManager.enabled: true and sandboxDevicePlugin.enabled: true for whole GPUs"
            yield problem(change.at("sandboxWorkloads", "enabled"), text, remedy, severity=Severity.WARN)


def _labelled_for_vgpu(change: Change) -> Iterator[Problem]:
    """Nodes that their label makes hosts of vGPUs, while nothing brings the vGPU Manager."""
    labelled = [name_of(node) for node in change.facts.nodes_with(WORKLOAD_CONFIG, "vm-vgpu")]
    if labelled and not _is_enabled(change, "vgpuManager") and not change.flag("driver", "useNvidiaDriverCRD"):
        remedy = f"{_VGPU_MANAGER}, or label them {WORKLOAD_CONFIG}: vm-passthrough"
        yield _needed("vgpuManager", labelled, remedy, change)


def _needed(component: str, nodes: list[str], remedy: str, change: Change) -> Problem:
    need = "needs" if len(nodes) == 1 else "need"
    text = f"is true, but {component} is not enabled, and {counted_names('node', nodes)} {need} it"
    return problem(change.at("sandboxWorkloads", "enabled"), text, remedy, severity=Severity.WARN)


def _host_driver(change: Change) -> Iterator[Problem]:
    """`vm-vgpu` without the vGPU Manager, which the host or an NVIDIADriver may bring as well."""
    if _is_enabled(change, "vgpuManager") or change.flag("driver", "useNvidiaDriverCRD"):
        return
    path = change.at("sandboxWorkloads", "defaultWorkload")
    remedy = _VGPU_MANAGER
    if _is_enabled(change, "vgpuDeviceManager"):
        text = '"vm-vgpu" without vgpuManager works only on hosts where a vGPU Manager is installed already'
        yield problem(path, text, remedy, severity=Severity.WARN)
    else:
        text = '"vm-vgpu" needs vgpuManager, which is not enabled; the hosts get no vGPU driver'
        yield problem(path, text, remedy)


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
        values = quoted_names(sorted({labels_of(node)[WORKLOAD_CONFIG] for node in mislabelled}))
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
        text = f"needs GPUs of Hopper or later, and {_named(nodes)} have only {quoted_names(sorted({str(f) for f in families}))}"
        text = text.replace(" have only ", " has only ") if len(nodes) == 1 else text
        yield problem(change.at("ccManager", "enabled"), text, 'disable it, or write defaultMode: "off"')


def _named(nodes: list[Object]) -> str:
    return the_nodes(nodes, "GPU node")


def _is_cut(node: Object) -> bool:
    return labels_of(node).get(MIG_CONFIG_LABEL, "") not in _WHOLE


def _wants_confidence(change: Change) -> bool:
    return change.value("ccManager", "defaultMode") not in ("off", False)
