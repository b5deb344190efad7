"""Held GPUs: the devices of device plugins and of DRA on each node, with their pods and claims."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.analyses.usage.cells import memory_slices
from policies.analyses.usage.node_gpus import (
    HeldDevices,
    NodeGPUs,
    OfferedKind,
    Provider,
    PublishedUnit,
    UnusableKind,
    UnusableReason,
)
from policies.devices.allocation.capacity import CounterLedger
from policies.devices.allocation.checks import first_untolerated
from policies.devices.allocation.pools import PoolState
from policies.devices.allocation.reading import AllocationError, Features
from policies.devices.allocation.slices import TargetNode
from policies.devices.device_sharing import consumed_capacity, held_parts
from policies.devices.device_taint_rules import added_by_text
from policies.devices.published_devices import published_devices
from policies.devices.resource_claims import Claim, Holder
from policies.fleet.bound_pods import device_problems, health_problem, kubelet_problem
from policies.fleet.gpu_nodes import gpu_nodes
from policies.fleet.offers.shown import shown_device
from policies.kubernetes.bounds import count_work
from policies.kubernetes.nodes import Taint, labels_of
from policies.kubernetes.objects import DEFAULT_NAMESPACE, lookup, name_of, namespace_of
from policies.kubernetes.pod_status import unhealthy_devices
from policies.kubernetes.pods import resources_in_claim
from policies.kubernetes.quantities import ONE, billionths, taken_by
from policies.kubernetes.resourceslices import PCI_BUS_ID
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import DRIVER
from policies.nvidia.mig import parse_resource
from policies.quota.demands.device_kinds import counted_offer, quota_device

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence

    from policies.devices.allocation.pools import Pool
    from policies.devices.allocation.slices import AllocatableDevice
    from policies.devices.resource_claims import DeviceKey
    from policies.fleet.cluster_digest import Cluster
    from policies.fleet.offers.shown import ShownDevice
    from policies.kubernetes.objects import Object
    from policies.kubernetes.resourceslices import Device
    from policies.kubernetes.view import ClusterView
    from policies.quota.demands.device_kinds import QuotaDevice
    from policies.rules.settings.choices import Quotas


_PodUse = tuple[str, Holder, tuple[tuple[str, int], ...]]
"""The node of a pod, the pod, and how many devices of each resource it holds."""
_ResourceUse = dict[str, list[tuple[Holder, int]]]
"""The pods that hold devices of each resource of one node, and how many."""
_PodResource = tuple[str, str, str]
"""The namespace and name of a pod, and a resource."""
_WITHHELD = "the node advertises fewer devices, because unhealthy ones are held"
_PLUGIN_PROVIDERS = frozenset({Provider.DEVICE_PLUGIN})
_WORK_PER_PLUGIN_NODE = 50


def plugin_gpus(view: ClusterView, *, all_pods: bool) -> Iterator[NodeGPUs]:
    """The GPUs that device plugins advertise, with the pods that hold them.

    Args:
        view: The cluster. If its nodes are unknown, the GPUs that pods hold are returned, of an unknown product.
        all_pods: True if the view has the pods of all namespaces; if not, the number of held devices is unknown.
    """
    listed, facts, used = view.list("Node"), gpu_nodes(view), _uses_by_node(view)
    reported = view.derive_each("Pod", _unhealthy_of_plugins)
    unhealthy = dict(chain.from_iterable(() if reported is UNKNOWN else reported))
    documents = {} if listed is UNKNOWN else {name_of(node): node for node in listed}
    shown = {} if facts is UNKNOWN else {node.name: node.traits.shown_devices for node in facts.all}
    for node in dict.fromkeys((*documents, *used)):
        count_work(_WORK_PER_PLUGIN_NODE)
        uses = used.get(node, {})
        devices = shown.get(node, {})
        resources = {*devices, *uses}
        if not resources:
            continue
        document = documents.get(node, {})
        by_kind: defaultdict[OfferedKind, list[str]] = defaultdict(list)
        for resource in sorted(resources):
            by_kind[_kind(resource, devices, document)].append(resource)
        for kind, names in by_kind.items():
            exists = None if listed is UNKNOWN else document
            yield _gpus_of_kind(node, kind, names, exists, uses, unhealthy, all_pods=all_pods)


def _uses_by_node(view: ClusterView) -> Mapping[str, _ResourceUse]:
    found: dict[str, _ResourceUse] = {}
    pods = view.derive_each("Pod", pod_use)
    for use in () if pods is UNKNOWN else pods:
        if use is not None:
            node, holder, amounts = use
            for resource, count in amounts:
                found.setdefault(node, {}).setdefault(resource, []).append((holder, count))
    return found


def pod_use(pod: Object) -> _PodUse | None:
    """The devices of device plugins that a pod holds; those that a claim holds for it are left out."""
    taken = taken_by(pod)
    if taken is None:
        return None
    claimed = resources_in_claim(pod.get("status"))
    amounts = [
        (name, amount // ONE) for name, amount in taken[1] if parse_resource(name) is not None and name not in claimed
    ]
    return (
        (taken[0], Holder(namespace_of(pod) or DEFAULT_NAMESPACE, (name_of(pod),)), tuple(amounts)) if amounts else None
    )


def _kind(resource: str, devices: Mapping[str, ShownDevice], node: Object) -> OfferedKind:
    """The kind of a resource's devices, also where the node does not show the resource any more."""
    parsed = parse_resource(resource)
    if parsed is None:
        return OfferedKind("")
    return OfferedKind.of(*counted_offer(devices.get(resource) or shown_device(parsed, labels_of(node))))


def _gpus_of_kind(
    node: str,
    kind: OfferedKind,
    resources: Collection[str],
    document: Object | None,
    uses: _ResourceUse,
    unhealthy: Mapping[_PodResource, tuple[int, str]],
    *,
    all_pods: bool,
) -> NodeGPUs:
    """The devices of one kind.

    Args:
        node: The name of the node.
        kind: The kind of the devices.
        resources: The names under which the node offers the kind.
        document: The node, empty if it does not exist; None if nodes are unknown.
        uses: The pods on the node.
        unhealthy: How many devices of a pod are unhealthy, and why.
        all_pods: True if these are all pods.
    """
    holdings = []
    for resource in resources:
        for holder, count in uses.get(resource, ()):
            bad, problem = unhealthy.get((holder.namespace, holder.pods[0], resource), (0, ""))
            holdings.append(
                HeldDevices(holder, node, kind, Fraction(count), unhealthy=Fraction(min(bad, count)), problem=problem)
            )
    held = sum((each.amount for each in holdings), Fraction(0)) if all_pods else None
    if document is None:
        return NodeGPUs(node, kind, _PLUGIN_PROVIDERS, None, held, tuple(holdings))
    capacity, allocatable = (
        Fraction(sum(max(billionths(lookup(document, ("status", field, name))), 0) // ONE for name in resources))
        for field in ("capacity", "allocatable")
    )
    total = max(capacity, allocatable)
    lost = Fraction(0) if held is None else max(total - max(held, allocatable), Fraction(0))
    # A node advertises fewer devices for those that are unhealthy and held too, so the free ones are of no use.
    withheld = min(lost, sum((each.unhealthy for each in holdings), Fraction(0)))
    reasons = [UnusableReason(UnusableKind.UNHEALTHY, _WITHHELD, withheld)] if withheld else []
    if lost > withheld:
        reasons.append(UnusableReason(UnusableKind.UNHEALTHY, _lost_sentence(allocatable), lost - withheld))
    over = Fraction(0) if held is None else max(held - total, Fraction(0))
    held = None if held is None else held - over
    return NodeGPUs(node, kind, _PLUGIN_PROVIDERS, total, held, tuple(holdings), tuple(reasons), over=over)


def _unhealthy_of_plugins(pod: Object) -> tuple[tuple[_PodResource, tuple[int, str]], ...]:
    """The number of unhealthy devices of each resource that a pod holds, and why they are."""
    found: dict[_PodResource, tuple[int, str]] = {}
    for each in unhealthy_devices(pod):
        if parse_resource(each.resource) is not None:
            key = namespace_of(pod) or DEFAULT_NAMESPACE, name_of(pod), each.resource
            count, problem = found.get(key, (0, kubelet_problem(each)))
            found[key] = count + 1, problem
    return tuple(found.items())


def _lost_sentence(allocatable: Fraction) -> str:
    if allocatable:
        return "reported as unhealthy by the device plugin"
    return "all reported as unhealthy by the device plugin, or it is not running"


_POOLS = {
    PoolState.INCOMPLETE: "the driver has not published all slices of its pool",
    PoolState.INVALID: "the slices of its pool contradict each other",
    PoolState.OBSOLETE: "the driver is publishing a newer generation of its pool",
}
_FRAGMENT = UnusableReason(
    UnusableKind.FRAGMENTED, "what is left of a divided GPU is too small for every MIG device that the driver publishes"
)
_WORK_PER_NODE = 100
_ORDER = (UnusableKind.POOL, UnusableKind.DEVICE_TAINTED, UnusableKind.FRAGMENTED)


class AllocatableDevices:
    """Judges the devices of NVIDIA's driver, node by node."""

    def __init__(self, cluster: Cluster, features: Features) -> None:
        """Keep the cluster, of these features. If its slices cannot be read, nothing is judged."""
        self._cluster = cluster
        self._gatherer = None if cluster.index is None else cluster.gatherer(features)
        self._documents = {name_of(node): node for node in cluster.nodes}
        self._ledger = CounterLedger(cluster.usage)
        self._node = ""
        self._pools: dict[str, Pool] = {}
        self._devices: dict[tuple[str, str], AllocatableDevice] = {}
        self._problem = ""

    def unusable_reason(self, node: str, devices: Iterable[tuple[str, str]]) -> UnusableReason | None:
        """The reason why no device of a GPU can be allocated any more; None if one can.

        Args:
            node: The name of its node. Devices that several nodes reach are not judged.
            devices: Pool and name of each device that the driver publishes of the GPU. At least one is not held.
        """
        if self._gatherer is None or not node:
            return None
        if node != self._node:
            self._gather_devices(node)
        if self._problem:
            return UnusableReason(UnusableKind.POOL, self._problem)
        found: list[UnusableReason] = []
        for pool, name in devices:
            reason = self._device_reason(pool, name)
            if reason is None:
                return None
            found.append(reason)
        return min(found, key=lambda each: _ORDER.index(each.kind))

    def _gather_devices(self, node: str) -> None:
        count_work(_WORK_PER_NODE)
        self._node, self._problem, self._pools, self._devices = node, "", {}, {}
        document = self._documents.get(node, {"metadata": {"name": node}})
        try:
            pools = [] if self._gatherer is None else self._gatherer.gather(TargetNode(document))
            own = [pool for pool in pools if pool.id[0] == DRIVER]
            self._pools = {pool.id[1]: pool for pool in own}
            self._devices = {
                (pool.id[1], device.name): device for pool in own for found in pool.slices for device in found.devices
            }
        except AllocationError as error:
            self._problem = str(error)

    def _device_reason(self, name: str, device_name: str) -> UnusableReason | None:
        pool, device = self._pools.get(name), self._devices.get((name, device_name))
        if pool is None or device is None:
            state = PoolState.INCOMPLETE if pool is None else pool.state
            return UnusableReason(UnusableKind.POOL, _POOLS.get(state, _POOLS[PoolState.INCOMPLETE]))
        taint = first_untolerated(device.taints, ())
        if taint is not None:
            text = f"the device has the taint {Taint.read(taint)}{added_by_text(taint)}"
            return UnusableReason(UnusableKind.DEVICE_TAINTED, text)
        if device.id in self._cluster.usage.devices or self._ledger.take(device, pool) is not None:
            return _FRAGMENT
        self._ledger.give_back(device, pool)
        return None


_PROVIDERS = frozenset({Provider.DRA})
_ONE, _NONE = Fraction(1), Fraction(0)

_PoolAndName = tuple[str, str]
"""Pool and name of a device of NVIDIA's driver."""


class _PublishedDevice(NamedTuple):
    """A device that is a GPU, or one of the devices that a GPU can be divided into."""

    device: Device
    counted: QuotaDevice
    kind: OfferedKind

    @property
    def id(self) -> _PoolAndName:
        """Its pool and name."""
        return self.device.pool, self.device.name


class _Result(NamedTuple):
    """A device that an allocated claim holds."""

    device: _PoolAndName
    holder: Holder
    consumed: Mapping[str, Any] | None
    """As `consumed_capacity` returns it."""


def published_gpus(view: ClusterView, cluster: Cluster, settings: Quotas, *, all_claims: bool) -> Iterator[NodeGPUs]:
    """The GPUs that NVIDIA's DRA driver publishes, with the claims that hold them.

    A GPU counts once, however many devices the driver publishes of it for claims to choose from. If
    the ResourceSlices are unknown, the GPUs that claims hold are returned, of an unknown product.

    Args:
        view: The cluster.
        cluster: The same, digested.
        settings: How quotas count shares of devices.
        all_claims: True if the view has the claims of all namespaces; if not, the number of held devices is unknown.
    """
    published, claims = view.derive(published_devices), view.derive_each("ResourceClaim", _results)
    results: dict[_PoolAndName, list[_Result]] = {}
    for result in () if claims is UNKNOWN else chain.from_iterable(claims):
        results.setdefault(result.device, []).append(result)
    nodes: defaultdict[str, dict[Hashable, list[_PublishedDevice]]] = defaultdict(dict)
    for group in () if published is UNKNOWN else published.gpus:
        counted = quota_device(group.first)
        kind = OfferedKind.of(counted.device)
        for device in group.devices:
            nodes[device.node].setdefault(_identity(device), []).append(_PublishedDevice(device, counted, kind))
    judge = AllocatableDevices(cluster, Features.of_cluster(view))
    problems = view.derive(device_problems)
    for node, gpus in nodes.items():
        by_kind: defaultdict[OfferedKind, list[NodeGPUs]] = defaultdict(list)
        for devices in gpus.values():
            one = _one_gpu(node, devices, results, judge, problems, settings, all_claims=all_claims)
            by_kind[one.kind].append(one)
        yield from map(_sum_of_kind, by_kind.values())
    yield from _missing_gpus(results, is_known=published is not UNKNOWN, all_claims=all_claims)


def _identity(device: Device) -> Hashable:
    """Equal for the devices that are the same GPU: those with common counters, and vfio."""
    if device.counter_sets:
        return device.pool, "counters", device.counter_sets[0]
    bus = device.attributes.get(PCI_BUS_ID)
    if bus and device.attributes.get(f"{DRIVER}/type") in ("gpu", "vfio"):
        return device.pool, "bus", str(bus)
    return device.pool, "device", device.name


def _results(document: Object) -> tuple[_Result, ...]:
    """The devices of NVIDIA's driver that a claim holds; with admin access it holds nothing."""
    claim = Claim(document)
    held = [each for each in claim.allocated_devices if each.get("driver") == DRIVER and not each.get("adminAccess")]
    if not held:
        return ()
    holder = Holder.of_claim(claim)
    return tuple(
        _Result(
            (str(each.get("pool")), str(each.get("device"))),
            holder,
            consumed_capacity(each),
        )
        for each in held
    )


def _one_gpu(
    node: str,
    devices: Sequence[_PublishedDevice],
    results: dict[_PoolAndName, list[_Result]],
    judge: AllocatableDevices,
    problems: Mapping[DeviceKey, str],
    settings: Quotas,
    *,
    all_claims: bool,
) -> NodeGPUs:
    """One GPU, of which the driver publishes one device or several."""
    largest = max(devices, key=lambda each: each.kind.gpus)
    kind, holdings, held, over, is_shared, is_whole_held = largest.kind, [], _NONE, _NONE, False, False
    slices = {largest.device.name: memory_slices(largest.device)} if kind.profile else {}
    for each in devices:
        if not (found := results.pop(each.id, None)):
            continue
        amounts, taken = _NONE, Counter[str]()
        for result in found:
            parts = held_parts(each.device, result.consumed)
            amount = each.counted.kind_taken(parts, settings).gpus / each.kind.gpus
            amounts += amount
            taken.update(parts)
            problem = health_problem(each.device) or problems.get((DRIVER, *each.id), "")
            unhealthy = amount if problem else _NONE
            holdings.append(
                HeldDevices(result.holder, node, each.kind, amount, (each.device.name,), unhealthy, problem)
            )
            if each.kind.profile:
                slices[each.device.name] = memory_slices(each.device)
        # Holders of a device that the driver shares can count for more than the device, although each fits.
        if amounts > 1 and each.device.is_shareable and max(taken.values(), default=_NONE) <= 1:
            amounts, is_shared = _ONE, True
        share = each.kind.gpus / kind.gpus
        if amounts > 1:
            over += (amounts - 1) * share
        held += min(amounts, _ONE) * share
        is_whole_held = is_whole_held or (amounts >= 1 and share == 1)
    # The parts of a divided GPU can add up to more than one, because each counts as the larger of its shares.
    if held > 1:
        held, over = _ONE, over + held - 1 if is_whole_held else over
    reason = judge.unusable_reason(node, [each.id for each in devices]) if all_claims and held < 1 else None
    unit = PublishedUnit(_gpu_of(largest.device), largest.device.name, kind, tuple(holdings), slices, reason, is_shared)
    return NodeGPUs(
        node,
        kind,
        _PROVIDERS,
        _ONE,
        held if all_claims else None,
        unit.holdings,
        () if reason is None else (reason._replace(amount=_ONE - held),),
        (unit,),
        over if all_claims else _NONE,
    )


def _gpu_of(device: Device) -> str:
    """The identity of a GPU in its pool: its counters, its UUID, or the name of the device."""
    parent = device.attributes.get(f"{DRIVER}/parentUUID")
    name = device.counter_sets[0] if device.counter_sets else str(parent or device.name)
    return f"{device.pool}/{name}"


def _sum_of_kind(parts: Sequence[NodeGPUs]) -> NodeGPUs:
    """The GPUs of one kind on one node as one entry."""
    first = parts[0]
    reasons: dict[tuple[UnusableKind, str], Fraction] = {}
    for part in parts:
        for each in part.reasons:
            reasons[each.kind, each.sentence] = reasons.get((each.kind, each.sentence), _NONE) + each.amount
    return NodeGPUs(
        first.node,
        first.kind,
        _PROVIDERS,
        Fraction(len(parts)),
        None if first.held is None else sum((part.held or _NONE for part in parts), _NONE),
        tuple(holding for part in parts for holding in part.holdings),
        tuple(UnusableReason(*key, amount) for key, amount in reasons.items()),
        tuple(unit for part in parts for unit in part.units),
        sum((part.over for part in parts), _NONE),
    )


def _missing_gpus(
    results: Mapping[_PoolAndName, Sequence[_Result]], *, is_known: bool, all_claims: bool
) -> Iterator[NodeGPUs]:
    """The held devices that no slice shows. NVIDIA's driver names the pool of a node after the node."""
    holdings: defaultdict[str, list[HeldDevices]] = defaultdict(list)
    kind = OfferedKind("")
    for (pool, name), held in results.items():
        holdings[pool] += (HeldDevices(result.holder, pool, kind, _ONE, (name,)) for result in held)
    for node, of_node in holdings.items():
        number, over = Fraction(len(of_node)) if all_claims else None, _NONE
        if is_known and number is not None:
            number, over = _NONE, number
        yield NodeGPUs(node, kind, _PROVIDERS, _NONE if is_known else None, number, tuple(of_node), over=over)
