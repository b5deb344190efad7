"""Clockwork: where everything that waits gets time and chance from."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["Clockwork", "rfc3339"]


def _utc() -> datetime:
    return datetime.now(UTC)


def rfc3339(moment: datetime) -> str:
    """A moment in UTC as Kubernetes writes it into objects, to the second."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class Clockwork:
    """Time and chance; tests bring their own."""

    clock: Callable[[], float] = time.monotonic
    """Seconds that never go back, for everything that is decided by how long something took."""
    now: Callable[[], datetime] = _utc
    """The time of day in UTC, for what is written down for others."""
    sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep
    random: Callable[[], float] = random.random
    """At least 0 and below 1."""

    def jittered(self, seconds: float) -> float:
        """Up to a fifth more than `seconds`, so that replicas that started together do not go on together."""
        return seconds * (1 + self.random() / 5)
