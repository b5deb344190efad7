"""The writer: one compare-and-swap for everything that comes for a namespace while the one before is being written.

The ledger of a namespace is the status of its GPUQuota. What was read or written last is remembered and tried first:
where this replica is the only one that is asked about a namespace, a charge costs one request. Another replica's write
shows as a conflict, and the ledger is read anew. An answer that got lost does no harm: the charge is found by its uid.

Nothing is answered but on a document that was written over, which proves that it was the latest, or was read for it.

A call that does not end with "may be created" leaves nothing of its own behind: what was, or may have been, written for
it is taken back. A charge that another call made, or was answered on, stays: `call` of the charge says whose it is. Where
taking back fails, the charge stays until the reconciler finds that its object does not exist: it counts too much for a
while, and never too little.
"""

from __future__ import annotations

import asyncio
import logging
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from policies.quota.ledger.admit import NoQuota
from policies.quota.limits.quota import parse_quota
from webhook.cluster.clockwork import Clockwork, rfc3339
from webhook.ledger.documents import Documents, Reading
from webhook.ledger.pending import Covered, PendingChange, PendingCharge, Uncovered

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from policies.kubernetes.objects import Object
    from policies.quota.charges import Amounts, Charge
    from policies.quota.ledger.admit import ChargeVerdict
    from policies.quota.ledger.ledger import Ledger
    from policies.quota.limits.quota import Quota
    from webhook.cluster.client import APIClient
    from webhook.ledger.documents import Swap
    from webhook.ledger.pending import Make

__all__ = ["LedgerWriter", "Runner"]

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.3

_logger = logging.getLogger("gpu_admission.ledger")


class Runner(Protocol):
    """Runs what is computed for a namespace, which in a large one is too long for the event loop."""

    async def __call__(self, namespace: str, work: Callable[[], T]) -> T:
        """What `work` returns or raises; it may be called twice."""
        ...


async def _run_at_once(_namespace: str, work: Callable[[], T]) -> T:
    return work()


class _Turn(Enum):
    """What became of one try."""

    READ = auto()
    """Nothing had to be written, or nothing can be."""
    WRITTEN = auto()
    LOST = auto()
    """Others were faster, or nobody knows."""


class LedgerWriter:
    """Charges objects that are being created. Every method is for one event loop."""

    def __init__(
        self,
        client: APIClient,
        *,
        run: Runner | None = None,
        clockwork: Clockwork = Clockwork(),  # noqa: B008 - it is immutable
    ) -> None:
        """Prepare.

        Args:
            client: Reads and writes GPUQuotas.
            run: Runs what is computed for a namespace; if not given, it is computed at once.
            clockwork: Time and chance.
        """
        self._documents = Documents(client)
        self._run = run or _run_at_once
        self._clockwork = clockwork
        self._waiting: dict[str, list[PendingCharge | PendingChange]] = {}
        self._workers: dict[str, asyncio.Task[None]] = {}

    async def charge(
        self,
        namespace: str,
        charge: Callable[[Quota], Charge],
        *,
        enforced: bool,
        dry_run: bool = False,
        cover: Callable[[], Awaitable[Callable[[Quota], Amounts]]] | None = None,
    ) -> ChargeVerdict | NoQuota:
        """Write a charge, and say whether its object may be created; on a dry run, only say it.

        Cancelling this, by a time limit for example, takes back what was written, but where the quota fails open: there
        the object is created without an answer.

        Args:
            namespace: Of the object.
            charge: Makes the charge by the limits that hold when it is written.
            enforced: Whether the quota of the namespace fails closed.
            dry_run: Whether nothing may be written.
            cover: Reads what makes `counted` for `Ledger.charge`; it is awaited after the ledger was read, nobody else
                waits for it, and it is asked again where `used` was counted anew meanwhile.

        Raises:
            QuotaError: The GPUQuota that is stored cannot be read.
            ClusterError: It could not be read or written.
        """
        if cover is None:
            return await self._charged(namespace, PendingCharge(self._clockwork.clock(), charge, enforced, dry_run))
        covered = None
        while True:
            try:
                return await self._charged(
                    namespace, PendingCharge(self._clockwork.clock(), charge, enforced, dry_run, True, covered)
                )
            except Uncovered as uncovered:
                since = uncovered.ledger
            covered = Covered(await cover(), since)

    async def has_quota(self, namespace: str) -> bool:
        """Whether a namespace has a GPUQuota; one that was there the last time need not be read again.

        Raises:
            ClusterError: It could not be read.
        """
        return self._documents.remembered(namespace) is not None or await self._documents.read(namespace) is not None

    async def change(self, namespace: str, make: Make) -> Ledger | None:
        """Write a ledger anew, for who counts what there is.

        It takes its turn with the charges of the namespace, before those that wait.

        Args:
            namespace: Of the GPUQuota.
            make: Makes the ledger, again with every try.

        Returns:
            The ledger as it was made last, once it is stored; None where the namespace has no GPUQuota.

        Raises:
            QuotaError: The GPUQuota that is stored cannot be read.
            ClusterError: It could not be read or written.
        """
        amending = PendingChange(self._clockwork.clock(), namespace, make)
        self._queue(namespace, amending)
        return await amending.answered

    async def close(self) -> None:
        """Finish what was begun."""
        while self._workers:
            await asyncio.wait(self._workers.values())

    async def _charged(self, namespace: str, charging: PendingCharge) -> ChargeVerdict | NoQuota:
        self._queue(namespace, charging)
        is_created = not charging.enforced
        try:
            answer = await charging.answered
            is_created = is_created or isinstance(answer, NoQuota) or answer.allowed
            return answer
        finally:
            # In this order: what is judged in another thread is left behind before it is judged no more.
            if (charging.is_judged or charging.left_behind) and not is_created:
                self._take_back(namespace, charging)

    def _take_back(self, namespace: str, charging: PendingCharge) -> None:
        released = PendingChange(self._clockwork.clock(), namespace, partial(_taken_back, charging))
        released.answered.add_done_callback(partial(_warn, namespace, charging))
        self._queue(namespace, released)

    def _queue(self, namespace: str, waiting: PendingCharge | PendingChange) -> None:
        self._waiting.setdefault(namespace, []).append(waiting)
        if namespace not in self._workers:
            self._workers[namespace] = asyncio.create_task(self._turns(namespace), name=f"ledger of {namespace}")

    async def _turns(self, namespace: str) -> None:
        """Write everything that waits, and what came meanwhile, until nothing does."""
        lost = 0
        try:
            while batch := self._batch(namespace):
                begun = self._clockwork.clock()
                turn = await self._turn(namespace, batch)
                lost = lost + 1 if turn is _Turn.LOST else 0
                if turn is not _Turn.READ:
                    took = self._clockwork.clock() - begun
                    await self._clockwork.sleep(self._backoff(lost) if lost else self._rest(namespace, took))
        finally:
            del self._waiting[namespace], self._workers[namespace]

    def _batch(self, namespace: str) -> list[PendingCharge | PendingChange]:
        """Those who wait still; what is counted or taken back makes room for what is charged."""
        waiting = self._waiting[namespace] = [each for each in self._waiting[namespace] if not each.answered.done()]
        return sorted(waiting, key=lambda each: isinstance(each, PendingCharge))

    async def _turn(self, namespace: str, batch: Sequence[PendingCharge | PendingChange]) -> _Turn:
        """One try for all of a batch; whatever goes wrong, everybody who waits is told."""
        try:
            return await self._try(namespace, batch)
        except Exception as error:  # noqa: BLE001 - it is raised where it is waited for
            self._documents.forget(namespace)
            for each in batch:
                each.answer(error)
            return _Turn.READ

    async def _try(self, namespace: str, batch: Sequence[PendingCharge | PendingChange]) -> _Turn:
        reading = self._reading(namespace, self._documents.remembered(namespace))
        if reading is None or (ledger := await self._ledger_after(namespace, reading, batch)) is reading.ledger:
            reading = self._reading(namespace, await self._documents.read(namespace))
            if reading is None:
                for each in batch:
                    each.answer_without_quota()
                return _Turn.READ
            ledger = await self._ledger_after(namespace, reading, batch)
        swap: Swap = True
        if ledger is not reading.ledger:
            swap = await self._documents.swap(namespace, reading, ledger)
        for each in batch:
            each.tried(swap, self._clockwork.clock())
        if ledger is reading.ledger:
            return _Turn.READ
        return _Turn.WRITTEN if swap else _Turn.LOST

    async def _ledger_after(
        self, namespace: str, reading: Reading, batch: Sequence[PendingCharge | PendingChange]
    ) -> Ledger:
        return await self._run(namespace, partial(_judged, reading, batch))

    def _reading(self, namespace: str, document: Object | None) -> Reading | None:
        if document is None:
            return None
        time = rfc3339(self._clockwork.now())
        return Reading(document, parse_quota(document), self._documents.ledger(namespace, document), time)

    def _backoff(self, lost: int) -> float:
        return min(_FIRST_PAUSE * 2.0 ** min(lost, 10), _LONGEST_PAUSE) * (0.5 + self._clockwork.random())

    def _rest(self, namespace: str, took: float) -> float:
        """Time for others to read and write: who writes again at once is always faster than who has to read first."""
        is_shared = self._documents.remembered(namespace) is None
        return min(took, _LONGEST_PAUSE) * (self._clockwork.random() + is_shared)


def _judged(reading: Reading, batch: Sequence[PendingCharge | PendingChange]) -> Ledger:
    """The ledger to write for all of a batch, one after the other; the same one where there is nothing to write."""
    ledger = reading.ledger
    for each in batch:
        ledger = each.judge(ledger, reading)
    return ledger


def _taken_back(charging: PendingCharge, ledger: Ledger, _quota: Quota, _document: Object) -> Ledger:
    return ledger.take_back(charging.left_behind, charging.call)


def _warn(namespace: str, charging: PendingCharge, released: asyncio.Future[Ledger | None]) -> None:
    if not released.cancelled() and (error := released.exception()) is not None and charging.left_behind:
        uid = charging.left_behind
        _logger.warning("the charge of %s in %s is not taken back and ends by itself: %s", uid, namespace, error)
