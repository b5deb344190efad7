"""The writer: one compare-and-swap for all charges of a namespace that come while the one before is being written.

The ledger of a namespace is the status of its GPUQuota. What was written last is remembered and tried first: where this
replica is the only one that is asked about a namespace, a charge costs one request. Another replica's write shows as a
conflict, and the ledger is read anew. An answer that got lost does no harm: the charge is found by its uid.

Whoever stops waiting has not been told that the object may be created, so what was written for it is taken back. Where
even that fails, the charge stays until the reconciler finds that its object does not exist: it counts too much for a
while, and never too little.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from policies.quota.admit import admit
from policies.quota.ledger import Ledger
from policies.quota.quota import NAME, QuotaError, parse_quota
from webhook.cluster.clockwork import Clockwork
from webhook.cluster.errors import APIError, ClusterError, Unreachable
from webhook.cluster.resources import RESOURCES
from webhook.ledger.waiting import Contended, NoQuota, Waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from policies.kubernetes.objects import Object
    from policies.quota.admit import Admission
    from policies.quota.charges import Charge
    from policies.quota.quota import Quota
    from webhook.cluster.client import APIClient

__all__ = ["LedgerWriter"]

_RESOURCE = RESOURCES["GPUQuota"]
_MOST_TRIES = 8
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.3
_CALL_SECONDS = 5.0
_MOST_REMEMBERED = 1024

_logger = logging.getLogger("gpu_admission.ledger")


class LedgerWriter:
    """Charges objects that are being created. Every method is for one event loop."""

    def __init__(self, client: APIClient, *, clockwork: Clockwork = Clockwork()) -> None:  # noqa: B008 - it is immutable
        self._client = client
        self._clockwork = clockwork
        self._waiting: dict[str, list[Waiting]] = {}
        self._released: dict[str, set[str]] = {}
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._remembered: OrderedDict[str, Object] = OrderedDict()

    async def charge(
        self, namespace: str, charge: Callable[[Quota], Charge], *, enforced: bool, dry_run: bool = False
    ) -> Admission | NoQuota:
        """Write a charge, and say whether its object may be created; on a dry run, only say it.

        Cancelling this, by a time limit for example, takes back what was written.

        Args:
            namespace: Of the object.
            charge: Makes the charge by the limits that hold when it is written.
            enforced: Whether the quota of the namespace fails closed.
            dry_run: Whether nothing may be written.

        Raises:
            Contended: Others kept writing first.
            QuotaError: The GPUQuota that is stored cannot be read.
            ClusterError: It could not be read or written.
        """
        waiting = Waiting(charge, enforced, dry_run)
        self._waiting.setdefault(namespace, []).append(waiting)
        self._work(namespace)
        try:
            return await waiting.answered
        except asyncio.CancelledError:
            if waiting.written is not None:
                self._released.setdefault(namespace, set()).add(waiting.written.uid)
                self._work(namespace)
            raise

    async def close(self) -> None:
        """Finish what was begun."""
        while self._workers:
            await asyncio.wait(self._workers.values())

    def _work(self, namespace: str) -> None:
        if namespace not in self._workers:
            worker = asyncio.create_task(self._turns(namespace), name=f"ledger of {namespace}")
            self._workers[namespace] = worker
            worker.add_done_callback(lambda _: self._next(namespace))

    def _next(self, namespace: str) -> None:
        del self._workers[namespace]
        if self._waiting.get(namespace) or self._released.get(namespace):
            self._work(namespace)

    async def _turns(self, namespace: str) -> None:
        """Write everything that waits, and what came meanwhile, until nothing does."""
        while batch := [each for each in self._waiting.pop(namespace, ()) if not each.answered.done()]:
            try:
                await self._write(namespace, batch)
            except Exception as error:  # noqa: BLE001 - whatever it was, everybody who waits is told
                self._remembered.pop(namespace, None)
                for each in batch:
                    if not each.answered.done():
                        each.answered.set_exception(error)
        if self._released.get(namespace):
            await self._take_back(namespace)

    async def _write(self, namespace: str, batch: Sequence[Waiting]) -> None:
        is_fresh = False
        for attempt in range(_MOST_TRIES):
            document = await self._read(namespace, fresh=is_fresh)
            if document is None:
                for each in batch:
                    _answer(each, NoQuota())
                return
            remembered, is_fresh = document is self._remembered.get(namespace), True
            answers, ledger, quota = self._judged(document, batch)
            if remembered and not all(answer.allowed for _, answer in answers):
                # What was remembered may be fuller than what is: only a fresh one refuses anybody.
                continue
            if ledger is None or await self._swap(namespace, document, ledger, quota):
                for each, answer in answers:
                    _answer(each, answer)
                return
            await self._clockwork.sleep(self._pause(attempt))
        raise Contended

    def _judged(
        self, document: Object, batch: Sequence[Waiting]
    ) -> tuple[list[tuple[Waiting, Admission]], Ledger | None, Quota]:
        """What is answered to each, one after the other, and the ledger to write; None where it stays as it is."""
        quota = parse_quota(document)
        before = ledger = Ledger.read(document)
        time = self._clockwork.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        answers = []
        for each in batch:
            if each.answered.done():
                continue
            try:
                charge = each.charge(quota)
            except Exception as error:  # noqa: BLE001 - it is for its caller, and no reason to refuse the others
                each.answered.set_exception(error)
                continue
            answer = admit(ledger, quota, charge, enforced=each.enforced, time=time)
            if not each.dry_run:
                if answer.ledger is not ledger:
                    each.written = charge
                ledger = answer.ledger
            answers.append((each, answer))
        return answers, None if ledger is before else ledger, quota

    async def _take_back(self, namespace: str) -> None:
        for attempt in range(_MOST_TRIES):
            released = self._released.pop(namespace, set())
            try:
                document = await self._read(namespace, fresh=attempt > 0)
                if document is None:
                    return
                quota, ledger = parse_quota(document), Ledger.read(document)
                for uid in released:
                    ledger = ledger.release(uid)
                if await self._swap(namespace, document, ledger, quota):
                    return
            except (ClusterError, QuotaError) as error:
                _logger.warning("charges in %s are not taken back and end by themselves: %s", namespace, error)
                return
            self._released.setdefault(namespace, set()).update(released)
            await self._clockwork.sleep(self._pause(attempt))
        self._released.pop(namespace, None)

    async def _read(self, namespace: str, *, fresh: bool) -> Object | None:
        """The GPUQuota, as it was written last by us or as it is stored; None where there is none."""
        if not fresh and namespace in self._remembered:
            return self._remembered[namespace]
        try:
            found: Object = await self._client.get(_RESOURCE.path(namespace, NAME), timeout=_CALL_SECONDS)
        except APIError as error:
            if error.not_found:
                return None
            raise
        return found

    async def _swap(self, namespace: str, document: Object, ledger: Ledger, quota: Quota) -> bool:
        """Write a ledger over the version that it rests on; False where that is no longer there, or nobody knows."""
        metadata: dict[str, Any] = document["metadata"]
        body = {**document, "status": ledger.status(quota, metadata.get("generation", 0))}
        try:
            path = _RESOURCE.path(namespace, NAME, "status")
            written: Object = await self._client.put(path, body, timeout=_CALL_SECONDS)
        except APIError as error:
            self._remembered.pop(namespace, None)
            # Gone, or made anew since it was read: the next read tells.
            if error.conflict or error.not_found:
                return False
            raise
        except Unreachable as error:
            # Written or not: the next read tells, and a charge that is there is not made again.
            _logger.warning("no answer to a write of the ledger of %s: %s", namespace, error)
            self._remembered.pop(namespace, None)
            return False
        self._remembered[namespace] = written
        self._remembered.move_to_end(namespace)
        if len(self._remembered) > _MOST_REMEMBERED:
            self._remembered.popitem(last=False)
        return True

    def _pause(self, attempt: int) -> float:
        longest = min(_FIRST_PAUSE * 2.0**attempt, _LONGEST_PAUSE)
        return longest * (0.5 + self._clockwork.random())


def _answer(waiting: Waiting, answer: Admission | NoQuota) -> None:
    if not waiting.answered.done():
        waiting.answered.set_result(answer)
