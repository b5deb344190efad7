"""Shown: what the labels of a node say of the resources of its device plugin. The reverse of `labels`.

Source: github.com/NVIDIA/k8s-device-plugin v0.20 internal/lm (nvml.go, mig-strategy.go, resource.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.nvidia.identifiers import GPU_RESOURCE
from policies.nvidia.mig import MIGProfile
from policies.nvidia.products import Product

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.nvidia.mig import GPUResource


MIG_PREFIX, COUNT_SUFFIX, STRATEGY_SUFFIX = "nvidia.com/mig-", ".count", ".sharing-strategy"
ENGINE_LABELS = ("multiprocessors", *(f"engines.{name}" for name in ("copy", "decoder", "encoder", "jpeg", "ofa")))
"""The ends of labels of the multiprocessors and engines of MIG devices, in the order of `Engines`."""
_SHARED = ".shared"
_STRATEGIES = ("mps", "time-slicing")


class ShownSharing(NamedTuple):
    """The way in which a device plugin hands a device out to several pods at once."""

    replicas: int = 1
    strategy: str = ""
    """`time-slicing` or `mps`, as the label `nvidia.com/gpu.sharing-strategy` says it."""


NOT_SHARED = ShownSharing()


class LabelledResource(NamedTuple):
    """A resource as the labels of a node describe it, each read on access."""

    name: str
    """Before it is shared: `nvidia.com/gpu`, `nvidia.com/mig-1g.10gb`."""
    labels: Mapping[str, str]

    @property
    def product(self) -> Product:
        """The product; its name is empty without the label."""
        return Product.parse(self.labels.get(f"{self.name}.product", ""))

    @property
    def device_count(self) -> int | None:
        """The devices before they are shared; None without the label, as for the other numbers."""
        return labelled_number(self.labels, f"{self.name}{COUNT_SUFFIX}")

    @property
    def replicas(self) -> int | None:
        """The shares of each device."""
        return labelled_number(self.labels, f"{self.name}.replicas")

    @property
    def memory(self) -> int | None:
        """The memory of one device in MiB; None also for 0."""
        return labelled_number(self.labels, f"{self.name}.memory") or None

    @property
    def strategy(self) -> str:
        """The strategy that the label says: `none`, `time-slicing`, `mps`; empty without the label."""
        return self.labels.get(f"{self.name}{STRATEGY_SUFFIX}", "")

    @property
    def is_shared(self) -> bool:
        """True if the product or the strategy says that pods share the devices, renamed or not."""
        return self.product.shared or self.strategy in _STRATEGIES


class ShownDevice(NamedTuple):
    """The device that a node hands out under the name of a resource."""

    product: str
    """As labels spell it, without suffixes; empty if it is unknown."""
    profile: MIGProfile | None
    """None for a whole GPU, and for MIG devices whose resource names no profile."""
    memory: int | None
    """Of the device before it is shared, in MiB; None if it is unknown."""
    gpu_memory: int | None
    """Of the whole GPU, in MiB; None if it is unknown, as for MIG devices under the strategy `single`."""
    sharing: ShownSharing = NOT_SHARED
    is_shared: bool = False
    """True if its name or a label says that pods share it, also where it is not certain by how many."""


def labelled_devices(labels: Mapping[str, str]) -> dict[MIGProfile, int]:
    """The MIG devices that the labels of the mixed strategy count."""
    found = {}
    for name in labels:
        if name.startswith(MIG_PREFIX) and name.endswith(COUNT_SUFFIX):
            profile = MIGProfile.from_label(name.removeprefix(MIG_PREFIX).removesuffix(COUNT_SUFFIX))
            if profile is not None and (count := labelled_number(labels, name)):
                found[profile] = count
    return found


def labelled_number(labels: Mapping[str, str], name: str) -> int | None:
    """The value of a label that is a number; None for every other value."""
    return parse_number(labels.get(name, ""))


def parse_number(text: str) -> int | None:
    """The number in a text of at most nine digits; None for every other text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def sharing_strategy(labels: Mapping[str, str], resource: str) -> str | None:
    """The strategy by which a node shares a resource; None if it does not, or has no label.

    The label has the name of the resource before it is renamed.
    """
    strategy = labels.get(f"{resource.removesuffix(_SHARED)}{STRATEGY_SUFFIX}")
    return strategy if strategy in _STRATEGIES else None


def shown_device(resource: GPUResource, labels: Mapping[str, str]) -> ShownDevice:
    """The device that a node with these labels hands out under the name of a resource.

    `nvidia.com/gpu` is a whole GPU, or a MIG device under the strategy `single`, which the label of the product names.
    That label, or the name `nvidia.com/gpu.shared`, says which device is a share; the label of the strategy alone does not
    tell whether shares are renamed.
    """
    own = LabelledResource(resource.name.removesuffix(_SHARED), labels)
    product, strategy = own.product, own.strategy
    is_share = product.shared or resource.shared
    sharing = ShownSharing(own.replicas or 1, strategy) if is_share else NOT_SHARED
    is_shared = is_share or strategy in _STRATEGIES
    if not resource.mig:
        memory = own.memory
        gpu_memory = memory if product.profile is None else None
        return ShownDevice(product.name, product.profile, memory, gpu_memory, sharing, is_shared)
    whole = LabelledResource(GPU_RESOURCE, labels)
    memory = own.memory if resource.profile is not None else None
    return ShownDevice(whole.product.name or product.name, resource.profile, memory, whole.memory, sharing, is_shared)
