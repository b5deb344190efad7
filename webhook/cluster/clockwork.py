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


def _seconds_since_boot() -> float:
    """Monotonic seconds, which on Linux go on while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def rfc3339(moment: datetime) -> str:
    """A moment in UTC as Kubernetes writes it into objects, in seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time(moment: datetime) -> str:
    """A moment as a MicroTime in UTC.

    Source: k8s.io/apimachinery pkg/apis/meta/v1/micro_time.go.
    """
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


@dataclass(frozen=True, slots=True)
class Clockwork:
    """Time and randomness; tests replace both."""

    clock: Callable[[], float] = _seconds_since_boot
    """Monotonic seconds, for durations."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    """The time of day in UTC, for timestamps."""
    sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep
    random: Callable[[], float] = random.random
    """At least 0 and below 1."""

    def with_jitter(self, seconds: float) -> float:
        """Adds up to a fifth to `seconds`, so that replicas do not act at the same moment."""
        return seconds * (1 + self.random() / 5)


@dataclass(frozen=True, slots=True)
class Pace:
    """Pauses and time-outs of a reflector in seconds, random so that replicas do not act together."""

    first_pause: float = 1.0
    """After the first failure; doubles with each further one."""
    longest_pause: float = 30.0
    missing_pause: float = 60.0
    """Before the next request for a resource that is not served or forbidden."""
    patience: float = 60.0
    """After the start, readiness waits this long for a kind that cannot be listed."""
    longest_retry_after: float = 120.0
    """The longest Retry-After that is followed."""
    shortest_watch: float = 240.0
    longest_watch: float = 360.0
    silence: float = 75.0
    """After this time without a byte, a watch is opened again. API servers send a bookmark every minute if nothing changes
    (k8s.io/apiserver pkg/storage/cacher/cacher.go, defaultBookmarkFrequency)."""
    brief: float = 1.0
    """A watch that ends sooner counts as failed; otherwise a server that ends each at once would be called in a loop."""
    steady: float = 10.0
    """After a watch of this length, the next failure counts as the first."""
    clockwork: Clockwork = field(default_factory=Clockwork)

    def pause(self, failures: int, retry_after: float | None = None) -> float:
        """Seconds to wait after this many failures in a row, in addition to the server's `retry_after`."""
        longest = min(self.longest_pause, self.first_pause * 2.0 ** min(failures - 1, 30))
        required = min(retry_after or 0.0, self.longest_retry_after)
        return required + longest * (0.5 + 0.5 * self.clockwork.random())

    def pause_if_missing(self) -> float:
        """Seconds to wait before the next request for a resource that is not served or forbidden."""
        return self.missing_pause * (0.75 + 0.5 * self.clockwork.random())

    def watch_seconds(self) -> int:
        """Seconds that the next watch lasts."""
        return round(self.shortest_watch + (self.longest_watch - self.shortest_watch) * self.clockwork.random())
