"""TokenReview and SubjectAccessReview: who a caller is, and what the caller may do."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import orjson

from policies.kubernetes.names import printable
from policies.kubernetes.objects import lookup
from webhook.cluster.answers import BadAnswer, ClusterError, Unreachable
from webhook.cluster.clockwork import Clockwork
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from webhook.cluster.client import APIClient


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
        self._used_until = float("-inf")
        """Until when the rate of reviews is used, with a burst of `PER_SECOND`."""

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
            if (wait := self._used_until - (PER_SECOND - 1) / PER_SECOND - clock()) > 0:
                await self._clockwork.sleep(wait)
            review.is_sent = True
            sent = clock()
            self._used_until = max(self._used_until, sent) + 1 / PER_SECOND
            answer = await send()
        now = clock()
        # The oldest come first, so the first valid answer ends the search.
        while self._answers and next(iter(self._answers.values()))[0] <= now:
            del self._answers[next(iter(self._answers))]
        self._answers.pop(key, None)
        self._answers[key] = (sent + KEPT_SECONDS, answer)
        return answer

    def _handle_end(self, key: bytes, review: _Review[Answer], task: asyncio.Task[Answer]) -> None:
        self._forget(key, review)
        # If all callers have gone, asyncio would log that the exception was never retrieved.
        if not task.cancelled():
            task.exception()

    def _forget(self, key: bytes, review: _Review[Answer]) -> None:
        """Remove a review from the pending ones, unless another review of the same question replaced it."""
        if self._pending.get(key) is review:
            del self._pending[key]


_LONGEST_REASON = 300
"""Characters of a reason, which may come from any authenticator or authorizer."""

_logger = logging.getLogger("gpu_admission.cluster")


class SubjectAccess:
    """Delegated authorization: the API server says what users may do. Answers are cached for ten seconds."""

    def __init__(self, client: APIClient, *, clockwork: Clockwork = Clockwork()) -> None:  # noqa: B008 - it is immutable
        self._client = client
        self._reviews: SharedReviews[bool] = SharedReviews(clockwork)

    async def allows(self, user: AuthenticatedUser, attributes: Mapping[str, Mapping[str, str]]) -> bool:
        """True if RBAC or another authorizer allows a user something.

        Args:
            user: The user.
            attributes: `nonResourceAttributes` or `resourceAttributes` of a SubjectAccessReview.

        Raises:
            ClusterError: The API server gave no valid answer.
        """
        spec = {
            "user": user.name,
            "groups": list(user.groups),
            "uid": user.uid,
            "extra": {key: list(values) for key, values in user.extra.items()},
            **attributes,
        }
        return await self._reviews.answer(orjson.dumps(spec, option=orjson.OPT_SORT_KEYS), lambda: self._review(spec))

    async def _review(self, spec: dict[str, Any]) -> bool:
        status = await _review_status(self._client, "SubjectAccessReview", spec)
        allowed = status.get("allowed")
        if not isinstance(allowed, bool):
            raise BadAnswer("the status of a SubjectAccessReview has no field allowed")
        if error := status.get("evaluationError"):
            _logger.warning("an authorizer failed: %s", printable(str(error)[:_LONGEST_REASON]))
        return allowed and not status.get("denied")


@dataclass(frozen=True, slots=True)
class AuthenticatedUser:
    """A user as authenticators and authorizers know it."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Further attributes from the authenticator, for authorizers."""


class TokenAuthenticator:
    """Delegated authentication: the API server says which user a bearer token belongs to.

    Tokens must have the API server's own audience, as those of `kubectl create token` do. Answers are cached for ten
    seconds.
    """

    def __init__(self, client: APIClient, *, clockwork: Clockwork = Clockwork()) -> None:  # noqa: B008 - it is immutable
        self._client = client
        self._reviews: SharedReviews[AuthenticatedUser | None] = SharedReviews(clockwork)

    async def authenticate(self, token: str) -> AuthenticatedUser | None:
        """The user of a token; None if the token is not valid.

        Raises:
            ClusterError: The API server gave no valid answer.
        """
        return await self._reviews.answer(token.encode(), lambda: self._review(token))

    async def _review(self, token: str) -> AuthenticatedUser | None:
        status = await _review_status(self._client, "TokenReview", {"token": token})
        if status.get("authenticated") is not True:
            # For the log only: an authenticator's error may name servers that the caller must not know.
            reason = str(status.get("error") or "no reason given")
            _logger.info("the API server does not accept a bearer token: %s", printable(reason[:_LONGEST_REASON]))
            return None
        user = _user_in(status.get("user"))
        if user is None:
            raise BadAnswer("the status of a TokenReview has no valid user")
        return user


def _user_in(document: Any) -> AuthenticatedUser | None:
    """The user in an `authentication.k8s.io/v1` UserInfo; None if it is invalid."""
    match document:
        case {"username": str(name)} if name:
            groups, uid, extra = (document.get(each) for each in ("groups", "uid", "extra"))
        case _:
            return None
    known = isinstance(groups or [], list) and isinstance(uid or "", str) and isinstance(extra or {}, dict)
    return AuthenticatedUser(name, tuple(groups or ()), uid or "", extra or {}) if known else None


async def _review_status(client: APIClient, kind: str, spec: Object) -> Object:
    """The status of a TokenReview or SubjectAccessReview.

    Raises:
        APIError: The API server refused.
        Unreachable: The API server did not answer, or the answer has no status.
    """
    resource = RESOURCES[kind]
    review = {"apiVersion": resource.api_version, "kind": kind, "spec": spec}
    try:
        answer = await client.post(resource.path(), review)
    except Unreachable:
        # A kept-alive connection may have been closed meanwhile; a second review has no effects.
        answer = await client.post(resource.path(), review)
    status: Any = lookup(answer, ("status",))
    if not isinstance(status, dict):
        raise BadAnswer(f"POST {resource.path()}: the answer has no status")
    return status
