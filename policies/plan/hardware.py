"""Hardware: the GPUs that a node has, and how they are cut, as its labels say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from policies.kubernetes.nodes import allocatable, labels_of
from policies.nvidia.identifiers import COUNT_LABEL, GPU_RESOURCE, MEMORY_LABEL, PRODUCT_LABEL
from policies.nvidia.mig import MIGProfile
from policies.nvidia.mig_products import node_product
from policies.nvidia.products import Product

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.nvidia.mig_configs import Entry
    from policies.nvidia.mig_products import MIGProduct

__all__ = ["COUNT_SUFFIX", "MIG_PREFIX", "REPLICAS_LABEL", "Cut", "Hardware", "cut_by", "hardware_of"]

MIG_PREFIX, COUNT_SUFFIX = "nvidia.com/mig-", ".count"
REPLICAS_LABEL = "nvidia.com/gpu.replicas"


@dataclass(frozen=True, slots=True)
class Cut:
    """How the GPUs of a node are cut by MIG."""

    whole: int
    """GPUs with MIG off."""
    devices: Mapping[MIGProfile, int] = field(default_factory=dict)
    """MIG devices by profile, on all GPUs together."""
    by_gpu: tuple[Mapping[MIGProfile, int] | None, ...] = ()
    """The MIG devices of each GPU, None where MIG is off; empty if it is not known GPU by GPU."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """The GPUs of a node."""

    product: str
    """As labels spell it, without suffixes: `NVIDIA-A100-SXM4-80GB`; empty if it is not labelled."""
    gpus: int
    memory: int | None
    """Of one whole GPU in MiB; None if it is unknown."""
    mig: MIGProduct | None
    """None if MIG cannot cut it, or the product is unknown."""
    cut: Cut


def hardware_of(node: Object) -> Hardware | None:
    """The GPUs of a node; None if it has none, or their number is unknown."""
    labels = labels_of(node)
    label = Product.parse(labels.get(PRODUCT_LABEL, ""))
    count = _number(labels.get(COUNT_LABEL, ""))
    if count is None:
        offered = _number(allocatable(node, GPU_RESOURCE))
        return Hardware(label.name, offered, None, node_product(labels), Cut(offered)) if offered else None
    mig = node_product(labels)
    memory = _number(labels.get(MEMORY_LABEL, ""))
    if label.profile is not None:
        # Under the single strategy, the labels are those of the MIG devices.
        match = mig.match(label.profile) if mig is not None else None
        if match is None:
            return None
        whole_memory = mig.memory[0] * 1024 if mig is not None else None
        return Hardware(label.name, max(1, count // match.most), whole_memory, mig, Cut(0, {label.profile: count}))
    if label.invalid:
        return None
    cut = _mixed_cut(labels)
    if cut:
        offered = _number(allocatable(node, GPU_RESOURCE)) or 0
        replicas = _number(labels.get(REPLICAS_LABEL, "")) or 1
        return Hardware(label.name, count, memory, mig, Cut(min(count, offered // replicas), cut))
    is_whole = labels.get(REPLICAS_LABEL) != "0"
    return Hardware(label.name, count, memory, mig, Cut(count if is_whole else 0))


def cut_by(entries: Sequence[Entry], gpus: int) -> Cut:
    """How a MIG configuration cuts so many GPUs; each entry is applied in its order."""
    by_gpu: list[Mapping[MIGProfile, int] | None] = [None] * gpus
    for entry in entries:
        for number in range(gpus):
            if entry.devices is None or number in entry.devices:
                by_gpu[number] = entry.counts if entry.is_mig_enabled else None
    devices: dict[MIGProfile, int] = {}
    for found in by_gpu:
        for profile, count in (found or {}).items():
            devices[profile] = devices.get(profile, 0) + count
    return Cut(sum(found is None for found in by_gpu), devices, tuple(by_gpu))


def _mixed_cut(labels: Mapping[str, str]) -> dict[MIGProfile, int]:
    """The MIG devices that the labels of the mixed strategy count."""
    found = {}
    for name, value in labels.items():
        if name.startswith(MIG_PREFIX) and name.endswith(COUNT_SUFFIX):
            profile = MIGProfile.from_label(name.removeprefix(MIG_PREFIX).removesuffix(COUNT_SUFFIX))
            count = _number(value)
            if profile is not None and count:
                found[profile] = count
    return found


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None
