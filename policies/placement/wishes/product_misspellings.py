"""Misspelt products in wishes, each with the product that was probably meant."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from policies.decision import WORKLOAD, Severity
from policies.dra.published_devices import gpu_groups
from policies.fleet.gpu_nodes import gpu_nodes
from policies.kubernetes.paths import FieldPath
from policies.nvidia.known_products import KNOWN_PRODUCTS, ProductNames
from policies.nvidia.product_globs import fold_name, matching_texts
from policies.nvidia.products import Product
from policies.nvidia.wishes.product_patterns import ProductPatterns, product_spellings
from policies.placement.wishes.product_labels import mig_labels, seen_products
from policies.rules import rule
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.decision import Finding
    from policies.placement.wishes.pod_wishes import PodWishes
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["default_misspellings", "product_misspellings"]

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
