"""Kinds: what the nodes of a cluster hand out as extended resources, those alike counted once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from policies.caches import LONGEST_KEY
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup
from policies.kubernetes.quantities import QuantityError, parse_quantity
from policies.nvidia.identifiers import MEMORY_LABEL, PRODUCT_LABEL
from policies.nvidia.products import Product
from policies.nvidia.resources import GPUResource, parse_resource
from policies.quota.charges import DeviceKind
from policies.quota.devices.shares import Sharing, mig_share
from policies.view import UNKNOWN, ClusterView, Unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.kubernetes.objects import Object

__all__ = [
    "BARE",
    "NO_NODES",
    "NodeKind",
    "NodeKinds",
    "Offer",
    "mig_product_label",
    "narrows",
    "node_kind",
    "node_kinds",
]

_MEBIBYTE = 2**20
_NARROWING = re.compile(
    r"nvidia\.com/(gpu\.(product|memory|family|compute\.(major|minor)|sharing-strategy|replicas|slices\.gi)|"
    r"cuda\.(driver|runtime)-version\.(major|minor|revision|full)|mig\.(strategy|capable)|"
    r"mig-.*\.(product|memory|sharing-strategy|replicas))"
)
"""Labels of GPU Feature Discovery by which a pod says what GPU it can get: those that wishes are rendered to, too."""
_NUMBER = re.compile(r"[0-9]{1,9}")


class Offer(NamedTuple):
    """What a node hands out under the name of one resource."""

    device: DeviceKind
    """Before it is shared."""
    sharing: Sharing = Sharing()


@dataclass(frozen=True, slots=True)
class NodeKind:
    """Nodes that no request for GPUs can tell apart."""

    labels: frozenset[tuple[str, str]]
    """Those that narrow what a pod can get."""
    offers: frozenset[tuple[str, Offer]] = frozenset()
    """By resource, of those that the device plugin hands out."""


@dataclass(frozen=True, slots=True)
class NodeKinds:
    """All nodes with GPUs."""

    by_name: Mapping[str, NodeKind]
    all: frozenset[NodeKind]


BARE = NodeKind(frozenset())
"""Nodes that tell nothing of GPUs."""
NO_NODES = NodeKinds({}, frozenset())


def node_kinds(view: ClusterView) -> NodeKinds | Unknown:
    """The nodes that show GPUs. Use it by `view.derive(node_kinds)`."""
    nodes = view.derive_each("Node", node_kind)
    if nodes is UNKNOWN:
        return UNKNOWN
    by_name = dict(each for each in nodes if each is not None)
    return NodeKinds(by_name, frozenset(by_name.values()))


def narrows(key: str) -> bool:
    """Whether a node label tells what GPU a pod gets there."""
    return len(key) <= LONGEST_KEY and _narrows(key)


@lru_cache(maxsize=4096)
def _narrows(key: str) -> bool:
    return _NARROWING.fullmatch(key) is not None


def mig_product_label(resource: GPUResource) -> str:
    """The label with the product of a resource such as `nvidia.com/mig-1g.5gb`."""
    return f"{resource.name.removesuffix('.shared')}.product"


def node_kind(node: Object) -> tuple[str, NodeKind] | None:
    """A node's name and kind; None where neither labels nor resources tell of GPUs. Use it by `view.derive_each`."""
    labels = labels_of(node)
    resources = [parsed for name in _offered(node) if (parsed := parse_resource(name)) is not None]
    telling = frozenset((key, value) for key, value in labels.items() if narrows(key))
    if not resources and not telling:
        return None
    offers = frozenset((each.name, _offer(each, labels)) for each in resources)
    return name_of(node), _once(NodeKind(telling, offers))


@lru_cache(maxsize=4096)
def _once(kind: NodeKind) -> NodeKind:
    """The same object for what is equal: thousands of nodes are alike."""
    return kind


def _offered(node: Object) -> set[str]:
    """Resources that the kubelet has or had: a device plugin that restarts leaves the capacity and takes the rest."""
    found: set[str] = set()
    for field in ("allocatable", "capacity"):
        amounts = lookup(node, ("status", field))
        for name, amount in amounts.items() if isinstance(amounts, dict) else ():
            try:
                if isinstance(name, str) and parse_quantity(amount) > 0:
                    found.add(name)
            except QuantityError:
                continue
    return found


def _offer(resource: GPUResource, labels: Mapping[str, str]) -> Offer:
    return _mig_offer(resource, labels) if resource.mig else _gpu_offer(resource, labels)


def _gpu_offer(resource: GPUResource, labels: Mapping[str, str]) -> Offer:
    """`nvidia.com/gpu`: whole GPUs, or under the single strategy MIG devices, of which the label tells the memory.

    Source: github.com/NVIDIA/k8s-device-plugin internal/lm.
    """
    product = Product.parse(labels.get(PRODUCT_LABEL, ""))
    memory = _memory(labels.get(MEMORY_LABEL))
    sharing = _sharing(labels, "nvidia.com/gpu.") if product.shared or resource.shared else Sharing()
    if product.profile is None:
        return Offer(DeviceKind(product.name, memory=memory), sharing)
    share = mig_share(product.name, product.profile)
    return Offer(DeviceKind(product.name, str(product.profile), share, memory), sharing)


def _mig_offer(resource: GPUResource, labels: Mapping[str, str]) -> Offer:
    """`nvidia.com/mig-1g.5gb`: labels of its own tell of it, beside those of the whole GPU."""
    prefix = mig_product_label(resource).removesuffix("product")
    own, whole = Product.parse(labels.get(f"{prefix}product", "")), Product.parse(labels.get(PRODUCT_LABEL, ""))
    name = whole.name or own.name
    sharing = _sharing(labels, prefix) if own.shared or resource.shared else Sharing()
    if resource.profile is None:
        return Offer(DeviceKind(name), sharing)
    share = mig_share(name, resource.profile, _memory(labels.get(MEMORY_LABEL)))
    return Offer(DeviceKind(name, str(resource.profile), share, _memory(labels.get(f"{prefix}memory"))), sharing)


def _sharing(labels: Mapping[str, str], prefix: str) -> Sharing:
    replicas = labels.get(f"{prefix}replicas", "")
    number = int(replicas) if _NUMBER.fullmatch(replicas) else 1
    return Sharing(max(number, 1), labels.get(f"{prefix}sharing-strategy", ""))


def _memory(mebibytes: str | None) -> int | None:
    if mebibytes is None or not _NUMBER.fullmatch(mebibytes):
        return None
    return int(mebibytes) * _MEBIBYTE or None
