"""Clients that create pods and claims, delete old ones, and keep some."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

from tests.storm.harness.orders import BEGUN, LABEL, TAKEN
from webhook.cluster.answers import APIError, ClusterError, Unreachable
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from tests.storm.harness.orders import Document, Order, Orders
    from webhook.cluster.client import APIClient

__all__ = ["Client", "Tally"]

_MOST_HELD = 8
_LIFETIME = (2.0, 6.0)
"""Seconds that a pod or a claim is there."""
_TRIES = 6
_SECONDS = 40.0
"""For one request: longer than all webhooks together may take."""
_LONG_SECONDS = 2.0
_LONGEST_PAUSE = 0.5
_LOST = (429, 500, 502, 503, 504)
"""Answers after which clients come again."""
_FULL = "403: over quota"
_AT_ONCE = {"gracePeriodSeconds": 0}
"""No kubelet would confirm the end of a pod."""


class Tally:
    """What became of everything that was asked, and when it is enough."""

    def __init__(self, goal: int, is_bad_enough: Callable[[], bool]) -> None:
        """Args: how many pods with GPUs shall be stored; whether enough went wrong meanwhile."""
        self._goal = goal
        self._is_bad_enough = is_bad_enough
        self.stored = 0
        """Pods with GPUs."""
        self.outcomes: Counter[str] = Counter()
        self.by_tag: Counter[str] = Counter()
        self.examples: dict[str, str] = {}
        """The first message of each refusal."""
        self.waits: list[float] = []
        """Seconds of each request until its answer."""

    @property
    def enough(self) -> bool:
        """Whether as many were stored as shall be, and enough went wrong."""
        return self.stored >= self._goal and self._is_bad_enough()

    @property
    def waited(self) -> str:
        """How long requests took, to be read by people."""
        waits = sorted(self.waits)
        slow = sum(wait > _LONG_SECONDS for wait in waits)
        return (
            f"{waits[len(waits) // 2]:.2f} s p50, {waits[len(waits) * 99 // 100]:.2f} s p99, {waits[-1]:.1f} s at most, "
            f"{slow} of {len(waits)} above {_LONG_SECONDS:.0f} s"
        )

    def note(self, outcome: str, message: str = "") -> None:
        """One request was answered."""
        self.outcomes[outcome] += 1
        self.examples.setdefault(outcome, message)


class Client:
    """One of many."""

    def __init__(
        self, client: APIClient, orders: Orders, tally: Tally, random: Random, owners: Mapping[str, str]
    ) -> None:
        """Args: the connection; what to ask for; where to count; what chooses; by namespace, the uid of its pod TAKEN."""
        self._client = client
        self._orders = orders
        self._tally = tally
        self._random = random
        self._owners = owners
        self._held: deque[tuple[float, str, str, str]] = deque()
        """The end, and kind, namespace and name."""

    async def run(self) -> None:
        """Go on until there is enough."""
        while not self._tally.enough:
            while self._held and (len(self._held) > _MOST_HELD or self._held[0][0] <= time.monotonic()):
                end, *place = self._held.popleft()
                await asyncio.sleep(end - time.monotonic())
                await self._delete(*place)
            await self._place(self._orders.next())

    async def _place(self, order: Order) -> bool:
        """Ask for what an order has; whether it was stored, or at least would have been."""
        if order.claim is not None:
            for owner in order.claim["metadata"].get("ownerReferences", ()):
                owner["uid"] = self._owners[order.namespace]
            if not await self._create(order, order.claim):
                return False
        return await self._create(order, order.pod)

    async def _create(self, order: Order, document: Document) -> bool:
        for _ in range(_TRIES):
            try:
                stored = await self._post(order, document)
            except APIError as error:
                outcome = _outcome(error)
                self._tally.note(outcome, str(error))
                if error.code not in _LOST:
                    await self._pause(0.3 if outcome == _FULL else 0.0)
                    return False
                await self._pause(error.retry_after or 0.1)
            except Unreachable as error:
                self._tally.note("no answer", str(error))
                await self._pause(0.2)
                if await self._was_stored(order, document):
                    return True
            else:
                self._tally.note("would be stored" if order.dry_run else "stored")
                if not order.dry_run:
                    self._keep(order, stored)
                return True
        return False

    async def _post(self, order: Order, document: Document) -> Any:
        path = RESOURCES[document["kind"]].path(order.namespace)
        document["metadata"].setdefault("annotations", {})[BEGUN] = str(time.monotonic_ns())
        begun = time.monotonic()
        try:
            return await self._client.post(
                path, document, {"dryRun": "All"} if order.dry_run else None, timeout=_SECONDS
            )
        finally:
            self._tally.waits.append(time.monotonic() - begun)

    async def _was_stored(self, order: Order, document: Document) -> bool:
        """Whether something was stored of which nobody was told; such a thing is kept like any other."""
        if order.dry_run or document["metadata"].get("name") == TAKEN:
            return False
        query = {"labelSelector": f"{LABEL}={order.number}"}
        path = RESOURCES[document["kind"]].path(order.namespace)
        while True:
            try:
                found = (await self._client.get(path, query))["items"]
                break
            except ClusterError:
                await self._pause(0.2)
        for stored in found:
            self._tally.note("stored, untold")
            self._keep(order, {**stored, "kind": document["kind"]})
        return bool(found)

    def _keep(self, order: Order, stored: Document) -> None:
        end = time.monotonic() + self._random.uniform(*_LIFETIME)
        self._held.append((end, stored["kind"], order.namespace, stored["metadata"]["name"]))
        if stored["kind"] == "Pod":
            self._tally.stored += order.has_gpus
            for tag in order.tags:
                self._tally.by_tag[tag] += 1

    async def _delete(self, kind: str, namespace: str, name: str) -> None:
        while True:
            try:
                await self._client.delete(RESOURCES[kind].path(namespace, name), _AT_ONCE, timeout=_SECONDS)
                return
            except APIError as error:
                if error.is_not_found:
                    return
                await self._pause(error.retry_after or 0.1)
            except ClusterError:
                await self._pause(0.2)

    async def _pause(self, seconds: float) -> None:
        """As clients do who were told to come again, some sooner and some later."""
        await asyncio.sleep(min(seconds, _LONGEST_PAUSE) * (0.5 + self._random.random()))


def _outcome(error: APIError) -> str:
    """What an answer stands for in the report."""
    said = error.message
    if error.code == 429:
        return "429: come again"
    if error.code >= 500:
        return f"{error.code}: no webhook" if "webhook" in said else f"{error.code}"
    if error.code == 403 and "quota" in said:
        return _FULL
    return f"{error.code}: {'another webhook' if 'storm' in said else error.reason}"
