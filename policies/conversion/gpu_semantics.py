"""The meaning of `nvidia.com/gpu` for a pod: a whole GPU, a MIG device, or a share of a GPU.

The name alone is ambiguous. Under the MIG strategy `single` a node hands out MIG devices under it, and under time-slicing
or MPS it hands out shares. The pod's own selector decides first; then a wish for products, if all of them name MIG; then
the nodes that the pod could have run on and that have a product of its wish. Where no device plugin runs any more on these
nodes, their labels still say what it handed out, unless their ResourceSlices contradict.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from policies.conversion.record import most_at_once
from policies.devices.device_sharing import SharingMode, sharing_of
from policies.devices.deviceclasses import MIG_CLASS
from policies.devices.published_devices import gpu_groups, published_devices
from policies.fleet.gpu_nodes import gpu_nodes
from policies.kubernetes.names import printable
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import GPU_RESOURCE, PRODUCT_LABEL
from policies.nvidia.mig import parse_resource
from policies.nvidia.products import Product
from policies.rules.checks import PODS, Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from policies.conversion.constraints import ConstraintError, NodeConstraints
    from policies.conversion.record import ConversionRecord
    from policies.fleet.gpu_nodes import GPUNodes
    from policies.kubernetes.objects import FieldPath
    from policies.kubernetes.resourceslices import Device
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


class UnofferedShare(NamedTuple):
    """A resource that stands for a share or a whole device which the DRA driver does not offer as such."""

    resource: str
    path: FieldPath
    by: Literal["resource", "wish", "uncounted", "driver"]
    """The cause: the resource is a share, the pod wishes one and devices are whole or shared without a number, or the
    driver shares some devices and not others."""


def requested_shares(
    record: ConversionRecord, places: dict[str, FieldPath], view: ClusterView, *, shared_gpu: bool
) -> tuple[dict[str, int], tuple[UnofferedShare, ...]]:
    """The number of shares that each resource stands for, and the resources without one.

    `shared_gpu` says that `nvidia.com/gpu` is a share on every node that the pod could have run on. While no such device is
    published, a wish for a share is granted: the claim waits, and does not get a whole device.
    """
    shares: dict[str, int] = {}
    unoffered: list[UnofferedShare] = []
    groups = gpu_groups(view)
    for resource, path in places.items():
        device_type = "mig" if record.device_class(resource) == MIG_CLASS else "gpu"
        offered = {shares_of(each.first) for each in (() if groups is UNKNOWN else groups) if each.type == device_type}
        whole = next(iter(offered)) if len(offered) == 1 else None
        parsed = parse_resource(resource)
        is_share = (parsed is not None and parsed.shared) or (
            resource == GPU_RESOURCE and shared_gpu and record.wish.sharing != "exclusive"
        )
        if is_share or record.wish.sharing == "shared":
            if any(offered) or not (is_share or offered):
                shares[resource] = 1
            elif is_share:
                unoffered.append(UnofferedShare(resource, path, "resource"))
            else:
                unoffered.append(UnofferedShare(resource, path, "uncounted" if None in offered else "wish"))
        elif whole is None and offered:
            unoffered.append(UnofferedShare(resource, path, "driver"))
        elif whole:
            shares[resource] = whole
    return shares, tuple(unoffered)


def shares_of(device: Device) -> int | None:
    """The shares of a device: 0 if one claim holds it alone, None if it is shared without limit."""
    sharing = sharing_of(device)
    if sharing.mode is SharingMode.NONE:
        return 0
    return sharing.shares if sharing.mode is SharingMode.SHARES else None


@PODS.rule(
    "GA327",
    "A shared GPU must be wished for only where the DRA driver offers shares",
    remedy='write gpu-admission.io/sharing: "any", or keep this pod on device-plugin nodes (label gpu-admission.io/dra: disabled)',
    administrator="enable ConsumableShares in the DRA driver",
    source="github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/consumable_shares.go "
    "applyConsumableShares; KEP-5075",
)
def offered_wish_for_shares(record: ConversionRecord, unoffered: Iterable[UnofferedShare]) -> Iterator[Problem]:
    """The pod wishes a GPU that it shares with others (gpu-admission.io/sharing: shared).

    A claim can request one share of a device only where the driver publishes the consumable capacity `shares`
    (ConsumableShares). Without it the pod would hold a whole GPU, which it does not need; a claim for one share
    would stay Pending. If the driver shares devices without such a number (`unlimited` or `memory`), the pod is left as it
    is, with a warning.
    """
    for each in unoffered:
        device = "MIG device" if record.device_class(each.resource) == MIG_CLASS else "GPU"
        if each.by == "wish":
            text = f"the pod wishes a shared {device}, and no ResourceSlice offers shares of {device}s"
            yield Problem(each.path, text)
        elif each.by == "uncounted":
            text = f"the pod wishes a shared {device}, and the DRA driver shares {device}s without a number of shares to request"
            administrator = "set the variable CONSUMABLE_SHARES of the DRA driver to a number"
            yield Problem(each.path, text, administrator=administrator, severity=Severity.WARN)


@PODS.rule(
    "GA306",
    "Shared GPUs must be converted only where the DRA driver offers shares",
    default=Severity.WARN,
    remedy="keep this pod on device-plugin nodes, or enable ConsumableShares in the DRA driver",
    source="github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/consumable_shares.go "
    "applyConsumableShares",
)
def offered_shares(
    record: ConversionRecord,
    unoffered: Iterable[UnofferedShare],
    view: ClusterView,
    condition: ConstraintError | None = None,
) -> Iterator[Problem]:
    """Time-slicing and MPS replicas of the device plugin have no equivalent in DRA by default.

    The driver must publish devices with a consumable capacity `shares` (ConsumableShares). Converting anyway would
    give the pod a whole GPU that up to a dozen pods shared before. The pod is left as it is and runs through the
    device plugin.
    """
    if condition is not None:
        yield Problem(condition.path, str(condition))
    for resource, path, by in unoffered:
        if by == "driver":
            text = "is a whole device, and the DRA driver shares some devices between pods"
            remedy = "keep this pod on device-plugin nodes, or share all devices alike (consumableShares of the driver)"
            yield Problem(path, text, remedy)
        elif by == "resource" and resource != GPU_RESOURCE:
            yield Problem(path, "is a share of a GPU, and no ResourceSlice offers shares")
        elif by == "resource":
            text = "every node that hands it out shares its GPUs, and no ResourceSlice offers shares"
            yield Problem(path, text, _remedy_without_shares(record, view))


def _remedy_without_shares(record: ConversionRecord, view: ClusterView) -> str | None:
    """The remedy if `nvidia.com/gpu` is a share and none is offered; None for that of the rule."""
    mig, wish, groups = record.device_class(GPU_RESOURCE) == MIG_CLASS, record.wish, gpu_groups(view)
    wanted = most_at_once(record.containers, GPU_RESOURCE)
    whole = [
        group.product
        for group in (() if groups is UNKNOWN else groups)
        if group.type == "gpu" and shares_of(group.first) == 0 and group.most_on_a_node >= wanted
        if wish.products is None or wish.products.admits(group.product, None)
    ]
    if mig or wish.sharing == "shared" or any(record.constraints.places()) or not (whole or groups is UNKNOWN):
        return None
    remedy = 'write gpu-admission.io/sharing: "exclusive" to get a whole GPU by DRA'
    if whole and wish.products is None:
        remedy += f', or choose one that is not shared, such as gpu-admission.io/product: "{printable(min(whole))}"'
    return f"{remedy}; or keep this pod on device-plugin nodes"
