"""The GPUs of a node by kind: the holders, and the reasons why the others serve no pod."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from policies.fleet.cluster_digest import ResourceUsage
from policies.fleet.offers.shown import NOT_SHARED, ShownSharing
from policies.kubernetes.bounds import count_work
from policies.kubernetes.names import format_amount, format_count, shorten
from policies.kubernetes.nodes import is_cordoned, preventing_taints
from policies.kubernetes.objects import DEFAULT_NAMESPACE, lookup, name_of, namespace_of
from policies.kubernetes.quantities import bare_resource_amount, billionths, pod_amounts, resource_amount, taken_by
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import VENDOR_PREFIX
from policies.nvidia.mig import MIGProfile
from policies.quota.demands.device_kinds import replica_kind

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from policies.devices.resource_claims import Holder
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.charges import DeviceKind


_NONE = Fraction(0)


class DeviceForm(StrEnum):
    """The whole GPU, a MIG device of it, or a share."""

    WHOLE = "whole"
    MIG = "mig"
    SHARED = "shared"
    """A replica that the device plugin advertises, of a GPU or of a MIG device."""

    @property
    def noun(self) -> str:
        """The word for one such device."""
        return {DeviceForm.WHOLE: "GPU", DeviceForm.MIG: "MIG device", DeviceForm.SHARED: "share"}[self]


class Provider(StrEnum):
    """The software that offers a device to pods."""

    DEVICE_PLUGIN = "device plugin"
    DRA = "DRA"


@dataclass(frozen=True, slots=True)
class OfferedKind:
    """Devices that count as equal."""

    product: str
    """As labels spell it, without the suffixes for MIG and sharing; empty if unknown."""
    profile: str = ""
    """The MIG profile; empty for whole GPUs."""
    replicas: int = 1
    """The number of pods that share one device."""
    gpus: Fraction = field(default=Fraction(1), compare=False)
    """The part of a GPU that it is."""

    @classmethod
    def of(cls, device: DeviceKind, sharing: ShownSharing = NOT_SHARED) -> OfferedKind:
        """The kind of a device as quotas count it, or of one of its replicas."""
        return cls(device.product, device.profile, sharing.replicas, replica_kind(device, sharing).gpus)

    @property
    def form(self) -> DeviceForm:
        """The form: a whole GPU, a MIG device or a replica."""
        if self.replicas > 1:
            return DeviceForm.SHARED
        return DeviceForm.MIG if self.profile else DeviceForm.WHOLE

    @property
    def rank(self) -> tuple[str, bool, MIGProfile, str, int]:
        """The order of kinds: by product, whole GPUs first, then MIG devices by size."""
        parsed = MIGProfile.parse(self.profile) or MIGProfile(0, 0)
        return self.product, bool(self.profile), parsed, self.profile, self.replicas

    def words(self, total: Fraction | None = None) -> str:
        """The kind without its product: `GPUs`, `MIG 1g.10gb`, `shares (4 GPUs x 4)`.

        Args:
            total: The number of devices; without it, shares are those of one device.
        """
        mig = f"MIG {self.profile}" if self.profile else ""
        if self.replicas == 1:
            return mig or "GPUs"
        devices = _NONE if total is None else total / self.replicas
        if not devices or devices.denominator != 1:
            return f"{f'{mig} ' if mig else ''}shares ({self.replicas} per {'device' if mig else 'GPU'})"
        return f"shares ({f'{devices} {mig}' if mig else format_count(int(devices), 'GPU')} x {self.replicas})"

    def name(self, total: Fraction | None = None) -> str:
        """The kind with its product: `Tesla-T4 shares (4 GPUs x 4)`."""
        is_whole = self.form is DeviceForm.WHOLE
        return f"{self.product or 'unknown product'}{'' if is_whole else f' {self.words(total)}'}"

    def __str__(self) -> str:
        """`NVIDIA-A100-SXM4-80GB MIG 1g.10gb`, `Tesla-T4 shares (4 per GPU)`."""
        return self.name()


@dataclass(frozen=True, slots=True)
class HeldDevices:
    """The devices of one kind that a holder has on one node."""

    holder: Holder
    node: str
    kind: OfferedKind
    amount: Fraction
    """In devices of this kind; a share of a device is a part of one."""
    devices: tuple[str, ...] = ()
    """Their names; empty for the device plugin, which does not say them."""
    unhealthy: Fraction = _NONE
    """The amount of them that is reported as unhealthy."""
    problem: str = ""
    """The reason why they are unhealthy, a clause; empty if all are healthy, as far as is known."""

    @property
    def gpus(self) -> Fraction:
        """The amount in GPUs."""
        return self.amount * self.kind.gpus


class UnusableKind(StrEnum):
    """The sort of the reason why a device that is not held serves no pod."""

    CORDONED = "cordoned"
    TAINTED = "tainted"
    NO_ROOM = "noRoom"
    """The node has too little cpu or memory left, or no room for another pod."""
    UNHEALTHY = "unhealthy"
    DEVICE_TAINTED = "deviceTainted"
    POOL = "pool"
    """The driver has not published the whole pool of the device, or a contradictory one."""
    FRAGMENTED = "fragmented"
    """The rest of a divided GPU, too small for any MIG device that is published."""
    NODE_MISSING = "nodeMissing"
    NOT_ADVERTISED = "notAdvertised"


class UnusableReason(NamedTuple):
    """The reason why devices that are not held serve no pod."""

    kind: UnusableKind
    sentence: str
    """Without a full stop."""
    amount: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True)
class PublishedUnit:
    """A GPU that DRA offers, with all its possible MIG devices, or one MIG device that exists."""

    gpu: str
    """The GPU of the node: equal for the MIG devices that are made of it."""
    name: str
    """The device, or the largest of those that the driver publishes of the GPU."""
    kind: OfferedKind
    holdings: tuple[HeldDevices, ...] = ()
    slices: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The memory slices of the held MIG devices, and of the one that exists, by the names of the devices."""
    reason: UnusableReason | None = None
    """The reason why no pod can get the rest of it."""
    is_shared: bool = False
    """True if its holders count for more than the GPU, and the driver shares a device of it between them."""


@dataclass(frozen=True, slots=True)
class NodeGPUs:
    """The devices of one kind on one node. Amounts are in devices, and None if they are unknown."""

    node: str
    """Empty for devices that several nodes reach."""
    kind: OfferedKind
    providers: frozenset[Provider]
    total: Fraction | None
    held: Fraction | None
    """By pods and claims of all namespaces. A device with two holders is one held device."""
    holdings: tuple[HeldDevices, ...] = ()
    """Those that are known, if perhaps not all are."""
    reasons: tuple[UnusableReason, ...] = ()
    """The reasons of the devices that are not held and serve no pod, as far as they are known."""
    units: tuple[PublishedUnit, ...] = ()
    """One for each device that DRA offers; the device plugin offers numbers."""
    over: Fraction = _NONE
    """Held beyond those that exist: given out twice, or gone while they are held."""

    @property
    def held_words(self) -> str:
        """The amounts in words: `8 of 8 GPUs held, 1 given out twice`, `16 of 16 shares (4 GPUs x 4) held`."""
        words = self.kind.words(self.total)
        if self.total == 0:
            return f"{format_amount(self.over)} {words} held that the node does not show"
        held = f"{format_amount(self.held, self.total)} of {format_amount(self.total)} {words} held"
        return f"{held}, {format_amount(self.over)} given out twice" if self.over else held

    @property
    def unhealthy(self) -> Fraction:
        """The held devices that are reported as unhealthy."""
        return sum((each.unhealthy for each in self.holdings if each.unhealthy), _NONE)

    @property
    def not_held(self) -> Fraction | None:
        """The devices that are not held."""
        return None if self.total is None or self.held is None else self.total - self.held

    @property
    def unusable(self) -> Fraction | None:
        """The devices that are not held and serve no pod."""
        return None if self.total is None or self.held is None else sum((each.amount for each in self.reasons), _NONE)

    @property
    def free(self) -> Fraction | None:
        """The devices that a pod can get now."""
        not_held, unusable = self.not_held, self.unusable
        return None if not_held is None or unusable is None else not_held - unusable

    @property
    def is_over(self) -> bool:
        """True if more devices are held than exist."""
        return self.over > 0


_SCARCE = ("pods", "cpu", "memory")
"""The resources that a pod needs beside its GPUs, in the order in which shortages are reported."""
_WORK_PER_NODE = 20
_MISSING = UnusableReason(
    UnusableKind.NODE_MISSING, "the node does not exist, although its devices are still published"
)
_CORDONED = UnusableReason(UnusableKind.CORDONED, "the node is cordoned")


class UnusableNodes:
    """Says what keeps new pods off nodes."""

    def __init__(self, view: ClusterView, holders: Container[tuple[str, str]], *, all_pods: bool) -> None:
        """Read the nodes, and the least that a pod with GPUs requests.

        Args:
            view: The cluster. If its nodes are unknown, nothing keeps pods off.
            holders: Namespace and name of the pods that hold GPUs.
            all_pods: True if the view has the pods of all namespaces; if not, no node counts as full.
        """
        nodes = view.list("Node")
        self._nodes = None if nodes is UNKNOWN else {name_of(node): node for node in nodes}
        self._used = ResourceUsage(view) if all_pods else None
        # The least of each scarce resource that a pod with GPUs requests, in billionths.
        least: dict[str, int] = {}
        pods, usages = view.list("Pod"), view.derive_each("Pod", taken_by)
        for pod, taken in () if pods is UNKNOWN or usages is UNKNOWN else zip(pods, usages, strict=True):
            if (namespace_of(pod) or DEFAULT_NAMESPACE, name_of(pod)) in holders:
                amounts = pod_amounts(pod.get("spec")) if taken is None else dict(taken[1])
                for resource in _SCARCE:
                    amount = amounts.get(resource, 0)
                    least[resource] = min(least.get(resource, amount), amount)
        self._least = least or pod_amounts({})

    def unusable_reason(self, node: str) -> UnusableReason | None:
        """The first reason of a node, in the order of the scheduler; None if pods with GPUs can come."""
        if self._nodes is None or not node:
            return None
        count_work(_WORK_PER_NODE)
        document = self._nodes.get(node)
        if document is None:
            return _MISSING
        if is_cordoned(document):
            return _CORDONED
        return _taint_reason(document) or self._shortage(node, document)

    def _shortage(self, node: str, document: Object) -> UnusableReason | None:
        offered = lookup(document, ("status", "allocatable"))
        if self._used is None or not isinstance(offered, dict):
            return None
        used = self._used.of(node)
        for resource in _SCARCE:
            if resource not in offered or not self._least.get(resource):
                continue
            allocatable = billionths(offered[resource])
            left = max(allocatable - used.get(resource, 0), 0)
            if left < self._least[resource]:
                return UnusableReason(UnusableKind.NO_ROOM, self._sentence(resource, left, allocatable))
        return None

    def _sentence(self, resource: str, left: int, allocatable: int) -> str:
        most = resource_amount(resource, allocatable)
        if resource == "pods":
            return f"the node has no room for another pod: it runs {most} already"
        least = resource_amount(resource, self._least[resource])
        rest = bare_resource_amount(resource, left, self._least[resource])
        return f"the node has {rest} of {most} {resource} left, and every pod with GPUs requests at least {least}"


def _taint_reason(node: Object) -> UnusableReason | None:
    """The first taint other than NVIDIA's own, which pods with GPUs are expected to tolerate."""
    for taint in preventing_taints(node):
        if taint.key.startswith(VENDOR_PREFIX):
            continue
        spelled = shorten(str(taint))
        said = f"{taint.condition} (taint {spelled})" if taint.condition else f"the node has the taint {spelled}"
        return UnusableReason(UnusableKind.TAINTED, said)
    return None
