"""Product labels: values in the cluster or known, and the products that misspelt ones mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from policies.devices.published_devices import gpu_groups
from policies.fleet.gpu_nodes import gpu_nodes
from policies.kubernetes.names import is_label_value
from policies.kubernetes.objects import FieldPath
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.known_products import KNOWN_PRODUCTS, ProductNames
from policies.nvidia.mig import MIGProfile
from policies.nvidia.mig_products import product_named
from policies.nvidia.products import Product, fold_name, matching_texts, spellings
from policies.nvidia.wish_words import ProductPatterns, product_spellings
from policies.rules.decision import WORKLOAD, Severity
from policies.rules.registry import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.view import ClusterView
    from policies.nvidia.resources import GPUResource
    from policies.placement.wishes.pod_wishes import PodWishes
    from policies.rules.decision import Finding
    from policies.rules.settings import GPUAdmissionPolicy

__all__ = [
    "PRODUCT_SUFFIX",
    "SHARED",
    "SeenProducts",
    "default_misspellings",
    "known_labels",
    "label_prefix",
    "mig_labels",
    "mig_labels_like",
    "product_misspellings",
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


_MOST = 5
"""The most patterns that are reported one by one."""


MISSPELT = rule(
    "GA405",
    "The product of a wish must exist",
    default=Severity.WARN,
    why="""
    The name is that of no GPU in the cluster, and of none that gpu-admission knows. It may be new; more often a letter
    is wrong, or a `*` is missing: the name of an H100 goes on, as in NVIDIA-H100-80GB-HBM3.""",
    remedy="compare with the label nvidia.com/gpu.product of your nodes",
    source="github.com/NVIDIA/k8s-device-plugin docs/gpu-feature-discovery",
    misspelling=True,
    kinds=("Pod", WORKLOAD, "GPUAdmissionPolicy"),
)


def product_misspellings(view: ClusterView, wishes: PodWishes) -> Iterator[Finding]:
    """Patterns of products that match nothing in the cluster and nothing that is known.

    While nodes are unknown, only patterns similar to a known product are reported: the cluster may have the others.
    """
    patterns = wishes.wish.products
    if patterns is None:
        return
    is_seen = gpu_nodes(view) is not UNKNOWN
    where = "in the cluster, and none that is known" if is_seen else "that is known"
    found = list(_unknown(patterns, view.derive(_products), is_seen=is_seen))
    for pattern, suggestion in found[:_MOST]:
        remedy = f'write "{suggestion}"' if suggestion else None
        yield wishes.finding(MISSPELT, "product", f'"{pattern}" names no GPU {where}', remedy)
    more = len(found) - _MOST
    if more > 0:
        text = f"{more} more patterns name" if more > 1 else "one more pattern names"
        yield wishes.finding(MISSPELT, "product", f"{text} no GPU {where}")


def default_misspellings(settings: GPUAdmissionPolicy, view: ClusterView) -> Iterator[Finding]:
    """Products in the wishes of settings that match nothing in the cluster and nothing that is known."""
    is_seen = gpu_nodes(view) is not UNKNOWN
    where = "in the cluster, and none that is known" if is_seen else "that is known"
    for index, default in enumerate(settings.placement.wishes):
        patterns = ProductPatterns.read(default.wish["product"]) if "product" in default.wish else ProductPatterns()
        path = FieldPath(("spec", "placement", "wishes", index, "wish", "product"))
        for pattern, suggestion in _unknown(patterns, view.derive(_products), is_seen=is_seen):
            remedy = f'write "{suggestion}"' if suggestion else None
            yield MISSPELT.finding(path, f'"{pattern}" names no GPU {where}', remedy)


def _unknown(patterns: ProductPatterns, products: _Products, *, is_seen: bool) -> Iterator[tuple[str, str | None]]:
    """The patterns to report, each with the probable name."""
    for pattern in (*patterns.includes, *patterns.excludes):
        if matching_texts(fold_name(pattern), products.spellings):
            continue
        suggestion = products.seen.suggestion(pattern) or products.names.suggestion(pattern)
        if suggestion or is_seen:
            yield pattern, suggestion


@dataclass(frozen=True, slots=True)
class _Products:
    """The products of the cluster and the known ones, cached because each pattern is compared with all."""

    spellings: frozenset[str]
    """The names that patterns are matched with."""
    names: ProductNames
    seen: ProductNames
    """Those of the cluster."""


def _products(view: ClusterView) -> _Products:
    return _with_known(frozenset(_seen_labels(view)))


@lru_cache(maxsize=4)
def _with_known(seen: frozenset[str]) -> _Products:
    labels = seen.union(KNOWN_PRODUCTS, mig_labels())
    products = [Product.parse(label) for label in labels]
    spelt = (text for each in products for text in product_spellings(each.name, each.profile, by_profile=True))
    return _Products(frozenset(spelt), ProductNames.of(labels), ProductNames.of(seen))


def _seen_labels(view: ClusterView) -> Iterator[str]:
    """The labels of the products of a cluster, by its nodes and by its ResourceSlices."""
    for labels in seen_products(view).values():
        yield from labels
    groups = gpu_groups(view)
    for group in () if groups is UNKNOWN else groups:
        yield group.product.replace(" ", "-").replace("+", ".")
