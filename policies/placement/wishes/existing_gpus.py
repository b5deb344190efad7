"""GPUs that a pod could get for a resource, by labels of nodes, or by ResourceSlices without labels."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.dra.published_devices import gpu_groups
from policies.fleet.gpu_nodes import gpu_nodes
from policies.nvidia.identifiers import COMPUTE_LABELS, FAMILY_LABEL, PRODUCT_LABEL
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

__all__ = ["ExistingGPU", "GPUKind", "existing_gpus", "gpu_kinds", "kinds_with"]

_WISHED = re.compile(
    r"nvidia\.com/(gpu\.(product|memory|family|compute\.(major|minor)|sharing-strategy|slices\.gi)|"
    r"cuda\.(driver|runtime)-version\.(major|minor|revision|full)|mig-.*\.(product|memory|sharing-strategy))"
)
"""The labels that wishes are rendered to, and those that tell people the same."""


@dataclass(frozen=True, slots=True)
class GPUKind:
    """Nodes whose labels say the same of their GPUs."""

    labels: Mapping[str, str]
    """Those that wishes are about."""
    offers: frozenset[str]
    """The resources that their kubelets have to allocate."""
    types: frozenset[str]
    """The types of the devices that a DRA driver publishes for them."""
    nodes: int


def gpu_kinds(view: ClusterView) -> tuple[GPUKind, ...] | Unknown:
    """The kinds of GPUs that labels describe. Use it by `view.derive(gpu_kinds)`."""
    nodes = gpu_nodes(view)
    if nodes is UNKNOWN:
        return UNKNOWN
    types = _types_by_node(view)
    by_traits = Counter((id(node.traits), types.get(node.name, frozenset())) for node in nodes.nodes)
    known = {id(node.traits): node.traits for node in nodes.nodes}
    shown = {key: (_wished_labels(traits), traits.offers) for key, traits in known.items()}
    counts: Counter[tuple[frozenset[tuple[str, str]], frozenset[str], frozenset[str]]] = Counter()
    for (traits, found), count in by_traits.items():
        counts[(*shown[traits], found)] += count
    return tuple(GPUKind(dict(labels), offers, found, count) for (labels, offers, found), count in counts.items())


def _wished_labels(traits: NodeTraits) -> frozenset[tuple[str, str]]:
    return frozenset((key, value) for key, value in traits.labels if _WISHED.fullmatch(key))


def kinds_with(kinds: tuple[GPUKind, ...], requested: RequestedGPU) -> list[GPUKind]:
    """The kinds of labelled nodes that could give a pod the requested resource."""
    return [
        kind
        for kind in kinds
        if requested.name in kind.offers
        or (PRODUCT_LABEL in kind.labels and requested.devices is not None and requested.devices.kind in kind.types)
    ]


def _types_by_node(view: ClusterView) -> Mapping[str, frozenset[str]]:
    groups = gpu_groups(view)
    nodes: defaultdict[str, set[str]] = defaultdict(set)
    for group in () if groups is UNKNOWN else groups:
        nodes[group.type].update(group.by_node)
    types: dict[str, frozenset[str]] = {}
    for name, having in nodes.items():
        alone = frozenset({name})
        united: dict[frozenset[str], frozenset[str]] = {}
        for node in having:
            before = types.get(node)
            types[node] = alone if before is None else united.setdefault(before, before | alone)
    return types


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


def existing_gpus(requested: RequestedGPU, view: ClusterView) -> list[ExistingGPU]:
    """What a pod could get for a resource now, whatever it wishes; nothing while nodes are unknown."""
    kinds = view.derive(gpu_kinds)
    if kinds is UNKNOWN:
        return []
    prefix = label_prefix(requested.labels) if requested.labels else ""
    labelled = [_of_labels(kind.labels, prefix, kind.nodes) for kind in kinds_with(kinds, requested)] if prefix else []
    return [*labelled, *(_of_devices(each.group, len(each.hostnames)) for each in unlabelled_gpus(requested, view))]


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
