"""GPUs that a pod could get for a resource, by labels of nodes, or by ResourceSlices without labels."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from policies.dra.published_devices import published_devices
from policies.fleet.gpu_nodes import gpu_nodes
from policies.nvidia.identifiers import (
    COMPUTE_LABELS,
    CUDA_VERSION_LABEL,
    DRIVER_VERSION_LABEL,
    FAMILY_LABEL,
    PRODUCT_LABEL,
)
from policies.nvidia.identifiers import DRIVER as DRIVER_NAME
from policies.nvidia.predicates.predicate import attribute_of
from policies.placement.wishes.product_labels import SHARED, label_prefix
from policies.placement.wishes.wanted_nodes import unlabelled_gpus
from policies.view import UNKNOWN, ClusterView, Unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.dra.device_groups import DeviceGroup
    from policies.fleet.gpu_nodes import NodeTraits
    from policies.placement.wishes.requested_gpus import RequestedGPU

__all__ = ["ExistingGPU", "existing_gpus", "gpu_kinds"]

_NO_TYPES = frozenset[str]()


class GPUKind(NamedTuple):
    """Nodes with GPUs that have the same traits and the same types of published devices."""

    traits: NodeTraits
    types: frozenset[str]
    """The types of the devices that NVIDIA's GPU driver publishes for them."""
    nodes: int

    def offers(self, requested: RequestedGPU) -> bool:
        """True if the nodes could give a pod the requested resource."""
        if requested.name in self.traits.offers:
            return True
        is_published = requested.devices is not None and requested.devices.kind in self.types
        return is_published and PRODUCT_LABEL in self.traits.label_values


def gpu_kinds(view: ClusterView) -> tuple[GPUKind, ...] | Unknown:
    """The kinds of GPU nodes of a cluster. Use it by `view.derive(gpu_kinds)`."""
    nodes, devices = gpu_nodes(view), view.derive(published_devices)
    if nodes is UNKNOWN:
        return UNKNOWN
    types = {} if devices is UNKNOWN else devices.types_by_node
    counts = Counter((id(node.traits), types.get(node.name, _NO_TYPES)) for node in nodes.nodes)
    return tuple(GPUKind(nodes.traits_by_identity[key], found, count) for (key, found), count in counts.items())


_MEBI = 1024**2


@dataclass(frozen=True, slots=True)
class ExistingGPU:
    """GPUs of one kind."""

    product: str
    """As labels spell it, without `-SHARED`; empty if unknown."""
    nodes: int
    """The number of nodes with such a GPU."""
    memory: str
    """`81559Mi`; empty if unknown, as all other fields."""
    family: str
    compute_capability: str
    driver: str
    cuda: str
    sharing: str
    """`none`, `mps` or `time-slicing`; `claims` where a DRA driver lets several claims hold a device."""
    labels: Mapping[str, str]
    """Of the nodes."""
    group: DeviceGroup | None = None
    """The devices, where they are known by ResourceSlices and not by labels."""


def existing_gpus(requested: RequestedGPU, view: ClusterView) -> list[ExistingGPU]:
    """The GPUs that a pod could get for a resource now, with any wish; none while nodes are unknown."""
    kinds = view.derive(gpu_kinds)
    if kinds is UNKNOWN:
        return []
    prefix = label_prefix(requested.labels) if requested.labels else ""
    labelled = [
        _of_labels(kind.traits.label_values, prefix, kind.nodes) for kind in kinds if prefix and kind.offers(requested)
    ]
    return [*labelled, *(_of_devices(each.group, len(each.hostnames)) for each in unlabelled_gpus(requested, view))]


def _of_labels(labels: Mapping[str, str], prefix: str, nodes: int) -> ExistingGPU:
    memory = labels.get(f"{prefix}.memory")
    return ExistingGPU(
        product=labels.get(f"{prefix}.product", "").removesuffix(SHARED),
        nodes=nodes,
        memory=f"{memory}Mi" if memory else "",
        family=labels.get(FAMILY_LABEL, ""),
        compute_capability=".".join(labels[key] for key in COMPUTE_LABELS if key in labels),
        driver=labels.get(DRIVER_VERSION_LABEL, ""),
        cuda=labels.get(CUDA_VERSION_LABEL, ""),
        sharing=labels.get(f"{prefix}.sharing-strategy", ""),
        labels=labels,
    )


def _of_devices(group: DeviceGroup, nodes: int) -> ExistingGPU:
    device = group.first
    memory = device.capacity.get(f"{DRIVER_NAME}/memory")
    return ExistingGPU(
        product=group.product.replace(" MIG ", "-MIG-"),
        nodes=nodes,
        memory="" if memory is None else f"{memory // _MEBI}Mi",
        family=str(attribute_of(device, "architecture") or "").lower().replace(" ", "-"),
        compute_capability=str(attribute_of(device, "cudaComputeCapability") or "").removesuffix(".0"),
        driver=str(attribute_of(device, "driverVersion") or ""),
        cuda=str(attribute_of(device, "cudaDriverVersion") or "").removesuffix(".0"),
        sharing="claims" if device.is_shareable else "none",
        labels={},
        group=group,
    )
