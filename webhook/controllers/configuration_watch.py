"""Watches our two webhook configurations, so that a replica checks them as soon as one changes.

`kubectl apply` of a webhook with a new name, or a GitOps tool, leaves it without a caBundle; until a replica writes it,
calls of this webhook fail.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from webhook.cluster.clockwork import Clockwork, Pace
from webhook.cluster.reflector import Reflector
from webhook.cluster.resources import RESOURCES
from webhook.cluster.store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webhook.cluster.reader import Reader

__all__ = ["ConfigurationWatch"]

_BATCH_SECONDS = 0.2
"""Changes within this time after a check are checked together."""


class ConfigurationWatch:
    """Pauses that end early when one of the named configurations changes.

    While they cannot be watched, pauses have their full length. RBAC must allow `list` and `watch` for these names.
    """

    def __init__(self, client: Reader, configurations: Sequence[tuple[str, str]], pace: Pace | None = None) -> None:
        """Sends no request before `run`.

        Args:
            client: Reads from the API server.
            configurations: Kind and name of each.
            pace: Pauses and time-outs of the watches.
        """
        self._changed = asyncio.Event()
        self._clockwork = pace.clockwork if pace else Clockwork()
        self._reflectors = [
            Reflector(
                client,
                RESOURCES[kind],
                Store(RESOURCES[kind], on_change=self._changed.set),
                query={"fieldSelector": f"metadata.name={name}"},
                pace=pace,
            )
            for kind, name in configurations
        ]

    @property
    def clockwork(self) -> Clockwork:
        """Time and randomness for a task that checks the configurations: `sleep` ends when one changes."""
        return replace(self._clockwork, sleep=self._sleep)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run())

    async def _sleep(self, seconds: float) -> None:
        await self._clockwork.sleep(min(seconds, _BATCH_SECONDS))
        changed = asyncio.ensure_future(self._changed.wait())
        passed = asyncio.ensure_future(self._clockwork.sleep(max(seconds - _BATCH_SECONDS, 0)))
        try:
            await asyncio.wait([changed, passed], return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
            passed.cancel()
        self._changed.clear()
