"""Clients that create pods without pause, and the pods that were stored wrongly."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter, deque
from functools import partial
from typing import TYPE_CHECKING

from testbed import manifests
from testbed.waiting import until
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from testbed.answers import Answer
    from testbed.api import API
    from tests.storm.harness.history import Event
    from tests.storm.harness.orders import Document

__all__ = ["SteadyLoad", "unreviewed"]

_POD = RESOURCES["Pod"]
_JSON = "application/json"
_MOST_HELD = 2
"""Pods of a client, while there is room for both."""
_GATES = [{"name": "example.com/wait"}]
"""The scheduler makes no claims for the pods, which the oracle would count beside them."""
_TRIES = 10
"""How often client-go sends a request that is answered with 429."""
_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
_OVER_QUOTA = "exceeded quota"


class SteadyLoad:
    """One client for each namespace, which holds two pods with a GPU."""

    def __init__(self, api: API, namespaces: Collection[str], full: Collection[str]) -> None:
        """Args: the connection; all namespaces; those whose quota has room for one pod only."""
        self._api = api
        self._namespaces = namespaces
        self._full = full
        self._stops = False
        self.stored: Counter[str] = Counter()
        """Pods, by namespace."""
        self.over_quota = 0
        """Pods that a full quota refused."""
        self.longest_full = 0.0
        """Seconds for which a quota refused pods although its client held none."""
        self.refusals: list[str] = []
        """All other refusals."""

    async def run(self) -> None:
        """Create and delete pods until `stop`."""
        await asyncio.gather(*map(self._run_client, self._namespaces))

    def stop(self) -> None:
        """Let each client end after its request."""
        self._stops = True

    def goes_on(self, count: int = 5) -> None:
        """Wait for more pods in each namespace."""
        before = self.stored.copy()
        until(partial(self._has_stored, before, count), f"{count} more pods are stored everywhere", 90)

    def _has_stored(self, before: Counter[str], count: int) -> bool:
        more = {name: self.stored[name] - before[name] for name in self._namespaces}
        few = {name: more[name] for name in more if more[name] < (1 if name in self._full else count)}
        assert not few, (
            f"only so many: {few}; refused by a full quota: {self.over_quota}; otherwise: {self.refusals[:3]}"
        )
        return True

    async def _run_client(self, namespace: str) -> None:
        try:
            await self._create_pods(namespace)
        except Exception as error:
            # `goes_on` would wait for the client without a reason.
            self.refusals.append(f"{namespace}: its client ended: {error!r}")
            raise

    async def _create_pods(self, namespace: str) -> None:
        held: deque[str] = deque()
        holds_none_since = time.monotonic()
        for number in itertools.count():
            if self._stops:
                return
            name = f"pod-{number}"
            answer = await self._create(manifests.pod(namespace, name, schedulingGates=_GATES))
            if not held:
                self.longest_full = max(self.longest_full, time.monotonic() - holds_none_since)
            if answer.accepted:
                self.stored[namespace] += 1
                held.append(name)
            elif namespace in self._full and _OVER_QUOTA in answer.message:
                self.over_quota += 1
            else:
                self.refusals.append(f"{namespace}: {answer.code} {answer.message}")
            if held and (not answer.accepted or len(held) > _MOST_HELD):
                await self._send("DELETE", _POD.path(namespace, held.popleft()), {"gracePeriodSeconds": 0})
                holds_none_since = time.monotonic()

    async def _create(self, pod: Document) -> Answer:
        for _ in range(_TRIES):
            answer = await self._send("POST", _POD.path(pod["metadata"]["namespace"]), pod)
            if answer.code != 429:
                break
            await asyncio.sleep(answer.body["details"].get("retryAfterSeconds", 1))
        return answer

    async def _send(self, method: str, path: str, body: Document) -> Answer:
        return await self._api.send(method, path, {}, body, _JSON)


def unreviewed(events: Iterable[Event], converting: Collection[str]) -> Iterator[str]:
    """The pods that were stored without conversion where their namespace converts, or without placement."""
    for event in events:
        if event.kind == "Pod":
            pod, metadata = event.object["spec"], event.object["metadata"]
            converts = metadata["namespace"] in converting
            if converts != ("resourceClaims" in pod):
                yield f"{metadata['namespace']}/{metadata['name']} is not converted"
            if _TOLERATION not in pod.get("tolerations", ()):
                yield f"{metadata['namespace']}/{metadata['name']} is not placed"
