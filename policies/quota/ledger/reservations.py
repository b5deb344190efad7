"""Reservations: charges that stay itemised until what they are for is seen."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain
from operator import is_
from typing import TYPE_CHECKING

from policies.quota.charges import OWN, Bill

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from policies.kubernetes.objects import Object
    from policies.quota.charges import Amounts

__all__ = ["ZERO", "OpenCharge", "Reservations", "added", "beyond", "largest"]

ZERO = Fraction(0)


@dataclass(frozen=True)
class OpenCharge:
    """What one object was charged, by its pieces that nobody has seen yet."""

    uid: str
    kind: str
    name: str
    time: str
    """When it was charged, for people; nothing is decided by it."""
    pieces: Mapping[str, Bill]
    """Of a pod `OWN` until the pod was seen, and its claims from templates until they were; of a claim `OWN`."""
    of: tuple[str, str] | None = None
    """For a claim that was made for a pod: the pod's uid, and for which piece of it."""
    counted: Amounts = field(default_factory=dict)
    """What `used` holds already for that piece of the pod; means nothing while the piece is open."""

    @property
    def amounts(self) -> Amounts:
        """What the object asks for itself."""
        own = self.pieces.get(OWN)
        return {} if own is None else own.amounts

    @cached_property
    def places(self) -> int:
        """How many open charges it stands for."""
        return max(1, sum(piece != OWN for piece in self.pieces))

    @cached_property
    def document(self) -> Object:
        """The charge as an item of `status.charges`; zeros are left out."""
        document: Object = {"uid": self.uid, "kind": self.kind, "name": self.name}
        if self.time:
            document["time"] = self.time
        if self.of is not None:
            document["of"] = {"uid": self.of[0], "piece": self.of[1]}
        if counted := _texts(self.counted):
            document["counted"] = counted
        document["pieces"] = [
            {
                "name": name,
                "amounts": _texts(bill.amounts),
                "most": {unit: str(most) for unit, most in bill.most.items()},
            }
            for name, bill in self.pieces.items()
        ]
        return document

    @cached_property
    def size(self) -> int:
        """Bytes of the item as JSON."""
        return len(json.dumps(self.document)) + 1


class Reservations:
    """All open charges of a ledger; immutable.

    A pod's charge for a claim from a template and the charges of claims made for it are for the same devices, and so
    are the pod's own charge and a claim that the scheduler makes for its extended resources. Together they count as
    the larger of what the pod was charged and of what its claims come to. Which of the claims exists is not asked: a
    claim that was admitted may be stored after its pod is gone, and a second one may follow an answer that was lost, so
    each is kept with all it asks for, and none of them rests on the other.
    """

    def __init__(self, charges: Iterable[OpenCharge] = ()) -> None:
        self._charges = {charge.uid: charge for charge in charges}

    def __iter__(self) -> Iterator[OpenCharge]:
        return iter(self._charges.values())

    def __len__(self) -> int:
        return len(self._charges)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reservations) and self._charges == other._charges

    __hash__ = None  # type: ignore[assignment]  # compared by what they hold

    def get(self, uid: str) -> OpenCharge | None:
        """The open charge of an object."""
        return self._charges.get(uid)

    @cached_property
    def total(self) -> Amounts:
        """What all of them come to, by limit."""
        made: dict[tuple[str, str], list[OpenCharge]] = {}
        for charge in self:
            if charge.of is not None:
                made.setdefault(charge.of, []).append(charge)
        alone = (
            bill.amounts
            for charge in self
            if charge.of is None
            for piece, bill in charge.pieces.items()
            if (charge.uid, piece) not in made
        )
        return _sum(chain(alone, (self._come_to(group, claims) for group, claims in made.items())))

    @cached_property
    def size(self) -> int:
        """Bytes of all items as JSON."""
        return sum(charge.size for charge in self)

    @cached_property
    def places(self) -> int:
        """How many open charges there are; a claim for a piece that is open takes none of its own."""
        return sum(charge.places for charge in self if not self.is_expected(charge))

    def is_expected(self, charge: OpenCharge) -> bool:
        """Whether a claim is for an open piece of its pod's charge, which cannot be closed without it."""
        return charge.of is not None and self.is_open(*charge.of)

    def is_open(self, uid: str, piece: str) -> bool:
        """Whether a pod is charged for a piece that nobody has seen."""
        return self._piece((uid, piece)) is not None

    def adding(self, charge: OpenCharge) -> Reservations:
        """These and one more, or one that replaces that of the same uid; the total is carried on, not added up anew."""
        after = Reservations()
        after._charges = self._charges | {charge.uid: charge}
        groups = {charge.of} if charge.of is not None else {(charge.uid, piece) for piece in charge.pieces}
        total = self.total
        for group in groups:
            grown = after._come_to(group, after._made_for(group))
            total = added(beyond(total, self._come_to(group, self._made_for(group))), grown)
        vars(after)["total"] = total
        return after

    def without(self, uid: str, pieces: Collection[str] | None = None) -> Reservations:
        """These without some pieces of a charge, or all of it."""
        return self.changed(lambda charge: _shortened(charge, pieces) if charge.uid == uid else charge)

    def changed(self, change: Callable[[OpenCharge], OpenCharge | None]) -> Reservations:
        """Every charge as `change` gives it; those it gives None for are left out."""
        after = [changed for charge in self if (changed := change(charge)) is not None]
        return self if len(after) == len(self) and all(map(is_, after, self)) else Reservations(after)

    def _piece(self, group: tuple[str, str]) -> Bill | None:
        charge = self._charges.get(group[0])
        return None if charge is None or charge.of is not None else charge.pieces.get(group[1])

    def _made_for(self, group: tuple[str, str]) -> list[OpenCharge]:
        return [charge for charge in self if charge.of == group]

    def _come_to(self, group: tuple[str, str], made: Iterable[OpenCharge]) -> Amounts:
        asked: Amounts = {}
        counted: Amounts = {}
        for claim in made:
            asked, counted = added(asked, claim.amounts), largest(counted, claim.counted)
        piece = self._piece(group)
        return beyond(asked, counted) if piece is None else largest(piece.amounts, asked)


def _sum(parts: Iterable[Amounts]) -> dict[str, Fraction]:
    """The sum of many, by limit; whole numbers are added many times faster than fractions are."""
    numerators: dict[tuple[str, int], int] = {}
    for amounts in parts:
        for name, amount in amounts.items():
            size = name, amount.denominator
            numerators[size] = numerators.get(size, 0) + amount.numerator
    total: dict[str, Fraction] = {}
    for (name, denominator), numerator in numerators.items():
        total[name] = total.get(name, ZERO) + Fraction(numerator, denominator)
    return total


def added(first: Amounts, second: Amounts) -> dict[str, Fraction]:
    """The sum, by limit."""
    return {name: first.get(name, ZERO) + second.get(name, ZERO) for name in {**first, **second}}


def largest(first: Amounts, second: Amounts) -> dict[str, Fraction]:
    """The larger of two amounts, by limit."""
    return {name: max(first.get(name, ZERO), second.get(name, ZERO)) for name in {**first, **second}}


def beyond(first: Amounts, second: Amounts) -> dict[str, Fraction]:
    """How much the first exceeds the second by, by limit; never less than nothing."""
    return {name: max(ZERO, amount - second.get(name, ZERO)) for name, amount in first.items()}


def _shortened(charge: OpenCharge, pieces: Collection[str] | None) -> OpenCharge | None:
    left = {} if pieces is None else {name: bill for name, bill in charge.pieces.items() if name not in pieces}
    return replace(charge, pieces=left) if left else None


def _texts(amounts: Amounts) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items() if amount}
