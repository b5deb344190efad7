"""Batches the pending writes of each ledger: one compare-and-swap writes all that wait.

A ledger is the status of a GPUQuota or GPUQuotaGroup. The writer caches the last document and tries it first: if only
this replica writes it, a charge costs at most one request. The writer bases a write on the newest document that
it wrote or that its watch shows. If another write came in between, it meets a conflict and reads the ledger again. A lost
response does no harm: the charge is found by its uid.

Every answer is based on the latest document: a successful write over it proves that, or it was read for the answer.

A call that does not allow the object leaves no charge behind: the writer takes back what it wrote or may have
written. It does not take back a charge of another call, which has another `call`. If taking back fails, the charge
stays until the reconciler finds that its object does not exist: meanwhile the quota counts too much, never too little.
"""

from __future__ import annotations

import asyncio
import logging
from enum import Enum, auto
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from policies.quota.ledger.allowances import ChargeVerdict, NoQuota, admit
from webhook.cluster.clockwork import Clockwork, rfc3339
from webhook.ledger.accounts import Accounts
from webhook.ledger.documents import Documents, Reading, Spec
from webhook.ledger.pending import (
    Coverage,
    CoverageRequired,
    ForwardedCharge,
    PendingChange,
    PendingCharge,
    PendingFlush,
    PendingObject,
    new_call,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.quota.ledger.ledger import Ledger
    from policies.quota.limits.quota import Quota
    from policies.rules.charges import Amounts, Charge
    from webhook.cluster.client import APIClient
    from webhook.ledger.accounts import Balance, Runner
    from webhook.ledger.documents import LedgerKey, Swap
    from webhook.ledger.pending import Make


_Pending: TypeAlias = "PendingCharge | ForwardedCharge | PendingChange | PendingFlush"

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.3
_BUSY = 4
"""Ledgers that are written at once from which the first charge of one leaves an allowance, too."""

_logger = logging.getLogger("gpu_admission.ledger")


async def _run_at_once(_key: LedgerKey, work: Callable[[], T]) -> T:
    return work()


class _Turn(Enum):
    """The result of one attempt to write."""

    READ = auto()
    """Nothing to write, or the attempt failed."""
    WRITTEN = auto()
    LOST = auto()
    """The write met a conflict, or its result is unknown."""


class LedgerWriter:
    """Charges objects that are being created. Call all methods in the same event loop."""

    def __init__(
        self,
        client: APIClient,
        *,
        run: Runner = _run_at_once,
        shown: Callable[[LedgerKey], Object | None] = lambda _key: None,
        name: str = "",
        clockwork: Clockwork = Clockwork(),  # noqa: B008 - it is immutable
    ) -> None:
        """Create a writer without pending writes.

        Args:
            client: Reads and writes GPUQuotas and GPUQuotaGroups.
            run: Runs the computation for a ledger; by default in the event loop.
            shown: Returns the object of a key that a watch shows, if any.
            name: Names this replica in allowances, for people.
            clockwork: Provides time and random numbers.
        """
        self._documents = Documents(client, shown)
        self._run = run
        self._clockwork = clockwork
        self._waiting: dict[LedgerKey, list[_Pending]] = {}
        self._accounts = Accounts(name, self._run, self._flush, clockwork)
        self._workers: dict[LedgerKey, asyncio.Task[None]] = {}

    async def charge(
        self,
        key: LedgerKey,
        charge: Callable[[Quota], Charge],
        *,
        enforced: bool,
        dry_run: bool = False,
        cover: Callable[[], Awaitable[Callable[[Quota], Amounts]]] | None = None,
        call: str = "",
    ) -> ChargeVerdict | NoQuota:
        """Write a charge and return whether its object may be created; a dry run writes nothing.

        If this call is cancelled, by a time limit for example, the charge is taken back. It stays if the quota fails
        open, because the object is then created without an answer.

        Args:
            key: Of the ledger.
            charge: Returns the charge for the limits at the time of the write.
            enforced: True if the quota of the object's namespace fails closed.
            dry_run: True if nothing may be written.
            cover: Reads the amounts that `used` already contains for the object. Called after the ledger is read, and
                again if `used` was counted again meanwhile. Other pending charges do not wait for it.
            call: Marks the charge as written by this call; random by default.

        Raises:
            QuotaError: the stored GPUQuota is invalid.
            ClusterError: the GPUQuota could not be read or written.
        """
        call = call or new_call()
        if not dry_run:
            spec = self._spec(key)
            computed = await self._accounts.compute(key, spec, charge)
            if computed is not None and self._accounts.admit(key, spec, computed, call):
                return ChargeVerdict(True, None)
        pending = partial(PendingCharge, self._clockwork.clock(), charge, enforced, dry_run, call=call)
        if cover is None:
            return await self._write_charge(key, pending())
        coverage = None
        while True:
            try:
                return await self._write_charge(key, pending(needs_coverage=True, coverage=coverage))
            except CoverageRequired as required:
                since = required.ledger
            coverage = Coverage(await cover(), since)

    async def charge_each(
        self,
        charges: Mapping[LedgerKey, Callable[[Quota], Charge]],
        uid: str,
        *,
        enforced: bool,
        dry_run: bool = False,
        cover: Callable[[], Awaitable[Callable[[Quota], Amounts]]] | None = None,
    ) -> Mapping[LedgerKey, ChargeVerdict | NoQuota]:
        """Write a charge on all of several ledgers or on none; only the last verdict may be a refusal.

        The ledgers are charged one after the other, each with its own call: a late answer of the owner of one must not be
        taken for that of another. A refusal takes the charges before it back. A crash leaves a charge too many, which counts
        until the reconciler finds that its object does not exist.

        Args:
            charges: By ledger, as for `charge`; the one that counts most namespaces first. A later one that seems full is judged
                before anything is written: otherwise each refusal would cost the first one two writes.
            uid: Of the object.
            enforced: As for `charge`.
            dry_run: As for `charge`.
            cover: As for `charge`.

        Raises:
            QuotaError: the object of a ledger is invalid.
            ClusterError: the object of a ledger could not be read or written.
        """
        calls = {key: new_call() for key in charges}
        write = partial(self.charge, enforced=enforced, cover=cover)
        for key, charge in islice(charges.items(), 1, None):
            if not dry_run and await self._seems_full(key, charge, enforced=enforced):
                verdict = await write(key, charge, dry_run=True)
                if _is_refusal(verdict):
                    return {key: verdict}
        verdicts: dict[LedgerKey, ChargeVerdict | NoQuota] = {}
        is_created = not enforced
        try:
            for key, charge in charges.items():
                verdicts[key] = await write(key, charge, dry_run=dry_run, call=calls[key])
                if _is_refusal(verdicts[key]):
                    is_created = False
                    return verdicts
            is_created = True
            return verdicts
        finally:
            if not (is_created or dry_run):
                for key, verdict in verdicts.items():
                    if isinstance(verdict, ChargeVerdict) and verdict.allowed:
                        self.withdraw(key, uid, calls[key])

    async def _seems_full(self, key: LedgerKey, charge: Callable[[Quota], Charge], *, enforced: bool) -> bool:
        """True if a ledger refuses a charge as it is known."""
        reading = await self._parse(key, self._documents.cached_document(key))
        if reading is None:
            return False

        def is_refused() -> bool:
            return not admit(reading.ledger, reading.quota, charge(reading.quota), enforced=enforced)[0].allowed

        return await self._run(key, is_refused)

    async def charge_for_peer(
        self, key: LedgerKey, charge: Charge, spec: Spec, call: str, *, needs_coverage: bool
    ) -> bool:
        """Write a charge for a call that another replica answers; False if it is not on the ledger.

        If this call is cancelled, the charge may be on the ledger; `take_back` removes it.

        Args:
            key: Of the ledger.
            charge: The charge of the object.
            spec: The spec under which the charge was computed; under another one, nothing is written.
            call: Marks the charge as written by the other replica's call.
            needs_coverage: True if `used` may already contain amounts for the object; nothing is written then.

        Raises:
            QuotaError: the stored GPUQuota is invalid.
            ClusterError: the GPUQuota could not be read or written.
            TimeoutError: the computation took too long.
        """
        if self._accounts.admit(key, spec, charge, call):
            return True
        forwarded = ForwardedCharge(self._clockwork.clock(), charge, spec, call, needs_coverage)
        self._queue(key, forwarded)
        return await forwarded.answered

    def take_back(self, key: LedgerKey, uid: str, call: str) -> None:
        """Remove the charge of a call if it is on the ledger, after all writes that are pending now."""
        self._remove(key, lambda: uid, call)

    def withdraw(self, key: LedgerKey, uid: str, call: str) -> None:
        """Take back a charge of a call of this replica; another replica may have written it."""
        self.take_back(key, uid, call)

    async def exists(self, key: LedgerKey) -> bool:
        """True if the object of a ledger exists; reads it only if it is not cached.

        Raises:
            ClusterError: it could not be read.
        """
        return self._documents.cached_document(key) is not None or await self._documents.read(key) is not None

    async def change(self, key: LedgerKey, make: Make) -> Ledger | None:
        """Write a new ledger, before the pending charges.

        Args:
            key: Of the ledger.
            make: Returns the new ledger; called for each attempt.

        Returns:
            The stored ledger; None if its object does not exist.

        Raises:
            QuotaError: the stored GPUQuota is invalid.
            ClusterError: the GPUQuota could not be read or written.
        """
        change = PendingChange(self._clockwork.clock(), key, make)
        self._queue(key, change)
        return await change.answered

    async def close(self) -> None:
        """Finish all pending writes, and give all allowances back."""
        for key in self._accounts.begin_closing():
            self._queue(key, PendingFlush(self._clockwork.clock()))
        while self._workers:
            await asyncio.wait(self._workers.values())

    def owns(self, key: LedgerKey) -> bool:
        """True if this replica may reserve an allowance in a ledger."""
        return False

    def _spec(self, key: LedgerKey) -> Spec | None:
        """The latest spec of a ledger's object that was read, written or watched."""
        document = self._documents.cached_document(key)
        return None if document is None else Spec.of(document)

    async def _write_charge(self, key: LedgerKey, charge: PendingCharge) -> ChargeVerdict | NoQuota:
        self._queue(key, charge)
        is_created = not charge.enforced
        try:
            answer = await charge.answered
            is_created = is_created or isinstance(answer, NoQuota) or answer.allowed
            return answer
        finally:
            # In this order: `judge`, in another thread, sets `written_uid` before it clears `is_judged`.
            if (charge.is_judged or charge.written_uid) and not is_created:
                # A pending write may set the uid after this.
                self._remove(key, lambda: charge.written_uid, charge.call)

    def _remove(self, key: LedgerKey, uid: Callable[[], str], call: str) -> None:
        change = PendingChange(
            self._clockwork.clock(), key, lambda ledger, _quota, _document: ledger.take_back(uid(), call)
        )
        change.answered.add_done_callback(partial(_warn_if_kept, key, uid))
        self._queue(key, change)

    def _queue(self, key: LedgerKey, waiting: _Pending) -> None:
        self._waiting.setdefault(key, []).append(waiting)
        if key not in self._workers:
            self._workers[key] = asyncio.create_task(self._turns(key), name=f"ledger of {key}")

    async def _turns(self, key: LedgerKey) -> None:
        """Write batches until no pending write is left."""
        lost, is_contended = 0, False
        try:
            while batch := self._batch(key):
                batch = await self._admit_waiting(key, batch)
                if not batch:
                    continue
                begun = self._clockwork.clock()
                turn = await self._turn(key, batch)
                lost = lost + 1 if turn is _Turn.LOST else 0
                is_contended = is_contended or lost > 0
                if lost:
                    pause = min(_FIRST_PAUSE * 2.0 ** min(lost, 10), _LONGEST_PAUSE)
                    await self._clockwork.sleep(pause * (0.5 + self._clockwork.random()))
                elif is_contended and turn is _Turn.WRITTEN:
                    # Other replicas must read first, and would lose against the next write.
                    took = self._clockwork.clock() - begun
                    await self._clockwork.sleep(min(took, _LONGEST_PAUSE) * (self._clockwork.random() + 1))
        finally:
            del self._waiting[key], self._workers[key]

    async def _admit_waiting(self, key: LedgerKey, batch: Sequence[_Pending]) -> list[_Pending]:
        """Admit out of the allowance what came in during the last write; returns what needs one."""
        spec = self._spec(key)
        for each in batch:
            if not isinstance(each, PendingObject):
                continue
            try:
                charge = await self._accounts.compute(key, spec, partial(each.charge_without_write, spec))
            except Exception as error:  # noqa: BLE001 - any error is raised in the caller that waits for the answer
                each.answer(error)
                continue
            self._decline_late([each])
            is_waiting = charge is not None and not each.answered.done()
            if charge is not None and is_waiting and self._accounts.admit(key, spec, charge, each.call):
                each.answer_charged(charge)
        return [each for each in batch if not each.answered.done()]

    def _batch(self, key: LedgerKey) -> list[_Pending]:
        """The writes that are still pending, changes before charges: a change may free quota."""
        self._decline_late(self._waiting[key])
        waiting = self._waiting[key] = [each for each in self._waiting[key] if not each.answered.done()]
        return sorted(waiting, key=lambda each: not isinstance(each, PendingChange))

    def _decline_late(self, batch: Iterable[_Pending]) -> None:
        """Decline charges for which the other replica no longer waits.

        It may have written them itself, and they may be counted already.
        """
        now = self._clockwork.clock()
        for each in batch:
            if isinstance(each, ForwardedCharge) and now >= each.since + each.most_seconds:
                each.answer(False)

    async def _turn(self, key: LedgerKey, batch: Sequence[_Pending]) -> _Turn:
        """Try to write a batch once; an error answers every pending write of the batch."""
        try:
            return await self._try(key, batch)
        except Exception as error:  # noqa: BLE001 - any error is raised in the callers that wait for the answers
            self._documents.forget(key)
            for each in batch:
                each.answer(error)
            return _Turn.READ
        finally:
            self._accounts.end(key)

    async def _try(self, key: LedgerKey, batch: Sequence[_Pending]) -> _Turn:
        begun = self._clockwork.clock()
        balance = self._accounts.begin(
            key,
            may_grant=self.owns(key),
            is_flush=any(isinstance(each, PendingFlush) for each in batch),
            is_busy=len(self._workers) >= _BUSY,
        )
        reading = await self._parse(key, self._documents.cached_document(key))
        ledger = None if reading is None else await self._ledger_after(key, reading, batch, balance)
        if reading is None or ledger is None or (ledger is reading.ledger and any(each.needs_latest for each in batch)):
            reading = await self._parse(key, await self._documents.read(key))
            self._decline_late(batch)
            if reading is None:
                self._accounts.drop(key)
                for each in batch:
                    each.answer_without_quota()
                return _Turn.READ
            ledger = await self._ledger_after(key, reading, batch, balance)
        swap: Swap = True
        if ledger is not reading.ledger:
            self._accounts.suspend(key)
            swap = await self._documents.swap(key, reading, ledger)
            if swap:
                self._accounts.commit(key, balance, reading, ledger, begun)
        for each in batch:
            each.finish_attempt(swap, self._clockwork.clock())
        if ledger is reading.ledger:
            return _Turn.READ
        return _Turn.WRITTEN if swap else _Turn.LOST

    async def _ledger_after(
        self, key: LedgerKey, reading: Reading, batch: Sequence[_Pending], balance: Balance
    ) -> Ledger:
        return await self._run(key, partial(_judge_batch, reading, batch, balance))

    async def _flush(self, key: LedgerKey) -> None:
        """Queue a flush, and wait for its result."""
        flush = PendingFlush(self._clockwork.clock())
        self._queue(key, flush)
        await flush.answered

    async def _parse(self, key: LedgerKey, document: Object | None) -> Reading | None:
        if document is None:
            return None
        time = rfc3339(self._clockwork.now())
        return await self._run(key, partial(self._documents.parse, key, document, time))


def _is_refusal(verdict: ChargeVerdict | NoQuota) -> bool:
    return isinstance(verdict, ChargeVerdict) and not verdict.allowed


def _judge_batch(reading: Reading, batch: Sequence[_Pending], balance: Balance) -> Ledger:
    """The ledger with all pending writes of a batch; the same one if there is nothing to write."""
    before = ledger = balance.ledger(reading)
    for each in batch:
        ledger = each.judge(ledger, reading)
    return balance.settle(before, ledger, reading, is_refused=any(each.is_refused for each in batch))


def _warn_if_kept(key: LedgerKey, uid: Callable[[], str], answer: asyncio.Future[Ledger | None]) -> None:
    if not answer.cancelled() and (error := answer.exception()) is not None and uid():
        text = "the charge of %s in %s could not be taken back and stays until it expires: %s"
        _logger.warning(text, uid(), key, error)
