"""The meaning of `nvidia.com/gpu` for a pod: a whole GPU, a MIG device, or a share of a GPU.

The name alone is ambiguous. Under the MIG strategy `single` a node hands out MIG devices under it, and under time-slicing
or MPS it hands out shares. The pod's own selector decides first; then a wish for products, if all of them name MIG; then
the nodes that the pod could have run on and that have a product of its wish. Where no device plugin runs any more on these
nodes, their labels still say what it handed out, unless their ResourceSlices contradict.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from policies.decision import Severity
from policies.dra.published_devices import published_devices
from policies.fleet.gpu_nodes import gpu_nodes
from policies.nvidia.identifiers import PRODUCT_LABEL
from policies.nvidia.products import Product
from policies.rules import rule
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from policies.conversion.constraints import NodeConstraints
    from policies.decision import Finding
    from policies.fleet.gpu_nodes import GPUNodes
    from policies.kubernetes.paths import FieldPath
    from policies.nvidia.mig import MIGProfile
    from policies.nvidia.wishes import Wish
    from policies.view import ClusterView

__all__ = ["GPUSemantics", "gpu_semantics"]


@dataclass(frozen=True, slots=True)
class GPUSemantics:
    """The meaning of `nvidia.com/gpu`."""

    kind: Literal["gpu", "mig"] = "gpu"
    profile: MIGProfile | None = None
    """The profile of the MIG devices, if it is known from the nodes and not from the pod's selector or wish."""
    shared: bool = False
    """True if every node that the pod could have run on hands out shares of its GPUs."""
    finding: Finding | None = None
    """Set if it stands for more than one thing."""


def gpu_semantics(
    spec: Mapping[str, Any], constraints: NodeConstraints, wish: Wish, view: ClusterView, at: FieldPath
) -> GPUSemantics:
    """The meaning of `nvidia.com/gpu` for a pod that requests it at `at`; by default a whole GPU."""
    selected = list(constraints.selected_values(PRODUCT_LABEL))
    if selected:
        named = [(path, Product.parse(value)) for path, value in selected]
        return _selected_semantics(named, always=constraints.always_selects(PRODUCT_LABEL))
    products = _products_for(spec, wish, view)
    if _wishes_mig(wish):
        return GPUSemantics("mig", shared=_all_shared(products))
    return _semantics_on_nodes(products, at)


def _products_for(spec: Mapping[str, Any], wish: Wish, view: ClusterView) -> Counter[Product]:
    """The products on the nodes that the pod could have run on; empty if all are whole GPUs, or unknown."""
    nodes = gpu_nodes(view)
    if nodes is UNKNOWN:
        return Counter()
    are_whole = all(product.profile is None and not product.shared for product in nodes.plugin_products)
    if are_whole and not nodes.names_mig_without_plugin:
        return Counter()
    products, wished = nodes.selected_products(spec) or _labelled_products(spec, nodes, view), wish.products
    if wished is None:
        return Counter(products)
    return Counter({each: count for each, count in products.items() if wished.admits(each.name, each.profile)})


def _labelled_products(spec: Mapping[str, Any], nodes: GPUNodes, view: ClusterView) -> Counter[Product]:
    """The products that the labels of nodes without a device plugin name, where the pod could have run.

    Published devices are stronger than labels, which a GPU Feature Discovery that was removed leaves behind. Nothing shares
    GPUs without the plugin.
    """
    published = view.derive(published_devices)
    types_by_node = {} if published is UNKNOWN else published.types_by_node
    found: Counter[Product] = Counter()
    for node in nodes.select(spec):
        product, types = node.traits.plugin_product, types_by_node.get(node.name, frozenset()) & {"gpu", "mig"}
        if node.traits.has_device_plugin or not product.name or product.invalid:
            continue
        if not types or types == {"gpu" if product.profile is None else "mig"}:
            found[replace(product, shared=False)] += 1
        elif "gpu" in types:
            found[Product(product.name)] += 1
    return found


def _wishes_mig(wish: Wish) -> bool:
    """True if every wished product is that of MIG devices; no whole GPU has MIG in its name."""
    includes = wish.products.includes if wish.products is not None else ()
    return bool(includes) and all("mig" in pattern.lower() for pattern in includes)


AMBIGUOUS = rule(
    "GA309",
    "nvidia.com/gpu must mean one kind of device",
    default=Severity.DENY,
    why="""
    Under the MIG strategy `single` a node hands out MIG devices under the name nvidia.com/gpu. Where some nodes do and
    others hand out whole GPUs, or devices of another profile, the device plugin let chance decide; a claim must say.""",
    remedy="say which one",
    source="github.com/NVIDIA/k8s-device-plugin README, MIG strategies",
)


def _selected_semantics(selected: list[tuple[FieldPath, Product]], *, always: bool) -> GPUSemantics:
    if all(product.profile is None for _, product in selected):
        return GPUSemantics()
    if all(product.profile is not None for _, product in selected):
        if always:
            return GPUSemantics("mig")
        path = selected[0][0]
        text = "selects nodes with MIG devices, and another term selects nodes without saying what devices they have"
        return GPUSemantics(finding=AMBIGUOUS.finding(path, text, "name products with MIG devices in every term"))
    path = selected[0][0]
    text = "selects nodes with whole GPUs and nodes with MIG devices, and nvidia.com/gpu is not the same on both"
    return GPUSemantics(finding=AMBIGUOUS.finding(path, text, "name products of one kind only"))


def _semantics_on_nodes(products: Counter[Product], at: FieldPath) -> GPUSemantics:
    profiles = {product.profile for product in products if not product.invalid}
    if len(profiles) > 1:
        return GPUSemantics(finding=_ambiguous(products, at))
    profile = next(iter(profiles), None)
    return GPUSemantics("mig" if profile else "gpu", profile, _all_shared(products))


def _all_shared(products: Counter[Product]) -> bool:
    return bool(products) and all(product.shared for product in products)


def _ambiguous(products: Counter[Product], at: FieldPath) -> Finding:
    kinds: Counter[MIGProfile | None] = Counter()
    for product, count in products.items():
        if not product.invalid:
            kinds[product.profile] += count
    meanings = [
        f"{'a MIG ' + str(profile) + ' device' if profile else 'a whole GPU'} on {_nodes(count)}"
        for profile, count in sorted(kinds.items(), key=lambda item: str(item[0] or ""))
    ]
    forms = [f"nvidia.com/mig-{profile.label} for a MIG device" for profile in sorted(filter(None, kinds))]
    whole = sorted({product.name for product in products if product.profile is None and product.name})
    if whole:
        forms.append(f'nodeSelector {PRODUCT_LABEL}: "{whole[0]}" for a whole GPU')
    return AMBIGUOUS.finding(
        at, f"stands for {' and '.join(meanings)}, and the pod does not choose", "write " + " or ".join(forms)
    )


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
