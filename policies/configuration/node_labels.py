"""Nodes: labels that steer the GPU Operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.configuration.change import data_keys, is_operator
from policies.configuration.cluster_facts import (
    OTHER_STRATEGY,
    counted_names,
    gpu_pods,
    quoted_names,
    selectable_configs,
)
from policies.configuration.config_maps.mig_profiles import LIST_PROFILES, NODE_FAILS, node_misfits
from policies.fleet.device_plugin import WORKLOAD_CONFIG, WORKLOADS, node_workload, runs_device_plugin
from policies.fleet.offers.hardware import gpu_labels
from policies.kubernetes.names import is_label_value, write_closest
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import FieldPath, lookup, mapping_at
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import (
    MIG_CONFIG_LABEL,
    MIG_STATE_LABEL,
    MIG_STRATEGY_LABEL,
    PLUGIN_CONFIG_LABEL,
    PRODUCT_LABEL,
)
from policies.nvidia.mig_configs import WHOLE
from policies.nvidia.mig_products import gpu_count, is_capable, shipped_configs
from policies.rules.checks import Problem, RulesOn
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from policies.configuration.change import Change
    from policies.configuration.cluster_facts import SelectableConfigs
    from policies.kubernetes.objects import Object
    from policies.rules.request import UserInfo


RESERVED = {
    "nvidia.com/gpu-operator.driver.owner": "says which NVIDIADriver a node belongs to",
    MIG_STATE_LABEL: "says how far the MIG manager is",
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


def sets_labels(change: Change) -> bool:
    """True if a change of a node sets labels that rules are about; a heartbeat does not."""
    before, after = labels_of(change.old or {}), labels_of(change.object)
    return not change.is_deleted and any(before.get(label) != after.get(label) for label in _WATCHED)


NODE = RulesOn("Node", cluster_scoped=True)


@NODE.rule(
    "GA157",
    "Labels of the operator must have values that it knows; labels that it sets must be left to it",
    default=Severity.WARN,
    remedy=f"write one of {', '.join(WORKLOADS)}",
    source="github.com/NVIDIA/gpu-operator controllers/state_manager.go getWorkloadConfig, "
    "internal/nvidiadriver/nvidiadriver.go AssignOwners",
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
        text = f'"{workload}" is not a workload that the operator knows; {applied} would apply, and only its log tells'
        yield Problem(label_path(WORKLOAD_CONFIG), text, write_closest(workload, WORKLOADS, None))
    value = change.facts.policy_value
    has_sandboxes = value("sandboxWorkloads", "enabled") is True
    has_manager = value("vgpuManager", "enabled") is True or value("driver", "useNvidiaDriverCRD") is True
    if workload == "vm-vgpu" and has_sandboxes and not has_manager:
        text = '"vm-vgpu" needs the vGPU Manager, which the ClusterPolicy does not enable; the node would get no driver'
        remedy = "enable vgpuManager in the ClusterPolicy with repository, image and version first"
        yield Problem(label_path(WORKLOAD_CONFIG), text, remedy)
    if change.old is None or is_kubelet(change.user) or is_operator(change.user, change.facts.trusted_namespaces):
        return
    before, after = labels_of(change.old), labels_of(change.object)
    for label, meaning in RESERVED.items():
        if label in after and before.get(label) != after[label]:
            text = f"{meaning} and is the operator's to set; it would be overwritten, or believed"
            yield Problem(label_path(label), text, "leave it as it is")


_ADD_IT = "add it to the ConfigMap first"
_FAILED = "nvidia.com/mig.config.state would become failed"


@NODE.rule(
    "GA154",
    "Labels of a node must name configurations that exist",
    remedy="write the name of a configuration that exists",
    source="github.com/NVIDIA/k8s-device-plugin cmd/config-manager/main.go updateConfigName; "
    "github.com/NVIDIA/mig-parted cmd/nvidia-mig-parted/assert/assert.go GetSelectedMigConfig, "
    "deployments/systemd/config-default.yaml; docs gpu-operator-mig",
    rows=("A-04", "G-05", "H-07", "S-51"),
)
def existing_configs(change: Change) -> Iterator[Problem]:
    """The label's value is a name inside a ConfigMap, not the name of the ConfigMap.

    For `nvidia.com/device-plugin.config` it is a key of `data`; with another value the device plugin and GPU Feature
    Discovery crash-loop on that node. For `nvidia.com/mig.config` it is a name under `mig-configs`, and no list of
    profiles; with another value the GPUs stay as they are, and the state becomes `failed`. A node on which none of these
    runs is not refused.
    """
    if mig_config := newly_set(change, MIG_CONFIG_LABEL):
        yield from _mig_config(change, mig_config)
    if key := newly_set(change, PLUGIN_CONFIG_LABEL):
        yield from _device_plugin_config(change, key)


def _mig_config(change: Change, value: str) -> Iterator[Problem]:
    path, severity = label_path(MIG_CONFIG_LABEL), None
    known = selectable_configs(change.facts, change.name)
    names, otherwise = known.names, "write one of these" if known.names else _ADD_IT
    if not is_label_value(value):
        text = f'"{value}" cannot be the value of a label, and is to be the name of a configuration'
        yield Problem(path, text, "define a configuration in a mig-parted ConfigMap and write its name")
        return
    if value in names or not _has_mig_manager(change):
        return
    if known.config_map and value == known.config_map:
        text = f'"{value}" is the name of the ConfigMap itself{_has(names)}; {_FAILED}'
        severity = Severity.WARN if known.missing else None
    elif known.config_map and not known.missing:
        text = f'"{value}" is not a configuration of the ConfigMap "{known.config_map}"{_has(names)}; {_FAILED}'
    elif known.config_map:
        if value not in shipped_configs():
            text = f'"{value}" is not a configuration that the operator brings, and {known.missing}; {_FAILED}'
            yield Problem(path, text, severity=Severity.WARN)
        return
    elif not known.missing:
        text = f'"{value}" is not a configuration that the MIG manager made for this node{_has(names)}; {_FAILED}'
    else:
        is_certain = isinstance(change.facts.cluster_policy(), dict) and not value.startswith("all-")
        unnamed = f"the ClusterPolicy names no ConfigMap in migManager.config.name; {_FAILED}"
        text = (
            f'"{value}" is not a configuration that the operator brings, and {unnamed if is_certain else known.missing}'
        )
        severity = None if is_certain else Severity.WARN
        otherwise = "define it in a mig-parted ConfigMap that migManager.config.name names"
    yield Problem(path, text, write_closest(value, names, otherwise), severity=severity)


def _device_plugin_config(change: Change, value: str) -> Iterator[Problem]:
    if not isinstance(change.facts.cluster_policy(), dict):
        return
    path = label_path(PLUGIN_CONFIG_LABEL)
    name = change.facts.policy_value("devicePlugin", "config", "name")
    if not isinstance(name, str) or not name:
        text = f'"{value}" is never read, because the ClusterPolicy names no ConfigMap in devicePlugin.config.name'
        yield Problem(path, text, "name a ConfigMap in the ClusterPolicy first", severity=Severity.WARN)
        return
    has_readers = any(map(change.facts.deploys, ("devicePlugin", "gfd")))
    if not has_readers or node_workload(labels_of(change.object), change.facts.cluster_policy()) != WORKLOADS[0]:
        text = f'"{value}" is never read, because neither the device plugin nor GPU Feature Discovery runs on this node'
        yield Problem(path, text, "remove the label", severity=Severity.WARN)
        return
    config_map = change.facts.operator_object("ConfigMap", name)
    if not isinstance(config_map, dict):
        said = "is not known here" if config_map is UNKNOWN else "does not exist"
        if config_map is None or value == name:
            text = f'"{value}" must be a key of the ConfigMap "{name}", which {said}'
            yield Problem(path, text, "write one of its keys", severity=Severity.WARN)
        return
    keys = data_keys(config_map)
    if value not in keys:
        what = "the name of the ConfigMap itself" if value == name else f'not a key of the ConfigMap "{name}"'
        error = f"the device plugin would exit with: specified config {value} does not exist"
        remedy = write_closest(value, keys, "write one of these" if keys else _ADD_IT)
        yield Problem(path, f'"{value}" is {what}{_has(keys)}; {error}', remedy)


def _has_mig_manager(change: Change) -> bool:
    """False if no MIG manager runs on a node: it is disabled, or MIG cannot divide the GPUs."""
    return change.facts.deploys("migManager") and is_capable(gpu_labels(_applied_node(change))) is not False


def _has(names: Collection[str]) -> str:
    """The names that exist, custom ones first."""
    shown = quoted_names(sorted(names, key=lambda name: (name.startswith("all-"), name)))
    return f", which has {shown}" if names else ""


@NODE.rule(
    "GA155",
    "The MIG configuration of a node must be possible on its GPUs and served by the device plugin",
    remedy="write a configuration that suits the node",
    source="github.com/NVIDIA/mig-parted pkg/mig/config/config.go SetMigConfig, pkg/types/mig_config.go "
    "Flatten; github.com/NVIDIA/k8s-device-plugin internal/rm/device_map.go "
    "assertAllMigDevicesAreValid, buildMigDeviceMap; docs gpu-operator-mig, gpu-operator-kubevirt",
    runs="mig-parted",
    rows=("H-01", "H-02", "H-06", "H-08", "H-09", "H-14", "J-17"),
)
def possible_mig(change: Change) -> Iterator[Problem]:
    """Too many devices leave the node `failed`, and unknown profiles leave it without devices.

    The device plugin exits if GPUs are cut into several kinds of devices, or one has none, under the strategy "single",
    and at compute instances that share a GPU instance under "mixed". Under "none" it offers the GPUs as if they were
    whole. Nodes without it do not count. Virtual machines get whole GPUs, so a node for vm-passthrough must not be cut.
    """
    config = newly_set(change, MIG_CONFIG_LABEL)
    if config and config not in WHOLE:
        node, selectable = _applied_node(change), selectable_configs(change.facts, change.name)
        yield from _layout_problems(change, config, selectable, gpu_labels(node))
        if _has_mig_manager(change) and runs_device_plugin(node, change.facts.view):
            yield from _strategy_problems(change, config, selectable, gpu_labels(node))
    if config or newly_set(change, WORKLOAD_CONFIG):
        yield from _passthrough_problems(change)


def _applied_node(change: Change) -> Object:
    """The node after the change, with what a file leaves out as the cluster has it."""
    if change.old is not None or change.stored is None:
        return change.object
    labels = {**labels_of(change.stored), **labels_of(change.object)}
    metadata = {**mapping_at(change.object, ("metadata",)), "labels": labels}
    return {**change.stored, "metadata": metadata}


def _layout_problems(
    change: Change, config: str, selectable: SelectableConfigs, labels: Mapping[str, str]
) -> Iterator[Problem]:
    """The problems of a MIG configuration on the GPUs of a node with these labels."""
    path, entries = label_path(MIG_CONFIG_LABEL), selectable.entries(config, labels)
    if not change.facts.deploys("migManager"):
        text = f'"{config}" does nothing, because the ClusterPolicy has migManager.enabled: false'
        yield Problem(path, text, "enable the MIG manager, or cut the GPUs yourself", severity=Severity.WARN)
        return
    if is_capable(labels) is False:
        name = labels.get(PRODUCT_LABEL, "")
        whose = f"the GPUs of this node, {name}," if name else "the GPUs of this node"
        text = f'"{config}" does nothing, because MIG cannot divide {whose} and no MIG manager runs here'
        yield Problem(path, text, "remove the label", severity=Severity.WARN)
        return
    # The MIG manager makes the operator's own configurations for each node, of the profiles that its GPUs have.
    is_made = config in shipped_configs() and config not in selectable.configs
    kept = change.stored is not None and labels_of(change.stored).get(MIG_CONFIG_LABEL) == config
    is_done = kept and labels.get(MIG_STATE_LABEL) == "success"
    for misfit in node_misfits(entries, labels):
        if is_done and not misfit.profile:
            continue
        what = f"requests {misfit.profile}, which {misfit.text}" if misfit.profile else misfit.text
        severity = None if misfit.is_certain else Severity.WARN
        consequence = NODE_FAILS if is_made and misfit.is_certain else misfit.consequence
        text = f'"{config}" {what}; {consequence}' if consequence else f'"{config}" {what}'
        remedy = LIST_PROFILES if misfit.profile and not misfit.is_certain else None
        if misfit.similar_profile and misfit.is_certain and is_made:
            remedy = f'write "all-{misfit.similar_profile}"'
        yield Problem(path, text, remedy, severity=severity)
    count, numbers = gpu_count(labels), sorted(number for entry in entries for number in entry.devices or ())
    if count and numbers and numbers[0] >= count and all(entry.devices is not None for entry in entries):
        text = f'"{config}" is for GPU {numbers[0]}, and the last of this node is {count - 1}; no GPU would be cut'
        yield Problem(path, text, severity=Severity.WARN)


def _strategy_problems(
    change: Change, config: str, selectable: SelectableConfigs, labels: Mapping[str, str]
) -> Iterator[Problem]:
    """The problems of a MIG configuration with the strategy of the device plugin."""
    path, entries = label_path(MIG_CONFIG_LABEL), selectable.entries(config, labels)
    known = isinstance(change.facts.cluster_policy(), dict)
    strategy = change.facts.policy_value("mig", "strategy") if known else labels.get(MIG_STRATEGY_LABEL)
    # Profiles that the GPUs lack are reported as such.
    if (
        strategy in ("single", "mixed")
        and (refusal := selectable.plugin_refusal(config, labels, strategy))
        and not any(node_misfits(entries, labels))
    ):
        text = f'"{config}" does not go with mig.strategy "{strategy}": it {refusal.text}'
        severity = None if refusal.is_certain else Severity.WARN
        yield Problem(path, text, OTHER_STRATEGY[strategy], severity=severity)
    is_cut = is_capable(labels) is not False and any(entry.is_mig_enabled for entry in entries)
    if known and strategy in (None, "", "none") and is_cut:
        said = "is not set" if not strategy else "is none"
        text = f'"{config}" cuts GPUs, and mig.strategy of the ClusterPolicy {said}, so each is offered as one nvidia.com/gpu, '
        text += "and its MIG devices are not"
        yield Problem(path, text, "set mig.strategy to single or mixed first", severity=Severity.WARN)


def _passthrough_problems(change: Change) -> Iterator[Problem]:
    """The problem of a node that is to be cut by MIG and to hand whole GPUs to virtual machines."""
    labels = labels_of(change.object)
    config = labels.get(MIG_CONFIG_LABEL, "")
    if config not in WHOLE and node_workload(labels, change.facts.cluster_policy()) == "vm-passthrough":
        label = WORKLOAD_CONFIG if newly_set(change, WORKLOAD_CONFIG) else MIG_CONFIG_LABEL
        said = f"does not go with {MIG_CONFIG_LABEL}: {config}" if label == WORKLOAD_CONFIG else "is to cut GPUs"
        text = f'"{labels[label]}" {said}; machines get the whole GPUs of a node with vm-passthrough'
        remedy = f"label the node {MIG_CONFIG_LABEL}: all-disabled, or {WORKLOAD_CONFIG}: container"
        yield Problem(label_path(label), text, remedy, severity=Severity.WARN)


_EFFECTS = {
    MIG_CONFIG_LABEL: "cuts GPUs anew, which fails while they are in use",
    WORKLOAD_CONFIG: "takes driver and device plugin of the present workload from the node",
}


@NODE.rule(
    "GA156",
    "The GPUs of a node must not be reconfigured while pods hold them",
    default=Severity.WARN,
    remedy="drain the node first",
    source="docs gpu-operator-mig, gpu-operator-kubevirt; github.com/NVIDIA/mig-parted pkg/mig/reconfigure/reconfigure.go "
    "shutdownKubernetesGPUClients, applyMigModeChange; github.com/NVIDIA/gpu-operator controllers/state_manager.go "
    "updateGPUStateLabels",
)
def unused_gpus(change: Change) -> Iterator[Problem]:
    """Before it divides GPUs, the MIG manager stops the operator's own pods and no others.

    With other pods on the GPUs it fails, or these pods keep devices that no longer exist. A node that turns from
    containers to virtual machines loses the driver in the same way.
    """
    if change.stored is None:
        return
    for label, effect in _EFFECTS.items():
        value = labels_of(change.object).get(label, "")
        if not value or labels_of(change.stored).get(label) == value:
            continue
        if pods := gpu_pods(change.facts, lambda pod: lookup(pod, ("spec", "nodeName")) == change.name):
            text = f'"{value}" {effect}; GPUs of this node are held by {counted_names("pod", pods)}'
            yield Problem(label_path(label), text)
