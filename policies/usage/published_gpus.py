"""GPUs of DRA: the devices that the driver publishes, and the claims that hold them."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from policies.dra.published_devices import published_devices
from policies.dra.resource_claims import Claim
from policies.kubernetes.objects import DEFAULT_NAMESPACE
from policies.nvidia.identifiers import DRIVER
from policies.quota.devices.device_kinds import ConsumedCapacity, quota_device
from policies.usage.allocatable_devices import AllocatableDevices
from policies.usage.node_gpus import GPUKind, Holder, Holding, NodeGPUs, Unusable, UnusableKind, Way
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from policies.explanation.cluster import Cluster
    from policies.kubernetes.objects import Object
    from policies.kubernetes.resourceslices import Device
    from policies.quota.devices.device_kinds import QuotaDevice
    from policies.view import ClusterView

__all__ = ["published_gpus"]

_WAY = frozenset({Way.DRA})
_ONE, _NONE = Fraction(1), Fraction(0)
_PCI_BUS_ID = "resource.kubernetes.io/pciBusID"

_DeviceId = tuple[str, str]
"""Pool and name of a device of NVIDIA's driver."""


class _Form(NamedTuple):
    """A device that is a GPU, or one of the devices that a GPU can be divided into."""

    pool: str
    name: str
    counted: QuotaDevice
    kind: GPUKind


class _Result(NamedTuple):
    """A device that an allocated claim holds."""

    device: _DeviceId
    holder: Holder
    consumed: ConsumedCapacity


def published_gpus(view: ClusterView, cluster: Cluster, *, all_claims: bool) -> Iterator[NodeGPUs]:
    """The GPUs that NVIDIA's DRA driver hands out, with the claims that hold them.

    A GPU counts once, however many MIG devices and other forms of it the driver publishes for claims to choose from. If
    the ResourceSlices are unknown, the GPUs that claims hold are returned, of an unknown product.

    Args:
        view: The cluster.
        cluster: The same, digested.
        all_claims: True if the view has the claims of all namespaces; if not, the number of held devices is unknown.
    """
    published, results = view.derive(published_devices), _results_by_device(view)
    nodes: defaultdict[str, dict[Hashable, list[_Form]]] = defaultdict(dict)
    for group in () if published is UNKNOWN else published.gpus:
        counted = quota_device(group.first)
        kind = GPUKind.of(counted.device)
        for device in group.devices:
            forms = nodes[device.node].setdefault(_identity(device), [])
            forms.append(_Form(device.pool, device.name, counted, kind))
    judge = AllocatableDevices(cluster)
    for node, gpus in nodes.items():
        by_kind: defaultdict[GPUKind, list[NodeGPUs]] = defaultdict(list)
        for forms in gpus.values():
            one = _one_gpu(node, forms, results, judge, all_claims=all_claims)
            by_kind[one.kind].append(one)
        yield from map(_sum_of_kind, by_kind.values())
    yield from _missing_gpus(results, is_known=published is not UNKNOWN, all_claims=all_claims)


def _identity(device: Device) -> Hashable:
    """Equal for the devices that are forms of one GPU: those with common counters, and vfio."""
    consumed = device.body.get("consumesCounters")
    if isinstance(consumed, list) and consumed:
        sets = [str(each.get("counterSet")) for each in consumed if isinstance(each, dict)]
        return device.pool, "counters", *sets[:1]
    bus = device.attributes.get(_PCI_BUS_ID)
    if bus and device.attributes.get(f"{DRIVER}/type") in ("gpu", "vfio"):
        return device.pool, "bus", str(bus)
    return device.pool, "device", device.name


def _results_by_device(view: ClusterView) -> dict[_DeviceId, list[_Result]]:
    found: dict[_DeviceId, list[_Result]] = {}
    claims = view.derive_each("ResourceClaim", _results)
    for result in (each for results in claims for each in results) if claims is not UNKNOWN else ():
        found.setdefault(result.device, []).append(result)
    return found


def _results(document: Object) -> tuple[_Result, ...]:
    """The devices of NVIDIA's driver that a claim holds; with admin access it holds nothing."""
    claim = Claim(document)
    held = [each for each in claim.allocated_devices if each.get("driver") == DRIVER and not each.get("adminAccess")]
    if not held:
        return ()
    pods, groups = (
        tuple(str(each.get("name")) for each in claim.consumers if each.get("resource") == resource)
        for resource in ("pods", "podgroups")
    )
    holder = Holder(claim.namespace or DEFAULT_NAMESPACE, pods, claim.name, groups)
    return tuple(
        _Result(
            (str(each.get("pool")), str(each.get("device"))),
            holder,
            ConsumedCapacity.read(each.get("consumedCapacity")),
        )
        for each in held
    )


def _one_gpu(
    node: str,
    forms: Sequence[_Form],
    results: dict[_DeviceId, list[_Result]],
    judge: AllocatableDevices,
    *,
    all_claims: bool,
) -> NodeGPUs:
    """One GPU, of which the driver publishes one form or several."""
    kind = max((form.kind for form in forms), key=lambda each: each.gpus)
    holdings = []
    for form in forms:
        for result in results.pop((form.pool, form.name), ()):
            taken = form.counted.kind_taken(result.consumed)
            holdings.append(Holding(result.holder, node, form.kind, taken.gpus / form.kind.gpus, (form.name,)))
    gpus = sum((each.gpus for each in holdings), _NONE)
    # The parts of a divided GPU can add up to more than one, because each counts as the larger of its shares.
    held = min(gpus / kind.gpus, _ONE) if len(forms) > 1 and len(holdings) > 1 else gpus / kind.gpus
    blocked: tuple[Unusable, ...] = ()
    if all_claims and held < 1:
        obstacle = judge.obstacle(node, [(form.pool, form.name) for form in forms])
        if obstacle is not None:
            blocked = (obstacle._replace(amount=_ONE - held),)
    return NodeGPUs(node, kind, _WAY, _ONE, held if all_claims else None, tuple(holdings), blocked)


def _sum_of_kind(parts: Sequence[NodeGPUs]) -> NodeGPUs:
    """The GPUs of one kind on one node as one entry."""
    first = parts[0]
    blocked: dict[tuple[UnusableKind, str], Fraction] = {}
    for part in parts:
        for each in part.blocked:
            blocked[each.kind, each.sentence] = blocked.get((each.kind, each.sentence), _NONE) + each.amount
    return NodeGPUs(
        first.node,
        first.kind,
        _WAY,
        Fraction(len(parts)),
        None if first.held is None else sum((part.held or _NONE for part in parts), _NONE),
        tuple(holding for part in parts for holding in part.holdings),
        tuple(Unusable(*key, amount) for key, amount in blocked.items()),
    )


def _missing_gpus(
    results: Mapping[_DeviceId, Sequence[_Result]], *, is_known: bool, all_claims: bool
) -> Iterator[NodeGPUs]:
    """The held devices that no slice shows. NVIDIA's driver names the pool of a node after the node."""
    holdings: defaultdict[str, list[Holding]] = defaultdict(list)
    kind = GPUKind("")
    for (pool, name), held in results.items():
        holdings[pool] += (Holding(result.holder, pool, kind, _ONE, (name,)) for result in held)
    for node, of_node in holdings.items():
        number = Fraction(len(of_node)) if all_claims else None
        yield NodeGPUs(node, kind, _WAY, _NONE if is_known else None, number, tuple(of_node))
