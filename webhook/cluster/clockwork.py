"""Time, chance and pauses for everything that waits."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["Clockwork", "Pace", "rfc3339"]


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


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds, and what measures them. Nothing waits equally long twice, so that replicas do not go in step."""

    first_pause: float = 1.0
    """After a failure; doubles with each that follows."""
    longest_pause: float = 30.0
    missing_pause: float = 60.0
    """Before asking again for a resource that is not served, or that RBAC keeps from us."""
    patience: float = 60.0
    """For how long something that fails to be listed keeps everything else waiting, after the start."""
    longest_retry_after: float = 120.0
    """What a server may ask for at most."""
    shortest_watch: float = 240.0
    longest_watch: float = 360.0
    silence: float = 15.0
    """For how much longer than the watch was to last nothing may come, until the connection counts as lost."""
    brief: float = 1.0
    """A watch that is ended sooner counts as failed: a server that ends each at once would be asked without a pause."""
    steady: float = 10.0
    """After a watch that lasted as long, a failure counts as the first."""
    clockwork: Clockwork = field(default_factory=Clockwork)

    def pause(self, failures: int, retry_after: float | None = None) -> float:
        """How long to wait after so many failures in a row: half of it for certain, half by chance.

        Args:
            failures: How many; 1 for the first.
            retry_after: What the server asked for; it is waited for in full.
        """
        longest = min(self.longest_pause, self.first_pause * 2.0 ** min(failures - 1, 30))
        asked = min(retry_after or 0.0, self.longest_retry_after)
        return asked + longest * (0.5 + 0.5 * self.clockwork.random())

    def missing(self) -> float:
        """How long to wait before asking again for what cannot be had."""
        return self.missing_pause * (0.75 + 0.5 * self.clockwork.random())

    def watch(self) -> int:
        """How long the next watch is to last."""
        return round(self.shortest_watch + (self.longest_watch - self.shortest_watch) * self.clockwork.random())
