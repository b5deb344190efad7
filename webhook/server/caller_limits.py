"""Limits of callers: open calls of a user or of several users, and the rate of each user."""

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
    """The most open calls of some users."""

    users: Hashable
    """The users whose calls are counted together."""
    most: int
    refusal: str
    """One sentence for a caller beyond the limit."""


class CallerLimits:
    """Counts open calls, and limits the rate of each user."""

    def __init__(self, burst: int, per_minute: int, too_often: str, retry_after: int) -> None:
        """Count no call yet.

        Args:
            burst: Calls that a user may make at once.
            per_minute: Calls that a user may make in a minute after that.
            too_often: One sentence for a user who calls more often.
            retry_after: Seconds until a retry for a caller beyond another limit.
        """
        self._rates = TokenBuckets(burst, per_minute)
        self._too_often = too_often
        self._retry = {hdrs.RETRY_AFTER: str(retry_after)}
        self._open: Counter[Hashable] = Counter()

    def count(self, users: Hashable) -> int:
        """The number of open calls of some users."""
        return self._open[users]

    @contextmanager
    def hold_place(self, user: str, limits: Sequence[CallerLimit]) -> Iterator[None]:
        """Count a call of a user until it ends.

        Raises:
            web.HTTPTooManyRequests: A limit is reached; the text is one sentence.
        """
        for limit in limits:
            if self._open[limit.users] >= limit.most:
                raise web.HTTPTooManyRequests(text=limit.refusal, headers=self._retry)
        if not self._rates.take(user):
            seconds = str(self._rates.seconds_until_next(user))
            raise web.HTTPTooManyRequests(text=self._too_often, headers={hdrs.RETRY_AFTER: seconds})
        self._open.update(limit.users for limit in limits)
        try:
            yield
        finally:
            for limit in limits:
                self._open[limit.users] -= 1
                # Users without calls are not kept.
                if not self._open[limit.users]:
                    del self._open[limit.users]
