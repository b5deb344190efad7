"""Charges that wait to be written, and what is answered to them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.quota.admit import Admission
    from policies.quota.charges import Charge
    from policies.quota.quota import Quota

__all__ = ["Contended", "NoQuota", "Waiting"]


class Contended(Exception):  # noqa: N818 - it says what happened
    """Others kept writing the same GPUQuota until the time was up; nothing was charged. Asking again helps."""


@dataclass(frozen=True, slots=True)
class NoQuota:
    """The namespace has no GPUQuota, so nothing is limited."""


@dataclass(eq=False, slots=True)
class Waiting:
    """One charge, until it is answered."""

    charge: Callable[[Quota], Charge]
    """Makes the charge by the limits that hold; it may raise, and then its caller gets that."""
    enforced: bool
    dry_run: bool
    answered: asyncio.Future[Admission | NoQuota] = field(default_factory=asyncio.Future)
    written: Charge | None = None
    """What was written for it; to be released if nobody waits for the answer any more."""
