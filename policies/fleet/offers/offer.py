"""The offer of a node, by its hardware and configuration: resources, labels and published devices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from policies.fleet.offers.labels import LabelOffer, label_offer
from policies.fleet.offers.published import published_slices
from policies.fleet.offers.shown import MIG_PREFIX
from policies.nvidia.identifiers import GPU_RESOURCE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.fleet.offers.hardware import Cut, Hardware
    from policies.fleet.offers.published import PublishedSlice
    from policies.fleet.offers.state import NodeState
    from policies.nvidia.plugin_configs import PluginConfig

__all__ = [
    "MPS_WITH_MIG",
    "MPS_WITH_MIXED",
    "NodeOffer",
    "PluginOffer",
    "cut_refusal",
    "offer_of",
    "plugin_offer",
    "plugin_refusal",
]


MPS_WITH_MIXED = "using --mig-strategy=mixed is not supported with MPS"
MPS_WITH_MIG = "sharing using MPS is not supported for MIG devices"


@dataclass(frozen=True, slots=True)
class PluginOffer:
    """The resources of a device plugin that has started, or the reason for which it exits."""

    resources: Mapping[str, int] = field(default_factory=dict)
    """The number of devices or shares of each resource, above 0."""
    refusal: str = ""
    """The message with which the plugin exits; empty if it starts."""
    single: frozenset[str] = frozenset()
    """The resources of which a container may request only one; the plugin refuses more."""


def plugin_offer(gpus: int, state: NodeState) -> PluginOffer:
    """The offer of the device plugin on a node with so many GPUs; empty if it does not run."""
    if not state.has_plugin:
        return PluginOffer()
    if refusal := plugin_refusal(gpus, state.cut, state.strategy, state.config):
        return PluginOffer(refusal=refusal)
    cut, sharing = state.cut, state.config.sharing
    if state.strategy == "none":
        # The plugin skips GPUs with MIG on only under the other strategies.
        devices = {GPU_RESOURCE: gpus}
    elif state.strategy == "single":
        devices = {GPU_RESOURCE: cut.whole + sum(cut.devices.values())}
    else:
        devices = {GPU_RESOURCE: cut.whole}
        devices |= {f"{MIG_PREFIX}{profile.label}": count for profile, count in cut.devices.items()}
    resources, single = {}, set()
    for resource, count in devices.items():
        if count:
            replicas = sharing.replicas(resource) if sharing is not None else 1
            name = sharing.offered_name(resource) if sharing is not None else resource
            resources[name] = count * replicas
            if sharing is not None and replicas > 1 and sharing.fails_above_one:
                single.add(name)
    return PluginOffer(resources, single=frozenset(single))


def plugin_refusal(gpus: int, cut: Cut, strategy: str, config: PluginConfig) -> str:
    """The message with which the device plugin exits; empty if it starts.

    Source: cmd/nvidia-device-plugin/main.go startPlugins, validateFlags; internal/rm/device_map.go
    buildDeviceMapFromConfigResources; internal/plugin/mps.go getMPSOptions.
    """
    if config.error:
        return config.error
    sharing = config.sharing
    is_mps = sharing is not None and sharing.strategy == "mps"
    if is_mps and strategy == "mixed":
        return MPS_WITH_MIXED
    if refusal := cut_refusal(gpus, cut, strategy):
        return refusal
    return MPS_WITH_MIG if is_mps and strategy == "single" and cut.devices else ""


def cut_refusal(gpus: int, cut: Cut, strategy: str) -> str:
    """The message with which the device plugin exits at a cut, whatever it shares; empty if it starts.

    Under `mixed` it has a resource for each profile that fills its GPU instance. Under `single` it takes MIG devices of
    any profile, if all GPUs have the same.

    Source: internal/rm/rm.go AddDefaultResourcesToConfig; internal/rm/device_map.go buildMigDeviceMap and
    assertAllMigDevicesAreValid.
    """
    if strategy == "mixed":
        unnamed = next((profile for profile in cut.devices if profile.shares_gpu_instance), None)
        return f"MIG profile '{unnamed}' does not match any resource patterns" if unnamed is not None else ""
    if strategy == "single" and cut.has_mig(gpus):
        empty = cut.first_empty_gpu(gpus)
        if empty is not None:
            return f"device {empty} has no MIG devices configured"
        if len(cut.devices) > 1:
            return "more than one MIG device type present on node"
        if cut.whole and cut.devices:
            return "all devices on the node must be configured with the same migEnabled value"
    return ""


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """The offer of a node.

    Values are exact unless `plugin.refusal`, `labels.predicted` or `unpublished` say otherwise, or `estimated_sizes` of the
    devices. What does not change keeps the values that were measured.
    """

    plugin: PluginOffer = field(default_factory=PluginOffer)
    labels: LabelOffer = field(default_factory=LabelOffer)
    slices: tuple[PublishedSlice, ...] = ()
    """The slices of the DRA driver; empty if it does not run."""
    unpublished: str = ""
    """The reason why the slices cannot be predicted, as a clause; empty if they can."""


def offer_of(hardware: Hardware, state: NodeState) -> NodeOffer:
    """The offer of a node with this hardware in this state."""
    slices = published_slices(hardware, state)
    return NodeOffer(
        plugin_offer(hardware.gpus, state),
        label_offer(hardware, state),
        () if isinstance(slices, str) else slices,
        slices if isinstance(slices, str) else "",
    )
