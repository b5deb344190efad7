"""Parses the JSON of callers strictly."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import hdrs, web

from webhook.cluster.answers import parse_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from webhook.server.turns import Deadline


MOST_DECODED = 24 * 1024 * 1024
"""Bytes of memory that the documents of large bodies take together, by `most_decoded`; no document may take more.

The size of a body does not bound its memory: 8 MiB of `[],` become 195 MiB of Python objects, and one character outside
Unicode's first plane makes four bytes of each other character of its string. An API server takes objects of 3 MiB but
stores only those of 1.5 MiB, and has at least 25 bytes for each value, so two objects that can be stored stay below this.
"""
TAKES_MORE = f"takes more than {MOST_DECODED >> 20} MiB once it is parsed"
"""The reason to refuse a document, to follow its name."""
_OF_A_VALUE = 128
"""Bytes of Python's objects for one value: a list takes 64, a mapping with one member 184 and counts as two."""


class BadJSON(ValueError):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """A body that is not valid JSON, or is nested too deeply. Its text is one sentence for the caller."""


class TooLargeDocument(BadJSON):
    """A document that would take more memory than `MOST_DECODED`; it was not parsed."""


def read_json(body: bytes) -> Any:
    """Parse the document of a body.

    Raises:
        BadJSON: the body is invalid or too large.
    """
    if takes_more(body, MOST_DECODED):
        raise TooLargeDocument(f"The body {TAKES_MORE}.")
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


_CONTINUATION = bytes(range(0x80, 0xC0))
_WIDE, _VERY_WIDE = re.compile(rb"[\xc4-\xff]"), re.compile(rb"[\xf0-\xff]")
"""UTF-8 of a character that takes at least two bytes in Python, or four."""
_WIDE_ESCAPE, _VERY_WIDE_ESCAPE = re.compile(rb"\\u(?!00)"), re.compile(rb"\\u[dD][89abAB]")
_TEXT = re.compile(rb'"[^"]*"')


def most_decoded(body: bytes) -> int:
    """An upper bound of the memory of a body's document in bytes, found in some milliseconds."""
    is_narrow = body.isascii() and b"\\u" not in body
    return len(body) * (1 if is_narrow else 4) + _values(body) * _OF_A_VALUE


def takes_more(body: bytes, most: int) -> bool:
    """True if the document of a body takes more than `most` bytes in memory.

    Counts its characters, all as wide as the widest, and its values.
    The content of texts is no value, such as the lines of a ConfigMap.
    """
    # Fewer bytes are neither enough characters nor enough values.
    if len(body) * _OF_A_VALUE <= most or most_decoded(body) <= most:
        return False
    structure = _TEXT.sub(b"", body.replace(rb"\\", b"").replace(rb"\"", b""))
    return _of_characters(body) + _values(structure) * _OF_A_VALUE > most


def _of_characters(body: bytes) -> int:
    is_very_wide = _VERY_WIDE.search(body) or _VERY_WIDE_ESCAPE.search(body)
    width = 4 if is_very_wide else 2 if _WIDE.search(body) or _WIDE_ESCAPE.search(body) else 1
    return len(body.translate(None, _CONTINUATION)) * width


def _values(body: bytes) -> int:
    """At least the number of values: all but the first follow a comma, or begin a list or a mapping."""
    return 1 + body.count(b",") + body.count(b"[") + body.count(b"{")


JSON = "application/json"

SMALL = 32 * 1024
"""Bytes of a body that the budget does not count; the limit of connections bounds how many of these there are."""
MOST_HELD = 16 * 1024 * 1024
"""Bytes of the other bodies that are held at once."""
MOST_WAITING = 512
"""Bodies that wait for memory at once: what has arrived of each takes up to 180 KiB of buffers."""
BEGINNING = 1024
"""Bytes of a body that is not read which are kept: the uid and the namespace of a review are among them."""
_ANSWER_SECONDS, _ANSWER_PART = 0.5, 0.1
"""Seconds of the deadline that are reserved to refuse a body, and the most of a short one."""


class NoMemory(Exception):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """Other bodies held the memory for too long."""


class Unread(Exception):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """A body that was not read to its end."""

    def __init__(self, refusal: Callable[[], web.HTTPException], beginning: bytes = b"") -> None:
        """Keep how to refuse the call, and the beginning of the body.

        An exception in here would be in a circle with its own traceback, which keeps the body until a collection.
        """
        super().__init__()
        self.refusal = refusal
        self.beginning = beginning


@dataclass(eq=False)
class BodyBudget:
    """Bounds the memory of bodies, or of their documents, until they are answered; beyond it, calls wait.

    The payer that was served longest ago is served first. If too many wait, the payer with the most gives up its last.
    """

    most: int = MOST_HELD
    """The most that large bodies together hold at once. One payer holds at most half of it, or a single body."""
    small: int = SMALL
    """The size of a body that does not count."""
    most_waiting: int = MOST_WAITING
    """The most calls that wait at once."""
    _held: Counter[str] = field(default_factory=Counter, init=False)
    _waiting: list[_Place] = field(default_factory=list, init=False)
    _served: dict[str, None] = field(default_factory=dict, init=False)
    """The payers that hold something or wait, and had a turn; the last one was served last."""

    def hold(self, size: int, payer: str, deadline: Deadline) -> AbstractAsyncContextManager[None]:
        """Hold the memory of a body, from before it is read until it is answered.

        Args:
            size: of the body.
            payer: whose share it takes; see `Callers.payer`.
            deadline: of the call.

        Raises:
            NoMemory: other bodies held the memory until shortly before the deadline, or too many wait.
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
        waiting = self._undecided_places()
        if len(waiting) > self.most_waiting:
            ((payer, _),) = Counter(each.payer for each in waiting).most_common(1)
            next(each for each in reversed(waiting) if each.payer == payer).admitted.set_result(False)
        try:
            async with deadline.timeout(_ANSWER_SECONDS):
                is_admitted = await place.admitted
        except TimeoutError as error:
            self._give_up(place)
            raise NoMemory from error
        except asyncio.CancelledError:
            self._give_up(place)
            raise
        if not is_admitted:
            self._waiting.remove(place)
            raise NoMemory

    def _undecided_places(self) -> list[_Place]:
        """The calls that wait; those that are cancelled or turned down are still in the list for a moment."""
        return [each for each in self._waiting if not each.admitted.done()]

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
        if place.payer not in self._held and all(each.payer != place.payer for each in self._waiting):
            self._served.pop(place.payer, None)

    def _admit(self) -> None:
        turns = {payer: turn for turn, payer in enumerate(self._served)}
        for place in sorted(self._undecided_places(), key=lambda each: turns.get(each.payer, -1)):
            own = self._held[place.payer]
            if (not own or own + place.size <= self.most // 2) and self._held.total() + place.size <= self.most:
                self._waiting.remove(place)
                self._held[place.payer] += place.size
                self._served.pop(place.payer, None)
                self._served[place.payer] = None
                place.admitted.set_result(True)


_NOTHING_HELD: nullcontext[None] = nullcontext()


@dataclass(eq=False)
class _Place:
    """A body that waits for memory, or has it."""

    size: int
    payer: str
    admitted: asyncio.Future[bool] = field(default_factory=asyncio.Future, init=False)
    """False if it is turned down."""


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

    def too_large(self) -> web.HTTPRequestEntityTooLarge:
        """The refusal of a body that is too large."""
        return web.HTTPRequestEntityTooLarge(self.largest, text=self.refusal)

    def _is_too_large(self, request: web.BaseRequest) -> bool:
        return (request.content_length or 0) > self.largest

    def size(self, request: web.BaseRequest) -> int:
        """The most bytes of a call's body that are read."""
        return min(self.largest if request.content_length is None else request.content_length, self.largest)

    async def read(self, request: web.BaseRequest, deadline: Deadline) -> bytes:
        """The body of a call.

        Raises:
            web.HTTPException: The text is one sentence.
        """
        if self._is_too_large(request):
            raise self.too_large()
        try:
            return await self.receive(request, deadline)
        except Unread as error:
            raise error.refusal() from error

    async def receive(self, request: web.BaseRequest, deadline: Deadline) -> bytes:
        """The body of a call.

        Raises:
            Unread: The body is too large, incomplete or late.
        """
        if self._is_too_large(request):
            raise Unread(self.too_large, await self.read_beginning(request, deadline))
        content = request.content
        # A body that has arrived with its head needs no timer.
        if content.is_eof() and content.exception() is None:
            body = content.read_nowait()
            if len(body) > self.largest:
                raise Unread(self.too_large, body[:BEGINNING])
            return body
        reserved = min(_ANSWER_SECONDS, deadline.remaining * _ANSWER_PART)
        return await self._arrival(request, deadline, reserved, self.largest + 1)

    async def read_beginning(self, request: web.BaseRequest, deadline: Deadline) -> bytes:
        """The beginning of a body that is not held, or what arrives of it; the server throws the rest away."""
        try:
            return (await self._arrival(request, deadline, 0, BEGINNING))[:BEGINNING]
        except Unread as error:
            return error.beginning

    async def _arrival(self, request: web.BaseRequest, deadline: Deadline, reserved: float, enough: int) -> bytes:
        """The bytes of a body until there are enough of them."""
        body = bytearray()
        try:
            async with deadline.timeout(reserved):
                async for chunk in request.content.iter_any():
                    body += chunk
                    if len(body) >= enough:
                        break
        except TimeoutError as error:
            raise Unread(_late, bytes(body[:BEGINNING])) from error
        except (ConnectionError, web.RequestPayloadError) as error:
            # The stream keeps this exception, and its traceback this frame: the body would stay until a collection.
            body.clear()
            raise Unread(_incomplete) from error
        if len(body) > self.largest:
            raise Unread(self.too_large, bytes(body[:BEGINNING]))
        return bytes(body)


def _late() -> web.HTTPRequestTimeout:
    return web.HTTPRequestTimeout(text="The body did not arrive before the call's timeout.")


def _incomplete() -> web.HTTPBadRequest:
    return web.HTTPBadRequest(text="The body is incomplete.")
