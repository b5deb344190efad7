"""A usage report as JSON; docs/schemas is generated from the types."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction  # noqa: TC003 - pydantic reads the annotation
from typing import TYPE_CHECKING

from policies.analyses.usage.node_gpus import DeviceForm, Provider, UnusableKind  # noqa: TC001 - pydantic reads the annotation
from policies.analyses.wait_list import WaitRow  # noqa: TC001 - pydantic reads the annotation
from policies.kubernetes.objects import filled_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.analyses.usage.node_gpus import NodeGPUs
    from policies.analyses.usage.usage_report import HolderUse, UsageReport
    from policies.analyses.wait_list import WaitList
    from policies.fleet.bound_pods import StuckPod


@dataclass(frozen=True, slots=True)
class _KindJSON:
    """Devices that count as equal."""

    product: str
    form: DeviceForm
    profile: str
    replicas: int


@dataclass(frozen=True, slots=True)
class _AmountJSON(_KindJSON):
    """Devices that a namespace holds."""

    amount: Fraction


@dataclass(frozen=True, slots=True)
class _NamedAmountJSON(_AmountJSON):
    """Devices that a pod or a claim holds."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _TotalsJSON(_KindJSON):
    """Amounts of devices of one kind; null if unknown."""

    total: Fraction | None
    held: Fraction | None
    held_by_namespace: Fraction | None
    unhealthy: Fraction
    free: Fraction | None
    unusable: Fraction | None
    over: Fraction


@dataclass(frozen=True, slots=True)
class _ReasonJSON:
    """The reason why no pod can get devices that are not held."""

    kind: UnusableKind
    sentence: str
    amount: Fraction


@dataclass(frozen=True, slots=True)
class _ReasonOnNodesJSON(_ReasonJSON):
    """The same, with the nodes."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _ProductUseJSON(_TotalsJSON):
    """The devices of one kind on all nodes."""

    reasons: tuple[_ReasonOnNodesJSON, ...]


@dataclass(frozen=True, slots=True)
class _NodeDevicesJSON(_TotalsJSON):
    """The devices of one kind on one node."""

    providers: tuple[Provider, ...]
    reasons: tuple[_ReasonJSON, ...]


@dataclass(frozen=True, slots=True)
class _NodeUseJSON:
    """The devices of a node."""

    node: str
    devices: tuple[_NodeDevicesJSON, ...]


@dataclass(frozen=True, slots=True)
class _NamespaceUseJSON:
    """The devices that a namespace holds."""

    namespace: str
    gpus: Fraction
    pods: int
    devices: tuple[_AmountJSON, ...]


@dataclass(frozen=True, slots=True)
class _HolderUseJSON:
    """The devices that a pod or a claim holds on one node."""

    namespace: str
    pods: tuple[str, ...]
    pod_groups: tuple[str, ...]
    claim: str
    node: str
    gpus: Fraction
    devices: tuple[_NamedAmountJSON, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _StartReasonJSON:
    """The reason why a bound pod does not run."""

    cause: str
    text: str
    source: str
    remedies: str


@dataclass(frozen=True, slots=True)
class _StuckPodJSON:
    """A pod that holds devices on a node and does not run."""

    namespace: str
    pod: str
    node: str
    containers: tuple[str, ...]
    reasons: tuple[_StartReasonJSON, ...]


@dataclass(frozen=True, slots=True)
class UsageJSON:
    """The output of `gpu-admission usage -o json`."""

    namespace: str
    products: tuple[_ProductUseJSON, ...]
    nodes: tuple[_NodeUseJSON, ...]
    namespaces: tuple[_NamespaceUseJSON, ...]
    holders: tuple[_HolderUseJSON, ...]
    stuck_pods: tuple[_StuckPodJSON, ...]
    waiting: tuple[WaitRow, ...] | None
    problems: tuple[str, ...]
    notes: tuple[str, ...]


def usage_json(
    report: UsageReport, notes: Sequence[str] = (), stuck: Sequence[StuckPod] = (), waiting: WaitList | None = None
) -> UsageJSON:
    """The report, notes on it, pods that do not run, and the wait list, as their JSON has them."""

    def devices(gpus: NodeGPUs) -> _NodeDevicesJSON:
        return filled_record(
            _NodeDevicesJSON,
            gpus,
            gpus.kind,
            held_by_namespace=report.held_by_namespace(gpus),
            providers=tuple(sorted(gpus.providers)),
            reasons=tuple(_ReasonJSON(*each) for each in gpus.reasons),
        )

    products = (
        filled_record(
            _ProductUseJSON,
            each,
            each.kind,
            reasons=tuple(_ReasonOnNodesJSON(*reason, nodes) for reason, nodes in each.reasons),
        )
        for each in report.products
    )
    namespaces = (
        filled_record(
            _NamespaceUseJSON,
            each,
            devices=tuple(filled_record(_AmountJSON, kind, amount=amount) for kind, amount in each.amounts),
        )
        for each in report.namespaces
    )
    return filled_record(
        UsageJSON,
        report,
        products=tuple(products),
        nodes=tuple(_NodeUseJSON(node, tuple(map(devices, found))) for node, found in report.nodes),
        namespaces=tuple(namespaces),
        holders=tuple(map(_holder, report.holders)),
        stuck_pods=tuple(
            filled_record(
                _StuckPodJSON, each, reasons=tuple(filled_record(_StartReasonJSON, reason) for reason in each.reasons)
            )
            for each in stuck
        ),
        waiting=waiting.rows if waiting is not None and waiting.is_known else None,
        notes=tuple(notes),
    )


def _holder(use: HolderUse) -> _HolderUseJSON:
    devices = []
    for kind, amount in use.amounts:
        names = tuple(name for each in use.holdings if each.kind == kind for name in each.devices)
        devices.append(filled_record(_NamedAmountJSON, kind, amount=amount, names=names))
    pods, groups = tuple(use.holder.pods), tuple(use.holder.pod_groups)
    return filled_record(_HolderUseJSON, use, use.holder, pods=pods, pod_groups=groups, devices=tuple(devices))
