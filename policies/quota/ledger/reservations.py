"""Reservations: the open charges of a ledger, until their objects are seen."""

from __future__ import annotations

from functools import cached_property
from itertools import chain, islice
from operator import is_
from typing import TYPE_CHECKING, TypeAlias

from policies.kubernetes.bounds import count_work
from policies.quota.ledger.open_charges import (
    ALLOWANCE,
    add_amounts,
    compact_text,
    larger_amounts,
    subtract_amounts,
    sum_amounts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from policies.quota.ledger.open_charges import OpenCharge
    from policies.rules.charges import Amounts, Bill

__all__ = ["Reservations"]

_Group: TypeAlias = tuple[str, str]
"""What claims are made for: the uid of a pod or a PodGroup, and its piece."""

_UNITS_WRITTEN = 10
"""Units of work for each charge when their text is written for the first time."""


class Reservations:
    """All open charges of a ledger; immutable.

    A pod's charge for a claim from a template and the charges of claims made for it are for the same devices, and so
    are the pod's own charge and a claim that the scheduler makes for its extended resources. Together they count as
    the larger of the pod's charge and the total of its claims. Whether a claim exists does not matter: an admitted claim
    may be stored after its pod is gone, and a second one may follow a lost answer, so each is kept with its full amount
    and depends on no other.
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
        """The total of all charges, by limit."""
        alone = (
            bill.amounts
            for charge in self
            if charge.of is None
            for piece, bill in charge.pieces.items()
            if (charge.uid, piece) not in self._claims
        )
        return sum_amounts(chain(alone, map(self._come_to, self._claims)))

    @cached_property
    def size(self) -> int:
        """Bytes of the charges as one text."""
        count_work(_UNITS_WRITTEN * len(self))
        return len(compact_text(self))

    @cached_property
    def places(self) -> int:
        """The number of open charges; a claim for an open piece does not count."""
        return sum(charge.places for charge in self if not self.is_expected(charge))

    def is_expected(self, charge: OpenCharge) -> bool:
        """True if a claim is for an open piece of its pod's charge, which cannot be closed without it."""
        return charge.of is not None and self.is_open(*charge.of)

    def is_open(self, uid: str, piece: str) -> bool:
        """True if a pod is charged for a piece that has not been seen."""
        return self._piece((uid, piece)) is not None

    def with_charge(self, charge: OpenCharge) -> Reservations:
        """The reservations with one added, or replaced if it has the same uid."""
        return self.with_charges([charge])

    def with_charges(self, charges: Sequence[OpenCharge]) -> Reservations:
        """The reservations with some added, or replaced if they have the same uid.

        If all are new, sums are updated.
        """
        after = Reservations()
        after._charges = self._charges | {charge.uid: charge for charge in charges}
        if len(after) == len(self) + len(charges):
            after._continue_sums(self, charges)
        return after

    def without(self, uid: str, pieces: Collection[str] | None = None) -> Reservations:
        """The reservations without some pieces of a charge, or without the charge if None."""
        return self.map(lambda charge: charge.without(pieces) if charge.uid == uid else charge)

    def without_allowances(self) -> Reservations:
        """The charges of pods, PodGroups and claims only."""
        return self.map(lambda charge: None if charge.kind == ALLOWANCE else charge)

    def map(self, change: Callable[[OpenCharge], OpenCharge | None]) -> Reservations:
        """The reservations with `change` applied to each charge; a charge is removed if it returns None."""
        after = [changed for charge in self if (changed := change(charge)) is not None]
        return self if len(after) == len(self) and all(map(is_, after, self)) else Reservations(after)

    def _piece(self, group: _Group) -> Bill | None:
        charge = self._charges.get(group[0])
        return None if charge is None or charge.of is not None else charge.pieces.get(group[1])

    @cached_property
    def _claims(self) -> dict[_Group, tuple[OpenCharge, ...]]:
        """The charges of claims by what they are made for."""
        return _by_group(self)

    def _come_to(self, group: _Group) -> Amounts:
        requested: Amounts = {}
        counted: Amounts = {}
        for claim in self._claims.get(group, ()):
            requested, counted = add_amounts(requested, claim.amounts), larger_amounts(counted, claim.counted)
        piece = self._piece(group)
        return subtract_amounts(requested, counted) if piece is None else larger_amounts(piece.amounts, requested)

    def _continue_sums(self, before: Reservations, new: Sequence[OpenCharge]) -> None:
        """Derive the sums from those of reservations that lack the new charges."""
        made = {group: before._claims.get(group, ()) + claims for group, claims in _by_group(new).items()}
        pieces = ((charge.uid, piece) for charge in new if charge.of is None for piece in charge.pieces)
        groups = made.keys() | pieces
        # The sums below read it.
        vars(self)["_claims"] = before._claims | made
        lost, grown = sum_amounts(map(before._come_to, groups)), sum_amounts(map(self._come_to, groups))
        alone = sum(charge.places for charge in new if charge.of is None)
        last = list(islice(reversed(before._charges.values()), 1))
        vars(self).update(
            total=add_amounts(subtract_amounts(before.total, lost), grown),
            places=before.places + alone + self._places_of(groups) - before._places_of(groups),
            size=before.size + len(compact_text([*last, *new])) - len(compact_text(last)),
        )

    def _places_of(self, groups: Iterable[_Group]) -> int:
        """The number of claims for some pieces that are not open."""
        return sum(
            claim.places for group in groups if self._piece(group) is None for claim in self._claims.get(group, ())
        )


def _by_group(charges: Iterable[OpenCharge]) -> dict[_Group, tuple[OpenCharge, ...]]:
    made: dict[_Group, list[OpenCharge]] = {}
    for charge in charges:
        if charge.of is not None:
            made.setdefault(charge.of, []).append(charge)
    return {group: tuple(claims) for group, claims in made.items()}
