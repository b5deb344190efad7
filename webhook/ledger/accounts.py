"""The accounts of a replica: what is admitted out of its allowances, and when that is written."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from policies.quota.bills import Uncountable
from policies.quota.limits.quota import QuotaError
from webhook.cluster.clockwork import rfc3339
from webhook.cluster.errors import ClusterError
from webhook.ledger.account import FLUSH_SECONDS, Account

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from policies.quota.charges import Charge
    from policies.quota.ledger.ledger import Ledger
    from policies.quota.limits.quota import Quota
    from webhook.cluster.clockwork import Clockwork
    from webhook.ledger.account import Balance
    from webhook.ledger.documents import Reading, Spec

__all__ = ["Accounts", "Runner"]

T = TypeVar("T")

_MOST_ACCOUNTS = 1024
"""Beyond that, accounts without an allowance are forgotten, and with them what was admitted in the last seconds."""

_logger = logging.getLogger("gpu_admission.ledger")


class Runner(Protocol):
    """Runs the computation for a namespace, which may take too long for the event loop."""

    async def __call__(self, namespace: str, work: Callable[[], T], /) -> T:
        """Return or raise what `work` does; may call it twice."""
        ...


class Accounts:
    """The accounts by namespace.

    From `begin` to `end`, nothing is admitted out of the allowance of that namespace.
    """

    def __init__(self, name: str, run: Runner, flush: Callable[[str], Awaitable[None]], clockwork: Clockwork) -> None:
        """Create no account.

        Args:
            name: Names this replica in allowances, for people.
            run: Runs the computation for a namespace.
            flush: Writes what the allowance of a namespace was spent on.
            clockwork: Provides time.
        """
        self._name = name
        self._run = run
        self._flush = flush
        self._clockwork = clockwork
        self._accounts: dict[str, Account] = {}
        self._writing: set[str] = set()
        self._flushers: dict[str, asyncio.Task[None]] = {}
        self._is_closing = False

    async def compute(
        self, namespace: str, spec: Spec | None, charge: Callable[[Quota], Charge | None]
    ) -> Charge | None:
        """The charge of an object that may be admitted out of an allowance; None if it certainly cannot be."""
        quota = self._quota(namespace, spec)
        try:
            return None if quota is None else await self._run(namespace, partial(charge, quota))
        except Uncountable:
            return None

    def admit(self, namespace: str, spec: Spec | None, charge: Charge, call: str) -> bool:
        """True if an object is admitted out of an allowance; its charge is written later.

        Args:
            namespace: Namespace of the object.
            spec: The spec under which the charge was computed.
            charge: The charge of the object.
            call: Of the call that is answered.
        """
        if self._quota(namespace, spec) is None:
            return False
        time = rfc3339(self._clockwork.now())
        return self._accounts[namespace].admit(charge, call, time, self._clockwork.clock())

    def begin(self, namespace: str, *, may_grant: bool, is_flush: bool, is_busy: bool) -> Balance:
        """The account of a namespace at the beginning of a write; `Balance` says what the arguments mean."""
        if len(self._accounts) >= _MOST_ACCOUNTS:
            kept = self._writing
            self._accounts = {name: each for name, each in self._accounts.items() if each.is_open or name in kept}
        account = self._accounts.setdefault(namespace, Account(self._name))
        self._writing.add(namespace)
        return account.balance(
            self._clockwork.clock(), may_grant=may_grant and not self._is_closing, is_flush=is_flush, is_busy=is_busy
        )

    def suspend(self, namespace: str) -> None:
        """Use an allowance no more until `commit`, because a write of its ledger is sent."""
        self._accounts[namespace].suspend()

    def commit(self, namespace: str, balance: Balance, reading: Reading, written: Ledger, begun: float) -> None:
        """Take note of a write, as `Account.commit` does, and flush its allowance later."""
        account = self._accounts[namespace]
        account.commit(balance, reading, written, begun)
        if account.is_open and namespace not in self._flushers and not self._is_closing:
            self._flushers[namespace] = asyncio.create_task(
                self._flush_repeatedly(namespace), name=f"allowance of {namespace}"
            )

    def end(self, namespace: str) -> None:
        """A write has ended, whatever became of it."""
        self._writing.discard(namespace)

    def drop(self, namespace: str) -> None:
        """Forget the account of a namespace that has no quota."""
        self._accounts.pop(namespace, None)

    def begin_closing(self) -> tuple[str, ...]:
        """Admit nothing from now on; returns the namespaces whose allowances are to be flushed."""
        self._is_closing = True
        for flusher in self._flushers.values():
            flusher.cancel()
        return tuple(namespace for namespace, account in self._accounts.items() if account.is_open)

    def _quota(self, namespace: str, spec: Spec | None) -> Quota | None:
        """The quota of a namespace if objects may be admitted out of its allowance now, under this spec."""
        account = self._accounts.get(namespace)
        if account is None or namespace in self._writing or self._is_closing:
            return None
        return account.quota(spec, self._clockwork.clock())

    async def _flush_repeatedly(self, namespace: str) -> None:
        """Write what an allowance was spent on every few seconds, until it is given back."""
        try:
            while (account := self._accounts.get(namespace)) is not None and account.is_open:
                await self._clockwork.sleep(FLUSH_SECONDS)
                try:
                    await self._flush(namespace)
                except (ClusterError, QuotaError, TimeoutError) as error:
                    _logger.warning("charges of %s are admitted and not written yet: %s", namespace, error)
        finally:
            del self._flushers[namespace]
