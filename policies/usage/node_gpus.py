"""GPUs of nodes: the devices of one kind on one node, their holders, and those that serve no pod."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from policies.fleet.offers.shown import NOT_SHARED, ShownSharing
from policies.nvidia.mig import MIGProfile
from policies.quota.devices.device_kinds import replica_kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.dra.holders import Holder
    from policies.quota.charges import DeviceKind

__all__ = [
    "DeviceForm",
    "HeldDevices",
    "NodeGPUs",
    "OfferedKind",
    "Provider",
    "PublishedUnit",
    "UnusableKind",
    "UnusableReason",
]

_NONE = Fraction(0)


class DeviceForm(StrEnum):
    """The whole GPU, a MIG device of it, or a share."""

    WHOLE = "whole"
    MIG = "mig"
    SHARED = "shared"
    """A replica that the device plugin advertises, of a GPU or of a MIG device."""


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
        """Whether it is a whole GPU, a MIG device or a replica."""
        if self.replicas > 1:
            return DeviceForm.SHARED
        return DeviceForm.MIG if self.profile else DeviceForm.WHOLE

    @property
    def rank(self) -> tuple[str, bool, MIGProfile, str, int]:
        """The order of kinds: by product, whole GPUs first, then MIG devices by size."""
        parsed = MIGProfile.parse(self.profile) or MIGProfile(0, 0)
        return self.product, bool(self.profile), parsed, self.profile, self.replicas

    @property
    def words(self) -> str:
        """What the devices are, beside their product: `GPUs`, `MIG 1g.10gb`, `GPUs shared by 4`."""
        found = f"MIG {self.profile}" if self.profile else "GPUs"
        return f"{found} shared by {self.replicas}" if self.replicas > 1 else found

    def __str__(self) -> str:
        """`NVIDIA-A100-SXM4-80GB MIG 1g.10gb`, `Tesla-T4 shared by 4`."""
        product = self.product or "unknown product"
        mig = f" MIG {self.profile}" if self.profile else ""
        return f"{product}{mig}{f' shared by {self.replicas}' if self.replicas > 1 else ''}"


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
    """Why no pod can get what is not held of it."""


@dataclass(frozen=True, slots=True)
class NodeGPUs:
    """The devices of one kind on one node. Amounts are in devices, and None if they are unknown."""

    node: str
    """Empty for devices that several nodes reach."""
    kind: OfferedKind
    providers: frozenset[Provider]
    total: Fraction | None
    held: Fraction | None
    """By pods and claims of all namespaces."""
    holdings: tuple[HeldDevices, ...] = ()
    """Those that are known, if perhaps not all are."""
    reasons: tuple[UnusableReason, ...] = ()
    """The reasons of the devices that are not held and serve no pod, as far as they are known."""
    units: tuple[PublishedUnit, ...] = ()
    """One for each device that DRA offers; the device plugin offers numbers."""

    @property
    def not_held(self) -> Fraction | None:
        """The devices that are not held."""
        return None if self.total is None or self.held is None else max(self.total - self.held, _NONE)

    @property
    def unusable(self) -> Fraction | None:
        """The devices that are not held and serve no pod."""
        return None if self.not_held is None else sum((each.amount for each in self.reasons), _NONE)

    @property
    def free(self) -> Fraction | None:
        """The devices that a pod can get now."""
        return None if self.not_held is None or self.unusable is None else self.not_held - self.unusable

    @property
    def is_over(self) -> bool:
        """True if more devices are held than exist."""
        return self.total is not None and self.held is not None and self.held > self.total
