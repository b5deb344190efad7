"""Product labels: the values of labels of GPU products, in the cluster or known from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from policies.fleet.gpu_nodes import gpu_nodes
from policies.kubernetes.names import is_label_value
from policies.nvidia.known_products import KNOWN_PRODUCTS
from policies.nvidia.mig import MIGProfile
from policies.nvidia.mig_products import product_named
from policies.nvidia.product_globs import fold_name, matching_texts, spellings
from policies.nvidia.products import Product
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from policies.nvidia.resources import GPUResource
    from policies.view import ClusterView

__all__ = [
    "PRODUCT_SUFFIX",
    "SHARED",
    "SeenProducts",
    "known_labels",
    "label_prefix",
    "mig_labels",
    "mig_labels_like",
    "seen_products",
]

PRODUCT_SUFFIX = ".product"
SHARED = "-SHARED"
"""The suffix that GFD writes after the product of shared GPUs, unless their resource is renamed."""

SeenProducts = Mapping[str, frozenset[str]]
"""The values that labels of products have, by label."""


def label_prefix(resource: GPUResource) -> str:
    """The prefix of labels that describe a resource: `nvidia.com/gpu`, `nvidia.com/mig-1g.5gb`."""
    return resource.name.removesuffix(".shared")


def seen_products(view: ClusterView) -> SeenProducts:
    """The products on the nodes of a cluster; empty if nodes are unknown."""
    nodes = gpu_nodes(view)
    return {} if nodes is UNKNOWN else nodes.product_labels


def known_labels(resource: GPUResource) -> tuple[str, ...]:
    """The values that the product label of a resource is known to have, without those of shared GPUs.

    For `nvidia.com/gpu` these are whole GPUs: which MIG devices a node hands out by that name is its own affair.
    """
    if not resource.mig:
        return _whole()
    return mig_labels(resource.profile) if resource.profile else ()


def mig_labels_like(pattern: str) -> tuple[str, ...]:
    """The labels of MIG devices of known products, of every profile, that a pattern matches."""
    labels = _mig_labels_by_spelling()
    return tuple(dict.fromkeys(labels[text] for text in matching_texts(fold_name(pattern), labels)))


@cache
def _mig_labels_by_spelling() -> Mapping[str, str]:
    return {text: label for label in mig_labels() for text in spellings(fold_name(label))}


@lru_cache(maxsize=256)
def mig_labels(profile: MIGProfile | None = None) -> tuple[str, ...]:
    """Labels of MIG devices of known products: of one profile, or of every one that the products have."""
    return tuple(
        label
        for name in _whole()
        for each in ([profile] if profile else _profiles(name))
        if _has(name, each) and is_label_value(label := f"{name}-MIG-{each.label}")
    )


@cache
def _whole() -> tuple[str, ...]:
    return KNOWN_PRODUCTS


def _profiles(name: str) -> list[MIGProfile]:
    product = product_named(name)
    return [profile for text in product.profiles() if (profile := MIGProfile.parse(text))] if product else []


def _has(name: str, profile: MIGProfile) -> bool:
    product = product_named(Product.parse(name).name)
    match = product.match(profile) if product else None
    return match is not None and match.exact
