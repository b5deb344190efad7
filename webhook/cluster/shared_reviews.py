"""Reviews about callers, sent to the API server as seldom as possible.

Whoever reaches our port can make us ask about made-up tokens. Our account's requests pass the API server's queues with
priority, since pods wait for some of them, so nobody must be able to fill those queues through us.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from webhook.cluster.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from webhook.cluster.clockwork import Clockwork

__all__ = ["KEPT_SECONDS", "MOST_SENT", "MOST_UNDER_WAY", "PER_SECOND", "SharedReviews", "TooManyReviews"]

Answer = TypeVar("Answer")

KEPT_SECONDS = 10.0
"""For how long an answer holds; what delegated authentication and authorization have by default: apiserver,
pkg/server/options."""
MOST_SENT = 4
"""Reviews that the API server works on at a time."""
MOST_UNDER_WAY = 64
"""Reviews that are sent or wait for it."""
PER_SECOND = 16
"""Reviews that are sent in a second, in the long run; as many may go at once after a rest."""


class TooManyReviews(ClusterError):  # noqa: N818 - it says what is, as its neighbours do
    """So many reviews wait already that one more would not be answered in time."""

    def __init__(self) -> None:
        super().__init__("Too many callers are being asked about at the API server; ask again in a moment.")


class _Review(Generic[Answer]):
    """One that is under way."""

    def __init__(self, carry_out: Callable[[_Review[Answer]], Coroutine[Any, Any, Answer]]) -> None:
        self.awaited = 0
        """How many callers wait for it."""
        self.is_sent = False
        self.task = asyncio.create_task(carry_out(self))


class _RateLimit:
    """When the next review may be sent: at once after a rest, and `PER_SECOND` in the long run."""

    def __init__(self) -> None:
        self._used_until = float("-inf")

    def wait(self, now: float) -> float:
        """Seconds until one may be sent."""
        return max(0.0, self._used_until - (PER_SECOND - 1) / PER_SECOND - now)

    def use(self, now: float) -> None:
        """One is sent."""
        self._used_until = max(self._used_until, now) + 1 / PER_SECOND


class SharedReviews(Generic[Answer]):
    """Answers of one kind of review: shared by those who ask the same at a time, and kept for a moment.

    What was asked is kept as a hash, with a key that this process has made up, so no memory of it holds a token. As
    reviews have a rate and answers a short life, there are never more of them than a few hundred.
    """

    def __init__(self, clockwork: Clockwork) -> None:
        """Nothing is known yet."""
        self._clockwork = clockwork
        self._secret = secrets.token_bytes(32)
        self._answers: dict[bytes, tuple[float, Answer]] = {}
        """Until when each holds, about in that order."""
        self._under_way: dict[bytes, _Review[Answer]] = {}
        self._turns = asyncio.Semaphore(MOST_SENT)
        self._limit = _RateLimit()

    async def answer(self, asked: bytes, send: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        """The answer to a question, asked of the API server unless it is known; cancelled as soon as the caller wishes.

        Args:
            asked: The question; equal ones have equal answers.
            send: Asks the API server. What it raises is raised here, to everybody who waits, and not kept.

        Raises:
            TooManyReviews: Too many wait already.
        """
        key = hmac.digest(self._secret, asked, "sha256")
        until, answer = self._answers.get(key, (float("-inf"), None))
        if self._clockwork.clock() < until:
            return cast("Answer", answer)
        review = self._under_way.get(key) or self._begin(key, send)
        review.awaited += 1
        try:
            return await asyncio.shield(review.task)
        finally:
            review.awaited -= 1
            # One that is sent costs the API server the same whether we listen or not, so it keeps its turn to the end.
            if not review.awaited and not review.is_sent:
                self._forget(key, review)
                review.task.cancel()

    def _begin(self, key: bytes, send: Callable[[], Coroutine[Any, Any, Answer]]) -> _Review[Answer]:
        if len(self._under_way) >= MOST_UNDER_WAY:
            raise TooManyReviews
        review = self._under_way[key] = _Review(lambda review: self._carry_out(review, key, send))
        review.task.add_done_callback(lambda task: self._ended(key, review, task))
        return review

    async def _carry_out(
        self, review: _Review[Answer], key: bytes, send: Callable[[], Coroutine[Any, Any, Answer]]
    ) -> Answer:
        clock = self._clockwork.clock
        async with self._turns:
            if wait := self._limit.wait(clock()):
                await self._clockwork.sleep(wait)
            review.is_sent = True
            sent = clock()
            self._limit.use(sent)
            answer = await send()
        self._keep(key, sent, answer)
        return answer

    def _keep(self, key: bytes, sent: float, answer: Answer) -> None:
        now = self._clockwork.clock()
        # Oldest first, so the first one that still holds ends the search.
        while self._answers and next(iter(self._answers.values()))[0] <= now:
            del self._answers[next(iter(self._answers))]
        self._answers.pop(key, None)
        self._answers[key] = (sent + KEPT_SECONDS, answer)

    def _ended(self, key: bytes, review: _Review[Answer], task: asyncio.Task[Answer]) -> None:
        self._forget(key, review)
        # Everybody who waited may have gone; then nobody else asks for the error, and asyncio would complain.
        if not task.cancelled():
            task.exception()

    def _forget(self, key: bytes, review: _Review[Answer]) -> None:
        """It is under way no longer; another one of the same question may be."""
        if self._under_way.get(key) is review:
            del self._under_way[key]
