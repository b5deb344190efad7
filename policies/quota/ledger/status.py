"""The status of a GPUQuota, read and written: counted amounts and open charges."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from operator import is_
from typing import TYPE_CHECKING, Any, TypeVar

from policies.kubernetes.bounds import count_work
from policies.kubernetes.objects import lookup, mappings_at
from policies.quota.ledger.open_charges import OpenCharge, Reservations, expand_text
from policies.quota.limits.amounts import AmountScale
from policies.rules.charges import Bill

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policies.kubernetes.objects import Object
    from policies.quota.limits.quota import Limit


_Item = TypeVar("_Item")

# As long as the CRD lets them be: what cannot be read again after it was written would never be primed.
_AMOUNT = re.compile(r"(?=.{1,256}$)[0-9]+(?:/[1-9][0-9]*)?", re.ASCII)
_VERSION = re.compile(r"[1-9][0-9]{0,127}", re.ASCII)
_UNITS = frozenset({"gpus", "memory", "devices"})
_MOST_CONDITIONS = 8
_UNITS_KNOWN, _UNITS_READ = 7, 15
"""Units of work for each charge, and for one that was not read before."""
_LONGEST_CONDITION = 2048


class GarbageError(ValueError):
    """A status contains a value that this program never writes."""


@dataclass(frozen=True, slots=True)
class Count:
    """The counted amount of one limit."""

    key: str
    """Of the limit that it was counted for; empty if the amount of an open charge is unknown under the limit."""
    used: Fraction | None
    """None until it was counted."""


@dataclass(frozen=True, slots=True)
class Versions:
    """The resourceVersions of the lists of pods and of claims on which a count rests."""

    pods: str
    claims: str

    @classmethod
    def of(cls, pods: object, claims: object) -> Versions | None:
        """The versions; None if one of them cannot be compared.

        Source: keps/sig-api-machinery/5504-comparable-resource-version: decimal digits without leading zeros.
        """
        if not isinstance(pods, str) or not isinstance(claims, str):
            return None
        return cls(pods, claims) if _VERSION.fullmatch(pods) and _VERSION.fullmatch(claims) else None

    def reach(self, other: Versions) -> bool:
        """True if neither list is older than the other's."""
        return _order(self.pods) >= _order(other.pods) and _order(self.claims) >= _order(other.claims)


def _order(version: str) -> tuple[int, str]:
    return len(version), version


def read_limits(status: Any) -> dict[str, Count]:
    """`status.limits` by name.

    Raises:
        GarbageError: it cannot be read.
    """
    return dict(_each(status, "limits", _limit))


def read_charges(status: Any, known: Reservations | None = None) -> Reservations:
    """The open charges in `status.openCharges`.

    Args:
        status: Of a GPUQuota.
        known: The charges that were read or written last; equal ones are reused.

    Raises:
        GarbageError: it cannot be read.
    """
    known, items = known or Reservations(), charge_items(status)
    count_work(_UNITS_KNOWN * len(items))
    charges: list[OpenCharge] = []
    last_pieces: Any = None
    for item in items:
        charge, pieces = known.get(_text(item, "uid")), lookup(item, ("pieces",))
        if charge is None or charge.document != item:
            # Charges of alike pods share one list of pieces.
            is_alike = pieces is not None and pieces is last_pieces
            charge = read_charge(item, charges[-1].pieces if is_alike else None)
            count_work(_UNITS_READ)
        charges.append(charge)
        last_pieces = pieces
    if len({charge.uid for charge in charges}) < len(charges):
        raise GarbageError("two charges have the same uid")
    return known if len(charges) == len(known) and all(map(is_, charges, known)) else Reservations(charges)


def charge_items(status: Any) -> list[Object]:
    """The open charges in `status.openCharges`, each as `OpenCharge.document` has it.

    Raises:
        GarbageError: They cannot be read.
    """
    text = lookup(status, ("openCharges",))
    if not isinstance(text, str | None):
        raise GarbageError("openCharges must be a text")
    try:
        return expand_text(text or "")
    except ValueError as error:
        raise GarbageError(str(error)) from error


def read_counted(status: Any) -> Versions | None:
    """`status.counted`; None if nothing was counted yet.

    Raises:
        GarbageError: it cannot be read.
    """
    counted = lookup(status, ("counted",))
    if counted is None:
        return None
    versions = Versions.of(lookup(counted, ("pods",)), lookup(counted, ("claims",)))
    if versions is None:
        raise GarbageError("counted must have two resourceVersions")
    return versions


def read_conditions(status: Any) -> tuple[Object, ...]:
    """The readable `status.conditions`, to be written again."""
    kept = mappings_at(status, ("conditions",))
    return tuple(each for each in kept[:_MOST_CONDITIONS] if len(json.dumps(each)) <= _LONGEST_CONDITION)


def limit_status(limit: Limit, count: Count, reserved: Fraction) -> Object:
    """The item of `status.limits` for a limit."""
    status = {"name": limit.name, "key": count.key, "hard": str(limit.hard), "reserved": str(reserved)}
    return status if count.used is None else {**status, "used": str(count.used)}


def summary(limit: Limit, used: Fraction | None, reserved: Fraction) -> str:
    """The part of `status.summary` for a limit: `h100 6 of 8`; `?` if it was not counted yet."""
    taken = None if used is None else used + reserved
    scale = AmountScale.of(limit.unit, taken or limit.hard, limit.hard)
    return f"{limit.name} {scale.number(taken, limit.hard)} of {scale.short(limit.hard)}"


def _each(status: Any, field: str, read: Callable[[Any], _Item]) -> list[_Item]:
    found = lookup(status, (field,))
    if not isinstance(found, list | None):
        raise GarbageError(f"{field} must be a list")
    return [read(each) for each in found or ()]


def _limit(item: Any) -> tuple[str, Count]:
    used, key = lookup(item, ("used",)), lookup(item, ("key",))
    return _text(item, "name"), Count(key if isinstance(key, str) else "", None if used is None else read_amount(used))


def read_charge(item: Any, pieces: Mapping[str, Bill] | None = None) -> OpenCharge:
    """The open charge in JSON.

    Args:
        item: As `OpenCharge.document` has it.
        pieces: Its pieces, if they were read already.

    Raises:
        GarbageError: it cannot be read.
    """
    time, of, call = lookup(item, ("time",)), lookup(item, ("of",)), lookup(item, ("call",))
    return OpenCharge(
        uid=_text(item, "uid"),
        kind=_text(item, "kind"),
        name=_text(item, "name"),
        time=time if isinstance(time, str) else "",
        pieces=dict(_each(item, "pieces", _piece)) if pieces is None else pieces,
        of=None if of is None else (_text(of, "uid"), _text(of, "piece", empty=True)),
        counted=_amounts(item, "counted"),
        call=call if isinstance(call, str) else "",
        late=lookup(item, ("late",)) is True,
    )


def _piece(item: Any) -> tuple[str, Bill]:
    most = _amounts(item, "most")
    if not most.keys() <= _UNITS:
        raise GarbageError("an unknown unit")
    return _text(item, "name", empty=True), Bill(_amounts(item, "amounts"), most)  # type: ignore[arg-type]  # just checked


def _amounts(item: Any, field: str) -> dict[str, Fraction]:
    found = lookup(item, (field,))
    if not isinstance(found, dict | None):
        raise GarbageError(f"{field} must be a mapping")
    return {str(name): read_amount(amount) for name, amount in (found or {}).items()}


def read_amount(value: Any) -> Fraction:
    """An amount that a status has as text.

    Raises:
        GarbageError: It is none.
    """
    if not isinstance(value, str) or not _AMOUNT.fullmatch(value):
        raise GarbageError("an amount must be a number")
    return _fraction(value)


@lru_cache(maxsize=4096)
def _fraction(text: str) -> Fraction:
    """The amount in a text; cached, because most charges are alike."""
    return Fraction(text)


def _text(item: Any, field: str, *, empty: bool = False) -> str:
    found = lookup(item, (field,))
    if not isinstance(found, str) or not (found or empty):
        raise GarbageError(f"{field} must be a non-empty string")
    return found
