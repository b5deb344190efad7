"""Charges: what is requested, in the terms in which quotas count it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from policies.kubernetes.paths import FieldPath
    from policies.view import Key

__all__ = [
    "OWN",
    "UNSEEN",
    "Amounts",
    "Ask",
    "Bill",
    "Charge",
    "ChargeRequest",
    "ChargedKind",
    "DeviceKind",
    "TooManyClaims",
    "Unit",
]

Unit = Literal["gpus", "memory", "devices"]
"""What a limit counts: whole GPUs, of which a device may be a fraction; bytes of GPU memory; devices of any size."""

ChargedKind = Literal["Pod", "PodGroup", "ResourceClaim"]

Amounts = Mapping[str, Fraction]
"""By the names of limits. A limit that is not there is not touched."""

OWN = ""
"""The piece of a charge that a pod asks for itself, by extended resources; the others are named as in
`spec.resourceClaims`."""


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """What quotas know of a device."""

    product: str
    """As labels spell it, without what they append for MIG and sharing; empty where nobody knows."""
    profile: str = ""
    """The MIG profile as NVML spells it; empty for whole GPUs."""
    gpus: Fraction = Fraction(1)
    """How much of a GPU it is: a MIG device the larger of its shares of compute and memory slices, one of n replicas
    1/n of what is replicated."""
    memory: int | None = None
    """Bytes, of a replica its share; None where nobody knows."""


UNSEEN = frozenset({DeviceKind("")})
"""What is known of a product that the cluster does not show: a whole GPU of any name."""


@dataclass(frozen=True, slots=True)
class Ask:
    """So many devices, each one of some kinds."""

    count: int
    kinds: frozenset[DeviceKind]
    """The kinds that the cluster shows and that could be given."""
    is_open: bool = False
    """Whether a product that the cluster does not show now could be given as well: an autoscaler may bring it, and
    nothing in the ask excludes it."""
    priority_class: str | None = ""
    """Of the pod; None where nobody knows which pod it is for."""
    unseen: frozenset[DeviceKind] = UNSEEN
    """What an open ask could be given besides `kinds`: products are empty and match every selector of products, and what
    the ask says otherwise is in them: a MIG profile with its share, the size of a slice. Means nothing where the ask is
    not open."""
    alternatives: tuple[Ask, ...] = ()
    """Other asks of which one is granted instead of this one (`firstAvailable`; a node instead of another with
    `allocationMode: All`). It comes to the most that this one or any of them comes to, limit by limit. They have no
    alternatives themselves, and the same priority class."""

    @property
    def choices(self) -> tuple[Ask, ...]:
        """This ask and its alternatives: just one of them is granted."""
        return (self, *self.alternatives)


@dataclass(frozen=True, slots=True)
class Bill:
    """What asks come to."""

    amounts: Amounts
    """By the limits of the quota that it was made for."""
    most: Mapping[Unit, Fraction]
    """By unit, whatever limits select: for limits that change before what was asked for is seen."""


@dataclass(frozen=True, slots=True)
class Charge:
    """What is to be charged for one object that is being created."""

    uid: str
    kind: ChargedKind
    namespace: str
    name: str
    pieces: Mapping[str, Bill] = field(default_factory=dict)
    """By name, `OWN` or that of a claim from a template; a ResourceClaim has `OWN` only, and a PodGroup never has it."""
    of: tuple[str, str] | None = None
    """For a claim that was made from a template or by the scheduler, by somebody who is trusted: the uid of its pod or
    PodGroup, and which piece of that one's charge it is measured against."""
    shared: Charge | None = None
    """For a pod: the claims that it shares with its PodGroup, charged to the group, once for all its pods."""

    @property
    def is_for_gpus(self) -> bool:
        """True if the object itself comes to anything, beside what it shares."""
        return any(any(bill.amounts.values()) or any(bill.most.values()) for bill in self.pieces.values())

    @property
    def bills(self) -> tuple[Bill, ...]:
        """All that is to be charged, to the object itself and to its PodGroup."""
        return (*self.pieces.values(), *(() if self.shared is None else self.shared.bills))


@dataclass(frozen=True, slots=True)
class TooManyClaims:
    """A pod has more claims than are read or charged for one pod, so none of its claims is charged with it."""

    path: FieldPath
    message: str
    remedy: str
    is_lasting: bool
    """True if trying again does not help: the pod itself has to change."""


@dataclass(frozen=True, slots=True)
class ChargeRequest:
    """What an object that is being created requests of its namespace's quota, whatever the limits are."""

    uid: str
    kind: ChargedKind
    namespace: str
    name: str
    pieces: Mapping[str, tuple[Ask, ...]]
    """As `Charge` has them."""
    enforced: bool
    """True if the namespace's quota fails closed."""
    of: tuple[str, str] | None = None
    """As `Charge` has it."""
    owner: str = ""
    """The name of the pod or PodGroup that a claim was made for."""
    shared: ChargeRequest | None = None
    """For a pod: what it shares with its PodGroup, which is charged to the group."""
    excess: TooManyClaims | None = None
    """Why its claims were not read; nothing is charged for them now."""
    unseen: tuple[Key, ...] = ()
    """At most `MOST_UNSEEN` objects that decide and that the view does not show, or may show as they were before:
    templates that a pod names, its PodGroup and the group's claims, the pod that a claim is for, and the claim itself if
    the caller may not be an API server."""

    @property
    def is_for_gpus(self) -> bool:
        """True if it requests a GPU, or may do so."""
        return bool(self.pieces or self.shared or self.unseen)
