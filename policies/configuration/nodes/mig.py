"""MIG on a node: whether its GPUs, the strategy, its workload and its pods allow a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.config_maps.mig_parted.profiles import LIST_PROFILES, Misfit, misfits
from policies.configuration.named_objects import counted_names, gpu_pods
from policies.configuration.nodes.labels import NODE, label_path, newly_set
from policies.configuration.selectable_configs import selectable_configs, unfit_for_single
from policies.decision import Severity
from policies.fleet.device_plugin import WORKLOAD_CONFIG, node_workload, runs_device_plugin
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.paths import lookup
from policies.kubernetes.quantities import parse_integer
from policies.nvidia.identifiers import COUNT_LABEL, MIG_CONFIG_LABEL, PRODUCT_LABEL
from policies.nvidia.mig_configs import WHOLE
from policies.nvidia.mig_products import is_capable, node_product, shipped_configs
from policies.nvidia.products import Product

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.configuration.change import Change
    from policies.nvidia.mig_configs import Entry


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
    """A configuration that the GPUs do not have leaves the node in the state `failed`.

    GPUs that are cut into several kinds of devices under the strategy "single", or are cut at all under "none", are no
    longer handed out by the device plugin; nodes without it do not count. Virtual machines get whole GPUs, so a node for
    vm-passthrough must not be cut.
    """
    labels = labels_of(change.object)
    config = newly_set(change, MIG_CONFIG_LABEL)
    if config and config not in WHOLE:
        entries = selectable_configs(change.facts, change.name).entries(config, labels)
        yield from _possible(change, config, entries)
        yield from _handed_out(change, config, entries)
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
    product = node_product(labels)
    if product is None:
        return
    for entry in entries:
        for misfit in misfits(entry.counts, product) if entry.is_mig_enabled else ():
            what = f"requests {misfit.profile}, which {misfit.text}" if misfit.profile else misfit.text
            severity = None if misfit.certain else Severity.WARN
            failed = "; nvidia.com/mig.config.state would become failed" if misfit.certain else ""
            yield problem(path, f'"{config}" {what}{failed}', _remedy(config, misfit), severity=severity)
    yield from _missing_gpus(change, config, entries)


def _remedy(config: str, misfit: Misfit) -> str | None:
    if not misfit.certain:
        return LIST_PROFILES
    return f'write "all-{misfit.instead}"' if misfit.instead and config in shipped_configs() else None


def _missing_gpus(change: Change, config: str, entries: Sequence[Entry]) -> Iterator[Problem]:
    """GPU numbers that the node does not have; its label counts GPUs unless "single" divides them."""
    labels = labels_of(change.object)
    count = parse_integer(labels.get(COUNT_LABEL, "")) or 0
    whole = Product.parse(labels.get(PRODUCT_LABEL, ""))
    if whole.profile or whole.invalid or count <= 0:
        return
    numbers = sorted({number for entry in entries for number in entry.devices or () if number >= count})
    if numbers:
        text = f'"{config}" is for GPU {numbers[0]}, and the last of this node is {count - 1}; mig.config.state would become failed'
        yield problem(label_path(MIG_CONFIG_LABEL), text)


def _handed_out(change: Change, config: str, entries: Sequence[Entry]) -> Iterator[Problem]:
    if not runs_device_plugin(change.object, change.facts.view):
        return
    path = label_path(MIG_CONFIG_LABEL)
    known = isinstance(change.facts.cluster_policy(), dict)
    strategy = change.facts.policy_value("mig", "strategy")
    if not known:
        strategy = labels_of(change.object).get("nvidia.com/mig.strategy")
    if strategy == "single" and (reason := unfit_for_single(entries)):
        remedy = "write a configuration with one profile for all GPUs, or set mig.strategy: mixed in the ClusterPolicy"
        yield problem(path, f'"{config}" does not go with mig.strategy "single": it {reason}', remedy)
    elif known and strategy in (None, "", "none") and is_capable(labels_of(change.object)) is not False:
        said = "is not set" if not strategy else "is none"
        text = f'"{config}" cuts GPUs, and mig.strategy of the ClusterPolicy {said}, so they are handed out as nothing'
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
