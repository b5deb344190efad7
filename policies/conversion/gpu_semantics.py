"""The meaning of `nvidia.com/gpu` for a pod: a whole GPU, a MIG device, or a share of a GPU.

The name alone is ambiguous. Under the MIG strategy `single` a node hands out MIG devices under it, and under time-slicing
or MPS it hands out shares. The pod's own selector decides first; then a wish for products, if all of them name MIG; then
the nodes that the pod could have run on and that have a product of its wish. Where no device plugin runs any more on these
nodes, their labels still say what it handed out, unless their ResourceSlices contradict: a share, for example, only if the
DRA driver shares the GPUs of the node too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from policies.devices.device_sharing import sharing_of
from policies.devices.published_devices import gpu_groups, published_devices
from policies.fleet.gpu_nodes import gpu_nodes
from policies.fleet.offers.shown import LabelledResource
from policies.kubernetes.neighbours import GKE, foreign_requests
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import GKE_CLIENTS, GKE_LABELS, GKE_PARTITION, GKE_SHARING, PRODUCT_LABEL
from policies.nvidia.predicates import attribute_of
from policies.nvidia.products import Product
from policies.rules.checks import PODS, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from policies.conversion.constraints import NodeConstraints
    from policies.fleet.gpu_nodes import GPUNodes
    from policies.kubernetes.objects import FieldPath
    from policies.kubernetes.pods import Pod
    from policies.kubernetes.view import ClusterView
    from policies.nvidia.mig import MIGProfile
    from policies.nvidia.wishes import Wish
    from policies.rules.decision import Finding


@dataclass(frozen=True, slots=True)
class GPUSemantics:
    """The meaning of `nvidia.com/gpu`."""

    kind: Literal["gpu", "mig"] = "gpu"
    profile: MIGProfile | None = None
    """The profile of the MIG devices, if it is known from the nodes and not from the pod's selector or wish."""
    shared: bool = False
    """True if every node that the pod could have run on hands out shares of its GPUs."""
    findings: tuple[Finding, ...] = ()
    """Findings if it stands for more than one thing."""


def gpu_semantics(
    spec: Mapping[str, Any], constraints: NodeConstraints, wish: Wish, view: ClusterView, at: FieldPath
) -> GPUSemantics:
    """The meaning of `nvidia.com/gpu` for a pod that requests it at `at`; by default a whole GPU."""
    if GKE_PARTITION in constraints.node_selector:
        return GPUSemantics("mig")
    if GKE_SHARING in constraints.node_selector:
        return GPUSemantics(shared=True)
    selected = [(path, Product.parse(value)) for path, value in constraints.selected_values(PRODUCT_LABEL)]
    if selected:
        are_mig = {product.profile is not None for _, product in selected}
        if are_mig == {False}:
            return GPUSemantics()
        if are_mig == {True} and constraints.always_selects(PRODUCT_LABEL):
            return GPUSemantics("mig")
        return GPUSemantics(findings=tuple(one_kind_of_device(selected, Counter(), at)))
    products = _products_for(spec, wish, view)
    all_shared = bool(products) and all(product.shared for product in products)
    patterns = wish.products.includes if wish.products is not None else ()
    if patterns and all("mig" in pattern.lower() for pattern in patterns):  # no whole GPU has MIG in its name
        return GPUSemantics("mig", shared=all_shared)
    profiles = {product.profile for product in products if not product.invalid}
    if len(profiles) > 1:
        return GPUSemantics(findings=tuple(one_kind_of_device((), products, at)))
    profile = next(iter(profiles), None)
    return GPUSemantics("mig" if profile else "gpu", profile, all_shared)


def translated_gke_labels(pod: Pod, view: ClusterView) -> tuple[str, ...]:
    """The labels of GKE in a pod's node selector, if such devices are published.

    GKE hands out MIG devices of the profile, or shares of GPUs with as many clients. Shares of MIG devices and MPS have no
    equivalent: one claim holds a MIG device, and the DRA driver shares GPUs in no other way beside its shares.
    """
    selector = pod.spec.get("nodeSelector") or {}
    named = tuple(key for key in GKE_LABELS if key in selector)
    groups = gpu_groups(view) if named else UNKNOWN
    if groups is UNKNOWN or any(
        each.neighbour is GKE and each.path[1] != "nodeSelector" for each in foreign_requests(pod)
    ):
        return ()
    if named == (GKE_PARTITION,):
        profile = selector[GKE_PARTITION]
        exists = any(each.type == "mig" and attribute_of(each.first, "profile") == profile for each in groups)
    else:
        shares = {sharing_of(each.first).shares for each in groups if each.type == "gpu"} - {0}
        clients = selector.get(GKE_CLIENTS)
        is_time_shared = GKE_PARTITION not in named and selector.get(GKE_SHARING) == "time-sharing"
        exists = is_time_shared and (bool(shares) if clients is None else clients in map(str, shares))
    return named if exists else ()


def _products_for(spec: Mapping[str, Any], wish: Wish, view: ClusterView) -> Counter[Product]:
    """The products on the nodes that the pod could have run on; empty if all are whole GPUs, or unknown."""
    nodes = gpu_nodes(view)
    if nodes is UNKNOWN:
        return Counter()
    are_whole = all(product.profile is None and not product.shared for product in nodes.plugin_products)
    if are_whole and not nodes.names_parts_without_plugin:
        return Counter()
    products, wished = nodes.selected_products(spec) or _labelled_products(spec, nodes, view), wish.products
    if wished is None:
        return Counter(products)
    return Counter({each: count for each, count in products.items() if wished.admits(each.name, each.profile)})


def _labelled_products(spec: Mapping[str, Any], nodes: GPUNodes, view: ClusterView) -> Counter[Product]:
    """The products that the labels of nodes without a device plugin name, where the pod could have run.

    Published devices are stronger than labels, which a GPU Feature Discovery that was removed leaves behind. Without the
    plugin, only a DRA driver shares GPUs.
    """
    published = view.derive(published_devices)
    types_by_node = {} if published is UNKNOWN else published.types_by_node
    sharing = frozenset[str]() if published is UNKNOWN else published.sharing_nodes
    found: Counter[Product] = Counter()
    for node in nodes.select(spec):
        product, types = node.traits.plugin_product, types_by_node.get(node.name, frozenset()) & {"gpu", "mig"}
        if node.traits.has_device_plugin or not product.name or product.invalid:
            continue
        # With DynamicMIG, a GPU is published whole and as the MIG devices into which it can be divided.
        if not types or ("gpu" if product.profile is None else "mig") in types:
            found[replace(product, shared=product.shared and node.name in sharing)] += 1
        elif "gpu" in types:
            found[Product(product.name)] += 1
    return found


def is_shared_mig(resource: str, spec: Mapping[str, Any], wish: Wish, view: ClusterView) -> bool:
    """True if every node that the pod could have run on shares MIG devices under their own name.

    The label of the product says so. Shares that are renamed (`nvidia.com/mig-1g.10gb.shared`) do not change it.

    Source: github.com/NVIDIA/k8s-device-plugin internal/lm/resource.go getProductName.
    """
    nodes = gpu_nodes(view)
    if nodes is UNKNOWN or not any(
        Product.parse(value).shared for value in nodes.product_labels.get(f"{resource}.product", ())
    ):
        return False
    published = view.derive(published_devices)
    sharing = frozenset[str]() if published is UNKNOWN else published.sharing_nodes
    found = set()
    for node in nodes.select(spec):
        product = LabelledResource(resource, node.traits.label_values).product
        if wish.products is not None and not wish.products.admits(product.name, product.profile):
            continue
        if resource in node.offers:
            found.add(product.shared)
        elif product.profile is not None and not node.traits.has_device_plugin:
            found.add(product.shared and node.name in sharing)
    return found == {True}


@PODS.rule(
    "GA309",
    "nvidia.com/gpu must mean one kind of device",
    remedy="say which one",
    source="github.com/NVIDIA/k8s-device-plugin internal/rm/rm.go AddDefaultResourcesToConfig",
)
def one_kind_of_device(
    selected: Sequence[tuple[FieldPath, Product]], products: Counter[Product], at: FieldPath
) -> Iterator[Problem]:
    """Under the MIG strategy `single` a node hands out MIG devices under the name nvidia.com/gpu.

    Where some nodes do and others hand out whole GPUs, or devices of another profile, the device plugin let chance
    decide; a claim must say.
    """
    if selected:
        path = selected[0][0]
        if all(product.profile is not None for _, product in selected):
            text = (
                "selects nodes with MIG devices, and another term selects nodes without saying what devices they have"
            )
            yield Problem(path, text, "name products with MIG devices in every term")
        else:
            text = (
                "selects nodes with whole GPUs and nodes with MIG devices, and nvidia.com/gpu is not the same on both"
            )
            yield Problem(path, text, "name products of one kind only")
        return
    kinds: Counter[MIGProfile | None] = Counter()
    for product, count in products.items():
        if not product.invalid:
            kinds[product.profile] += count
    meanings = [
        f"{'a MIG ' + str(profile) + ' device' if profile else 'a whole GPU'} on {count} node{'s' * (count > 1)}"
        for profile, count in sorted(kinds.items(), key=lambda item: str(item[0] or ""))
    ]
    forms = [f"nvidia.com/mig-{profile.label} for a MIG device" for profile in sorted(filter(None, kinds))]
    whole = sorted({product.name for product in products if product.profile is None and product.name})
    if whole:
        forms.append(f'nodeSelector {PRODUCT_LABEL}: "{whole[0]}" for a whole GPU')
    text = f"stands for {' and '.join(meanings)}, and the pod does not choose"
    yield Problem(at, text, "write " + " or ".join(forms))
