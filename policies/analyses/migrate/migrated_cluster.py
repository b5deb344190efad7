"""A cluster after its migration: the DRA driver provides the GPUs, and running pods have claims.

Devices of nodes without ResourceSlices are predicted from the labels of GPU Feature Discovery. The driver has one
configuration for all nodes: if it shares GPUs where it runs, it shares them everywhere. If it does not, nodes whose device
plugin shares GPUs keep the plugin.

Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin (attributes and capacities of devices);
github.com/NVIDIA/k8s-device-plugin docs/gpu-feature-discovery (labels).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.analyses.migrate import converting_namespace
from policies.analyses.usage import pod_use
from policies.devices.deviceclasses import GPU_CLASS, MIG_CLASS
from policies.devices.resource_claims import Claim
from policies.devices.selected_types import shipped_class
from policies.fleet.gpu_nodes import node_facts
from policies.fleet.offers import DriverState, NodeState, estimated_sizes, measured_sizes, read_hardware
from policies.fleet.offers.hardware import shown_driver
from policies.fleet.offers.published import PublishedSlice, gpu_slices, published_slices, slice_document
from policies.fleet.offers.shown import shown_device
from policies.kubernetes.bounds import check_cancelled
from policies.kubernetes.objects import lookup, mapping_at, mappings_at, name_of, uid_of
from policies.kubernetes.quantities import mebibytes_text, quantity_or_none
from policies.kubernetes.view import UNKNOWN, ChangedView
from policies.nvidia.identifiers import DRIVER, VENDOR_PREFIX
from policies.nvidia.mig import parse_resource

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from policies.fleet.gpu_nodes import GPUNode
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Key


_MEBI = 2**20
_TIMESTAMP = "nvidia.com/gfd.timestamp"


class _Part(NamedTuple):
    """A device, or the share of one that a pod gets if it does not say how much it needs."""

    device: str
    kind: str
    """The attribute `type`."""
    profile: str
    consumed: Mapping[str, str]
    """The capacities that are consumed; empty for a whole device."""


_Free = dict[tuple[str, str], list[_Part]]
"""The parts of devices of a node that no claim holds, by type and MIG profile."""


@dataclass(frozen=True, slots=True)
class MigratedCluster:
    """A cluster after its migration."""

    view: ClusterView
    predicted: tuple[str, ...]
    """Nodes whose devices are predicted from their labels."""
    sharing: tuple[str, ...]
    """Nodes that keep the device plugin, because it shares their GPUs."""
    unplaced: tuple[str, ...]
    """Pods that hold more GPUs than their node shows, `namespace/name`."""


def migrated_cluster(
    view: ClusterView, namespaces: Iterable[str], nodes: Collection[str] | None = None
) -> MigratedCluster:
    """The cluster when namespaces convert and nodes use the DRA driver; nodes must be known.

    Args:
        view: The cluster.
        namespaces: Those that convert.
        nodes: The only nodes that change; None for all.
    """
    documents = {name_of(each): each for each in view.known_objects("Node")}
    facts = {name: node_facts(each) for name, each in documents.items()}
    by_plugin = {
        name: each for name, each in facts.items() if each.traits.has_device_plugin and (nodes is None or name in nodes)
    }
    sharing = {name for name, each in by_plugin.items() if _shares(each)}
    driver = shown_driver([each for slices in view.derive(gpu_slices).values() for each in slices]) or DriverState()
    driver = replace(driver, gates=driver.gates & {"ConsumableShares"})
    if driver.shares:
        sharing = set()
    free = free_devices(view)
    predicted = [name for name in by_plugin if name not in sharing and name not in free]
    objects: dict[Key, Object | None] = {}
    for name in by_plugin.keys() - sharing:
        objects["Node", "", name] = _without_plugin(documents[name], by_plugin[name])
    made: dict[tuple[frozenset[tuple[str, str]], frozenset[tuple[str, int]]], PublishedSlice] = {}
    for name in predicted:
        check_cancelled()
        # Nodes that show the same have the same devices, which the allocator then compares once.
        shown = by_plugin[name]
        labels = {key: value for key, value in shown.labels.items() if key.startswith(VENDOR_PREFIX)}
        labels.pop(_TIMESTAMP, None)
        key = frozenset(labels.items()), frozenset(shown.offers.items())
        if key not in made:
            made[key] = _predicted_slice(documents[name], driver, view)
        slice_name = f"predicted-{DRIVER}-{name}"
        objects["ResourceSlice", "", slice_name] = slice_document(slice_name, name, made[key])
        replicas = max((each.sharing.replicas for each in shown.traits.shown_devices.values()), default=1)
        free[name] = _by_kind(_alternating_parts([_parts(device, replicas) for device in made[key].devices]))
    for each in (GPU_CLASS, MIG_CLASS):
        if view.get("DeviceClass", each) is None:
            objects["DeviceClass", "", each] = shipped_class(each)
    objects |= {("Namespace", "", each): converting_namespace(each, view) for each in namespaces}
    migrated = {name: each.labels for name, each in by_plugin.items() if name not in sharing}
    claims, unplaced = claims_of_pods(view, migrated, free)
    objects |= claims
    return MigratedCluster(
        ChangedView(view, objects), tuple(sorted(predicted)), tuple(sorted(sharing)), tuple(unplaced)
    )


def _shares(node: GPUNode) -> bool:
    return any(device.is_shared for name, device in node.traits.shown_devices.items() if name in node.offers)


def _without_plugin(node: Object, facts: GPUNode) -> Object:
    status = dict(node["status"])
    for field in ("allocatable", "capacity"):
        amounts = status.get(field)
        if isinstance(amounts, dict):
            status[field] = {key: value for key, value in amounts.items() if key not in facts.traits.plugin_resources}
    return {**node, "status": status}


def _predicted_slice(node: Object, driver: DriverState, view: ClusterView) -> PublishedSlice:
    """The devices that the driver would publish, as far as the labels tell.

    The memory of a MIG device is left out if it is estimated. Then no label has it, so that no pod on the node requires it.
    """
    shown = read_hardware(node, measured=view.derive(measured_sizes))
    if shown is None:
        return PublishedSlice()
    hardware, cut = shown
    state = NodeState(cut, driver=driver)
    slices = published_slices(hardware, state)
    if isinstance(slices, str):
        return PublishedSlice()
    estimated = set(map(str, estimated_sizes(hardware, state)))
    return PublishedSlice(
        tuple(
            each if lookup(each, ("attributes", "profile", "string")) not in estimated else _without_memory(each)
            for each in slices[0].devices
        )
    )


def _without_memory(device: Object) -> Object:
    return {**device, "capacity": {name: value for name, value in device["capacity"].items() if name != "memory"}}


def free_devices(view: ClusterView) -> dict[str, _Free]:
    """The published GPUs of each node that no claim holds; nodes without published GPUs are missing.

    A GPU that pods can share is there once for each pod that it has room for.
    """
    held = Counter(
        (str(result.get("pool")), str(result.get("device")))
        for claim in view.known_objects("ResourceClaim")
        for result in Claim(claim).allocated_devices
        if result.get("driver") == DRIVER
    )
    return {
        node: _by_kind(
            part
            for each in slices
            for device in mappings_at(each, ("spec", "devices"))
            for part in _parts(device)[held[str(lookup(each, ("spec", "pool", "name"))), str(device.get("name"))] :]
        )
        for node, slices in view.derive(gpu_slices).items()
    }


_MOST_HOLDERS = 64
"""The most pods that are given one GPU which the driver shares without a limit."""


def _alternating_parts(devices: Iterable[Sequence[_Part]]) -> Iterator[_Part]:
    """The parts of devices, one of each device after the other, as device plugins distribute shares."""
    return (part for parts in zip_longest(*devices) for part in parts if part is not None)


def _parts(device: Object, replicas: int = 1) -> list[_Part]:
    """The parts of a device that one pod each can hold: the device, or its shares.

    Args:
        device: The device.
        replicas: The shares that the device plugin made of it, if the driver divides its memory.
    """
    kind, profile = (str(lookup(device, ("attributes", name, "string")) or "") for name in ("type", "profile"))
    part = _Part(str(device.get("name")), kind, profile, {})
    if device.get("allowMultipleAllocations") is not True:
        return [part]
    consumed = {}
    count = _MOST_HOLDERS
    for name, amount in mapping_at(device, ("capacity",)).items():
        default = lookup(amount, ("requestPolicy", "default"))
        least, whole = (int(quantity_or_none(each) or 0) for each in (default, lookup(amount, ("value",))))
        if default is not None and least == whole and replicas > 1:
            consumed[name] = mebibytes_text(whole // _MEBI // replicas)
            count = min(count, replicas)
        elif default is not None:
            consumed[name] = str(default)
            count = min(count, whole // least) if least else count
    return [part._replace(consumed=consumed)] * count


def _by_kind(parts: Iterable[_Part]) -> _Free:
    found: _Free = defaultdict(list)
    for part in parts:
        found[part.kind, part.profile].append(part)
    return found


def claims_of_pods(
    view: ClusterView, nodes: Mapping[str, Mapping[str, str]], free: Mapping[str, _Free]
) -> tuple[dict[Key, Object], list[str]]:
    """Claims for the GPUs that running pods hold by device plugins, and pods without enough devices.

    `nodes` has the labels of the nodes that are migrated.
    """
    claims, unplaced = {}, []
    pods = view.derive_each("Pod", pod_use)
    for use in () if pods is UNKNOWN else pods:
        check_cancelled()
        if use is None or use[0] not in nodes:
            continue
        node, holder, amounts = use
        results = []
        for resource, count in amounts:
            parsed = parse_resource(resource)
            if parsed is None:
                continue
            profile = shown_device(parsed, nodes[node]).profile
            devices = free[node]["mig" if profile else "gpu", str(profile or "")]
            taken, devices[:] = devices[:count], devices[count:]
            results += taken
            if len(taken) < count:
                unplaced += [f"{holder.namespace}/{name}" for name in holder.pods]
        for name in holder.pods:
            claims[claim_key(holder.namespace, name)] = _claim(holder.namespace, name, node, results)
    return claims, unplaced


def claim_key(namespace: str, pod: str) -> Key:
    """The key of the claim that `claims_of_pods` makes for a pod."""
    return "ResourceClaim", namespace, f"migrated-{pod}"


def claimed_pod(pod: Object, claim: Object) -> tuple[Object, Object]:
    """A pod that has a claim in place of the resources of device plugins, and the claim as made for it."""
    spec = dict(pod["spec"])
    for field in ("containers", "initContainers"):
        if containers := mappings_at(spec, (field,)):
            spec[field] = [{**each, "resources": _without_plugin_resources(each)} for each in containers]
    spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name_of(claim)}]
    made = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": name_of(claim)}]}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name_of(pod), "uid": uid_of(pod), "controller": True}
    metadata = {
        **claim["metadata"],
        "ownerReferences": [owner],
        "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
    }
    return (
        {**pod, "spec": spec, "status": {**mapping_at(pod, ("status",)), **made}},
        {**claim, "metadata": metadata},
    )


def _without_plugin_resources(container: Object) -> dict[str, Any]:
    return {
        field: {name: amount for name, amount in amounts.items() if parse_resource(name) is None}
        if isinstance(amounts, dict)
        else amounts
        for field, amounts in mapping_at(container, ("resources",)).items()
    }


def _claim(namespace: str, pod: str, node: str, parts: Iterable[_Part]) -> Object:
    """An allocated claim that a pod uses."""
    results = [
        {"request": "gpu", "driver": DRIVER, "pool": node, "device": part.device}
        | ({"shareID": f"{namespace}/{pod}/{number}", "consumedCapacity": part.consumed} if part.consumed else {})
        for number, part in enumerate(parts)
    ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": claim_key(namespace, pod)[2], "namespace": namespace, "uid": f"{namespace}/{pod}"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": GPU_CLASS}}]}},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": pod, "uid": f"{namespace}/{pod}"}],
        },
    }
