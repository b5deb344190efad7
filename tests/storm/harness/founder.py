"""Creates quotas in namespaces in which pods are created already, and deletes them, again and again."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from testbed.waiting import until_right
from tests.storm.harness import oracle
from webhook.cluster.answers import APIError, ClusterError
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from testbed.relay import Relay
    from webhook.cluster.client import APIClient

__all__ = ["HARD", "Founder"]

HARD = (6, 7, 3)
"""GPUs, devices and slices of each quota: fewer than the clients of a namespace hold without it."""
_QUOTA = RESOURCES["GPUQuota"]
_WITHOUT = (3.0, 8.0)
"""Seconds without a quota."""
_WITH = (3.0, 8.0)
"""Seconds with a quota that is enforced."""
_DELAY = 5.0
"""The longest delay of a replica, in seconds."""
_LOOK_SECONDS = 0.2
_LONGEST_SECONDS = 600.0
"""Until a new quota is enforced. After each kill the leader waits 30 s for the Lease of the dead replica."""


class Founder:
    """Makes every namespace have a quota now and then, and in the end."""

    def __init__(self, client: APIClient, relays: Sequence[Relay], namespaces: Sequence[str], random: Random) -> None:
        """Prepare.

        Args:
            client: The administrator's.
            relays: Between each replica and its API server.
            namespaces: Those without a quota.
            random: Chooses.
        """
        self._client = client
        self._relays = relays
        self._namespaces = namespaces
        self._random = random
        self.enforced = 0
        """How often a new quota was said to be enforced."""

    async def run(self, until: asyncio.Event) -> None:
        """Go on until an event, and until every namespace has a quota that is enforced."""
        await asyncio.gather(until.wait(), *(self._found(namespace, until) for namespace in self._namespaces))

    async def _found(self, namespace: str, until: asyncio.Event) -> None:
        while True:
            await self._pause(_WITHOUT, until)
            async with asyncio.TaskGroup() as group:
                if self._random.random() < 1 / 2:
                    group.create_task(self._random.choice(self._relays).hold(1, _DELAY * self._random.random()))
                await self._create(namespace)
                await until_right(partial(self._why_not_enforced, namespace), _LONGEST_SECONDS)
            self.enforced += 1
            if until.is_set():
                return
            await self._pause(_WITH, until)
            if until.is_set():
                return
            await self._delete(namespace)

    async def _pause(self, seconds: tuple[float, float], until: asyncio.Event) -> None:
        try:
            await asyncio.wait_for(until.wait(), self._random.uniform(*seconds))
        except TimeoutError:
            return

    async def _create(self, namespace: str) -> None:
        while True:
            try:
                await self._client.post(_QUOTA.path(namespace), oracle.quota(namespace, *HARD))
            except APIError as error:
                if error.is_conflict:
                    return
                await asyncio.sleep(_LOOK_SECONDS)
            except ClusterError:
                await asyncio.sleep(_LOOK_SECONDS)
            else:
                return

    async def _why_not_enforced(self, namespace: str) -> str:
        try:
            quota = await self._client.get(_QUOTA.path(namespace, "gpu"))
        except ClusterError as error:
            return str(error)
        said = oracle.condition(quota, "Enforced")
        return "" if said.get("status") == "True" else f"the quota of {namespace} is not enforced: {said}"

    async def _delete(self, namespace: str) -> None:
        while True:
            try:
                await self._client.delete(_QUOTA.path(namespace, "gpu"))
            except APIError as error:
                if error.is_not_found:
                    return
                await asyncio.sleep(_LOOK_SECONDS)
            except ClusterError:
                await asyncio.sleep(_LOOK_SECONDS)
