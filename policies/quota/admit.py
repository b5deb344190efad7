"""Admitting: what a ledger's verdict means under the mode of the quota and the label of its namespace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.quota.ledger import Exceeded, Full, Ledger, NotPrimed

if TYPE_CHECKING:
    from policies.quota.charges import Charge
    from policies.quota.quota import Quota

__all__ = ["Admission", "admit"]


@dataclass(frozen=True, slots=True)
class Admission:
    """What becomes of a charge."""

    allowed: bool
    verdict: Exceeded | NotPrimed | Full | None
    """Why it is not allowed, or allowed with a warning only; None where it fits."""
    ledger: Ledger
    """To be written before the answer; the one from before where nothing is to be."""


def admit(ledger: Ledger, quota: Quota, charge: Charge, *, enforced: bool, time: str = "") -> Admission:
    """Charge, and say whether the object may be created.

    What is allowed although it does not fit is charged all the same: whoever comes next has to see it.

    Args:
        ledger: The one that is stored.
        quota: The spec of the same object.
        charge: For what is being created.
        enforced: Whether the namespace's quota fails closed: what is not known yet refuses then.
        time: Now, in RFC 3339, for people.
    """
    found = ledger.charge(charge, quota, time=time)
    match found:
        case Ledger():
            return Admission(True, None, found)
        case Exceeded() if quota.mode == "Warn":
            return Admission(True, found, found.anyway)
        case NotPrimed() if quota.mode == "Warn" or not enforced:
            return Admission(True, found, found.anyway)
        case Full() if quota.mode == "Warn" or not enforced:
            return Admission(True, found, ledger)
    return Admission(False, found, ledger)
