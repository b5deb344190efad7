"""Limits of callers: open calls of one user or of several users together, and the rate of each user."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from aiohttp import hdrs, web

from webhook.server.token_buckets import TokenBuckets

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

__all__ = ["CallerLimit", "CallerLimits"]


class CallerLimit(NamedTuple):
    """A limit on the open calls that are counted under one key."""

    key: Hashable
    """What the callers have in common, such as their user name or their namespace."""
    most: int
    refusal: str
    """One sentence for a caller beyond the limit."""


class CallerLimits:
    """Refuses calls beyond limits on open calls, and beyond the rate of a user."""

    def __init__(self, burst: int, per_minute: int, too_often: str, retry_after: int) -> None:
        """Count no call yet.

        Args:
            burst: Calls that a user may make at once.
            per_minute: Calls that a user may make in a minute after that.
            too_often: One sentence for a user who calls more often.
            retry_after: Seconds after which a caller beyond a limit on open calls may try again.
        """
        self._rates = TokenBuckets(burst, per_minute)
        self._too_often = too_often
        self._retry = {hdrs.RETRY_AFTER: str(retry_after)}
        self._open: Counter[Hashable] = Counter()

    def count(self, key: Hashable) -> int:
        """The number of open calls that are counted under a key."""
        return self._open[key]

    @contextmanager
    def hold_place(self, user: str, limits: Sequence[CallerLimit]) -> Iterator[None]:
        """Count a call of a user under the keys of its limits until it ends.

        Raises:
            web.HTTPTooManyRequests: A limit is reached; the text is one sentence.
        """
        for limit in limits:
            if self._open[limit.key] >= limit.most:
                raise web.HTTPTooManyRequests(text=limit.refusal, headers=self._retry)
        if not self._rates.take(user):
            seconds = str(self._rates.seconds_until_next(user))
            raise web.HTTPTooManyRequests(text=self._too_often, headers={hdrs.RETRY_AFTER: seconds})
        self._open.update(limit.key for limit in limits)
        try:
            yield
        finally:
            for limit in limits:
                self._open[limit.key] -= 1
                # Keys without open calls are dropped, so that memory does not grow with every user.
                if not self._open[limit.key]:
                    del self._open[limit.key]
