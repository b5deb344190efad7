"""Reviews of callers, with a cache and a rate limit.

Every client that reaches our port can send invented tokens, and each costs a TokenReview. Our account's requests have
priority in the API server's queues, because pods wait for some of them, so clients must not fill those queues through us.
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

__all__ = ["KEPT_SECONDS", "MOST_PENDING", "MOST_SENT", "SharedReviews", "TooManyReviews"]

Answer = TypeVar("Answer")

KEPT_SECONDS = 10.0
"""For how long an answer is cached; the default of delegated authentication and authorization in Kubernetes: apiserver,
pkg/server/options."""
MOST_SENT = 4
"""Reviews that are sent to the API server at a time."""
MOST_PENDING = 64
"""Reviews that are sent or wait to be sent."""
PER_SECOND = 16
"""Reviews sent per second on average; also the size of a burst."""


class TooManyReviews(ClusterError):  # noqa: N818 - the name is a statement
    """Too many reviews are pending; another one would not be answered in time."""

    def __init__(self) -> None:
        super().__init__("Too many token and access reviews are pending; try again in a moment.")


class _Review(Generic[Answer]):
    """A pending review."""

    def __init__(self, carry_out: Callable[[_Review[Answer]], Coroutine[Any, Any, Answer]]) -> None:
        self.awaited = 0
        """The number of callers that wait for it."""
        self.is_sent = False
        self.task = asyncio.create_task(carry_out(self))


class _RateLimit:
    """Allows `PER_SECOND` reviews per second, with bursts of as many."""

    def __init__(self) -> None:
        self._used_until = float("-inf")

    def wait(self, now: float) -> float:
        """Seconds until the next review may be sent."""
        return max(0.0, self._used_until - (PER_SECOND - 1) / PER_SECOND - now)

    def use(self, now: float) -> None:
        """Count a review that is sent now."""
        self._used_until = max(self._used_until, now) + 1 / PER_SECOND


class SharedReviews(Generic[Answer]):
    """Answers to one kind of review, cached, and shared by callers with the same question.

    Questions are kept as hashes with a random key, so that no memory holds a token. Because of the rate limit and the
    short lifetime, there are never more than a few hundred answers.
    """

    def __init__(self, clockwork: Clockwork) -> None:
        self._clockwork = clockwork
        self._secret = secrets.token_bytes(32)
        self._answers: dict[bytes, tuple[float, Answer]] = {}
        """Expiry and answer, about in the order of expiry."""
        self._pending: dict[bytes, _Review[Answer]] = {}
        self._turns = asyncio.Semaphore(MOST_SENT)
        self._limit = _RateLimit()

    async def answer(self, question: bytes, send: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        """The answer to a question, from the cache or the API server; callers may cancel at any time.

        Args:
            question: Equal questions have equal answers.
            send: Sends the review. Its errors are raised to every waiting caller, and not cached.

        Raises:
            TooManyReviews: Too many reviews are pending.
        """
        key = hmac.digest(self._secret, question, "sha256")
        until, answer = self._answers.get(key, (float("-inf"), None))
        if self._clockwork.clock() < until:
            return cast("Answer", answer)
        review = self._pending.get(key) or self._begin(key, send)
        review.awaited += 1
        try:
            return await asyncio.shield(review.task)
        finally:
            review.awaited -= 1
            # A review that is sent costs the API server the same without us, so it keeps its place until it is answered.
            if not review.awaited and not review.is_sent:
                self._forget(key, review)
                review.task.cancel()

    def _begin(self, key: bytes, send: Callable[[], Coroutine[Any, Any, Answer]]) -> _Review[Answer]:
        if len(self._pending) >= MOST_PENDING:
            raise TooManyReviews
        review = self._pending[key] = _Review(lambda review: self._carry_out(review, key, send))
        review.task.add_done_callback(lambda task: self._handle_end(key, review, task))
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
        # The oldest come first, so the first valid answer ends the search.
        while self._answers and next(iter(self._answers.values()))[0] <= now:
            del self._answers[next(iter(self._answers))]
        self._answers.pop(key, None)
        self._answers[key] = (sent + KEPT_SECONDS, answer)

    def _handle_end(self, key: bytes, review: _Review[Answer], task: asyncio.Task[Answer]) -> None:
        self._forget(key, review)
        # If all callers have gone, asyncio would log that the exception was never retrieved.
        if not task.cancelled():
            task.exception()

    def _forget(self, key: bytes, review: _Review[Answer]) -> None:
        """Remove a review from the pending ones, unless another review of the same question replaced it."""
        if self._pending.get(key) is review:
            del self._pending[key]
