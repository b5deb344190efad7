"""Rules for browsers: the headers of every answer, and the calls that get no data."""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson
from aiohttp import hdrs, web

from webhook.server.bodies import BadJSON, Form, read_json
from webhook.server.caller_limits import CallerLimit, CallerLimits
from webhook.server.explain_gate import NotAdmitted
from webhook.server.guarded_connection import guarded_connection
from webhook.server.live_reports import ReportUnavailableError
from webhook.server.logs import log_crash, log_stream
from webhook.server.turns import Deadline

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from contextlib import AbstractContextManager

    from webhook.server.app import Traffic
    from webhook.server.explain_gate import Caller
    from webhook.server.live_reports import LiveReport, LiveReports
    from webhook.server.questions import Questions


_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types gpu-admission"
)
"""Only files of this port are loaded and run, nothing is sent elsewhere, and only one function may write HTML: the one that inserts
the parts that the server renders. So a name that the templates failed to escape cannot run a script."""

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    hdrs.CACHE_CONTROL: "no-store",
}
"""The headers of every answer; files replace `Cache-Control`."""

_ELSEWHERE = "This call comes from another page; open /ui of this address."


def check_origin(request: web.BaseRequest) -> None:
    """Refuse a call that a page of another origin makes.

    Browsers send `Sec-Fetch-Site`, and older ones `Origin`; a script cannot change either. Programs send neither. Without this
    check, a page of another origin could use the client certificate of the browser.

    Raises:
        web.HTTPForbidden: The text is one sentence.
    """
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get(hdrs.ORIGIN)
    if site is None and origin is not None:
        site = "same-origin" if _host_of(origin) == request.host.lower() else "cross-site"
    if site not in (None, "same-origin"):
        raise web.HTTPForbidden(text=_ELSEWHERE)


def _host_of(origin: str) -> str | None:
    """The host and port of an origin as a `Host` header has them; None if it is not one of HTTPS."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return None
    return parts.netloc.lower() if parts.scheme == "https" else None


MOST_STREAMS = 16
"""Streams of users of single namespaces; users who see everything have as many together."""
MOST_OF_NAMESPACE = 8
"""Streams of all users of a namespace, because a user who may create service accounts can act as many users."""
MOST_OF_USER = 4
"""Streams of one user."""
_MEMBERS, _OTHERS = "users of single namespaces", "users who see everything"
"""The keys under which the streams are counted that `MOST_STREAMS` limits."""
_BURST, _PER_MINUTE = 20, 20
"""Streams that a user may start at once, and then in a minute."""

_PIECE = 128 * 1024
"""Bytes; after more than 64 KiB, aiohttp waits until the socket takes more."""

_FORM = Form(holds="{}", largest=1024, refusal="The body is larger than 1 KiB; send {}.")
_RETRY_SECONDS = 5
_RETRY = {hdrs.RETRY_AFTER: str(_RETRY_SECONDS)}
_NO_QUESTION = "The body is not {}; the report takes no options."
_STOPPING = "This replica is stopping; another one answers in a moment."
_NO_CONNECTION = "Too many connections are open; try again in a moment."
_TOO_MANY = f"At most {MOST_STREAMS} reports are shown at a time; try again later."
_TOO_MANY_OF_NAMESPACE = f"Users of this namespace have {MOST_OF_NAMESPACE} reports open; close one of them."
_TOO_MANY_OF_USER = f"You have {MOST_OF_USER} reports open; close one of them."
_TOO_OFTEN = f"You may open {_PER_MINUTE} reports a minute; try again in a moment."
_CHANGED = "Your rights have changed; the page reloads the report."


@dataclass(frozen=True, slots=True)
class StreamTimes:
    """Seconds in the life of a stream."""

    between: float = 5.0
    """Between two checks for changes."""
    review: float = 10.0
    """After which the rights of the caller are checked again before anything is sent."""
    beat: float = 15.0
    """Without a line, after which a line without content shows that the stream is open."""
    write: float = 30.0
    """In which the caller must read a piece of a line."""


class _Ended(Exception):  # noqa: N818 - the name says what happened; it is no error
    """The stream ends here. Its text is one sentence for the user; empty if the user has gone."""

    def __init__(self, reason: str, sentence: str = "") -> None:
        super().__init__(sentence)
        self.reason = reason
        """One of `STREAM_ENDS`."""


@dataclass(eq=False)
class ReportStreams:
    """Answers calls for the live report, within limits for each user and in number."""

    reports: LiveReports
    """Makes the reports."""
    questions: Questions
    """Its gate admits the callers."""
    traffic: Traffic
    """Says when the server drains."""
    times: StreamTimes = field(default_factory=StreamTimes)
    """Seconds in the life of a stream."""
    clock: Callable[[], float] = time.monotonic
    """Returns monotonic seconds."""

    _limits: CallerLimits = field(
        default_factory=lambda: CallerLimits(_BURST, _PER_MINUTE, _TOO_OFTEN, _RETRY_SECONDS), init=False
    )

    def __post_init__(self) -> None:
        self.questions.metrics.watch_streams(self.__len__)

    def __len__(self) -> int:
        return self._limits.count(_MEMBERS) + self._limits.count(_OTHERS)

    async def answer(self, namespace: str, request: web.BaseRequest) -> web.StreamResponse:
        """Send the report of a namespace, or of everything, until the stream ends.

        Raises:
            web.HTTPException: There is no stream; the text is one sentence.
        """
        if self.traffic.draining:
            raise web.HTTPServiceUnavailable(text=_STOPPING, headers=_RETRY)
        deadline = Deadline.start(self.clock)
        caller = await self.questions.admit(request, namespace, deadline)
        _FORM.check(request)
        try:
            document = read_json(await _FORM.read(request, deadline))
        except BadJSON as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        if document != {}:
            raise web.HTTPBadRequest(text=_NO_QUESTION)
        with self._place_of(caller):
            connection = guarded_connection(request.transport)
            if connection is not None and not connection.answer_begins():
                raise web.HTTPServiceUnavailable(text=_NO_CONNECTION, headers=_RETRY)
            response = web.StreamResponse(
                headers={**HEADERS, hdrs.CONTENT_TYPE: "application/x-ndjson", "X-Accel-Buffering": "no"}
            )
            await response.prepare(request)
            stream = _Stream(request, response, self.times)
            log_stream("the report is being shown", caller.name, namespace, "")
            reason = await self._run(stream, namespace, caller)
            log_stream("the report is no longer shown", caller.name, namespace, reason)
            self.questions.metrics.count_stream_end(reason)
        return response

    async def _run(self, stream: _Stream, namespace: str, caller: Caller) -> str:
        """Send reports until the stream ends; returns why, one of `STREAM_ENDS`."""
        try:
            await self._follow(stream, namespace, caller)
        except _Ended as end:
            reason, sentence = end.reason, str(end)
        except NotAdmitted as refusal:
            reason, sentence = refusal.outcome, str(refusal)
        except ReportUnavailableError as error:
            reason, sentence = "unavailable", str(error)
        except ConnectionError:
            reason, sentence = "closed", ""
        except Exception as error:  # noqa: BLE001 - a bug must not show a traceback to the caller
            identifier = secrets.token_hex(4)
            log_crash(stream.request.path, identifier, error)
            reason = "failed"
            sentence = f"The server failed; its log has the details under the id {identifier}."
        if sentence:
            with suppress(ConnectionError, _Ended):
                await stream.write_json({"end": reason, "text": sentence})
        return reason

    async def _follow(self, stream: _Stream, namespace: str, caller: Caller) -> None:
        times, clock = self.times, self.clock
        reviewed = clock()
        audience = caller.audience

        async def confirm() -> None:
            """Check the caller again if the last check is too old; raises if nothing more may be sent."""
            nonlocal reviewed
            if clock() - reviewed < times.review:
                return
            reviewed = clock()
            if await self.questions.gate.admit(stream.request, namespace, Deadline.start(clock)) != caller:
                raise _Ended("changed", _CHANGED)

        sees = {"user": caller.name, "namespace": audience.namespace, "seesNodes": audience.sees_nodes}
        await stream.write_json({"begin": sees})
        while True:
            report = await self.reports.latest(audience)
            if stream.request.transport is None:
                raise _Ended("closed")
            await confirm()
            await stream.send(report, clock(), confirm)
            if await self.traffic.wait_until_draining(times.between):
                raise _Ended("stopping", _STOPPING)

    def _place_of(self, caller: Caller) -> AbstractContextManager[None]:
        """Count a stream while it is open.

        Raises:
            web.HTTPTooManyRequests: On entering: there are too many.
        """
        user, namespace = caller.name, caller.audience.namespace
        limits = [CallerLimit(("user", user), MOST_OF_USER, _TOO_MANY_OF_USER)]
        if namespace:
            limits.append(CallerLimit(("namespace", namespace), MOST_OF_NAMESPACE, _TOO_MANY_OF_NAMESPACE))
        limits.append(CallerLimit(_MEMBERS if namespace else _OTHERS, MOST_STREAMS, _TOO_MANY))
        return self._limits.hold_place(user, limits)


class _Stream:
    """One stream, and what it has sent."""

    def __init__(self, request: web.BaseRequest, response: web.StreamResponse, times: StreamTimes) -> None:
        self.request = request
        self._response = response
        self._times = times
        self._sent: dict[str, bytes] = {}
        self._written_at = 0.0
        self._is_in_line = False

    async def send(self, report: LiveReport, now: float, confirm: Callable[[], Awaitable[None]]) -> None:
        """Send the parts that have changed, or a beat after some time without changes.

        Args:
            report: The report.
            now: Seconds.
            confirm: Called before each piece, because a caller who reads slowly may lose the right meanwhile.
        """
        changed = [line for name, line in report.parts.items() if self._sent.get(name) != line]
        if changed or self._sent.keys() != report.parts.keys():
            for line in changed:
                await self._write(line, confirm)
            self._sent = dict(report.parts)
            await self.write_json({"shown": [*report.parts], "time": report.time})
        elif now - self._written_at >= self._times.beat:
            await self.write_json({"beat": report.time})
        else:
            return
        self._written_at = now

    async def write_json(self, line: dict[str, Any]) -> None:
        """Send one line; if another one was not sent to its end, cut the connection instead.

        Raises:
            ConnectionError: The caller has gone.
            _Ended: The caller does not read.
        """
        if self._is_in_line:
            self._abort()
        else:
            await self._write(orjson.dumps(line) + b"\n")

    async def _write(self, line: bytes, confirm: Callable[[], Awaitable[None]] | None = None) -> None:
        # In pieces: a write is copied into memory as a whole before it waits for the caller.
        pieces = memoryview(line)
        try:
            for start in range(0, len(line), _PIECE):
                if confirm is not None:
                    await confirm()
                self._is_in_line = True
                async with asyncio.timeout(self._times.write):
                    await self._response.write(pieces[start : start + _PIECE])
        except TimeoutError as error:
            self._abort()
            raise _Ended("slow") from error
        self._is_in_line = False

    def _abort(self) -> None:
        if self.request.transport is not None:
            self.request.transport.abort()
