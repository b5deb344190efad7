"""Admission: allows or refuses a charge by the mode of the quota and the label of its namespace."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from policies.quota.ledger.ledger import ChargedOtherwise, Exceeded, Full, Ledger, NotPrimed, Unstorable

if TYPE_CHECKING:
    from policies.quota.charges import Amounts, Charge
    from policies.quota.limits.quota import Quota

__all__ = ["ChargeVerdict", "Contended", "NoQuota", "admit", "admit_unwritten"]

_NOTHING: Amounts = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class NoQuota:
    """The namespace has no GPUQuota, so nothing is limited."""


@dataclass(frozen=True, slots=True)
class Contended:
    """Other writers changed the GPUQuota at every try; nothing was charged. A later request may succeed."""


@dataclass(frozen=True, slots=True)
class ChargeVerdict:
    """The verdict of a charge."""

    allowed: bool
    reason: Exceeded | NotPrimed | Full | ChargedOtherwise | Unstorable | Contended | None
    """Why it is refused, or allowed with a warning only; None if it fits."""


def admit(
    ledger: Ledger,
    quota: Quota,
    charge: Charge,
    *,
    enforced: bool,
    time: str = "",
    counted: Amounts = _NOTHING,
    call: str = "",
) -> tuple[ChargeVerdict, Ledger]:
    """The verdict, and the ledger to write first; the same ledger if nothing needs to be written.

    An object that is allowed although it does not fit is charged too, so that the next request sees it.

    Args:
        ledger: The one that is stored.
        quota: The spec of the same object.
        charge: For the object that is being created.
        enforced: True if the namespace's quota fails closed, so that unknown amounts are refused.
        time: Now, in RFC 3339, for people.
        counted: As `Ledger.charge` takes it.
        call: As `Ledger.charge` takes it.
    """
    found = ledger.charge(charge, quota, time=time, counted=counted, call=call)
    if isinstance(found, Ledger):
        return ChargeVerdict(True, None), found
    if quota.mode == "Warn" or not (enforced or isinstance(found, Exceeded)):
        return ChargeVerdict(True, found), found.anyway if isinstance(found, Exceeded | NotPrimed) else ledger
    return ChargeVerdict(False, found), ledger


def admit_unwritten(quota: Quota, charge: Charge, *, enforced: bool) -> ChargeVerdict:
    """The verdict for an object whose charge could not be written because of other writers.

    An object that no limit counts is allowed: its charge matters only to limits that are added before it is seen.
    """
    limits = {limit.name for limit in quota.limits}
    touched = any(bill.amounts.get(name) for bill in charge.bills for name in limits)
    return ChargeVerdict(quota.mode == "Warn" or not enforced or not touched, Contended())
