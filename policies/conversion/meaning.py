"""What `nvidia.com/gpu` means to a pod: a whole GPU, a MIG device, or a share of a GPU.

The name alone does not tell. Under the MIG strategy `single` a node hands out MIG devices by it, and under time-slicing
or MPS it hands out shares. The pod's own selector tells first; then a wish for products that all name MIG, which is a
wish for any MIG device that they name; then the nodes that the pod could have run on and whose product it wishes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from policies.caches import remember_short
from policies.decision import Severity
from policies.kubernetes.nodes import REQUIRED, NodeIndex, allocatable, labels_of
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup
from policies.nvidia.identifiers import GPU_RESOURCE, PRODUCT_LABEL
from policies.nvidia.products import Product
from policies.rules import rule
from policies.view import UNKNOWN, ClusterView, Unknown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from policies.conversion.constraints import NodeConstraints
    from policies.decision import Finding
    from policies.kubernetes.objects import Object
    from policies.kubernetes.paths import FieldPath
    from policies.nvidia.mig import MIGProfile
    from policies.nvidia.wishes import Wish

__all__ = ["Meaning", "meaning_of_gpu"]

_SHARING = "nvidia.com/gpu.sharing-strategy"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What `nvidia.com/gpu` stands for."""

    kind: Literal["gpu", "mig"] = "gpu"
    profile: MIGProfile | None = None
    """The profile of the MIG devices, where the nodes tell it and neither the pod's selector nor its wish does."""
    shared: bool = False
    """Whether every node that the pod could have run on hands out shares of its GPUs."""
    finding: Finding | None = None
    """Set where it stands for more than one thing."""


def meaning_of_gpu(
    spec: Mapping[str, Any], constraints: NodeConstraints, wish: Wish, view: ClusterView, at: FieldPath
) -> Meaning:
    """Find out for a pod; `at` is where it asks. Without any node that tells, it is a whole GPU."""
    selected = list(constraints.selected(PRODUCT_LABEL))
    if selected:
        named = [(path, Product.parse(value)) for path, value in selected]
        return _meaning_of_selection(named, always=constraints.always_selects(PRODUCT_LABEL))
    products = _products_for(spec, wish, view)
    if _wishes_mig(wish):
        return Meaning("mig", shared=_all_shared(products))
    return _meaning_of_nodes(products, at)


def _products_for(spec: Mapping[str, Any], wish: Wish, view: ClusterView) -> Counter[Product]:
    """What the nodes hand out that the pod could have run on; nothing where all of it is whole GPUs, or not known."""
    products = view.derive(_plugin_products)
    if products is UNKNOWN or all(product.profile is None and not product.shared for product in products):
        return Counter()
    if spec.get("nodeSelector") or lookup(spec, REQUIRED):
        nodes = view.derive(_plugin_index)
        runs_on = nodes.index.selected(spec)
        counts = {product: (runs_on & those).bit_count() for product, those in nodes.of.items()}
        products = Counter({product: count for product, count in counts.items() if count})
    wished = wish.products
    if wished is None:
        return products
    return Counter({each: count for each, count in products.items() if wished.admits(each.name, each.profile)})


def _wishes_mig(wish: Wish) -> bool:
    """Whether every product that is wished is that of MIG devices; no whole GPU has MIG in its name."""
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


def _meaning_of_selection(selected: list[tuple[FieldPath, Product]], *, always: bool) -> Meaning:
    if all(product.profile is None for _, product in selected):
        return Meaning()
    if all(product.profile is not None for _, product in selected):
        if always:
            return Meaning("mig")
        path = selected[0][0]
        text = "selects nodes with MIG devices, and another term selects nodes without saying what devices they have"
        return Meaning(finding=AMBIGUOUS.finding(path, text, "name products with MIG devices in every term"))
    path = selected[0][0]
    text = "selects nodes with whole GPUs and nodes with MIG devices, and nvidia.com/gpu is not the same on both"
    return Meaning(finding=AMBIGUOUS.finding(path, text, "name products of one kind only"))


def _meaning_of_nodes(products: Counter[Product], at: FieldPath) -> Meaning:
    profiles = {product.profile for product in products if not product.invalid}
    if len(profiles) > 1:
        return Meaning(finding=_ambiguous(products, at))
    profile = next(iter(profiles), None)
    return Meaning("mig" if profile else "gpu", profile, _all_shared(products))


def _all_shared(products: Counter[Product]) -> bool:
    return bool(products) and all(product.shared for product in products)


def _ambiguous(products: Counter[Product], at: FieldPath) -> Finding:
    kinds: Counter[MIGProfile | None] = Counter()
    for product, count in products.items():
        if not product.invalid:
            kinds[product.profile] += count
    told = [
        f"{'a MIG ' + str(profile) + ' device' if profile else 'a whole GPU'} on {_nodes(count)}"
        for profile, count in sorted(kinds.items(), key=lambda item: str(item[0] or ""))
    ]
    forms = [f"nvidia.com/mig-{profile.label} for a MIG device" for profile in sorted(filter(None, kinds))]
    whole = sorted({product.name for product in products if product.profile is None and product.name})
    if whole:
        forms.append(f'nodeSelector {PRODUCT_LABEL}: "{whole[0]}" for a whole GPU')
    return AMBIGUOUS.finding(
        at, f"stands for {' and '.join(told)}, and the pod does not choose", "write " + " or ".join(forms)
    )


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


class _PluginNode(NamedTuple):
    """A node whose device plugin hands out GPUs as `nvidia.com/gpu`."""

    name: str
    labels: Mapping[str, str]
    product: Product
    """What it says these are."""


def _plugin_node(node: Object) -> _PluginNode | None:
    if allocatable(node, GPU_RESOURCE) == "0":
        return None
    labels = labels_of(node)
    return _PluginNode(
        name_of(node), labels, _product(str(labels.get(PRODUCT_LABEL, "")), str(labels.get(_SHARING, "")))
    )


def _plugin_nodes(view: ClusterView) -> list[_PluginNode] | Unknown:
    nodes = view.derive_each("Node", _plugin_node)
    return UNKNOWN if nodes is UNKNOWN else [node for node in nodes if node is not None]


@dataclass(frozen=True, slots=True)
class _PluginIndex:
    """Such nodes, ready to be asked which of them a pod may run on."""

    index: NodeIndex
    of: dict[Product, int]
    """The nodes of each product, in the index's terms."""


def _plugin_index(view: ClusterView) -> _PluginIndex:
    found = view.derive(_plugin_nodes)
    nodes = [] if found is UNKNOWN else found
    of: dict[Product, int] = {}
    for position, node in enumerate(nodes):
        of[node.product] = of.get(node.product, 0) | 1 << position
    return _PluginIndex(NodeIndex.of((node.name, node.labels) for node in nodes), of)


def _plugin_products(view: ClusterView) -> Counter[Product] | Unknown:
    """How many such nodes there are of each product: in most clusters enough to answer for every pod."""
    nodes = view.derive(_plugin_nodes)
    return UNKNOWN if nodes is UNKNOWN else Counter(node.product for node in nodes)


@remember_short(1024)
def _product(label: str, sharing: str) -> Product:
    product = Product.parse(label)
    shared = product.shared or sharing in ("time-slicing", "mps")
    return Product(product.name, product.profile, shared, product.invalid)
