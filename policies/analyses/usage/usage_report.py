"""The report on the usage of GPUs, by product, node, namespace and pod, and the states of devices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.analyses.usage.held_gpus import plugin_gpus, published_gpus
from policies.analyses.usage.node_gpus import (
    DeviceForm,
    HeldDevices,
    NodeGPUs,
    OfferedKind,
    UnusableKind,
    UnusableNodes,
    UnusableReason,
)
from policies.fleet.cluster_digest import read_cluster
from policies.fleet.device_plugin import nodes_with_both
from policies.fleet.gpu_nodes import gpu_nodes
from policies.fleet.offers.shown import LabelledResource, shown_device
from policies.kubernetes.names import format_amount, format_count, format_list, inflected
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import GPU_RESOURCE
from policies.nvidia.mig import GPUResource
from policies.quota.demands.device_kinds import counted_offer
from policies.rules.settings.choices import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from policies.devices.resource_claims import Holder
    from policies.kubernetes.view import ClusterView
    from policies.rules.settings.choices import Quotas


_NONE = Fraction(0)
_Amounts = tuple[tuple[OfferedKind, Fraction], ...]


@dataclass(frozen=True, slots=True)
class ProductUse:
    """The devices of one kind on all nodes. Amounts are in devices, and None if they are unknown."""

    kind: OfferedKind
    total: Fraction | None
    held: Fraction | None
    held_by_namespace: Fraction | None
    """By the only namespace of the report; None if it is about all."""
    unhealthy: Fraction
    """The held devices that are reported as unhealthy."""
    free: Fraction | None
    unusable: Fraction | None
    over: Fraction
    """Held beyond those that exist: given out twice, or gone while they are held."""
    reasons: tuple[tuple[UnusableReason, tuple[str, ...]], ...]
    """The reasons of the devices that are not held and serve no pod, with the nodes that have them."""


@dataclass(frozen=True, slots=True)
class NamespaceUse:
    """The devices that the pods and claims of a namespace hold."""

    namespace: str
    pods: int
    gpus: Fraction
    amounts: _Amounts


@dataclass(frozen=True, slots=True)
class HolderUse:
    """The devices that a pod or a claim holds on one node."""

    holder: Holder
    node: str
    holdings: tuple[HeldDevices, ...]

    @property
    def gpus(self) -> Fraction:
        """The devices in GPUs."""
        return sum((each.gpus for each in self.holdings), _NONE)

    @property
    def amounts(self) -> _Amounts:
        """The devices by kind."""
        return _amounts(self.holdings)

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems of unhealthy devices, with their names: `gpu-3: the GPU reported XID 79`."""
        unhealthy = [each for each in self.holdings if each.problem]
        names = [
            format_list(each.devices) if each.devices else f"{format_amount(each.unhealthy)} {each.kind}"
            for each in unhealthy
        ]
        return tuple(dict.fromkeys(f"{name}: {each.problem}" for name, each in zip(names, unhealthy, strict=True)))


class FormTotal(NamedTuple):
    """The devices of one form in the whole cluster. Amounts are in devices, and None if they are unknown."""

    form: DeviceForm
    total: Fraction | None
    held: Fraction | None
    unhealthy: Fraction
    free: Fraction | None
    unusable: Fraction | None
    twice: Fraction
    """Given out to one holder more."""
    missing: Fraction
    """Held, although no node shows them."""
    parts: str
    """The devices that shares are of: ` (16 GPUs x 4)`; empty for other forms."""

    @classmethod
    def of(cls, form: DeviceForm, uses: Sequence[ProductUse]) -> FormTotal:
        """The sums over the kinds of one form."""
        return cls(
            form,
            total=sum_if_known(each.total for each in uses),
            held=sum_if_known(each.held for each in uses),
            unhealthy=sum((each.unhealthy for each in uses), _NONE),
            free=sum_if_known(each.free for each in uses),
            unusable=sum_if_known(each.unusable for each in uses),
            twice=sum((each.over for each in uses if each.total), _NONE),
            missing=sum((each.over for each in uses if not each.total), _NONE),
            parts=_shared_devices(uses) if form is DeviceForm.SHARED else "",
        )

    def words(self, amount: Fraction | None) -> str:
        """The words for an amount of such devices: `GPU`, `MIG devices`."""
        return inflected(self.form.noun, format_amount(amount))

    @property
    def sentence(self) -> str:
        """The sum and its parts: `36 GPUs: 22 held (1 of them unhealthy), 12 free, 2 free but unusable`."""
        words = f"{self.words(self.total)}{self.parts}"
        unusable = "" if self.unusable == 0 else f", {format_amount(self.unusable)} free but unusable"
        unhealthy = f" ({format_amount(self.unhealthy)} of them unhealthy)" if self.unhealthy else ""
        held, free = format_amount(self.held, self.total), format_amount(self.free, self.total)
        twice = f"; {format_amount(self.twice)} given out twice" if self.twice else ""
        missing = f"; {format_amount(self.missing)} held that no node shows" if self.missing else ""
        return f"{format_amount(self.total)} {words}: {held} held{unhealthy}, {free} free{unusable}{twice}{missing}"


def _shared_devices(uses: Sequence[ProductUse]) -> str:
    """The devices that the shares are of: ` (16 GPUs x 4)`; without the factor if it differs."""
    devices = sum_if_known(None if each.total is None else each.total / each.kind.replicas for each in uses)
    if devices is None:
        return ""
    factors = {each.kind.replicas for each in uses}
    are_mig = {bool(each.kind.profile) for each in uses}
    noun = "device" if len(are_mig) > 1 else "MIG device" if True in are_mig else "GPU"
    number = format_amount(devices)
    return f" ({number} {inflected(noun, number)}{f' x {min(factors)}' if len(factors) == 1 else ''})"


@dataclass(frozen=True)
class UsageReport:
    """The GPUs of a cluster, their holders, and what is unknown."""

    gpus: tuple[NodeGPUs, ...]
    """Sorted by node and kind."""
    namespace: str = ""
    """The only namespace whose holders are shown; empty for all."""
    unknown: tuple[str, ...] = ()
    """The kinds of `READ_FROM` that cannot be seen, or of which only one namespace can."""
    problems: tuple[str, ...] = ()
    """More GPUs held than exist, nodes that offer their GPUs twice, slices that cannot be read; without full stops."""

    @property
    def is_complete(self) -> bool:
        """True if every number is known."""
        return not self.unknown

    @cached_property
    def products(self) -> tuple[ProductUse, ...]:
        """The devices of all nodes by kind."""
        found = _group_by(self.gpus, lambda each: each.kind)
        return tuple(self._product(kind, found[kind]) for kind in sorted(found, key=lambda kind: kind.rank))

    @property
    def totals(self) -> tuple[FormTotal, ...]:
        """The totals of whole GPUs, MIG devices and shares; a form without devices is left out."""
        found = _group_by(self.products, lambda each: each.kind.form)
        return tuple(FormTotal.of(form, found[form]) for form in DeviceForm if form in found)

    @cached_property
    def nodes(self) -> tuple[tuple[str, tuple[NodeGPUs, ...]], ...]:
        """The devices of each node; only nodes on which the namespace holds some, if the report is about one."""
        shown = [
            each
            for each in self.gpus
            if not self.namespace or any(holding.holder.namespace == self.namespace for holding in each.holdings)
        ]
        return tuple((node, tuple(found)) for node, found in _group_by(shown, lambda each: each.node).items())

    @cached_property
    def namespaces(self) -> tuple[NamespaceUse, ...]:
        """The namespaces that hold devices, those with the most GPUs first."""
        found = [
            NamespaceUse(
                namespace,
                len({pod for each in holdings for pod in each.holder.pods}),
                sum((each.gpus for each in holdings), _NONE),
                _amounts(holdings),
            )
            for namespace, holdings in _group_by(self._holdings, lambda each: each.holder.namespace).items()
        ]
        return tuple(sorted(found, key=lambda each: (-each.gpus, each.namespace)))

    @cached_property
    def holders(self) -> tuple[HolderUse, ...]:
        """The pods and claims that hold devices, those with the most GPUs first."""
        grouped = _group_by(self._holdings, lambda each: (each.holder, each.node))
        found = [HolderUse(holder, node, tuple(holdings)) for (holder, node), holdings in grouped.items()]
        return tuple(sorted(found, key=lambda each: (-each.gpus, each.holder, each.node)))

    def held_by_namespace(self, gpus: NodeGPUs) -> Fraction | None:
        """The amount that the only namespace holds; None if the report is about all namespaces."""
        if not self.namespace:
            return None
        held = (each.gpus for each in gpus.holdings if each.holder.namespace == self.namespace)
        amount = sum(held, _NONE) / gpus.kind.gpus
        return amount if gpus.held is None else min(amount, gpus.held)

    @property
    def _holdings(self) -> list[HeldDevices]:
        holdings = (holding for each in self.gpus for holding in each.holdings)
        return [each for each in holdings if not self.namespace or each.holder.namespace == self.namespace]

    def _product(self, kind: OfferedKind, parts: Sequence[NodeGPUs]) -> ProductUse:
        reasons: dict[tuple[str, str], tuple[UnusableReason, list[str]]] = {}
        for part in parts:
            for each in part.reasons:
                known, nodes = reasons.get((each.kind, each.sentence), (each._replace(amount=_NONE), []))
                both = known._replace(amount=known.amount + each.amount)
                reasons[each.kind, each.sentence] = both, [*nodes, part.node]
        return ProductUse(
            kind,
            sum_if_known(part.total for part in parts),
            sum_if_known(part.held for part in parts),
            sum_if_known(self.held_by_namespace(part) for part in parts),
            sum((part.unhealthy for part in parts), _NONE),
            sum_if_known(part.free for part in parts),
            sum_if_known(part.unusable for part in parts),
            sum((part.over for part in parts), _NONE),
            tuple((each, tuple(nodes)) for each, nodes in reasons.values()),
        )


def _group_by(items: Iterable[Any], key: Callable[[Any], Any]) -> Mapping[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def _amounts(holdings: Iterable[HeldDevices]) -> _Amounts:
    """The amounts by kind, in the order of kinds."""
    found: dict[OfferedKind, Fraction] = {}
    for each in holdings:
        found[each.kind] = found.get(each.kind, _NONE) + each.amount
    return tuple(sorted(found.items(), key=lambda item: item[0].rank))


def sum_if_known(amounts: Iterable[Fraction | None]) -> Fraction | None:
    """The sum; None if any amount is unknown."""
    total = _NONE
    for each in amounts:
        if each is None:
            return None
        if each:
            total += each
    return total


READ_FROM = ("Node", "Pod", "ResourceClaim", "ResourceSlice")
"""The kinds that the report needs."""

_GPU = GPUResource(GPU_RESOURCE, mig=False, profile=None, shared=False)
_IDLE = "neither advertised by a device plugin nor published by the DRA driver"


def usage_report(
    view: ClusterView, namespace: str = "", *, partial: Collection[str] = (), settings: Quotas = DEFAULTS.quota
) -> UsageReport:
    """The report on the GPUs of a cluster.

    Args:
        view: The cluster. What it cannot see is unknown in the report.
        namespace: The only namespace whose holders are shown; empty for all.
        partial: The kinds of which the view has the objects of this namespace only.
        settings: How quotas count shares of devices.
    """
    cluster = view.derive(read_cluster)
    unknown = tuple(kind for kind in READ_FROM if view.list(kind) is UNKNOWN or kind in partial)
    all_pods, all_claims = "Pod" not in unknown, "ResourceClaim" not in unknown
    offered = [*plugin_gpus(view, all_pods=all_pods), *published_gpus(view, cluster, settings, all_claims=all_claims)]
    merged: dict[tuple[str, OfferedKind], NodeGPUs] = {}
    for each in (*offered, *_idle_gpus(view, {each.node for each in offered})):
        known = merged.get((each.node, each.kind))
        merged[each.node, each.kind] = each if known is None else _merge(known, each)
    holders = {
        (holding.holder.namespace, pod)
        for each in merged.values()
        for holding in each.holdings
        for pod in holding.holder.pods
    }
    unusable_nodes = UnusableNodes(view, holders, all_pods=all_pods)
    gpus = (_with_node_reason(each, unusable_nodes) for each in merged.values() if each.total != 0 or each.holdings)
    ordered = tuple(sorted(gpus, key=lambda each: (each.node, each.kind.rank)))
    return UsageReport(ordered, namespace, unknown, tuple(_problems(ordered, view, cluster.problem)))


def _idle_gpus(view: ClusterView, serving: Collection[str]) -> Iterator[NodeGPUs]:
    """The GPUs that nothing offers, by the label that counts them; none while slices are unknown.

    Under the MIG strategy `single` the labels are those of MIG devices.
    """
    nodes = gpu_nodes(view)
    if nodes is UNKNOWN or view.list("ResourceSlice") is UNKNOWN:
        return
    for node in nodes.nodes:
        count = LabelledResource(GPU_RESOURCE, node.labels).device_count
        if node.name in serving or node.offers or not count:
            continue
        number = Fraction(count)
        kind = OfferedKind.of(counted_offer(shown_device(_GPU, node.labels)).device)
        reasons = (UnusableReason(UnusableKind.NOT_ADVERTISED, _IDLE, number),)
        yield NodeGPUs(node.name, kind, frozenset(), number, _NONE, (), reasons)


def _merge(first: NodeGPUs, other: NodeGPUs) -> NodeGPUs:
    """Devices that a device plugin and DRA both offer: the same ones, so they count once."""
    totals = [first.total, other.total]
    total = None if None in totals else max(each for each in totals if each is not None)
    held, over = sum_if_known([first.held, other.held]), first.over + other.over
    if total is not None and held is not None and held > total:
        held, over = total, over + held - total
    return replace(
        first,
        providers=first.providers | other.providers,
        total=total,
        held=held,
        over=over,
        holdings=(*first.holdings, *other.holdings),
        reasons=(*first.reasons, *other.reasons),
        units=(*first.units, *other.units),
    )


def _with_node_reason(gpus: NodeGPUs, unusable_nodes: UnusableNodes) -> NodeGPUs:
    """The devices with the reason of their node, which applies to those without a reason of their own."""
    if gpus.not_held is None:
        return replace(gpus, reasons=())
    left, reasons = gpus.not_held, []
    for each in gpus.reasons:
        amount = min(each.amount, left)
        if amount:
            reasons.append(each._replace(amount=amount))
            left -= amount
    reason = unusable_nodes.unusable_reason(gpus.node) if left else None
    if reason is not None:
        reasons.append(reason._replace(amount=left))
    return replace(gpus, reasons=tuple(reasons))


def _problems(gpus: Iterable[NodeGPUs], view: ClusterView, problem: str) -> Iterator[str]:
    if problem:
        yield f"the devices of the cluster cannot be read, so free GPUs may be unusable: {problem}"
    for node in nodes_with_both(view):
        yield (
            f"the GPUs of node {node} are offered by both the device plugin and DRA, so a pod and a claim can get the same "
            "GPU"
        )
    for each in gpus:
        if not each.is_over:
            continue
        if each.total:
            verb = "is" if each.over <= 1 else "are"
            where = f"node {each.node}" if each.node else "several nodes"
            yield f"{format_amount(each.over)} of {format_amount(each.total)} {each.kind} of {where} {verb} given out twice"
        else:
            number = format_count(ceil(each.over), "device")
            yield f"pods and claims hold {number} ({each.kind}) that node {each.node} does not show"


class DeviceState(StrEnum):
    """The state of devices. Held, free and unusable devices together are those that exist."""

    HELD = "held"
    FREE = "free"
    UNUSABLE = "unusable"
    """Not held, but no pod can use them."""
    OVER = "over"
    """Held beyond those that exist: given out twice, or gone while they are held."""
    MISSING = "missing"
    """Held, but their node shows none of their kind."""


class StateCounts(NamedTuple):
    """The devices of one kind on one node, by state."""

    node: str
    """Empty for devices that several nodes reach, and for the sum over all nodes."""
    kind: OfferedKind
    amounts: Mapping[DeviceState, Fraction]
    """Without amounts that are unknown."""


@dataclass(frozen=True, slots=True)
class DeviceStates:
    """The devices of a cluster by node, kind and state."""

    rows: tuple[StateCounts, ...]
    """Sorted by node and kind."""
    summed_nodes: int = 0
    """The number of nodes that are summed because of too many rows; 0 if each node has its own rows."""


def device_states(report: UsageReport, most_rows: int) -> DeviceStates:
    """The devices of a report about all namespaces.

    More than `most_rows` rows are summed over all nodes.
    """
    found = [(each.node, each.kind, _state_amounts(each)) for each in report.gpus]
    if len(found) <= most_rows:
        return DeviceStates(tuple(StateCounts(node, kind, _known_amounts(amounts)) for node, kind, amounts in found))
    sums: dict[OfferedKind, dict[DeviceState, Fraction | None]] = {}
    for _, kind, amounts in found:
        so_far = sums.setdefault(kind, {})
        for state, amount in amounts.items():
            before = so_far.get(state, _NONE)
            so_far[state] = None if before is None or amount is None else before + amount
    rows = tuple(StateCounts("", kind, _known_amounts(sums[kind])) for kind in sorted(sums, key=lambda kind: kind.rank))
    return DeviceStates(rows, len({node for node, _, _ in found if node}))


def _state_amounts(gpus: NodeGPUs) -> dict[DeviceState, Fraction | None]:
    """The amount of each state; None if it is unknown."""
    if gpus.total == 0:
        return {DeviceState.MISSING: None if gpus.held is None else gpus.over}
    if gpus.total is None or gpus.held is None:
        return {DeviceState.HELD: gpus.held}
    return {
        DeviceState.HELD: gpus.held,
        DeviceState.FREE: gpus.free,
        DeviceState.UNUSABLE: gpus.unusable,
        DeviceState.OVER: gpus.over,
    }


def _known_amounts(amounts: Mapping[DeviceState, Fraction | None]) -> Mapping[DeviceState, Fraction]:
    return {state: amount for state, amount in amounts.items() if amount is not None}
