"""Charges: the devices that pods and claims request, and their amounts under a quota."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from policies.kubernetes.objects import FieldPath
    from policies.kubernetes.view import Key


Unit = Literal["gpus", "memory", "devices"]
"""The unit of a limit: whole GPUs, of which a device may be a fraction; bytes of GPU memory; devices of any size."""

ChargedKind = Literal["Pod", "PodGroup", "ResourceClaim"]

Amounts = Mapping[str, Fraction]
"""By the names of limits; a missing limit counts nothing."""

OWN = ""
"""The piece of a charge for a pod's own extended resources. Other pieces are named as in `spec.resourceClaims`."""


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """The properties of a device that quotas count."""

    product: str
    """As labels spell it, without the suffixes for MIG and sharing; empty if unknown."""
    profile: str = ""
    """The MIG profile as NVML spells it; empty for whole GPUs."""
    gpus: Fraction = Fraction(1)
    """The part of a GPU that it is: of a MIG device, the larger of its shares of compute and memory slices; of n replicas,
    each is 1/n of the device."""
    memory: int | None = None
    """In bytes, of a replica its share; None if unknown."""
    shared_without_limit: bool = False
    """True if it counts as a whole device only because the driver shares it without limit and no setting says how much of
    it a claim counts for."""


UNSEEN = frozenset({DeviceKind("")})
"""The kind of an unknown product: a whole GPU of any name."""


@dataclass(frozen=True, slots=True)
class DeviceDemand:
    """A number of devices, each of one of some kinds."""

    count: int
    kinds: frozenset[DeviceKind]
    """The known kinds that could be allocated."""
    is_open: bool = False
    """True if a product that the cluster does not show now could be allocated as well, after an autoscaler adds it."""
    priority_class: str | None = ""
    """Of the pod; None if the pod is unknown."""
    unseen: frozenset[DeviceKind] = UNSEEN
    """The kinds that an open demand could get besides `kinds`. Their product is empty and matches every selector of products;
    a MIG profile or size that the demand requires is set. Ignored if the demand is not open."""
    alternatives: tuple[DeviceDemand, ...] = ()
    """Demands that may be granted instead of this one (`firstAvailable`; another node with `allocationMode: All`). The largest
    amount of all choices counts, limit by limit. Alternatives have no alternatives themselves, and the same priority
    class."""

    @property
    def choices(self) -> tuple[DeviceDemand, ...]:
        """This demand and its alternatives; exactly one of them is granted."""
        return (self, *self.alternatives)

    @property
    def counts_unlimited(self) -> bool:
        """True if its largest devices count whole only because the driver shares them without limit."""
        kinds = [kind for each in self.choices for kind in (each.kinds | each.unseen if each.is_open else each.kinds)]
        most = max((kind.gpus for kind in kinds), default=0)
        return bool(kinds) and all(kind.shared_without_limit for kind in kinds if kind.gpus == most)


@dataclass(frozen=True, slots=True)
class Bill:
    """The amounts of demands."""

    amounts: Amounts
    """Under the limits of the quota."""
    most: Mapping[Unit, Fraction]
    """By unit, regardless of selectors; used if limits change before the charged object is seen."""


@dataclass(frozen=True, slots=True)
class Charge:
    """The charge for one object that is being created."""

    uid: str
    kind: ChargedKind
    namespace: str
    name: str
    pieces: Mapping[str, Bill] = field(default_factory=dict)
    """By name, `OWN` or that of a claim from a template; a ResourceClaim has `OWN` only, and a PodGroup never has it."""
    of: tuple[str, str] | None = None
    """For a claim that a trusted controller or the scheduler made: the uid of its pod or PodGroup, and the piece of that
    object's charge that it belongs to."""
    shared: Charge | None = None
    """For a pod: the claims that it shares with its PodGroup, charged to the group, once for all its pods."""

    @property
    def is_for_gpus(self) -> bool:
        """True if the object itself has a non-zero amount, apart from shared claims."""
        return any(any(bill.amounts.values()) or any(bill.most.values()) for bill in self.pieces.values())

    @property
    def bills(self) -> tuple[Bill, ...]:
        """All bills, of the object itself and of its PodGroup."""
        return (*self.pieces.values(), *(() if self.shared is None else self.shared.bills))


@dataclass(frozen=True, slots=True)
class TooManyClaims:
    """A pod has more claims than are charged for one pod, so none of its claims is charged with it."""

    path: FieldPath
    message: str
    remedy: str
    is_lasting: bool
    """True if trying again does not help: the pod itself has to change."""


@dataclass(frozen=True, slots=True)
class ChargeRequest:
    """The devices that a new object requests of its namespace's quota, before limits apply."""

    uid: str
    kind: ChargedKind
    namespace: str
    name: str
    pieces: Mapping[str, tuple[DeviceDemand, ...]]
    """As `Charge` has them."""
    enforced: bool
    """True if the namespace's quota fails closed."""
    of: tuple[str, str] | None = None
    """As `Charge` has it."""
    owner: str = ""
    """The name of the pod or PodGroup that a claim was made for."""
    shared: ChargeRequest | None = None
    """For a pod: the charge of the claims that it shares with its PodGroup."""
    excess: TooManyClaims | None = None
    """The reason why its claims were not read; nothing is charged for them now."""
    unseen: tuple[Key, ...] = ()
    """At most `MOST_UNSEEN` objects that decide and that the view does not show, or may show as they were before:
    templates that a pod names, its PodGroup and the group's claims, the pod that a claim is for, and the claim itself if
    the caller may not be an API server."""

    @property
    def is_for_gpus(self) -> bool:
        """True if it requests a GPU, or may do so."""
        return bool(self.pieces or self.shared or self.unseen)

    @property
    def counts_unlimited(self) -> bool:
        """True if some of its devices count whole only because the driver shares them without limit."""
        own = any(demand.counts_unlimited for demands in self.pieces.values() for demand in demands)
        return own or (self.shared is not None and self.shared.counts_unlimited)

    @property
    def in_group(self) -> ChargeRequest:
        """The same request for the ledger of several namespaces: names have the namespace, `team-a/train`."""
        shared = None if self.shared is None else self.shared.in_group
        return replace(self, name=f"{self.namespace}/{self.name}", shared=shared)

    @property
    def refusal(self) -> TooManyClaims | None:
        """The excess, if the namespace's quota fails closed; None if it refuses nothing."""
        return self.excess if self.enforced else None
