"""Parses the JSON of callers strictly."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import hdrs, web

from webhook.cluster.answers import parse_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from contextlib import AbstractAsyncContextManager

    from webhook.server.turns import Deadline


MOST_VALUES = 250_000
"""Maximum number of values in a document: objects, lists, and their members.

The size of a body does not bound its memory: 8 MiB of `[],` become 195 MiB of Python objects, of `{"a":1},` even more.
This limit bounds it to 45 MiB. Pods, workloads and claims have at least 25 bytes for each value, so two objects of 3 MiB,
the largest that an API server accepts, stay below the limit. The content of strings does not count, such as the lines of
a ConfigMap.
"""


class BadJSON(ValueError):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """A body that is not valid JSON, or is nested too deeply. Its text is one sentence for the caller."""


class TooManyValues(BadJSON):
    """A document with more than `MOST_VALUES` values; it was not parsed."""


def read_json(body: bytes) -> Any:
    """Parse the document of a body.

    Raises:
        BadJSON: the body is invalid or too large.
    """
    if has_more_values(body, MOST_VALUES):
        raise TooManyValues(f"The body has more than {MOST_VALUES:,} values.")
    try:
        document = parse_json(body)
    except orjson.JSONDecodeError as error:
        raise BadJSON(
            f"The body is not valid JSON: {error.msg} at line {error.lineno} column {error.colno}."
        ) from error
    try:
        # orjson parses deeper nesting than it serializes; such a document would fail later, in a patch or a log. To write
        # a document takes a quarter of the time to read it, and less than to count its brackets.
        orjson.dumps(document)
    except TypeError as error:
        raise BadJSON("The body is nested too deeply; no Kubernetes object has 254 levels.") from error
    return document


def most_values(body: bytes) -> int:
    """An upper bound of a body's values: all but the first follow a comma or begin a list or an object."""
    return 1 + body.count(b",") + body.count(b"[") + body.count(b"{")


def has_more_values(body: bytes, most: int) -> bool:
    """True if a body has more than `most` values; the content of strings does not count."""
    if len(body) < most or most_values(body) <= most:
        return False
    unescaped = body.replace(rb"\\", b"").replace(rb"\"", b"")
    if unescaped.count(b'"') > 4 * most:  # two for each value, and two for its key
        return True
    return most_values(b"".join(unescaped.split(b'"')[::2])) > most


JSON = "application/json"

SMALL = 32 * 1024
"""Bytes of a body that the budget does not count; the limit of connections bounds how many of these there are."""
MOST_HELD = 96 * 1024 * 1024
"""Bytes of the other bodies that are held at once: a replica has 512 MiB, and needs up to 300 of them for the cluster."""
MOST_SKIPPED = 64 * 1024 * 1024
"""Bytes of a body that is read only to be refused. In reviews, `<`, `>` and `&` are six bytes each, as are control
characters, and an API server takes objects of 3 MiB: with two of them, no review has more than 40 MiB."""
_BEGINNING = 1024
"""Bytes of a body that is skipped which are kept: the uid of a review is among them."""
_ANSWER_SECONDS = 0.5
"""Seconds of the deadline that are reserved to skip a body and to refuse it."""


class NoMemory(Exception):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """Other bodies held the memory for too long."""


@dataclass(eq=False)
class BodyBudget:
    """Bounds the memory of bodies that arrive or wait for their review; beyond it, calls wait."""

    most: int = MOST_HELD
    """The most that large bodies together hold at once, in bytes or in values; one payer holds at most half of it."""
    small: int = SMALL
    """The size of a body that does not count."""
    _held: Counter[str] = field(default_factory=Counter, init=False)
    _waiting: deque[_Place] = field(default_factory=deque, init=False)

    def hold(self, size: int, payer: str, deadline: Deadline) -> AbstractAsyncContextManager[None]:
        """Hold the memory of a body, from before it is read until it is answered.

        Args:
            size: of the body.
            payer: whose share it takes; see `Callers.payer`.
            deadline: of the call.

        Raises:
            NoMemory: other bodies held the memory until shortly before the deadline.
        """
        return _NOTHING_HELD if size <= self.small else self._hold(_Place(size, payer), deadline)

    @asynccontextmanager
    async def _hold(self, place: _Place, deadline: Deadline) -> AsyncIterator[None]:
        await self._take(place, deadline)
        try:
            yield
        finally:
            self._give_back(place)

    async def _take(self, place: _Place, deadline: Deadline) -> None:
        self._waiting.append(place)
        self._admit()
        try:
            async with deadline.timeout(_ANSWER_SECONDS):
                await place.admitted
        except TimeoutError as error:
            self._give_up(place)
            raise NoMemory from error
        except asyncio.CancelledError:
            self._give_up(place)
            raise

    def _give_up(self, place: _Place) -> None:
        if place in self._waiting:
            self._waiting.remove(place)
        else:
            self._give_back(place)

    def _give_back(self, place: _Place) -> None:
        self._held[place.payer] -= place.size
        if not self._held[place.payer]:
            del self._held[place.payer]
        self._admit()

    def _admit(self) -> None:
        for place in [each for each in self._waiting if not each.admitted.done()]:
            own = self._held[place.payer] + place.size
            if own <= self.most // 2 and self._held.total() + place.size <= self.most:
                self._waiting.remove(place)
                self._held[place.payer] += place.size
                place.admitted.set_result(None)


_NOTHING_HELD: nullcontext[None] = nullcontext()


@dataclass(eq=False)
class _Place:
    """A body that waits for memory, or has it."""

    size: int
    payer: str
    admitted: asyncio.Future[None] = field(default_factory=asyncio.Future, init=False)


@dataclass(frozen=True, slots=True)
class Form:
    """The format and the size of the bodies of a path."""

    holds: str
    """The content of a body, after "send": `an AdmissionReview`."""
    largest: int
    """Bytes."""
    refusal: str
    """The refusal of larger bodies, as a sentence."""

    def check(self, request: web.BaseRequest) -> None:
        """Check from the head of a call that its body can be read, or skipped.

        Raises:
            web.HTTPException: The text is one sentence.
        """
        # aiohttp parses the header, and API servers send it as it is here.
        if request.headers.get(hdrs.CONTENT_TYPE) != JSON and request.content_type != JSON:
            shown = json.dumps(request.content_type[:100])
            raise web.HTTPUnsupportedMediaType(text=f"The content type is {shown}; send {self.holds} as {JSON}.")
        if hdrs.CONTENT_ENCODING in request.headers:
            raise web.HTTPUnsupportedMediaType(text="The body has a Content-Encoding; send it without compression.")
        if (request.content_length or 0) > MOST_SKIPPED:
            raise self.too_large

    @property
    def too_large(self) -> web.HTTPRequestEntityTooLarge:
        """The refusal of a body that is too large."""
        return web.HTTPRequestEntityTooLarge(self.largest, text=self.refusal)

    def is_too_large(self, request: web.BaseRequest) -> bool:
        """True if the head of a call says that its body is too large to be read."""
        return (request.content_length or 0) > self.largest

    def size(self, request: web.BaseRequest) -> int:
        """The most bytes that the body of a call can have."""
        return self.largest if request.content_length is None else request.content_length

    async def read(self, request: web.BaseRequest, deadline: Deadline) -> bytes:
        """The body of a call.

        Raises:
            web.HTTPException: The text is one sentence.
        """
        if self.is_too_large(request):
            raise self.too_large
        content = request.content
        # A body that has arrived with its head needs no timer.
        if content.is_eof() and content.exception() is None:
            body = content.read_nowait()
            if len(body) > self.largest:
                raise self.too_large
            return body
        with _refusals():
            async with asyncio.timeout(deadline.remaining):
                try:
                    return await request.clone(client_max_size=self.largest).read()
                except web.HTTPRequestEntityTooLarge as error:
                    raise self.too_large from error

    async def skip(self, request: web.BaseRequest, deadline: Deadline) -> bytes:
        """The beginning of a body that is not held, once all of it has arrived.

        A client of Go that is answered earlier may take that for a failed call.

        Raises:
            web.HTTPException: The text is one sentence.
        """
        beginning = b""
        with _refusals():
            async with asyncio.timeout(deadline.remaining):
                async for chunk in request.content.iter_any():
                    beginning += chunk[: _BEGINNING - len(beginning)]
        return beginning


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn failures while a body arrives into refusals."""
    try:
        yield
    except TimeoutError as error:
        raise web.HTTPRequestTimeout(text="The body did not arrive before the call's timeout.") from error
    except (ConnectionError, web.RequestPayloadError) as error:
        raise web.HTTPBadRequest(text="The body is incomplete.") from error
