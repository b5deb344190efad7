"""Open charges: what was admitted and has not been seen yet, with sums by limit."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain, islice
from operator import is_
from typing import TYPE_CHECKING, Any, TypeAlias

from policies.kubernetes.bounds import count_work
from policies.rules.charges import OWN, Bill

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.quota.limits.quota import Limit
    from policies.rules.charges import Amounts, Charge


ZERO = Fraction(0)


def sum_amounts(parts: Iterable[Amounts]) -> dict[str, Fraction]:
    """The sum of many amounts, by limit.

    Numerators are added by denominator, because whole numbers are added many times faster than fractions.
    """
    numerators: dict[tuple[str, int], int] = {}
    for amounts in parts:
        for name, amount in amounts.items():
            size = name, amount.denominator
            numerators[size] = numerators.get(size, 0) + amount.numerator
    total: dict[str, Fraction] = {}
    for (name, denominator), numerator in numerators.items():
        total[name] = total.get(name, ZERO) + Fraction(numerator, denominator)
    return total


def add_amounts(first: Amounts, second: Amounts) -> dict[str, Fraction]:
    """The sum, by limit."""
    return {name: first.get(name, ZERO) + second.get(name, ZERO) for name in {**first, **second}}


def larger_amounts(first: Amounts, second: Amounts) -> dict[str, Fraction]:
    """The larger of two amounts, by limit."""
    return {name: max(first.get(name, ZERO), second.get(name, ZERO)) for name in {**first, **second}}


def subtract_amounts(first: Amounts, second: Amounts) -> dict[str, Fraction]:
    """The first amounts minus the second, by limit; at least zero."""
    return {name: max(ZERO, amount - second.get(name, ZERO)) for name, amount in first.items()}


def select_amounts(amounts: Amounts, names: Collection[str]) -> dict[str, Fraction]:
    """The amounts of some limits; zeros are left out."""
    return {name: amount for name, amount in amounts.items() if name in names and amount}


def amount_texts(amounts: Amounts) -> dict[str, str]:
    """The amounts as JSON, as exact texts by limit; zeros are left out."""
    return {name: str(amount) for name, amount in amounts.items() if amount}


ALLOWANCE = "Allowance"
"""The kind of a charge that the owner of a ledger reserves for itself, see `policies.quota.ledger.allowances`."""

HEAD_FIELDS = ("uid", "kind", "name", "time", "call", "of", "counted", "late")
"""The fields of a charge besides its pieces, in the order of `OpenCharge.head_text`."""

_NO_BILL = Bill({}, dict.fromkeys(("gpus", "memory", "devices"), ZERO))
_ENCODER = json.JSONEncoder(separators=(",", ":"))
_TEXT = re.compile(r"[!-~]*", re.ASCII)
_LONGEST_UID, _LONGEST_NAME, _LONGEST_PIECE = 128, 253, 63
"""Characters; an API server stores no object with a longer text."""
_MOST_BITS = 256
"""Of the numerator and of the denominator of an amount: it is read and added up as text of at most 256 characters."""


@dataclass(frozen=True)
class OpenCharge:
    """The charge of one object, with the pieces that have not been seen yet."""

    uid: str
    kind: str
    name: str
    time: str
    """When it was charged, for people only; no decision depends on it."""
    pieces: Mapping[str, Bill]
    """For a pod: `OWN` until the pod is seen, and its claims from templates until they are. For a claim: `OWN`. For a
    PodGroup: the claims from templates that its pods share, until they are seen."""
    of: tuple[str, str] | None = None
    """For a claim that was made for a pod or a PodGroup: the uid and piece of that object."""
    counted: Amounts = field(default_factory=dict)
    """The part of that piece that `used` contains already; ignored while the piece is open."""
    call: str = ""
    """The only call that was answered on this charge, which may take it back; empty if there may be others."""
    late: bool = False
    """True if `used` was counted after its object was admitted and before it was written: `used` may contain the object, too,
    until the next count."""

    @property
    def amounts(self) -> Amounts:
        """The amounts that the object itself requests."""
        own = self.pieces.get(OWN)
        return {} if own is None else own.amounts

    @cached_property
    def places(self) -> int:
        """The number of open charges that it counts as."""
        return max(1, sum(piece != OWN for piece in self.pieces))

    def is_for(self, charge: Charge) -> bool:
        """True if a charge is for the same object."""
        return (self.uid, self.kind, self.name, self.of) == (charge.uid, charge.kind, charge.name, charge.of)

    @cached_property
    def problem(self) -> str | None:
        """The reason why no API server would store the object, as in forged calls; None if one would."""
        texts = [("metadata.uid", self.uid, _LONGEST_UID), ("metadata.name", self.name, _LONGEST_NAME)]
        if self.of is not None:
            texts.append(("metadata.ownerReferences: uid", self.of[0], _LONGEST_UID))
            texts.append(("metadata.annotations: name of the pod's claim", self.of[1], _LONGEST_PIECE))
        texts += (("spec.resourceClaims: name", piece, _LONGEST_PIECE) for piece in self.pieces)
        for where, text, longest in texts:
            if len(text) > longest or not _TEXT.fullmatch(text):
                return f"{where} must be at most {longest} printable ASCII characters without blanks"
        amounts = [*self.counted.values()]
        for bill in self.pieces.values():
            amounts += (*bill.amounts.values(), *bill.most.values())
        if any(max(each.numerator.bit_length(), each.denominator.bit_length()) > _MOST_BITS for each in amounts):
            return "the requested amount is too large to be counted"
        return None

    def with_pieces(self, pieces: Mapping[str, Bill]) -> OpenCharge:
        """The charge with more pieces; for a piece that it has already, the larger bill."""
        both = {name: _larger(self.pieces[name], bill) for name, bill in pieces.items() if name in self.pieces}
        return replace(self, pieces={**self.pieces, **pieces, **both})

    def without(self, pieces: Collection[str] | None) -> OpenCharge | None:
        """The charge without some pieces, or without all of them if None; None if nothing is left."""
        left = {} if pieces is None else {name: bill for name, bill in self.pieces.items() if name not in pieces}
        return replace(self, pieces=left) if left else None

    def with_limits(self, new: Collection[Limit], names: Collection[str]) -> OpenCharge:
        """The charge under the limits of these names, with the largest amounts under new limits."""
        unknown = {limit.name for limit in new}
        kept = set(names) - unknown
        pieces = {}
        for name, bill in self.pieces.items():
            most = {limit.name: bill.most[limit.unit] for limit in new if limit.unit in bill.most}
            pieces[name] = replace(bill, amounts=select_amounts(bill.amounts, kept) | select_amounts(most, unknown))
        return replace(self, pieces=pieces, counted=select_amounts(self.counted, kept))

    @cached_property
    def document(self) -> Object:
        """The charge as JSON; zeros are left out."""
        document: Object = {"uid": self.uid, "kind": self.kind, "name": self.name}
        if self.time:
            document["time"] = self.time
        if self.of is not None:
            document["of"] = {"uid": self.of[0], "piece": self.of[1]}
        if counted := amount_texts(self.counted):
            document["counted"] = counted
        if self.call:
            document["call"] = self.call
        if self.late:
            document["late"] = True
        document["pieces"] = [
            {
                "name": name,
                "amounts": amount_texts(bill.amounts),
                "most": {unit: str(most) for unit, most in bill.most.items()},
            }
            for name, bill in self.pieces.items()
        ]
        return document

    @cached_property
    def head_text(self) -> str:
        """The values of `HEAD_FIELDS` as JSON, without brackets."""
        of = None if self.of is None else {"uid": self.of[0], "piece": self.of[1]}
        counted = amount_texts(self.counted) or None
        head = [self.uid, self.kind, self.name, self.time or None, self.call or None, of, counted, self.late or None]
        return _ENCODER.encode(head)[1:-1]

    @cached_property
    def pieces_text(self) -> str:
        """The pieces as JSON."""
        return _ENCODER.encode(self.document["pieces"])


def open_charge(
    charge: Charge, known: OpenCharge | None, names: Collection[str], time: str, counted: Amounts, call: str
) -> OpenCharge:
    """The open charge of an object; that of a pod has the piece `OWN` until the pod is seen.

    Args:
        charge: the charge of the object.
        known: the existing charge for the same uid; it grows.
        names: the limits that count.
        time: as `Ledger.charge` takes it.
        counted: as `Ledger.charge` takes it.
        call: as `Ledger.charge` takes it.
    """
    bills = {OWN: _NO_BILL, **charge.pieces} if charge.kind == "Pod" else dict(charge.pieces)
    pieces = {name: replace(bill, amounts=select_amounts(bill.amounts, names)) for name, bill in bills.items()}
    if known is None:
        return OpenCharge(
            charge.uid, charge.kind, charge.name, time, pieces, charge.of, select_amounts(counted, names), call
        )
    return known.with_pieces(pieces)


def _larger(first: Bill, second: Bill) -> Bill:
    amounts = {name: amount for name, amount in larger_amounts(first.amounts, second.amounts).items() if amount}
    most = {unit: max(first.most[unit], amount) for unit, amount in second.most.items() if unit in first.most}
    return Bill(amounts, most)


def compact_text(charges: Iterable[OpenCharge]) -> str:
    """The charges as `status.openCharges`; empty if there are none."""
    texts: list[str] = []
    before: OpenCharge | None = None
    for charge in charges:
        # Charges that were read from a text share equal pieces.
        has_same = before is not None and (charge.pieces is before.pieces or charge.pieces_text == before.pieces_text)
        texts.append(f"[{charge.head_text}]" if has_same else f"[{charge.head_text},{charge.pieces_text}]")
        before = charge
    return f"[{','.join(texts)}]" if texts else ""


def expand_text(text: str) -> list[Object]:
    """The charges in `status.openCharges`, each as `OpenCharge.document` has it.

    Raises:
        ValueError: `compact_text` does not write this.
    """
    try:
        lists = json.loads(text) if text else []
    except RecursionError as error:
        raise ValueError("openCharges is nested too deeply") from error
    items: list[Object] = []
    for values in lists if isinstance(lists, list) else [None]:
        head, pieces = _split(values)
        if len(head) != len(HEAD_FIELDS) or (pieces is None and not items):
            raise ValueError("openCharges must be a list of lists of the values of charges")
        fields = {field: value for field, value in zip(HEAD_FIELDS, head, strict=True) if value is not None}
        items.append(fields | {"pieces": items[-1]["pieces"] if pieces is None else pieces})
    return items


def _split(values: Any) -> tuple[list[Any], list[Any] | None]:
    """The fields of a charge and its pieces, the only value that is a list; None if it has none."""
    if not isinstance(values, list):
        return [], None
    return (values[:-1], values[-1]) if values and isinstance(values[-1], list) else (values, None)


_Group: TypeAlias = tuple[str, str]
"""The owner of claims: the uid of a pod or a PodGroup, and its piece."""

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
