"""Open charges: charges for objects that have not been seen in the cluster yet."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from policies.quota.charges import OWN, Bill
from policies.quota.ledger.sums import ZERO, amount_texts, larger_amounts, select_amounts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from fractions import Fraction

    from policies.kubernetes.objects import Object
    from policies.quota.charges import Amounts, Charge
    from policies.quota.limits.quota import Limit

__all__ = ["ALLOWANCE", "HEAD_FIELDS", "OpenCharge", "open_charge"]

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
        """What the object itself requests."""
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
        if any(map(_is_excessive, self._all_amounts())):
            return "the requested amount is too large to be counted"
        return None

    def _all_amounts(self) -> Iterator[Fraction]:
        yield from self.counted.values()
        for bill in self.pieces.values():
            yield from bill.amounts.values()
            yield from bill.most.values()

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
        return _json_text(head)[1:-1]

    @cached_property
    def pieces_text(self) -> str:
        """The pieces as JSON."""
        return _json_text(self.document["pieces"])


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


def _json_text(value: object) -> str:
    return _ENCODER.encode(value)


def _larger(first: Bill, second: Bill) -> Bill:
    amounts = {name: amount for name, amount in larger_amounts(first.amounts, second.amounts).items() if amount}
    most = {unit: max(first.most[unit], amount) for unit, amount in second.most.items() if unit in first.most}
    return Bill(amounts, most)


def _is_excessive(amount: Fraction) -> bool:
    return max(amount.numerator.bit_length(), amount.denominator.bit_length()) > _MOST_BITS
