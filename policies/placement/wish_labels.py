"""Wishes as conditions on the labels of GPU Feature Discovery, and misspelt products of wishes.

The conditions select the nodes whose devices meet the wish's predicate. What labels cannot say by themselves is said by
listing: a glob becomes the products that it matches, of those that the cluster has and those that are known.

Source: github.com/NVIDIA/k8s-device-plugin docs/gpu-feature-discovery, internal/lm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache, reduce
from typing import TYPE_CHECKING

from policies.devices.published_devices import gpu_groups
from policies.fleet.gpu_nodes import gpu_nodes
from policies.kubernetes.names import is_label_value, shown
from policies.kubernetes.objects import FieldPath
from policies.kubernetes.selectors import ALWAYS, Alternatives, NodeRequirement, both
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import COMPUTE_LABELS, FAMILY_LABEL
from policies.nvidia.mig import MIGProfile
from policies.nvidia.mig_products import has_profile, product_named
from policies.nvidia.product_proposals import propose_patterns
from policies.nvidia.products import KNOWN_PRODUCTS, Product, fold_name, matching_texts, spellings
from policies.nvidia.wish_words import ProductPatterns, product_spellings
from policies.placement.pod_wishes import PodWishes
from policies.rules.checks import Problem, RulesOn
from policies.rules.decision import WORKLOAD, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.kubernetes.view import ClusterView
    from policies.nvidia.mig import GPUResource
    from policies.nvidia.wishes import Wish
    from policies.rules.settings import GPUAdmissionPolicy


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
        return KNOWN_PRODUCTS
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
        for name in KNOWN_PRODUCTS
        for each in ([profile] if profile else _profiles(name))
        if has_profile(name, each) and is_label_value(label := f"{name}-MIG-{each.label}")
    )


def _profiles(name: str) -> list[MIGProfile]:
    product = product_named(name)
    return [profile for text in product.profiles() if (profile := MIGProfile.parse(text))] if product else []


_MOST = 5
"""The most patterns that are reported one by one."""


@RulesOn("Pod", WORKLOAD, "GPUAdmissionPolicy").rule(
    "GA405",
    "The product of a wish must exist",
    default=Severity.WARN,
    remedy="compare with the label nvidia.com/gpu.product of your nodes",
    source="github.com/NVIDIA/k8s-device-plugin internal/lm/resource.go productLabel, getProductName",
)
def existing_products(wishes: PodWishes | GPUAdmissionPolicy, view: ClusterView) -> Iterator[Problem]:
    """The name is that of no GPU in the cluster, and of none that gpu-admission knows.

    It may be new; more often a letter is wrong, or a `*` is missing: the name of an H100 goes on, as in
    NVIDIA-H100-80GB-HBM3.
    """
    # While nodes are unknown, only patterns similar to a known product are reported: the cluster may have the others.
    is_seen = gpu_nodes(view) is not UNKNOWN
    where = "in the cluster, and none that is known" if is_seen else "that is known"
    products = view.derive(_products)
    if isinstance(wishes, PodWishes):
        found = list(_unknown(wishes.texts.get("product", ""), where, products, is_seen=is_seen))
        for text, remedy in found[:_MOST]:
            yield wishes.problem("product", text, remedy)
        more = len(found) - _MOST
        if more > 0:
            text = f"{more} more patterns name" if more > 1 else "one more pattern names"
            yield wishes.problem("product", f"{text} no GPU {where}")
        return
    for index, default in enumerate(wishes.placement.wishes):
        path = FieldPath(("spec", "placement", "wishes", index, "wish", "product"))
        for text, remedy in _unknown(default.wish.get("product", ""), where, products, is_seen=is_seen):
            yield Problem(path, text, remedy)


def _unknown(text: str, where: str, products: _Products, *, is_seen: bool) -> Iterator[tuple[str, str | None]]:
    """Message and remedy for each pattern of a wish that names no GPU; the name is that of the author."""
    for entry in dict.fromkeys(each.strip() for each in text.split(",") if text):
        patterns = ProductPatterns.read(entry)
        (pattern,) = patterns.includes or patterns.excludes
        if matching_texts(fold_name(pattern), products.spellings):
            continue
        # A pattern that excludes GPUs may be of others than the cluster has.
        proposal = propose_patterns(pattern, products.seen if patterns.includes else ())
        message = f"{shown(entry.removeprefix('!').strip())} names no GPU {where}"
        if proposal:
            yield proposal.message(message), proposal.remedy(as_patterns=True)
        elif is_seen:
            yield message, None


@dataclass(frozen=True, slots=True)
class _Products:
    """The products of the cluster and the known ones, cached because each pattern is compared with all."""

    spellings: frozenset[str]
    """The names that patterns are matched with."""
    seen: frozenset[str]
    """The labels of the cluster."""


def _products(view: ClusterView) -> _Products:
    return _with_known(frozenset(products_of_cluster(view)))


@lru_cache(maxsize=4)
def _with_known(seen: frozenset[str]) -> _Products:
    products = [Product.parse(label) for label in seen.union(KNOWN_PRODUCTS, mig_labels())]
    spelt = (text for each in products for text in product_spellings(each.name, each.profile, by_profile=True))
    return _Products(frozenset(spelt), seen)


def products_of_cluster(view: ClusterView) -> Iterator[str]:
    """The labels of the products of a cluster, by its nodes and by its ResourceSlices."""
    for labels in seen_products(view).values():
        yield from labels
    groups = gpu_groups(view)
    for group in () if groups is UNKNOWN else groups:
        yield group.product.replace(" ", "-").replace("+", ".")


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
    strategies = _STRATEGIES.get(wish.sharing or "")
    memory = []
    if wish.least_memory is not None:
        memory.append(NodeRequirement(prefix + ".memory", "Gt", (str(wish.least_memory - 1),)))
    if wish.max_memory is not None:
        memory.append(NodeRequirement(prefix + ".memory", "Lt", (str(wish.max_memory + 1),)))
    parts = [
        _product_values(wish, resource, prefix + PRODUCT_SUFFIX, seen),
        ((NodeRequirement(FAMILY_LABEL, "In", tuple(sorted(wish.families))),),) if wish.families else ALWAYS,
        _at_least(COMPUTE_LABELS, wish.min_compute_capability),
        (tuple(memory),),
        _at_least(DRIVER, wish.min_driver),
        _at_least(RUNTIME, wish.min_cuda),
        ((NodeRequirement(prefix + ".sharing-strategy", "In", strategies),),) if strategies else ALWAYS,
    ]
    return reduce(both, (part for part in parts if part != ALWAYS), ALWAYS)


def admits(patterns: ProductPatterns, product: Product, resource: GPUResource) -> bool:
    """True if patterns match a product as a resource; never for misconfigured MIG devices."""
    return not product.invalid and patterns.admits(product.name, product.profile, by_profile=resource.mig)


def excludes_mig(patterns: ProductPatterns, *, by_profile: MIGProfile | None = None) -> bool:
    """True if patterns exclude MIG devices, or those of one profile, on every GPU."""
    wanted = ProductPatterns(excludes=patterns.excludes)
    return not wanted.admits(_NAMELESS, by_profile or _NO_PROFILE, by_profile=by_profile is not None)


def _product_values(wish: Wish, resource: GPUResource, key: str, seen: SeenProducts) -> Alternatives:
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
