"""The state of the quota model: pods and claims, requests to create them, replicas and leaders."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from policies.quota.ledger.open_charges import subtract_amounts
from policies.rules.charges import OWN, Bill

if TYPE_CHECKING:
    from policies.quota.ledger.allowances import Spending
    from policies.quota.ledger.ledger import Ledger
    from policies.quota.ledger.status import Versions
    from policies.rules.charges import Charge


@dataclass(frozen=True)
class Thing:
    """A pod or a claim."""

    uid: str
    kind: str
    name: str
    demand: tuple[str, int]
    templates: tuple[tuple[str, str], ...] = ()
    owner: str = ""
    piece: str = OWN
    is_made: bool = False
    """By the claim controller or the scheduler, not by somebody who says so."""
    got: str = ""
    has_ended: bool = False
    promised: tuple[tuple[str, str, tuple[str, int]], ...] = ()
    """What a pod was charged for its claims from templates: for whom they are made, for which piece, and what they request."""
    group: str = ""
    """The name of the PodGroup that a pod belongs to."""
    sees_group: bool | None = True
    """True if replicas see the group when the pod is created; None while PodGroups are unknown."""
    named: str = ""
    """The uid of the claim that the status of a PodGroup names."""
    is_named: bool = False
    """Whether the pod's status names it as its claim for extended resources."""

    @property
    def keeps_what_it_got(self):
        """A claim that no pod was made with is freed when those who use it end, and may get something else then."""
        return self.kind == "Pod" or self.is_made


@dataclass
class Cover:
    """A pod, and the claims that the scheduler made for it, as they are read live."""

    pod: Thing | None
    claims: list[Thing]

    def amounts(self, quota):
        """The amounts of the pod that no claim has taken up."""
        if self.pod is None or self.pod.has_ended:
            return {}
        left = amounts(self.pod.demand, quota, self.pod.got)
        for claim in self.claims:
            left = subtract_amounts(left, amounts(claim.demand, quota, claim.got))
        return left


@dataclass
class Admission:
    """A CREATE on its way."""

    thing: Thing
    started: int
    charge: Charge | None = None
    cover: Cover | None = None
    since: Versions | None = None
    """The lists on which the ledger rested before the cover was read."""
    promised: tuple[tuple[str, str, tuple[str, int]], ...] = ()
    answered: int | None = None
    call: str = ""
    """What the replica calls it on the ledger."""
    is_forged: bool = False
    """Whether nobody creates anything on the answer: the caller is no API server."""


@dataclass
class Replica:
    waiting: list[Admission] = field(default_factory=list)
    batch: list[Admission] = field(default_factory=list)
    document: dict | None = None
    uncovered: list[Admission] = field(default_factory=list)
    """Those for which it has to be read what `used` holds for them already."""
    allowance: str = "allowance-0"
    spending: Spending | None = None
    """What was admitted out of the allowance since the last write that it is known of."""
    granted_at: int = -1000
    expects: int = 0
    """How many devices it expects to be requested before its next write."""
    released: set[tuple[str, str]] = field(default_factory=set)
    """Uids and calls to be taken back: nobody waits for these calls any more."""

    @property
    def is_busy(self):
        return bool(self.waiting or self.document or self.uncovered or self.released or self.spending)


@dataclass
class Leader:
    pods_at: int = 0
    claims_at: int = 0
    watched: dict[tuple[str, str], int] = field(default_factory=dict)
    origins: set[str] = field(default_factory=set)
    """The uids of claims that were certainly made for the pod that they name."""
    document: dict | None = None
    write: Ledger | None = None


def amounts(demand, quota, got=""):
    """The amounts by limit; of the product `h100/4` each device is a share, and counts as a quarter of a GPU."""
    name, count = demand
    product, _, shares = (got or name).partition("/")
    gpus = Fraction(count, int(shares or 1))
    return {
        limit.name: Fraction(count) if limit.unit == "devices" else gpus
        for limit in quota.limits
        if count and (product == "any" or not limit.selector.products or product in limit.selector.products)
    }


def bill(demand, quota):
    gpus = Fraction(demand[1], int(demand[0].partition("/")[2] or 1))
    return Bill(amounts(demand, quota), {"gpus": gpus, "memory": gpus, "devices": Fraction(demand[1])})
