"""A usage report as JSON; docs/schemas is generated from the types."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction  # noqa: TC003 - pydantic reads the annotation
from typing import TYPE_CHECKING

from policies.analyses.usage.node_gpus import DeviceForm, Provider, UnusableKind  # noqa: TC001 - pydantic reads the annotation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.analyses.usage.node_gpus import NodeGPUs, OfferedKind
    from policies.analyses.usage.usage_report import HolderUse, ProductUse, UsageReport


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
    free: Fraction | None
    unusable: Fraction | None


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


@dataclass(frozen=True, slots=True)
class UsageJSON:
    """The output of `gpu-admission usage -o json`."""

    namespace: str
    products: tuple[_ProductUseJSON, ...]
    nodes: tuple[_NodeUseJSON, ...]
    namespaces: tuple[_NamespaceUseJSON, ...]
    holders: tuple[_HolderUseJSON, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]


def usage_json(report: UsageReport, notes: Sequence[str] = ()) -> UsageJSON:
    """The report and notes on it, as its JSON has them."""

    def devices(gpus: NodeGPUs) -> _NodeDevicesJSON:
        reasons = tuple(_ReasonJSON(*each) for each in gpus.reasons)
        return _NodeDevicesJSON(*_totals(gpus, report.held_by_namespace(gpus)), tuple(sorted(gpus.providers)), reasons)

    return UsageJSON(
        namespace=report.namespace,
        products=tuple(
            _ProductUseJSON(
                *_totals(each, each.held_by_namespace),
                tuple(_ReasonOnNodesJSON(*reason, nodes) for reason, nodes in each.reasons),
            )
            for each in report.products
        ),
        nodes=tuple(_NodeUseJSON(node, tuple(map(devices, found))) for node, found in report.nodes),
        namespaces=tuple(
            _NamespaceUseJSON(
                each.namespace,
                each.gpus,
                each.pods,
                tuple(_AmountJSON(*_kind(kind), amount) for kind, amount in each.amounts),
            )
            for each in report.namespaces
        ),
        holders=tuple(map(_holder, report.holders)),
        problems=report.problems,
        notes=tuple(notes),
    )


def _holder(use: HolderUse) -> _HolderUseJSON:
    return _HolderUseJSON(
        namespace=use.holder.namespace,
        pods=tuple(use.holder.pods),
        pod_groups=tuple(use.holder.pod_groups),
        claim=use.holder.claim,
        node=use.node,
        gpus=use.gpus,
        devices=tuple(
            _NamedAmountJSON(
                *_kind(kind), amount, tuple(name for each in use.holdings if each.kind == kind for name in each.devices)
            )
            for kind, amount in use.amounts
        ),
    )


def _kind(kind: OfferedKind) -> tuple[str, DeviceForm, str, int]:
    return kind.product, kind.form, kind.profile, kind.replicas


def _totals(
    use: ProductUse | NodeGPUs, own: Fraction | None
) -> tuple[
    str, DeviceForm, str, int, Fraction | None, Fraction | None, Fraction | None, Fraction | None, Fraction | None
]:
    return *_kind(use.kind), use.total, use.held, own, use.free, use.unusable
