"""The part of a device that a resource stands for: all of it, or a share.

A share of the device plugin becomes what the DRA driver hands out in its place, and never a larger part: one of its
shares, as much memory as the share had, or a device that claims share without limit. A claim cannot hold two shares of one
device, because the driver cannot prepare it. So the shares of a pod are of different devices, as the device plugin
distributes them.

Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/consumable_shares.go, cdi.go
CreateClaimSpecFile (a CDI device for each result, named by the device; tags.cncf.io/container-device-interface pkg/cdi
refuses equal names); github.com/NVIDIA/k8s-device-plugin internal/rm/allocate.go greedyAlloc;
k8s.io/dynamic-resource-allocation structured/internal/incubating/consumable_capacity.go fillEmptyRequest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from policies.conversion.constraints import ConstraintError
from policies.conversion.device_layout import most_at_once
from policies.conversion.record import UUID, DevicePart
from policies.devices.device_sharing import SharingMode, sharing_of
from policies.devices.deviceclasses import MIG_CLASS
from policies.devices.published_devices import gpu_groups, largest_node, published_devices
from policies.fleet.gpu_nodes import gpu_nodes
from policies.fleet.offers.shown import LabelledResource, shown_device
from policies.kubernetes.names import printable
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import DRIVER, GPU_RESOURCE
from policies.nvidia.mig import parse_resource
from policies.rules.checks import PODS, Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from policies.conversion.record import ConversionRecord
    from policies.devices.published_devices import DeviceGroup
    from policies.kubernetes.objects import FieldPath
    from policies.kubernetes.resourceslices import Device
    from policies.kubernetes.view import ClusterView
    from policies.nvidia.wish_words import Sharing


_MEBI = 2**20
Reason = Literal["resource", "wish", "uncounted", "mixed", "unlimited", "larger", "memory", "capacity", "apart"]


class UnofferedPart(NamedTuple):
    """A resource that stands for a part of a device which the DRA driver does not offer."""

    resource: str
    path: FieldPath
    by: Reason
    """The reason:

    - `resource`, `wish`: the resource is a share, or the pod wishes one, and the driver hands out whole devices.
    - `uncounted`: the pod wishes a share without an amount of memory, and the driver shares devices by memory.
    - `mixed`: the pod needs a whole device, and the driver shares some devices and others not.
    - `unlimited`: the pod needs a whole device, and the driver shares all of them without limit.
    - `larger`: the driver's shares are larger than those of the device plugin.
    - `memory`: the driver shares devices by memory, and the memory of the share is unknown.
    - `capacity`: a claim takes all of a capacity of some devices.
    - `apart`: the pod holds several shares, and no node has so many devices.
    """
    amount: int = 0
    """For `larger`, the shares into which the device plugin divides a device; for `apart`, the shares of the pod."""
    shares: int = 0
    """For `larger`, the shares into which the driver divides a device."""


class ResourceParts(NamedTuple):
    """The parts that the resources of a pod stand for."""

    parts: dict[str, DevicePart]
    """By resource, without those that stand for devices as the driver hands them out by default."""
    apart: tuple[str, ...]
    """The resources whose parts must be of different devices."""
    unoffered: tuple[UnofferedPart, ...]


class _HandedOutShare(NamedTuple):
    """A share that a device plugin hands out, or handed out before the DRA driver took its place."""

    replicas: int
    memory: int | None
    """Of the device before it is shared, in MiB."""
    product: str
    """With the MIG profile, as `DeviceGroup.product`."""


def resource_parts(
    record: ConversionRecord,
    spec: Mapping[str, Any],
    places: Mapping[str, FieldPath],
    view: ClusterView,
    *,
    shared: Collection[str],
) -> ResourceParts:
    """The part of a device that each resource stands for.

    While no such device is published, a wish for a share is granted: the claim waits, and does not get a whole device.

    Args:
        record: The pod's requests, without parts.
        spec: The pod's `spec`, which selects nodes.
        places: The path of each resource.
        view: The cluster.
        shared: The resources that are shares under the name of the device on every node that the pod could have run on.
    """
    published = view.derive(published_devices)
    is_driver_sharing = published is not UNKNOWN and bool(published.sharing_nodes)
    sharing = record.wish.sharing
    if not (is_driver_sharing or shared or sharing == "shared" or any(map(_is_named_share, places))):
        return ResourceParts({}, (), ())
    parts: dict[str, DevicePart] = {}
    unoffered: list[UnofferedPart] = []
    groups_of: dict[str, Sequence[DeviceGroup]] = {}
    for resource, path in places.items():
        kind = "mig" if record.device_class(resource) == MIG_CLASS else "gpu"
        groups: Sequence[DeviceGroup] = [
            each for each in (() if published is UNKNOWN else published.gpus) if each.type == kind
        ]
        is_share = _is_named_share(resource) or (resource in shared and sharing != "exclusive")
        found: DevicePart | UnofferedPart | None
        if not (is_share or sharing == "shared"):
            if len(_sharings(groups)) > 1:
                groups = _matching_groups(record, resource, groups)
            found = _whole_device(groups, sharing, UnofferedPart(resource, path, "mixed"))
        elif groups or is_share:
            groups = _matching_groups(record, resource, [each for each in groups if each.is_shareable])
            handed_out = _handed_out_shares(record, resource, spec, view) if is_share and groups else frozenset()
            found = _share(groups, handed_out, UnofferedPart(resource, path, "resource" if is_share else "wish"))
        else:
            found = DevicePart(shares=1)
        if isinstance(found, UnofferedPart):
            unoffered.append(found)
            continue
        if found is not None:
            parts[resource] = found
        is_any = sharing == "any" and found is None and any(each.is_shareable for each in groups)
        if is_share or sharing == "shared" or is_any:
            groups_of[resource] = groups
    apart, scarce = _parts_apart(record, groups_of, places)
    return ResourceParts(parts, apart, (*unoffered, *scarce))


def _is_named_share(resource: str) -> bool:
    """True for a resource such as `nvidia.com/gpu.shared`."""
    parsed = parse_resource(resource)
    return parsed is not None and parsed.shared


def _parts_apart(
    record: ConversionRecord, groups_of: Mapping[str, Sequence[DeviceGroup]], places: Mapping[str, FieldPath]
) -> tuple[tuple[str, ...], list[UnofferedPart]]:
    """The resources whose parts must be of different devices, and the parts that no node offers.

    Args:
        record: The pod's requests.
        groups_of: The devices of each resource that stands for parts of devices which claims share.
        places: The path of each resource.
    """
    apart: list[str] = []
    scarce: list[UnofferedPart] = []
    for device_class in dict.fromkeys(map(record.device_class, groups_of)):
        resources = [each for each in groups_of if record.device_class(each) == device_class]
        count = sum(most_at_once(record.containers, resource) for resource in resources)
        if count < 2:
            continue
        apart += resources
        for resource in resources:
            groups = _matching_groups(record, resource, groups_of[resource])
            if groups and (
                largest_node(each.by_node for each in groups)[1] < count
                or not all(UUID in each.first.attributes for each in groups)
            ):
                scarce.append(UnofferedPart(resource, places[resource], "apart", count))
                break
    return tuple(sorted(apart)), scarce


def _matching_groups(record: ConversionRecord, resource: str, groups: Sequence[DeviceGroup]) -> Sequence[DeviceGroup]:
    """The groups that meet the conditions of the pod on a resource; all of them if none does."""
    try:
        predicate = record.predicate(resource)
    except ConstraintError:
        return groups
    return [each for each in groups if predicate.matches(each.first)] or groups


def _sharings(groups: Iterable[DeviceGroup]) -> set[tuple[SharingMode, int]]:
    """The modes in which devices are shared, with the number of shares in the mode `SHARES`."""
    found = (sharing_of(each.first) for each in groups)
    return {(each.mode, each.shares) for each in found}


def _whole_device(
    groups: Iterable[DeviceGroup], sharing: Sharing | None, otherwise: UnofferedPart
) -> DevicePart | UnofferedPart | None:
    """The part that is a whole device; None if a request without a capacity gets all of it."""
    found = _sharings(groups)
    modes = {mode for mode, _ in found}
    # Of a device that is shared by memory, a claim takes all by default.
    if modes <= {SharingMode.NONE, SharingMode.MEMORY}:
        return None
    numbers = {shares for _, shares in found if shares}
    if len(numbers) == 1 and modes == {SharingMode.SHARES}:
        return DevicePart(shares=numbers.pop())
    if sharing == "exclusive" and SharingMode.NONE in modes:
        return DevicePart(is_shareable=False)
    if sharing == "any":
        return None
    return otherwise._replace(by="unlimited") if modes == {SharingMode.UNLIMITED} else otherwise


def _handed_out_shares(
    record: ConversionRecord, resource: str, spec: Mapping[str, Any], view: ClusterView
) -> frozenset[_HandedOutShare]:
    """The shares under the name of a resource on the nodes that the pod could have run on."""
    nodes, parsed, products = gpu_nodes(view), parse_resource(resource), record.wish.products
    if nodes is UNKNOWN or parsed is None:
        return frozenset()
    found: set[_HandedOutShare] = set()
    for traits in {id(node.traits): node.traits for node in nodes.select(spec)}.values():
        device = traits.shown_devices.get(resource)
        if device is None:
            if traits.has_device_plugin:
                continue
            device = shown_device(parsed, traits.label_values)
        labelled = LabelledResource(resource.removesuffix(".shared"), traits.label_values).replicas
        replicas = max(device.sharing.replicas, labelled or 1)
        if replicas > 1 and (products is None or products.admits(device.product, device.profile)):
            product = f"{device.product} MIG {device.profile}" if device.profile else device.product
            found.add(_HandedOutShare(replicas, device.memory, product))
    return frozenset(found)


def _share(
    groups: Collection[DeviceGroup], handed_out: Collection[_HandedOutShare], otherwise: UnofferedPart
) -> DevicePart | UnofferedPart:
    """The part of shared devices that is no more than a share of the device plugin."""
    if not groups:
        return otherwise
    found = _sharings(groups)
    modes = {mode for mode, _ in found}
    fewest = min((shares for _, shares in found if shares), default=0)
    replicas = min((each.replicas for each in handed_out), default=1)
    if fewest and fewest < replicas:
        return otherwise._replace(by="larger", amount=replicas, shares=fewest)
    engines = {_engines(each.first) for each in groups}
    # The slices of a MIG device that exists already have the names of their places, which no other device has.
    if len(engines) > 1 or any(name.startswith("memorySlice") for each in engines for name in each):
        return otherwise._replace(by="capacity")
    unused = tuple(sorted(engines.pop()))
    if SharingMode.MEMORY in modes:
        memory = _memory_of_share(groups, handed_out)
        if not memory:
            return otherwise._replace(by="uncounted" if otherwise.by == "wish" else "memory")
        return DevicePart(memory=memory, unused=unused, is_shareable=True)
    if SharingMode.UNLIMITED in modes:
        return DevicePart(unused=unused, is_shareable=True)
    return DevicePart(1, unused=unused)


def _engines(device: Device) -> frozenset[str]:
    """The capacities without a request policy, of which a claim takes all unless it requests less.

    These are the multiprocessors, engines and memory slices of MIG devices, and with DynamicMIG those of whole GPUs.
    """
    return frozenset(name.removeprefix(f"{DRIVER}/") for name in device.items_of("capacity")) - {"memory", "shares"}


def _memory_of_share(groups: Iterable[DeviceGroup], handed_out: Collection[_HandedOutShare]) -> int:
    """The least memory of the shares that the pod could have had, in MiB; 0 if one of them is unknown.

    With DynamicMIG, a GPU publishes less than the label of its node says.
    """
    published: dict[str, int] = {}
    for group in groups:
        memory = int(group.first.capacity.get(f"{DRIVER}/memory", 0) // _MEBI)
        published[group.product] = min(memory, published.get(group.product, memory))
    sizes = [
        min((size for size in (share.memory, published.get(share.product)) if size), default=0) // share.replicas
        for share in handed_out
    ]
    return min(sizes, default=0)


@PODS.rule(
    "GA327",
    "A shared GPU must be wished for only where the DRA driver offers shares",
    remedy='write gpu-admission.io/sharing: "any", or keep this pod on device-plugin nodes (label gpu-admission.io/dra: disabled)',
    administrator="enable ConsumableShares in the DRA driver",
    source="github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/consumable_shares.go "
    "applyConsumableShares; KEP-5075",
)
def offered_wish_for_shares(record: ConversionRecord, unoffered: Iterable[UnofferedPart]) -> Iterator[Problem]:
    """The pod wishes a GPU that it shares with others (gpu-admission.io/sharing: shared).

    A claim can request a part of a device only where the driver shares its devices between claims (ConsumableShares).
    Without it the pod would hold a whole GPU, which it does not need; a claim for one share would stay Pending. If the
    driver shares devices by memory, and the pod does not say how much it needs, the pod is left as it is, with a warning.
    """
    for each in unoffered:
        device = _device_noun(record, each.resource)
        if each.by == "wish":
            yield Problem(
                each.path, f"the pod wishes a shared {device}, and no ResourceSlice offers shares of {device}s"
            )
        elif each.by == "uncounted":
            text = f"the pod wishes a shared {device}, and the DRA driver shares {device}s by memory"
            remedy = _NAME_MEMORY if device == "GPU" else None
            administrator = "set the variable CONSUMABLE_SHARES of the DRA driver to a number"
            yield Problem(each.path, text, remedy, administrator=administrator, severity=Severity.WARN)


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
    unoffered: Iterable[UnofferedPart],
    view: ClusterView,
    condition: ConstraintError | None = None,
) -> Iterator[Problem]:
    """Time-slicing and MPS replicas of the device plugin have no equivalent in DRA by default.

    The driver must share its devices between claims (ConsumableShares), and its shares must not be larger than those of
    the device plugin. Converting anyway would give the pod a whole GPU that up to a dozen pods shared before. Where the
    driver shares devices, a pod that needs a whole one must be able to say so. The pod is left as it is and runs through
    the device plugin.
    """
    if condition is not None:
        yield Problem(condition.path, str(condition))
    for each in unoffered:
        device = _device_noun(record, each.resource)
        match each.by:
            case "wish" | "uncounted":
                pass  # see GA327
            case "resource" if each.resource == GPU_RESOURCE:
                text = "every node that hands it out shares its GPUs, and no ResourceSlice offers shares"
                yield Problem(each.path, text, _whole_gpu_remedy(record, view, GPU_RESOURCE))
            case "resource":
                yield Problem(each.path, "is a share of a GPU, and no ResourceSlice offers shares")
            case "mixed":
                text = "is a whole device, and the DRA driver shares some devices between pods"
                administrator = "share all devices alike (consumableShares of the driver)"
                remedy = _whole_gpu_remedy(record, view, each.resource) or _STAY
                yield Problem(each.path, text, remedy, administrator=administrator)
            case "unlimited":
                text = f"is a whole {device}, and the DRA driver shares every {device} without limit"
                remedy = f'write gpu-admission.io/sharing: "any" if a shared one will do, or {_STAY}'
                administrator = "set the variable CONSUMABLE_SHARES of the DRA driver to a number, or to memory"
                yield Problem(each.path, text, remedy, administrator=administrator)
            case "larger":
                text = f"is one of {each.amount} shares of a {device}, and the DRA driver divides a {device} into {each.shares}"
                administrator = f"set the variable CONSUMABLE_SHARES of the DRA driver to {each.amount}"
                yield Problem(each.path, text, _STAY, administrator=administrator)
            case "memory":
                text = (
                    f"is a share of a {device} that is divided by memory now, and the memory of the share is not known"
                )
                yield Problem(each.path, text, _NAME_MEMORY if device == "GPU" else _STAY)
            case "capacity":
                text = f"is a share of a {device}, and a claim takes all engines or memory slices of some {device}s"
                administrator = "enable DynamicMIG in the DRA driver on all nodes, or on none"
                yield Problem(each.path, text, _STAY, administrator=administrator)
            case "apart":
                text = f"the pod holds {each.amount} shares, and a claim cannot hold two of one {device}; no node has {each.amount}"
                yield Problem(each.path, text, f"request 1, or {_STAY}")


_STAY = "keep this pod on device-plugin nodes"
_NAME_MEMORY = f'write gpu-admission.io/gpu-memory: "10Gi", or {_STAY}'


def _device_noun(record: ConversionRecord, resource: str) -> str:
    return "MIG device" if record.device_class(resource) == MIG_CLASS else "GPU"


def _whole_gpu_remedy(record: ConversionRecord, view: ClusterView, resource: str) -> str | None:
    """The remedy for a pod that can get whole GPUs by DRA; None if no node has enough of them."""
    wish, groups = record.wish, gpu_groups(view)
    wanted = most_at_once(record.containers, resource)
    whole = [
        group.product
        for group in (() if groups is UNKNOWN else groups)
        if group.type == "gpu" and not group.is_shareable and group.most_on_a_node >= wanted
        if wish.products is None or wish.products.admits(group.product, None)
    ]
    is_mig = record.device_class(resource) == MIG_CLASS
    if is_mig or wish.sharing == "shared" or any(record.constraints.places()) or not (whole or groups is UNKNOWN):
        return None
    remedy = 'write gpu-admission.io/sharing: "exclusive" to get a whole GPU by DRA'
    if whole and wish.products is None:
        remedy += f', or choose one that is not shared, such as gpu-admission.io/product: "{printable(min(whole))}"'
    return f"{remedy}; or {_STAY}"
