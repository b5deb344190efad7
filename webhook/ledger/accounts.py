"""The allowance of this replica in one ledger, and what it was spent on."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections import deque
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TYPE_CHECKING, Protocol, TypeVar

from policies.quota.demands.bills import Uncountable
from policies.quota.ledger.allowances import (
    NOTHING,
    Spending,
    charge_sum,
    covered_charge,
    sum_bills,
    with_allowance,
    with_spending,
)
from policies.quota.ledger.ledger import ROOM, Ledger
from policies.quota.ledger.open_charges import ALLOWANCE, OpenCharge
from policies.quota.limits.quota import QuotaError
from policies.rules.charges import OWN
from webhook.cluster.answers import ClusterError
from webhook.cluster.clockwork import rfc3339
from webhook.ledger.documents import Spec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from policies.quota.limits.quota import Quota
    from policies.rules.charges import Bill, Charge
    from webhook.cluster.clockwork import Clockwork
    from webhook.ledger.documents import LedgerKey, Reading


FLUSH_SECONDS = 8.0
"""After a write with an allowance, the charges that it was spent on are written, or it is given back."""
USED_SECONDS = 20.0
"""An allowance is used for this long after the write that made it began. The leader keeps it for much longer."""
_MOST_CHARGES = 1000
"""Charges that wait to be written; more are not admitted without a write."""


@dataclass(frozen=True, slots=True)
class Balance:
    """An account at the beginning of a write."""

    uid: str
    """Of the allowance."""
    name: str
    """Of this replica, for people."""
    spending: Spending | None
    recent: tuple[Bill, ...] = ()
    """The charges that were admitted in the last seconds."""
    may_grant: bool = False
    """True if this replica owns the ledger."""
    is_flush: bool = False
    """True if an allowance that was not used is given back."""
    is_busy: bool = False
    """True if this replica writes several ledgers, so that one charge is reason enough for an allowance."""

    def ledger(self, reading: Reading) -> Ledger:
        """The ledger that was read, with all charges and without the allowance."""
        if self.spending is None and reading.ledger.reservations.get(self.uid) is None:
            return reading.ledger
        spending = self.spending or Spending(reading.quota, NOTHING, reading.ledger.counted)
        return with_spending(reading.ledger, self.uid, spending, reading.quota)

    def settle(self, before: Ledger, after: Ledger, reading: Reading, *, is_refused: bool) -> Ledger:
        """The ledger to write, with an allowance; the one that was read if there is nothing to write.

        Args:
            before: The ledger that `ledger` returned.
            after: The same with the changes of all pending writes.
            reading: The GPUQuota that was read.
            is_refused: True if a charge was refused; the allowance may be what it lacked.
        """
        has_spent = self.spending is not None and len(self.spending.charges) > 0
        if after is before and not (has_spent or self.is_flush or is_refused):
            return reading.ledger
        if not self.may_grant or is_refused or (self.is_flush and not has_spent):
            return after
        admitted = new_charges(before, after)
        recent = (*self.recent, *map(charge_sum, admitted))
        expected = reduce(sum_bills, (each for each in recent if self.is_busy or len(recent) > 1), NOTHING)
        expected = sum_bills(expected, expected)
        for charge in admitted:
            # The claims of these pods come next, and each is charged in full.
            if (claims := charge.without((OWN,))) is not None:
                expected = sum_bills(expected, charge_sum(claims))
        return with_allowance(
            after, reading.quota, expected, OpenCharge(self.uid, ALLOWANCE, self.name, reading.time, {})
        )


def new_charges(before: Ledger, after: Ledger) -> list[OpenCharge]:
    """The charges of pods and claims that a ledger has and an earlier one has not."""
    known = before.reservations
    return [each for each in after.reservations if known.get(each.uid) is None and each.kind != ALLOWANCE]


@dataclass
class Account:
    """The allowance of this replica in one ledger."""

    name: str
    """Of this replica, for people."""
    uid: str = field(default_factory=lambda: f"allowance-{secrets.token_hex(8)}", init=False)
    _spending: Spending | None = field(default=None, init=False)
    _spec: Spec | None = field(default=None, init=False)
    """The spec of the last write."""
    _ledger: Ledger = field(default_factory=Ledger, init=False)
    """The ledger of the last write."""
    _until: float = field(default=-math.inf, init=False)
    """Until when the allowance may be used, by the monotonic clock."""
    _recent: deque[tuple[float, Bill]] = field(default_factory=deque, init=False)
    """The times and sums of the charges that were admitted in the last seconds."""

    @property
    def is_open(self) -> bool:
        """True if there is an allowance, or something was spent."""
        spending = self._spending
        return spending is not None and bool(len(spending.charges) or spending.granted.amounts)

    def quota(self, spec: Spec | None, now: float) -> Quota | None:
        """The quota under which a charge may be admitted out of the allowance; None if none can be now."""
        spending = self._spending
        if spending is None or not spending.granted.amounts or self._spec != spec or now >= self._until:
            return None
        return spending.quota

    def admit(self, charge: Charge, call: str, time: str, now: float) -> bool:
        """True if an object is admitted out of the allowance; its charge is written later.

        Args:
            charge: Computed under the quota that `quota` has returned a moment ago.
            call: Of the call that is answered.
            time: Now, in RFC 3339.
            now: By the monotonic clock.
        """
        spending = self._spending
        if spending is None or len(spending.charges) >= _MOST_CHARGES:
            return False
        if any(known.get(charge.uid) is not None for known in (self._ledger.reservations, spending.charges)):
            return False
        opened = covered_charge(charge, spending, call, time)
        spent = None if opened is None else spending.spend(opened)
        if opened is None or spent is None or not self._has_room(spent):
            return False
        self._spending = spent
        self._recent.append((now, charge_sum(opened)))
        return True

    def balance(self, now: float, *, may_grant: bool, is_flush: bool, is_busy: bool) -> Balance:
        """The account at the beginning of a write; nothing may be admitted out of it until it has ended."""
        while self._recent and self._recent[0][0] < now - FLUSH_SECONDS:
            self._recent.popleft()
        recent = tuple(bill for _, bill in self._recent)
        return Balance(self.uid, self.name, self._spending, recent, may_grant, is_flush, is_busy)

    def suspend(self) -> None:
        """Use the allowance no more, because a write of the ledger is sent.

        `commit` allows it again; after a conflict or an unknown result it stays unused.
        """
        self._until = -math.inf

    def commit(self, balance: Balance, reading: Reading, written: Ledger, begun: float) -> None:
        """Take note of a write, which had all that was spent.

        Args:
            balance: The account at its beginning.
            reading: The GPUQuota that it rests on.
            written: The ledger that was written.
            begun: When it began, by the monotonic clock.
        """
        allowance = written.reservations.get(balance.uid)
        granted = NOTHING if allowance is None else allowance.pieces[OWN]
        self._spending, self._ledger = Spending(reading.quota, granted, written.counted), written
        self._spec, self._until = Spec.of(reading.document), begun + USED_SECONDS
        noted = set() if balance.spending is None else {each.uid for each in balance.spending.charges}
        admitted = (each for each in new_charges(reading.ledger, written) if each.uid not in noted)
        self._recent.extend((begun, charge_sum(each)) for each in admitted)

    def _has_room(self, spent: Spending) -> bool:
        """True if the ledger has room for what was spent; otherwise it could never be written."""
        stored, new = self._ledger.reservations, spent.charges
        return stored.size + new.size <= ROOM.size and stored.places + new.places <= ROOM.charges


T = TypeVar("T")

_MOST_ACCOUNTS = 1024
"""Beyond that, accounts without an allowance are forgotten, and with them what was admitted in the last seconds."""

_logger = logging.getLogger("gpu_admission.ledger")


class Runner(Protocol):
    """Runs the computation for a ledger, which may take too long for the event loop."""

    async def __call__(self, key: LedgerKey, work: Callable[[], T], /) -> T:
        """Return or raise what `work` does; may call it twice."""
        ...


@dataclass(eq=False)
class Accounts:
    """The accounts by ledger.

    From `begin` to `end`, nothing is admitted out of the allowance of that ledger.
    """

    name: str
    """Names this replica in allowances, for people."""
    run: Runner
    """Runs the computation for a ledger."""
    flush: Callable[[LedgerKey], Awaitable[None]]
    """Writes what the allowance of a ledger was spent on."""
    clockwork: Clockwork
    """Provides time."""
    _accounts: dict[LedgerKey, Account] = field(default_factory=dict, init=False)
    _writing: set[LedgerKey] = field(default_factory=set, init=False)
    _flushers: dict[LedgerKey, asyncio.Task[None]] = field(default_factory=dict, init=False)
    _is_closing: bool = field(default=False, init=False)

    async def compute(
        self, key: LedgerKey, spec: Spec | None, charge: Callable[[Quota], Charge | None]
    ) -> Charge | None:
        """The charge of an object that may be admitted out of an allowance; None if it certainly cannot be."""
        quota = self._quota(key, spec)
        try:
            return None if quota is None else await self.run(key, partial(charge, quota))
        except Uncountable:
            return None

    def admit(self, key: LedgerKey, spec: Spec | None, charge: Charge, call: str) -> bool:
        """True if an object is admitted out of an allowance; its charge is written later.

        Args:
            key: Of the ledger.
            spec: The spec under which the charge was computed.
            charge: The charge of the object.
            call: Of the call that is answered.
        """
        if self._quota(key, spec) is None:
            return False
        time = rfc3339(self.clockwork.now())
        return self._accounts[key].admit(charge, call, time, self.clockwork.clock())

    def begin(self, key: LedgerKey, *, may_grant: bool, is_flush: bool, is_busy: bool) -> Balance:
        """The account of a ledger at the beginning of a write; `Balance` says what the arguments mean."""
        if len(self._accounts) >= _MOST_ACCOUNTS:
            kept = self._writing
            self._accounts = {name: each for name, each in self._accounts.items() if each.is_open or name in kept}
        account = self._accounts.setdefault(key, Account(self.name))
        self._writing.add(key)
        return account.balance(
            self.clockwork.clock(), may_grant=may_grant and not self._is_closing, is_flush=is_flush, is_busy=is_busy
        )

    def suspend(self, key: LedgerKey) -> None:
        """Use an allowance no more until `commit`, because a write of its ledger is sent."""
        self._accounts[key].suspend()

    def commit(self, key: LedgerKey, balance: Balance, reading: Reading, written: Ledger, begun: float) -> None:
        """Take note of a write, as `Account.commit` does, and flush its allowance later."""
        account = self._accounts[key]
        account.commit(balance, reading, written, begun)
        if account.is_open and key not in self._flushers and not self._is_closing:
            self._flushers[key] = asyncio.create_task(self._flush_repeatedly(key), name=f"allowance of {key}")

    def end(self, key: LedgerKey) -> None:
        """A write has ended, whatever became of it."""
        self._writing.discard(key)

    def drop(self, key: LedgerKey) -> None:
        """Forget the account of a ledger that does not exist."""
        self._accounts.pop(key, None)

    def begin_closing(self) -> tuple[LedgerKey, ...]:
        """Admit nothing from now on; returns the ledgers whose allowances are to be flushed."""
        self._is_closing = True
        for flusher in self._flushers.values():
            flusher.cancel()
        return tuple(key for key, account in self._accounts.items() if account.is_open)

    def _quota(self, key: LedgerKey, spec: Spec | None) -> Quota | None:
        """The quota of a ledger if objects may be admitted out of its allowance now, under this spec."""
        account = self._accounts.get(key)
        if account is None or key in self._writing or self._is_closing:
            return None
        return account.quota(spec, self.clockwork.clock())

    async def _flush_repeatedly(self, key: LedgerKey) -> None:
        """Write what an allowance was spent on every few seconds, until it is given back."""
        try:
            while (account := self._accounts.get(key)) is not None and account.is_open:
                await self.clockwork.sleep(FLUSH_SECONDS)
                try:
                    await self.flush(key)
                except (ClusterError, QuotaError, TimeoutError) as error:
                    _logger.warning("charges of %s are admitted and not written yet: %s", key, error)
        finally:
            del self._flushers[key]
