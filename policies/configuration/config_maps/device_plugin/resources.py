"""Resources that a configuration shares: names that the device plugin has, and no MIG devices by MPS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.configuration.config_maps.device_plugin.configuration import CONFIGURATION
from policies.configuration.config_maps.device_plugin.usage import nodes_using, policy_strategy
from policies.configuration.named_objects import the_nodes
from policies.decision import Severity
from policies.fleet.offers import NodeState, read_hardware
from policies.fleet.offers.labels import LABELS_WITH_MIG, label_offer
from policies.fleet.offers.plugin import MPS_WITH_MIG, MPS_WITH_MIXED, plugin_refusal
from policies.fleet.offers.shown import LabelledResource, labelled_devices
from policies.kubernetes.nodes import labels_of
from policies.nvidia.identifiers import GPU_RESOURCE
from policies.nvidia.plugin_names import guess_resource, name_error
from policies.nvidia.resources import parse_resource
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.checks import Problem
    from policies.configuration.config_maps.device_plugin.configuration import Configuration
    from policies.kubernetes.objects import Object
    from policies.nvidia.plugin_configs import SharedResource, Strategy

__all__ = ["has_mig_devices"]

_NO_EFFECT = "the device plugin finds no device of that name and silently shares nothing"
MIXED = f"the device plugin would exit with: {MPS_WITH_MIXED}"


@CONFIGURATION.rule(
    "GA138",
    "MPS must share whole GPUs, not MIG devices",
    default=Severity.DENY,
    remedy="share MIG devices by timeSlicing, or whole GPUs by mps",
    source="github.com/NVIDIA/k8s-device-plugin cmd/nvidia-device-plugin/main.go, internal/lm/nvml.go",
    rows=("G-12", "G-13"),
)
def no_mps_with_mig(configuration: Configuration) -> Iterator[Problem]:
    """The MPS control daemon cannot serve a MIG device.

    Under "mixed" the device plugin exits, and under "single" on nodes with MIG devices. On a node whose GPUs are cut by
    MIG, GPU Feature Discovery exits under every strategy, so that the node keeps stale labels. An entry for a MIG resource
    is ignored, because MIG devices have such names only under "mixed". The strategy is the ClusterPolicy's where it has
    one, and the file's otherwise.
    """
    mps = configuration.strategy("mps")
    if mps is None:
        return
    at = configuration.embedded.problem
    steps, _ = configuration.find("flags", "migStrategy")
    of_policy = policy_strategy(configuration.change)
    if of_policy == "mixed":
        text = f"cannot be while spec.mig.strategy of the ClusterPolicy is mixed; {MIXED}"
        yield at(mps.steps, text, "share by timeSlicing, or write spec.mig.strategy: none", of_key=True)
    elif not of_policy and configuration.mig_strategy == "mixed":
        yield at(steps, f"is mixed, and mps shares GPUs below; {MIXED}", "write none, or share by timeSlicing")
    for resource in mps.resources():
        if resource.name.startswith("nvidia.com/mig-"):
            text = f"is {resource.name}, and MPS shares no MIG device; {_NO_EFFECT}"
            yield at((*resource.steps, "name"), text, "share it by timeSlicing", severity=Severity.WARN)
    strategy = of_policy or configuration.mig_strategy or "none"
    if strategy != "mixed":
        yield from _on_cut_nodes(configuration, mps, strategy)


def _on_cut_nodes(configuration: Configuration, mps: Strategy, strategy: str) -> Iterator[Problem]:
    """The nodes with MPS that MIG cuts: those where the plugin exits, and those without new labels."""
    nodes = nodes_using(configuration.change, configuration.key)
    exits, unlabelled = [], []
    for node in () if nodes is UNKNOWN else nodes:
        shown = read_hardware(node)
        if shown is None:
            unlabelled += [node] if has_mig_devices(node) else []
            continue
        hardware, cut = shown
        if plugin_refusal(hardware.gpus, cut, strategy, configuration) == MPS_WITH_MIG:
            exits.append(node)
        elif label_offer(hardware, NodeState(cut, strategy, configuration)).refusal == LABELS_WITH_MIG:
            unlabelled.append(node)
    remedy = "share by timeSlicing, or give these nodes a configuration of their own"
    for found, component, words in (
        (exits, "the device plugin", MPS_WITH_MIG),
        (unlabelled, "GPU Feature Discovery", LABELS_WITH_MIG),
    ):
        if found:
            text = f"is for {the_nodes(found)} too, with GPUs cut by MIG, where {component} would exit with: {words}"
            severity = Severity.WARN if found is unlabelled else None
            yield configuration.embedded.problem(mps.steps, text, remedy, severity=severity, of_key=True)


def has_mig_devices(node: Object) -> bool:
    """True if the labels of a node show MIG devices."""
    labels = labels_of(node)
    return LabelledResource(GPU_RESOURCE, labels).product.profile is not None or bool(labelled_devices(labels))


@CONFIGURATION.rule(
    "GA140",
    "A shared resource must be one that the device plugin has",
    default=Severity.DENY,
    remedy="write nvidia.com/gpu, or nvidia.com/mig-<profile> with migStrategy mixed",
    source="github.com/NVIDIA/k8s-device-plugin internal/rm/device_map.go",
    rows=("G-15", "G-25", "S-31", "S-52"),
)
def known_resources(configuration: Configuration) -> Iterator[Problem]:
    """A resource that no device belongs to is skipped: no error, no log line, and every GPU stays whole.

    MIG devices have resources of their own only under the mixed strategy; under single they are nvidia.com/gpu, and
    under none they are not handed out.
    """
    for resource in configuration.shared_resources():
        if resource.name and name_error(resource.item["name"]) is None:
            yield from _of_resource(configuration, resource)


def _of_resource(configuration: Configuration, resource: SharedResource) -> Iterator[Problem]:
    steps = (*resource.steps, "name")
    at = configuration.embedded.problem
    known = parse_resource(resource.name)
    strategy = policy_strategy(configuration.change) or configuration.mig_strategy
    if known is None:
        guess = guess_resource(resource.name)
        severity = None if guess else Severity.WARN
        remedy = f'write "{guess}"' if guess else None
        yield at(steps, f"is {resource.name}; {_NO_EFFECT}", remedy, severity=severity)
    elif known.shared:
        text = f"is {resource.name}, the name that a resource has after it is shared; {_NO_EFFECT}"
        yield at(steps, text, f'write "{resource.name.removesuffix(".shared")}", with renameByDefault: true')
    elif known.mig and known.profile is None:
        text = f"is {resource.name}, which names no MIG profile; {_NO_EFFECT}"
        yield at(steps, text, "write a profile as resources spell it, such as nvidia.com/mig-1g.10gb")
    elif known.mig and strategy in ("none", "single") and resource.strategy.name == "timeSlicing":
        text = (
            f"is {resource.name}, which there is only under the MIG strategy mixed, and it is {strategy}; {_NO_EFFECT}"
        )
        remedy = "write the strategy mixed"
        if strategy == "single":
            remedy += f", or {GPU_RESOURCE}, which a MIG device is under single"
        yield at(steps, text, remedy, severity=Severity.WARN)
    elif not known.mig and strategy == "single" and resource.strategy.name == "timeSlicing":
        nodes = nodes_using(configuration.change, configuration.key)
        cut = [] if nodes is UNKNOWN else [node for node in nodes if has_mig_devices(node)]
        if cut:
            text = f"slices every MIG device of {the_nodes(cut)}, because under single these are {GPU_RESOURCE}"
            remedy = "leave it so if MIG devices are to be shared"
            yield at(steps, text, remedy, severity=Severity.AUDIT)
