"""Wishes as conditions on node labels, the labels of GPU Feature Discovery.

They select the nodes whose devices meet the wish's predicate. What labels cannot say by themselves is said by listing:
a glob becomes the products that it matches, of those that the cluster has and those that are known.

Source: github.com/NVIDIA/k8s-device-plugin docs/gpu-feature-discovery, internal/lm.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from policies.kubernetes.names import is_label_value
from policies.kubernetes.selectors import ALWAYS, Alternatives, NodeRequirement, both
from policies.nvidia.identifiers import COMPUTE_LABELS, FAMILY_LABEL
from policies.nvidia.mig import MIGProfile
from policies.nvidia.products import Product, fold_name, matching_texts
from policies.nvidia.wish_words import product_spellings
from policies.nvidia.wishes import ProductPatterns
from policies.placement.wishes.product_labels import (
    PRODUCT_SUFFIX,
    SHARED,
    known_labels,
    label_prefix,
    mig_labels_like,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.nvidia.resources import GPUResource
    from policies.nvidia.wishes import Wish
    from policies.placement.wishes.product_labels import SeenProducts

__all__ = ["DRIVER", "RUNTIME", "alternatives", "excludes_mig"]

DRIVER = tuple(f"nvidia.com/cuda.driver-version.{part}" for part in ("major", "minor", "revision"))
RUNTIME = tuple(f"nvidia.com/cuda.runtime-version.{part}" for part in ("major", "minor"))
SLICES = "nvidia.com/gpu.slices.gi"
"""The label of exactly those nodes that hand out MIG devices as `nvidia.com/gpu`."""

_STRATEGIES = {"exclusive": ("none",), "shared": ("mps", "time-slicing")}
_SUFFIXES = {"exclusive": ("",), "shared": (SHARED,), "any": ("", SHARED)}
_NAMELESS = "\N{REPLACEMENT CHARACTER}" * 64
"""A product whose name only a pattern of `*` matches."""
_NO_PROFILE = MIGProfile(99, 9999)


def alternatives(wish: Wish, resource: GPUResource, seen: SeenProducts) -> Alternatives:
    """The conditions on labels of nodes whose GPUs meet a wish.

    Args:
        wish: The wish of the pod.
        resource: A resource that the pod requests.
        seen: The products of nodes, and others that the pod may mean.
    """
    prefix = label_prefix(resource)
    parts = [
        _products(wish, resource, prefix + PRODUCT_SUFFIX, seen),
        ((NodeRequirement(FAMILY_LABEL, "In", tuple(sorted(wish.families))),),) if wish.families else ALWAYS,
        _at_least(COMPUTE_LABELS, wish.min_compute_capability),
        (tuple(_memory(wish, prefix + ".memory")),),
        _at_least(DRIVER, wish.min_driver),
        _at_least(RUNTIME, wish.min_cuda),
        _sharing_requirement(wish, prefix + ".sharing-strategy"),
    ]
    return reduce(both, (part for part in parts if part != ALWAYS), ALWAYS)


def admits(patterns: ProductPatterns, product: Product, resource: GPUResource) -> bool:
    """True if patterns match a product as a resource; never for misconfigured MIG devices."""
    return not product.invalid and patterns.admits(product.name, product.profile, by_profile=resource.mig)


def excludes_mig(patterns: ProductPatterns, *, by_profile: MIGProfile | None = None) -> bool:
    """True if patterns exclude MIG devices, or those of one profile, on every GPU."""
    wanted = ProductPatterns(excludes=patterns.excludes)
    return not wanted.admits(_NAMELESS, by_profile or _NO_PROFILE, by_profile=by_profile is not None)


def _products(wish: Wish, resource: GPUResource, key: str, seen: SeenProducts) -> Alternatives:
    patterns = wish.products
    if patterns is None:
        return ALWAYS
    if not patterns.includes or "*" in patterns.includes:
        return _all_but(wish, patterns, resource, key, seen)
    named = {label: Product.parse(label) for label in _labels(wish, resource, seen.get(key, frozenset()))}
    wanted = {label for label, product in named.items() if admits(patterns, product, resource)}
    texts = {
        text
        for product in named.values()
        if not product.invalid
        for text in product_spellings(product.name, product.profile, by_profile=resource.mig)
    }
    for include in patterns.includes:
        if not matching_texts(fold_name(include), texts):
            future = _with_suffixes(_future_labels(include, resource), wish, resource)
            wanted |= {label for label in future if admits(patterns, Product.parse(label), resource)}
    return ((NodeRequirement(key, "In", tuple(sorted(wanted))),),) if wanted else ()


def _all_but(
    wish: Wish, patterns: ProductPatterns, resource: GPUResource, key: str, seen: SeenProducts
) -> Alternatives:
    """Every product except the excluded ones; devices of unknown products are not wanted."""
    if not admits(patterns, Product(_NAMELESS, resource.profile), resource):
        return ()
    labels = _labels(replace(wish, sharing=wish.sharing or "any"), resource, seen.get(key, frozenset()))
    excluded = {label: Product.parse(label) for label in labels}
    excluded = {label: product for label, product in excluded.items() if not admits(patterns, product, resource)}
    requirements = [NodeRequirement(key, "Exists")]
    if not resource.mig and excludes_mig(patterns):
        requirements.append(NodeRequirement(SLICES, "DoesNotExist"))
        excluded = {label: product for label, product in excluded.items() if product.profile is None}
    if excluded:
        requirements.append(NodeRequirement(key, "NotIn", tuple(sorted(excluded))))
    return (tuple(requirements),)


def _labels(wish: Wish, resource: GPUResource, seen: frozenset[str]) -> set[str]:
    """Values of a product label that exist or may come, with or without `-SHARED` as the wish requires."""
    known = known_labels(resource)
    if wish.sharing is None and not resource.shared:
        return {*known, *seen}
    return set(_with_suffixes({*known, *(label.removesuffix(SHARED) for label in seen)}, wish, resource))


def _with_suffixes(products: Iterable[str], wish: Wish, resource: GPUResource) -> Iterator[str]:
    """Products as labels spell them for shared GPUs, whole GPUs, or both, by the wish.

    A renamed resource, such as `nvidia.com/gpu.shared`, does not change the name of the product.
    """
    suffixes = ("",) if resource.shared else _SUFFIXES.get(wish.sharing or "", ("",))
    labels = (product + suffix for product in products for suffix in suffixes)
    return filter(is_label_value, labels)


def _future_labels(include: str, resource: GPUResource) -> Iterable[str]:
    """Labels for a pattern that matches nothing seen or known: the pod waits for a node with one of these.

    MIG devices that are handed out as `nvidia.com/gpu`, or the pattern itself as a name.
    """
    if not resource.mig and (known := mig_labels_like(include)):
        return known
    name = include.replace("*", "").replace("?", "x")
    if resource.profile and "-mig-" not in name.lower():
        name += f"-MIG-{resource.profile.label}"
    return (name, f"NVIDIA-{name}")


def _memory(wish: Wish, key: str) -> Iterator[NodeRequirement]:
    if wish.min_memory is not None:
        yield NodeRequirement(key, "Gt", (str(wish.min_memory - 1),))
    if wish.max_memory is not None:
        yield NodeRequirement(key, "Lt", (str(wish.max_memory + 1),))


def _at_least(keys: tuple[str, ...], least: tuple[int, ...] | None) -> Alternatives:
    """A version of at least some numbers: greater in one of them, and equal in those before it."""
    if least is None:
        return ALWAYS
    while len(least) > 1 and least[-1] == 0:
        least = least[:-1]
    equal = [_equal(key, number) for key, number in zip(keys, least, strict=False)]
    bounds = [*least[:-1], least[-1] - 1]
    return tuple(
        (*equal[:place], NodeRequirement(keys[place], "Gt", (str(bound),))) for place, bound in enumerate(bounds)
    )


def _equal(key: str, number: int) -> NodeRequirement:
    """A number; versions of drivers have two digits behind a dot, `05`."""
    texts = {str(number), f"{number:02}"} if key in DRIVER else {str(number)}
    return NodeRequirement(key, "In", tuple(sorted(texts)))


def _sharing_requirement(wish: Wish, key: str) -> Alternatives:
    strategies = _STRATEGIES.get(wish.sharing or "")
    return ((NodeRequirement(key, "In", strategies),),) if strategies else ALWAYS
