"""The types of the JSON of a usage report; docs/schemas is generated from them."""

from __future__ import annotations

from typing import Annotated, TypedDict

from policies.usage.node_gpus import DeviceForm, Provider, UnusableKind

__all__ = [
    "AmountJSON",
    "HolderUseJSON",
    "KindJSON",
    "NamedAmountJSON",
    "NamespaceUseJSON",
    "NodeDevicesJSON",
    "NodeUseJSON",
    "ProductUseJSON",
    "ReasonJSON",
    "ReasonOnNodesJSON",
    "TotalsJSON",
    "UsageReportJSON",
]


class KindJSON(TypedDict):
    """Devices that count as equal."""

    product: str
    form: Annotated[str, DeviceForm]
    profile: str
    replicas: int


class AmountJSON(KindJSON):
    """Devices that a namespace holds."""

    amount: str


class NamedAmountJSON(AmountJSON):
    """Devices that a pod or a claim holds."""

    names: list[str]


class TotalsJSON(KindJSON):
    """Amounts of devices of one kind; null if unknown."""

    total: str | None
    held: str | None
    heldByNamespace: str | None
    free: str | None
    unusable: str | None


class ReasonJSON(TypedDict):
    """Why no pod can get devices that are not held."""

    kind: Annotated[str, UnusableKind]
    sentence: str
    amount: str


class ReasonOnNodesJSON(ReasonJSON):
    """The same, with the nodes."""

    nodes: list[str]


class ProductUseJSON(TotalsJSON):
    """The devices of one kind on all nodes."""

    reasons: list[ReasonOnNodesJSON]


class NodeDevicesJSON(TotalsJSON):
    """The devices of one kind on one node."""

    providers: list[Annotated[str, Provider]]
    reasons: list[ReasonJSON]


class NodeUseJSON(TypedDict):
    """The devices of a node."""

    node: str
    devices: list[NodeDevicesJSON]


class NamespaceUseJSON(TypedDict):
    """The devices that a namespace holds."""

    namespace: str
    gpus: str
    pods: int
    devices: list[AmountJSON]


class HolderUseJSON(TypedDict):
    """The devices that a pod or a claim holds on one node."""

    namespace: str
    pods: list[str]
    podGroups: list[str]
    claim: str
    node: str
    gpus: str
    devices: list[NamedAmountJSON]


class UsageReportJSON(TypedDict):
    """The usage report."""

    namespace: str
    products: list[ProductUseJSON]
    nodes: list[NodeUseJSON]
    namespaces: list[NamespaceUseJSON]
    holders: list[HolderUseJSON]
    problems: list[str]
