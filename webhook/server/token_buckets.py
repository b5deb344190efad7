"""Token buckets: how often something may be done for each key."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TokenBuckets"]

_MOST_KEYS = 4096
"""Of more, the one that was longest without a token is forgotten, and starts anew."""


class TokenBuckets:
    """A bucket of tokens for each key."""

    def __init__(self, burst: int, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with full buckets.

        Args:
            burst: The tokens in a full bucket.
            per_minute: How fast they are refilled.
            clock: Returns monotonic seconds.
        """
        self._clock = clock
        self._seconds = 60 / per_minute
        """Between two tokens."""
        self._full_again = burst * self._seconds
        self._full_at: OrderedDict[str, float] = OrderedDict()
        """When the bucket of a key is full again, those that took a token last at the end; full ones are left out."""

    def take(self, key: str) -> bool:
        """Take a token of a key; False if none is left."""
        if self.seconds_until_next(key):
            return False
        self._set(key, self._seconds_until_full(key) + self._seconds)
        self._forget_full()
        return True

    def give_back(self, key: str) -> None:
        """Give a token back that was not needed."""
        self._set(key, self._seconds_until_full(key) - self._seconds)

    def seconds_until_next(self, key: str) -> int:
        """Whole seconds until there is a token; 0 if there is one."""
        return max(0, math.ceil(self._seconds_until_full(key) + self._seconds - self._full_again))

    def __len__(self) -> int:
        return len(self._full_at)

    def _seconds_until_full(self, key: str) -> float:
        """Seconds until the bucket is full."""
        return max(0.0, self._full_at.get(key, 0.0) - self._clock())

    def _set(self, key: str, missing: float) -> None:
        self._full_at[key] = self._clock() + missing
        self._full_at.move_to_end(key)

    def _forget_full(self) -> None:
        """Forget the buckets at the front that are full again, and those beyond the bound."""
        now = self._clock()
        while self._full_at:
            key, full_at = next(iter(self._full_at.items()))
            if full_at > now and len(self._full_at) <= _MOST_KEYS:
                return
            del self._full_at[key]
