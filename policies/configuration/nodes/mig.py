"""MIG on a node: whether its GPUs, the strategy, its workload and its pods allow a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.config_maps.mig_parted.profiles import LIST_PROFILES, NODE_FAILS, node_misfits
from policies.configuration.named_objects import counted_names, gpu_pods
from policies.configuration.nodes.labels import NODE, label_path, newly_set
from policies.configuration.selectable_configs import plugin_refusal_of, selectable_configs
from policies.decision import Severity
from policies.fleet.device_plugin import WORKLOAD_CONFIG, node_workload, runs_device_plugin
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.paths import lookup
from policies.nvidia.identifiers import MIG_CONFIG_LABEL, MIG_STRATEGY_LABEL, PRODUCT_LABEL
from policies.nvidia.mig_configs import WHOLE
from policies.nvidia.mig_products import gpu_count, is_capable, shipped_configs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.configuration.change import Change
    from policies.nvidia.mig_configs import Entry


_OTHER_STRATEGY = {
    "single": "write a configuration with one profile for all GPUs, or set mig.strategy: mixed in the ClusterPolicy",
    "mixed": "write profiles that fill their GPU instances, such as 3g.20gb, or set mig.strategy: single in the ClusterPolicy",
}


@NODE.rule(
    "GA155",
    "The MIG configuration of a node must be possible on its GPUs and served by the device plugin",
    default=Severity.DENY,
    remedy="write a configuration that suits the node",
    source="github.com/NVIDIA/go-nvlib pkg/nvlib/device/mig_profile.go; "
    "github.com/NVIDIA/k8s-device-plugin internal/rm/device_map.go; docs gpu-operator-mig, gpu-operator-kubevirt",
    rows=("H-01", "H-02", "H-06", "H-08", "H-09", "H-14", "J-17"),
)
def possible_mig(change: Change) -> Iterator[Problem]:
    """Too many devices leave the node `failed`, and unknown profiles leave it without devices.

    The device plugin exits if GPUs are cut into several kinds of devices, or one has none, under the strategy "single",
    and at compute instances that share a GPU instance under "mixed". Under "none" it offers the GPUs as if they were
    whole. Nodes without it do not count. Virtual machines get whole GPUs, so a node for vm-passthrough must not be cut.
    """
    labels = labels_of(change.object)
    config = newly_set(change, MIG_CONFIG_LABEL)
    if config and config not in WHOLE:
        entries = selectable_configs(change.facts, change.name).entries(config, labels)
        yield from _possible(change, config, entries)
        yield from _strategy_problems(change, config, entries)
    if newly_set(change, MIG_CONFIG_LABEL) or newly_set(change, WORKLOAD_CONFIG):
        yield from _for_machines(change)


def _possible(change: Change, config: str, entries: Sequence[Entry]) -> Iterator[Problem]:
    labels, path = labels_of(change.object), label_path(MIG_CONFIG_LABEL)
    if change.facts.policy_value("migManager", "enabled") is False:
        text = f'"{config}" does nothing, because the ClusterPolicy has migManager.enabled: false'
        yield problem(path, text, "enable the MIG manager, or cut the GPUs yourself", severity=Severity.WARN)
    if is_capable(labels) is False:
        name = labels.get(PRODUCT_LABEL, "")
        whose = f"the GPUs of this node, {name}," if name else "the GPUs of this node"
        text = f'"{config}" does nothing, because MIG cannot divide {whose} and no MIG manager runs here'
        yield problem(path, text, "remove the label", severity=Severity.WARN)
        return
    # The MIG manager makes the operator's own configurations for each node, of the profiles that its GPUs have.
    is_made = config in shipped_configs() and config not in selectable_configs(change.facts, change.name).configs
    for misfit in node_misfits(entries, labels):
        what = f"requests {misfit.profile}, which {misfit.text}" if misfit.profile else misfit.text
        severity = None if misfit.is_certain else Severity.WARN
        consequence = NODE_FAILS if is_made and misfit.is_certain else misfit.consequence
        text = f'"{config}" {what}; {consequence}' if consequence else f'"{config}" {what}'
        remedy = LIST_PROFILES if misfit.profile and not misfit.is_certain else None
        if misfit.instead and misfit.is_certain and is_made:
            remedy = f'write "all-{misfit.instead}"'
        yield problem(path, text, remedy, severity=severity)
    count, numbers = gpu_count(labels), sorted(number for entry in entries for number in entry.devices or ())
    if count and numbers and numbers[0] >= count and all(entry.devices is not None for entry in entries):
        text = f'"{config}" is for GPU {numbers[0]}, and the last of this node is {count - 1}; no GPU would be cut'
        yield problem(path, text, severity=Severity.WARN)


def _strategy_problems(change: Change, config: str, entries: Sequence[Entry]) -> Iterator[Problem]:
    labels, path = labels_of(change.object), label_path(MIG_CONFIG_LABEL)
    if not runs_device_plugin(change.object, change.facts.view):
        return
    known = isinstance(change.facts.cluster_policy(), dict)
    strategy = change.facts.policy_value("mig", "strategy") if known else labels.get(MIG_STRATEGY_LABEL)
    if strategy in ("single", "mixed") and (refusal := plugin_refusal_of(entries, labels, strategy)):
        text = f'"{config}" does not go with mig.strategy "{strategy}": it {refusal.text}'
        severity = None if refusal.is_certain else Severity.WARN
        yield problem(path, text, _OTHER_STRATEGY[strategy], severity=severity)
    is_cut = is_capable(labels) is not False and any(entry.is_mig_enabled for entry in entries)
    if known and strategy in (None, "", "none") and is_cut:
        said = "is not set" if not strategy else "is none"
        text = (
            f'"{config}" cuts GPUs, and mig.strategy of the ClusterPolicy {said}, so each is offered as one nvidia.com/gpu, '
            "and its MIG devices are not"
        )
        yield problem(path, text, "set mig.strategy to single or mixed first", severity=Severity.WARN)


def _for_machines(change: Change) -> Iterator[Problem]:
    labels = labels_of(change.object)
    config = labels.get(MIG_CONFIG_LABEL, "")
    if config not in WHOLE and node_workload(labels, change.facts.cluster_policy()) == "vm-passthrough":
        label = WORKLOAD_CONFIG if newly_set(change, WORKLOAD_CONFIG) else MIG_CONFIG_LABEL
        said = f'"{labels[label]}" '
        text = (
            f"{said}does not go with {MIG_CONFIG_LABEL}: {config}"
            if label == WORKLOAD_CONFIG
            else f"{said}is to cut GPUs"
        )
        text += "; machines get the whole GPUs of a node with vm-passthrough"
        remedy = f"label the node {MIG_CONFIG_LABEL}: all-disabled, or {WORKLOAD_CONFIG}: container"
        yield problem(label_path(label), text, remedy, severity=Severity.WARN)


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
    """Before it divides GPUs, the MIG manager stops the operator's own pods and no others.

    With other pods on the GPUs it fails, or these pods keep devices that no longer exist. A node that turns from
    containers to virtual machines loses the driver in the same way.
    """
    if change.old is None:
        return
    for label, effect in _EFFECTS.items():
        value = newly_set(change, label)
        pods = gpu_pods(change.facts, lambda pod: _is_on(pod, change.name)) if value else []
        if pods:
            text = f'"{value}" {effect}; GPUs of this node are held by {counted_names("pod", pods)}'
            yield problem(label_path(label), text)


def _is_on(pod: object, node: str) -> bool:
    return bool(node) and lookup(pod, ("spec", "nodeName")) == node
