"""The GPUs that a pod could get for a resource, by the labels of nodes or by ResourceSlices where there are none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.nvidia.identifiers import COMPUTE_LABELS, FAMILY_LABEL
from policies.nvidia.identifiers import DRIVER as DRIVER_NAME
from policies.nvidia.predicates.predicate import attribute_of
from policies.placement.wishes.gpu_kinds import gpu_kinds, offering
from policies.placement.wishes.node_names import unlabelled_gpus
from policies.placement.wishes.product_labels import SHARED, label_prefix
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.dra.device_groups import DeviceGroup
    from policies.placement.wishes.asked_gpus import AskedGPU
    from policies.view import ClusterView

__all__ = ["ExistingGPU", "existing_gpus"]

_MEBI = 1024**2


@dataclass(frozen=True, slots=True)
class ExistingGPU:
    """GPUs of one kind."""

    product: str
    """As labels spell it, without `-SHARED`; empty where nothing tells."""
    nodes: int
    """How many nodes have such a GPU."""
    memory: str
    """`81559Mi`; empty where nothing tells, here as in all that follows."""
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


def existing_gpus(asked: AskedGPU, view: ClusterView) -> list[ExistingGPU]:
    """What a pod could get for a resource now, whatever it wishes; nothing while nodes are unknown."""
    kinds = view.derive(gpu_kinds)
    if kinds is UNKNOWN:
        return []
    prefix = label_prefix(asked.labels) if asked.labels else ""
    labelled = [_of_labels(kind.labels, prefix, kind.nodes) for kind in offering(kinds, asked)] if prefix else []
    return [*labelled, *(_of_devices(each.group, len(each.hostnames)) for each in unlabelled_gpus(asked, view))]


def _of_labels(labels: Mapping[str, str], prefix: str, nodes: int) -> ExistingGPU:
    memory = labels.get(f"{prefix}.memory")
    return ExistingGPU(
        product=labels.get(f"{prefix}.product", "").removesuffix(SHARED),
        nodes=nodes,
        memory=f"{memory}Mi" if memory else "",
        family=labels.get(FAMILY_LABEL, ""),
        compute_capability=".".join(labels[key] for key in COMPUTE_LABELS if key in labels),
        driver=labels.get("nvidia.com/cuda.driver-version.full", ""),
        cuda=labels.get("nvidia.com/cuda.runtime-version.full", ""),
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
