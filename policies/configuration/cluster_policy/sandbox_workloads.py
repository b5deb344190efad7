"""Sandbox workloads: KubeVirt and Kata virtual machines that get whole GPUs or vGPUs."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from policies.configuration.change import CLUSTER_POLICY, check_object
from policies.configuration.cluster_facts import quoted_names, the_nodes
from policies.fleet.device_plugin import WORKLOAD_CONFIG, WORKLOADS, node_workload
from policies.kubernetes.names import write_closest
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import lookup
from policies.kubernetes.view import UNKNOWN
from policies.kubernetes.yaml import YAMLError, first_document
from policies.nvidia.identifiers import FAMILY_LABEL, MIG_CONFIG_LABEL
from policies.nvidia.mig_configs import WHOLE
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change


_COMPONENTS = (
    *("vgpuManager", "vfioManager", "vgpuDeviceManager"),
    *("sandboxDevicePlugin", "kataSandboxDevicePlugin", "ccManager"),
)
_FROM_CHART = _COMPONENTS[1:]
"""The components that the Helm chart and OpenShift's console enable in every ClusterPolicy, in case they are needed."""


_DEVICE_PLUGINS = {"kubevirt": "sandboxDevicePlugin", "kata": "kataSandboxDevicePlugin"}
_VGPU_MANAGER = "write vgpuManager.enabled: true with repository, image and version"


def runs_sandboxes(change: Change) -> bool:
    """True if sandbox workloads are enabled."""
    return change.flag("sandboxWorkloads", "enabled")


def mode_of(change: Change) -> str:
    """The kind of virtual machines: `kubevirt`, which is the default, or `kata`."""
    return change.text("sandboxWorkloads", "mode") or "kubevirt"


@CLUSTER_POLICY.rule(
    "GA186",
    "Components of sandbox workloads must be enabled together with sandbox workloads",
    default=Severity.WARN,
    remedy="write sandboxWorkloads.enabled: true, or disable the component",
    source="github.com/NVIDIA/gpu-operator controllers/state_manager.go isStateEnabled",
    rows=("J-01", "J-04"),
)
def sandbox_enabled(change: Change) -> Iterator[Problem]:
    """Without `sandboxWorkloads.enabled` none of these components is ever deployed.

    Nothing changes in the cluster, so this only warns. The Helm chart enables most of them in advance; several of those
    together are not reported.
    """
    if runs_sandboxes(change):
        return
    enabled = [component for component in _COMPONENTS if change.flag(component, "enabled")]
    from_chart = [component for component in enabled if component in _FROM_CHART]
    for component in enabled:
        if component not in from_chart or len(from_chart) == 1:
            text = f"the operator never deploys {component} while sandboxWorkloads.enabled is not true"
            remedy = f"write sandboxWorkloads.enabled: true, or {component}.enabled: false"
            yield Problem(change.at(component, "enabled"), text, remedy)
    for field, usual in (("defaultWorkload", "container"), ("mode", "kubevirt")):
        value = change.text("sandboxWorkloads", field)
        if value not in ("", usual):
            text = f'"{value}" has no effect, because sandboxWorkloads.enabled is not true; every node runs containers'
            remedy = "remove it, or enable sandboxWorkloads and the components that serve machines"
            yield Problem(change.at("sandboxWorkloads", field), text, remedy)


@CLUSTER_POLICY.rule(
    "GA187",
    "Components of sandbox workloads must fit the mode",
    remedy="enable the device plugin of the mode",
    source="github.com/NVIDIA/gpu-operator controllers/state_manager.go isStateEnabled, getEffectiveStateLabels; docs "
    "deploy-kata-containers",
    rows=("J-02", "J-03", "J-07"),
)
def components_fit_mode(change: Change) -> Iterator[Problem]:
    """Each mode has its own device plugin, and the operator ignores the other one.

    KubeVirt can offer the GPUs of a node without a device plugin, so this is a warning. Confidential computing is only
    managed for Kata, and Kata cannot use vGPUs. With both device plugins enabled, as the Helm chart has them, the right one
    runs.
    """
    mode = mode_of(change)
    own, other = _DEVICE_PLUGINS.get(mode), _DEVICE_PLUGINS["kata" if mode == "kubevirt" else "kubevirt"]
    if own is None or not runs_sandboxes(change):
        return
    if change.flag(other, "enabled") and not change.flag(own, "enabled"):
        text = f"is true, but with mode: {mode} the operator deploys {own} instead, which is not enabled"
        remedy = f"write {own}.enabled: true, or another mode"
        yield Problem(change.at(other, "enabled"), text, remedy, severity=Severity.WARN)
    if mode == "kubevirt" and change.flag("ccManager", "enabled") and not change.flag(other, "enabled"):
        text = "is true, but the operator deploys it only with mode: kata"
        remedy = "write sandboxWorkloads.mode: kata, or ccManager.enabled: false"
        yield Problem(change.at("ccManager", "enabled"), text, remedy, severity=Severity.WARN)
    if mode == "kata" and change.text("sandboxWorkloads", "defaultWorkload") == "vm-vgpu":
        text = '"vm-vgpu" does not work with mode: kata: Kata machines get whole GPUs only'
        remedy = 'write "vm-passthrough", or mode: kubevirt'
        yield Problem(change.at("sandboxWorkloads", "defaultWorkload"), text, remedy)


@CLUSTER_POLICY.rule(
    "GA188",
    "The default workload must have the components that it needs",
    default=Severity.WARN,
    remedy="enable the component",
    source="docs gpu-operator-kubevirt; github.com/NVIDIA/gpu-operator controllers/state_manager.go isStateEnabled, "
    "cmd/nvidia-validator/main.go VfioPCI.runValidation, VGPUManager.runValidation",
    rows=("J-05", "J-06", "S-29"),
)
def default_workload_served(change: Change) -> Iterator[Problem]:
    """A machine gets a GPU after vfio-pci has it, and a vGPU needs a vGPU Manager on the host.

    Both components are off by default, also with `sandboxWorkloads.enabled`. The Helm chart enables them, a ClusterPolicy
    written by hand may not. Hosts can bind their GPUs to vfio-pci and have a vGPU Manager by themselves, so this is a
    warning.
    """
    if not runs_sandboxes(change):
        return
    path, workload = change.at("sandboxWorkloads", "enabled"), change.text("sandboxWorkloads", "defaultWorkload")
    has_vfio = change.flag("vfioManager", "enabled")
    has_vgpu_manager = change.flag("vgpuManager", "enabled") or change.flag("driver", "useNvidiaDriverCRD")
    if workload == "vm-vgpu" and mode_of(change) == "kubevirt":
        if not has_vgpu_manager:
            text = '"vm-vgpu" without vgpuManager works only on hosts where a vGPU Manager is installed already'
            yield Problem(change.at("sandboxWorkloads", "defaultWorkload"), text, _VGPU_MANAGER)
        return
    if workload == "vm-passthrough" and not has_vfio:
        plugin = _DEVICE_PLUGINS["kata" if mode_of(change) == "kata" else "kubevirt"]
        text = '"vm-passthrough" without vfioManager works only on hosts that bind their GPUs to vfio-pci themselves'
        remedy = f"write vfioManager.enabled: true and {plugin}.enabled: true"
        yield Problem(change.at("sandboxWorkloads", "defaultWorkload"), text, remedy)
    for_vgpu, for_machines = (change.facts.nodes_with(WORKLOAD_CONFIG, each) for each in ("vm-vgpu", "vm-passthrough"))
    if for_vgpu and not has_vgpu_manager:
        text = f"is true, but vgpuManager, which {the_nodes(for_vgpu)} would need, is not enabled"
        remedy = f"{_VGPU_MANAGER}, or label them {WORKLOAD_CONFIG}: vm-passthrough"
        yield Problem(path, text, remedy)
    if workload in ("", "container") and for_machines and not has_vfio:
        text = f"is true, but vfioManager, which {the_nodes(for_machines)} would need, is not enabled"
        yield Problem(path, text, "write vfioManager.enabled: true")
    elif workload in ("", "container") and not any(change.flag(component, "enabled") for component in _COMPONENTS):
        text = "is true, but no component that serves machines is enabled"
        remedy = "write vfioManager.enabled: true and sandboxDevicePlugin.enabled: true for whole GPUs"
        yield Problem(path, text, remedy)


@CLUSTER_POLICY.rule(
    "GA191",
    "Nodes must be able to run the sandbox workloads that they are for",
    default=Severity.WARN,
    remedy="label the nodes with the workload that they are for",
    source="github.com/NVIDIA/gpu-operator controllers/state_manager.go getWorkloadConfig, docs gpu-operator-kubevirt",
    rows=("J-12", "J-14", "J-17"),
)
def nodes_fit_workloads(change: Change) -> Iterator[Problem]:
    """A node has one kind of workload, by `nvidia.com/gpu.workload.config` or by the default.

    The operator only logs an unknown label, and the default applies. MIG cannot divide a GPU that a machine gets whole,
    and only Hopper and later can do confidential computing.
    """
    nodes = change.facts.known_gpu_nodes()
    if not runs_sandboxes(change) or not nodes:
        return
    default = change.text("sandboxWorkloads", "defaultWorkload") or "container"
    path = change.at("sandboxWorkloads", "defaultWorkload")
    mislabelled = [node for node in nodes if labels_of(node).get(WORKLOAD_CONFIG, "container") not in WORKLOADS]
    if mislabelled:
        values = quoted_names(sorted({labels_of(node)[WORKLOAD_CONFIG] for node in mislabelled}))
        named = the_nodes(mislabelled, "GPU node")
        text = f'"{default}" applies to {named}, because the label {WORKLOAD_CONFIG} is not a known workload: {values}'
        yield Problem(path, text, f"label them with one of {', '.join(WORKLOADS)}")
    whole = [node for node in nodes if node_workload(labels_of(node), change.object) == "vm-passthrough"]
    divided = [node for node in whole if labels_of(node).get(MIG_CONFIG_LABEL, "") not in WHOLE]
    if divided:
        named = the_nodes(divided, "GPU node")
        text = f"vm-passthrough hands out whole GPUs, but {MIG_CONFIG_LABEL} divides those of {named}"
        remedy = f"label them {WORKLOAD_CONFIG}: container, or {MIG_CONFIG_LABEL}: all-disabled"
        yield Problem(path if default == "vm-passthrough" else change.at("sandboxWorkloads", "enabled"), text, remedy)
    families = {labels_of(node).get(FAMILY_LABEL, "") for node in nodes}
    is_managed = change.flag("ccManager", "enabled") and change.value("ccManager", "defaultMode") not in ("off", False)
    if mode_of(change) == "kata" and is_managed and "" not in families and not families & {"hopper", "blackwell"}:
        text = f"needs GPUs of Hopper or later, not {quoted_names(sorted(families))} of {the_nodes(nodes, 'GPU node')}"
        yield Problem(change.at("ccManager", "enabled"), text, 'write ccManager.enabled: false, or defaultMode: "off"')


_BRANCH = re.compile(r"(\d{3})(\.|$|-)")
_OPEN_GUESTS_SINCE = 550
"""The driver branch of vGPU 17, the first whose guests run on the open kernel modules."""
_FILE = "config.yaml"
_VGPU_CONFIG = "nvidia.com/vgpu.config"
"""The label of a node that selects a configuration of the vGPU device manager."""


@CLUSTER_POLICY.rule(
    "GA189",
    "The vGPU Manager must have its own, private image, and guests a driver that can be licensed",
    remedy="write repository, image and version of the vGPU Manager that you have built",
    source="github.com/NVIDIA/gpu-operator api/nvidia/v1/clusterpolicy_types.go ImagePath; docs gpu-operator-kubevirt",
    rows=("J-08", "J-09", "J-16"),
)
def vgpu_images(change: Change) -> Iterator[Problem]:
    """The licence does not allow the vGPU Manager in public registries, so it has no default image.

    The driver of guests is another image; on the host it creates no vGPUs. Guests of vGPU before 17 cannot use the
    open kernel modules.
    """
    manager, driver = change.section("vgpuManager"), change.section("driver")
    if runs_sandboxes(change) and manager.flag("enabled") and not driver.flag("useNvidiaDriverCRD"):
        repository, image, version = (manager.text(part) for part in ("repository", "image", "version"))
        variables = change.facts.operator_variables()
        has_default = image == "" and variables is not UNKNOWN and "VGPU_MANAGER_IMAGE" in variables
        if not repository and not version and image in ("", "vgpu-manager") and not has_default:
            text = "is true without repository, image and version, and the vGPU Manager has no public image"
            yield Problem(manager.at("enabled"), text)
        elif image and (repository, image) == (driver.text("repository"), driver.text("image")):
            text = f'"{image}" is also the image of driver; the driver of guests is not a vGPU Manager for hosts'
            yield Problem(manager.at("image"), text, "write the image of the vGPU Manager", severity=Severity.WARN)
    match = _BRANCH.match(driver.text("version"))
    licensed = any(driver.text("licensingConfig", field) for field in ("secretName", "configMapName"))
    if licensed and driver.text("kernelModuleType") == "open" and match and int(match[1]) < _OPEN_GUESTS_SINCE:
        text = f'is "open", which vGPU guests can use since vGPU 17 (branch 550); the driver is of branch {match[1]}'
        remedy = "write kernelModuleType: proprietary, or a driver of branch 550 or later"
        yield Problem(driver.at("kernelModuleType"), text, remedy, severity=Severity.WARN)


@CLUSTER_POLICY.rule(
    "GA190",
    "Defaults of the components of sandbox workloads must exist",
    remedy="write the name of a configuration that the ConfigMap has",
    source="github.com/NVIDIA/gpu-operator assets/state-vgpu-device-manager, controllers/object_controls.go "
    "TransformVGPUDeviceManager; issues 600, 591, 447",
    rows=("J-10", "J-11"),
)
def defaults_exist(change: Change) -> Iterator[Problem]:
    """The vGPU device manager applies the default of its ConfigMap to nodes for vGPUs without a label.

    If the default does not exist, these nodes get no vGPU and the state "failed"; as long as no known node is for vGPUs,
    this is a warning. The mode of confidential computing has no default in the ClusterPolicy: the one that is built into the
    manager's image applies.
    """
    if not runs_sandboxes(change):
        return
    if change.flag("vgpuDeviceManager", "enabled"):
        yield from _vgpu_configs(change)
    manager = change.section("ccManager")
    if mode_of(change) == "kata" and manager.flag("enabled") and manager.value("defaultMode") in (None, ""):
        text = "is true without defaultMode, so the mode that is built into the image is applied to every GPU"
        remedy = 'write defaultMode: "on", "off" or "devtools", in quotes'
        yield Problem(manager.at("enabled"), text, remedy, severity=Severity.WARN)


def _vgpu_configs(change: Change) -> Iterator[Problem]:
    config = change.section("vgpuDeviceManager", "config")
    known = change.facts.known_gpu_nodes()
    for_vgpus = [node for node in known if node_workload(labels_of(node), change.object) == "vm-vgpu"]
    is_default = change.text("sandboxWorkloads", "defaultWorkload") == "vm-vgpu"
    is_used = bool(for_vgpus) if known else is_default or change.facts.gpu_nodes() is UNKNOWN
    severity = None if is_used else Severity.WARN
    for missing in check_object(change, config.at("name"), "ConfigMap", "the pods would not start", [_FILE]):
        yield missing if is_used else replace(missing, severity=severity)
    name = config.text("name")
    found = change.facts.operator_object("ConfigMap", name) if name else None
    text = lookup(found, ("data", _FILE)) if isinstance(found, dict) else None
    if not isinstance(text, str):
        return
    try:
        configs = lookup(first_document(text).value, ("vgpu-configs",))
    except YAMLError as error:
        remedy = f"correct {_FILE} in the ConfigMap first"
        yield Problem(config.at("name"), f'"{name}" cannot be read: {error}', remedy, severity=severity)
        return
    names = [each for each in configs if isinstance(each, str)] if isinstance(configs, dict) else []
    chosen = config.text("default") or "default"
    if chosen not in names:
        has = f"has {quoted_names(names)}" if names else "has none"
        message = f'"{chosen}" is not one of the vgpu-configs of "{name}", which {has}'
        message += "; nodes without a label would fail"
        if for_vgpus and all(_VGPU_CONFIG in labels_of(node) for node in for_vgpus):
            severity = Severity.WARN
        yield Problem(config.at("default"), message, write_closest(chosen, names, None), severity=severity)
