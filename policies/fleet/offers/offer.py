"""The offer of a node, by its hardware and configuration: resources and labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from policies.fleet.offers.hardware import is_label_of_hardware
from policies.fleet.offers.shown import COUNT_SUFFIX, ENGINE_LABELS, MIG_PREFIX
from policies.nvidia.identifiers import GPU_RESOURCE, MEMORY_LABEL, MIG_CAPABLE_LABEL, MIG_STRATEGY_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.fleet.offers.hardware import Cut, Hardware, NodeState
    from policies.nvidia.mig import MIGProfile
    from policies.nvidia.plugin_configs import PluginConfig, Sharing


LABELS_WITH_MIG = "MPS sharing is not supported for mig devices"
_MPS_LABEL = "nvidia.com/mps.capable"
_OF_STATE = (
    *(f"{GPU_RESOURCE}.{name}" for name in ("product", "count", "replicas", "memory", "sharing-strategy")),
    f"{GPU_RESOURCE}.multiprocessors",
    MIG_STRATEGY_LABEL,
    _MPS_LABEL,
)
_OF_STATE_PREFIXES = (MIG_PREFIX, f"{GPU_RESOURCE}.slices.", f"{GPU_RESOURCE}.engines.")


@dataclass(frozen=True, slots=True)
class LabelOffer:
    """The labels of a GPU Feature Discovery that has started, or the reason for which it exits."""

    labels: Mapping[str, str] = field(default_factory=dict)
    refusal: str = ""
    """The message with which it exits, so that the node keeps its labels; empty if it starts."""
    predicted: frozenset[str] = frozenset()
    """The names of labels whose values are estimates: the memory of MIG devices that no GPU has yet."""


def is_label_of_discovery(name: str) -> bool:
    """True for a label that GPU Feature Discovery sets.

    Source: github.com/NVIDIA/k8s-device-plugin internal/lm.
    """
    return is_label_of_hardware(name) or is_label_of_state(name)


def is_label_of_state(name: str) -> bool:
    """True for a label that follows from how GPUs are cut and shared."""
    return name in _OF_STATE or name.startswith(_OF_STATE_PREFIXES)


def label_offer(hardware: Hardware, state: NodeState) -> LabelOffer:
    """The labels of the GPUs of a node; labels whose value is unknown are left out."""
    config, cut = state.config, state.cut
    if config.label_error:
        return LabelOffer(refusal=config.label_error)
    sharing = config.sharing
    is_mps, has_mig = sharing is not None and sharing.strategy == "mps", cut.has_mig(hardware.gpus)
    if is_mps and has_mig:
        return LabelOffer(refusal=LABELS_WITH_MIG)
    labels = {MIG_CAPABLE_LABEL: "true" if hardware.mig is not None else "false", **hardware.labels}
    # Without a whole GPU, those with MIG on are described as not shared, with 0 replicas.
    labels |= _base(GPU_RESOURCE, hardware.product, hardware.gpus, sharing if cut.whole else None)
    if not cut.whole:
        labels[f"{GPU_RESOURCE}.replicas"] = "0"
    if hardware.memory is not None:
        labels[MEMORY_LABEL] = str(hardware.memory)
    labels[_MPS_LABEL] = "true" if is_mps else "false"
    predicted: set[str] = set()
    if state.strategy in ("single", "mixed"):
        labels[MIG_STRATEGY_LABEL] = state.strategy
    if state.strategy == "mixed":
        for profile, count in cut.devices.items():
            found, estimates = _of_devices(f"{MIG_PREFIX}{profile.label}", hardware, profile, count, sharing)
            labels |= found
            predicted |= estimates
    elif state.strategy == "single" and has_mig:
        if _is_invalid(cut, hardware.gpus):
            invalid = {"product": f"{hardware.product}-MIG-INVALID", "count": "0", "replicas": "0", "memory": "0"}
            invalid["sharing-strategy"] = ""
            labels |= {f"{GPU_RESOURCE}.{name}": value for name, value in invalid.items()}
        else:
            labels.pop(MEMORY_LABEL, None)
            for profile, count in cut.devices.items():
                found, estimates = _of_devices(GPU_RESOURCE, hardware, profile, count, sharing)
                labels |= found
                predicted |= estimates
    if not hardware.product:
        labels = {name: value for name, value in labels.items() if not name.endswith(".product")}
    return LabelOffer(labels, predicted=frozenset(predicted))


def _is_invalid(cut: Cut, gpus: int) -> bool:
    """True if the single strategy does not go with the GPUs.

    Source: internal/lm/mig-strategy.go newMigStrategySingleLabeler.
    """
    return cut.first_empty_gpu(gpus) is not None or bool(cut.whole) or len(cut.devices) != 1


def _base(resource: str, product: str, count: int, sharing: Sharing | None) -> dict[str, str]:
    """Product, count, replicas and sharing strategy of a resource.

    Source: internal/lm/resource.go baseLabeler.
    """
    replicas = sharing.labelled_replicas(resource) if sharing is not None else 1
    is_shared = sharing is not None and replicas > 1
    suffix = "-SHARED" if sharing is not None and is_shared and not sharing.is_renamed else ""
    return {
        f"{resource}.product": f"{product}{suffix}",
        f"{resource}{COUNT_SUFFIX}": str(count),
        f"{resource}.replicas": str(replicas),
        f"{resource}.sharing-strategy": sharing.strategy if sharing is not None and is_shared else "none",
    }


def _of_devices(
    resource: str, hardware: Hardware, profile: MIGProfile, count: int, sharing: Sharing | None
) -> tuple[dict[str, str], set[str]]:
    """The labels of MIG devices of one profile, and the names of those that are estimates."""
    labels = _base(resource, f"{hardware.product}-MIG-{profile.label}", count, sharing)
    labels[f"{resource}.slices.gi"] = str(profile.gpu_slices)
    labels[f"{resource}.slices.ci"] = str(profile.compute_slices or profile.gpu_slices)
    size = hardware.size(profile)
    memory = f"{resource}.memory"
    if size.memory is not None:
        labels[memory] = str(size.memory)
    engines = zip(ENGINE_LABELS, size.engines, strict=True)
    labels |= {f"{resource}.{name}": str(number) for name, number in engines if number is not None}
    return labels, set() if size.bounds is None else {memory}


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
