"""Advertised: the resources of the device plugin and the labels of GPU Feature Discovery on a node.

Source: github.com/NVIDIA/k8s-device-plugin internal/rm/device_map.go (resources), internal/lm (labels), api/config/v1
(sharing).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.kubernetes.nodes import labels_of
from policies.kubernetes.paths import mapping_at
from policies.nvidia.identifiers import COUNT_LABEL, GPU_RESOURCE, MEMORY_LABEL, PRODUCT_LABEL
from policies.nvidia.resources import parse_resource
from policies.plan.hardware import COUNT_SUFFIX, MIG_PREFIX, REPLICAS_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.kubernetes.objects import Object
    from policies.nvidia.mig import MIGProfile
    from policies.plan.hardware import Cut, Hardware
    from policies.plan.node_configuration import NodeConfiguration, Sharing

__all__ = ["Advertised", "advertisement", "with_advertised"]

_SHARING_LABEL = "nvidia.com/gpu.sharing-strategy"
_STRATEGY_LABEL = "nvidia.com/mig.strategy"
_MPS_LABEL = "nvidia.com/mps.capable"
_OWN_LABELS = (PRODUCT_LABEL, COUNT_LABEL, REPLICAS_LABEL, MEMORY_LABEL, _SHARING_LABEL, _STRATEGY_LABEL, _MPS_LABEL)
_OF_MIG_DEVICES = ("multiprocessors", "slices.gi", "slices.ci")
"""Further labels of MIG devices under the single strategy, under `nvidia.com/gpu.`."""


@dataclass(frozen=True, slots=True)
class Advertised:
    """What the components of the operator say of a node's GPUs."""

    resources: Mapping[str, int]
    """Allocatable amounts above 0 of the device plugin."""
    labels: Mapping[str, str]
    """Labels whose values follow from the configuration."""


def advertisement(hardware: Hardware, cut: Cut, configuration: NodeConfiguration) -> Advertised:
    """What the device plugin and GPU Feature Discovery advertise for GPUs that are cut in a certain way."""
    resources, is_invalid = _devices(cut, configuration.strategy)
    is_single = configuration.strategy == "single" and bool(cut.devices) and not is_invalid
    labels = _node_labels(hardware, cut, configuration, is_single=is_single, is_invalid=is_invalid)
    if configuration.strategy == "mixed":
        for profile, count in cut.devices.items():
            labels |= _profile_labels(hardware, profile, count, configuration.sharing)
    shared: dict[str, int] = {}
    for resource, count in resources.items():
        sharing = configuration.sharing.get(resource)
        name = f"{resource}.shared" if sharing is not None and sharing.is_renamed else resource
        shared[name] = count * (sharing.replicas if sharing is not None else 1)
    is_advertised = configuration.advertises and not is_invalid
    return Advertised({name: count for name, count in shared.items() if count} if is_advertised else {}, labels)


def with_advertised(node: Object, before: Advertised, after: Advertised) -> Object:
    """The node after the components have started again; resources that are gone stay with an amount of 0."""
    labels = {
        name: value
        for name, value in labels_of(node).items()
        if not (name in before.labels or name in _OWN_LABELS or _is_of_profile(name)) or name in after.labels
    }
    allocatable = dict(mapping_at(node, ("status", "allocatable")))
    capacity = dict(mapping_at(node, ("status", "capacity")))
    for amounts in (allocatable, capacity):
        gone = {name: "0" for name in amounts if parse_resource(name) is not None}
        amounts.update(gone | {name: str(count) for name, count in after.resources.items()})
    return {
        **node,
        "metadata": {**node["metadata"], "labels": {**labels, **after.labels}},
        "status": {**mapping_at(node, ("status",)), "allocatable": allocatable, "capacity": capacity},
    }


def _devices(cut: Cut, strategy: str) -> tuple[dict[str, int], bool]:
    """The devices of each resource before they are shared; True if the single strategy finds them invalid."""
    if strategy == "single" and cut.devices:
        is_uniform = len(cut.devices) == 1 and not cut.whole and all(gpu for gpu in cut.by_gpu)
        return ({GPU_RESOURCE: sum(cut.devices.values())} if is_uniform else {}), not is_uniform
    found = {GPU_RESOURCE: cut.whole}
    if strategy == "mixed":
        found |= {f"{MIG_PREFIX}{profile.label}": count for profile, count in cut.devices.items()}
    return found, False


def _node_labels(
    hardware: Hardware, cut: Cut, configuration: NodeConfiguration, *, is_single: bool, is_invalid: bool
) -> dict[str, str]:
    sharing = configuration.sharing.get(GPU_RESOURCE)
    product, count, memory, replicas = hardware.product, hardware.gpus, hardware.memory, 1
    if is_single:
        (profile,) = cut.devices
        product, count, memory = f"{product}-MIG-{profile.label}", cut.devices[profile], _memory(hardware, profile)
    elif is_invalid:
        product, count, memory, replicas, sharing = f"{product}-MIG-INVALID", 0, 0, 0, None
    elif not cut.whole:
        replicas, sharing = 0, None
    if sharing is not None:
        replicas = sharing.replicas
        product += "" if sharing.is_renamed else "-SHARED"
    strategy = configuration.strategy
    return {
        **({PRODUCT_LABEL: product} if hardware.product else {}),
        COUNT_LABEL: str(count),
        REPLICAS_LABEL: str(replicas),
        _SHARING_LABEL: "" if is_invalid else "none" if sharing is None else sharing.strategy,
        **({MEMORY_LABEL: str(memory)} if memory is not None else {}),
        **({_STRATEGY_LABEL: strategy} if strategy != "none" else {}),
        _MPS_LABEL: "true" if sharing is not None and sharing.strategy == "mps" and not cut.devices else "false",
    }


def _profile_labels(
    hardware: Hardware, profile: MIGProfile, count: int, sharing: Mapping[str, Sharing]
) -> dict[str, str]:
    name = f"{MIG_PREFIX}{profile.label}"
    shared = sharing.get(name)
    memory = _memory(hardware, profile)
    suffix = "-SHARED" if shared is not None and not shared.is_renamed else ""
    return {
        f"{name}.product": f"{hardware.product}-MIG-{profile.label}{suffix}",
        f"{name}{COUNT_SUFFIX}": str(count),
        f"{name}.replicas": str(shared.replicas if shared is not None else 1),
        f"{name}.sharing-strategy": shared.strategy if shared is not None else "none",
        **({f"{name}.memory": str(memory)} if memory is not None else {}),
    }


def _memory(hardware: Hardware, profile: MIGProfile) -> int | None:
    """About the memory of a MIG device in MiB: its part of the whole GPU."""
    match = hardware.mig.match(profile) if hardware.mig is not None else None
    if match is None or hardware.mig is None or hardware.memory is None:
        return None
    return hardware.memory * match.shape.memory_slices // hardware.mig.layout.memory_slices


def _is_of_profile(name: str) -> bool:
    """True for a label of MIG devices."""
    return name.startswith(MIG_PREFIX) or name.removeprefix("nvidia.com/gpu.").startswith(
        (*_OF_MIG_DEVICES, "engines.")
    )
