"""Calls of one port: counted, answered by their route, and refused or failed with one sentence."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from aiohttp import HttpVersion11, hdrs, web
from yarl import URL

from policies.admission import ENTRIES, load_rules
from webhook.server.admission_review import BadReview
from webhook.server.bodies import BEGINNING, JSON, MOST_DECODED, BodyBudget, Form, NoMemory, Unread, most_decoded
from webhook.server.guarded_connection import counted_address, guarded_connection
from webhook.server.logs import log_crash, log_refusal
from webhook.server.turns import BadDuration

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from policies.admission import Entry
    from webhook.server.admission import Admission
    from webhook.server.caller_limits import Callers
    from webhook.server.turns import Deadline


class Traffic:
    """Counts the calls in flight, so that a server can wait for the last one.

    aiohttp waits for handlers too when it shuts down, but drops the bytes that connections send meanwhile: it would
    never answer a call whose body is still arriving.
    """

    def __init__(self) -> None:
        """Begin without calls."""
        self.under_way = 0
        """The number of calls between their head and their answer."""
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._draining = asyncio.Event()

    @property
    def draining(self) -> bool:
        """True if answers close their connection, so that clients open new ones elsewhere."""
        return self._draining.is_set()

    def drain(self) -> None:
        """Close connections after their answers from now on."""
        self._draining.set()

    async def wait_until_draining(self, longest: float) -> bool:
        """Wait until the server drains; False if it does not within `longest` seconds."""
        return await _is_set_within(self._draining, longest)

    def begin(self) -> None:
        """Count a call whose head has arrived."""
        self.under_way += 1
        self._quiet.clear()

    def end(self) -> None:
        """Count a call no longer: its answer is ready, or its client is gone."""
        self.under_way -= 1
        if not self.under_way:
            self._quiet.set()

    async def wait_until_idle(self, longest: float) -> bool:
        """Wait until no call is in flight; False if one still is after `longest` seconds."""
        return await _is_set_within(self._quiet, longest)


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


_KEPT = (hdrs.ALLOW, hdrs.RETRY_AFTER, hdrs.WWW_AUTHENTICATE)
"""Headers of refusals that say what else to do."""


@dataclass(frozen=True, slots=True)
class Route:
    """The function that answers the calls of a path, and its verdicts."""

    answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
    count: Callable[[str], None]
    """Counts a call without an answer, by its verdict."""
    unavailable: str
    """The verdict of a call that is refused for the moment."""
    no_method: str
    """The sentence for other methods."""
    method: str = hdrs.METH_POST
    """The only method that the path answers."""


@dataclass(eq=False)
class RoutedCalls:
    """Answers calls of the paths of one port.

    A handler for aiohttp's low-level server: an application's router and middlewares cost as much as a review.
    """

    route: Callable[[str], Route | None]
    """Returns what answers a path; None for an unknown one."""
    no_path: str
    """The sentence for unknown paths."""
    traffic: Traffic
    """Counts the calls."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Count a call and answer it, also after an exception; while the server drains, close the connection.

        Raises:
            web.HTTPExpectationFailed: The call expects something else than to continue.
        """
        if hdrs.EXPECT in request.headers:
            await _confirm_expectation(request)
        connection = guarded_connection(request.transport)
        if connection is not None:
            connection.request_begins()
        self.traffic.begin()
        try:
            response = await self._answer(request)
        finally:
            self.traffic.end()
        if not request.content.is_eof():
            # A Go client reads an answer that comes early, as long as it can write on: aiohttp throws the rest of the body
            # away for ten seconds. The connection is still within that body.
            response.force_close()
        elif not (connection is None or connection.request_ends()) or self.traffic.draining:
            response.force_close()
        return response

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        route = self.route(request.rel_url.path_safe)
        if route is None:
            return _refusal_response(request, web.HTTPNotFound(text=self.no_path))
        if request.method != route.method:
            refusal = web.HTTPMethodNotAllowed(request.method, (route.method,), text=route.no_method)
            return _refusal_response(request, refusal)
        try:
            return await route.answer(request)
        except web.HTTPException as refusal:
            is_temporary = isinstance(refusal, web.HTTPServiceUnavailable)
            route.count(route.unavailable if is_temporary else "turned_down")
            return _refusal_response(request, refusal)
        except Exception as error:  # noqa: BLE001 - a bug must not show a traceback to the caller
            route.count("failed")
            # 503 rather than 500: to the API server both are a failed call, and its failure policy decides.
            identifier = secrets.token_hex(4)
            log_crash(request.path, identifier, error)
            text = f"The server failed; its log has the details under the id {identifier}.\n"
            return web.Response(status=503, text=text)


async def _confirm_expectation(request: web.BaseRequest) -> None:
    """Tell a client that waits for it to go on with the body, as aiohttp's applications do."""
    expected = request.headers[hdrs.EXPECT]
    if not expected or request.version != HttpVersion11:
        return
    if expected.lower() != "100-continue":
        refusal = web.HTTPExpectationFailed(text="The header Expect must be 100-continue.")
        # The request was never reported to its connection, which would not limit the next head.
        refusal.force_close()
        raise refusal
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0  # the answer has not begun
    await request.writer.drain()


def _refusal_response(request: web.BaseRequest, refusal: web.HTTPException) -> web.Response:
    sentence = refusal.text or refusal.reason
    log_refusal(request.path, request.remote, refusal.status, sentence)
    headers = {name: refusal.headers[name] for name in _KEPT if name in refusal.headers}
    return web.Response(status=refusal.status, text=f"{sentence}\n", headers=headers)


LARGEST_BODY = 8 * 1024 * 1024
"""Bytes. A review holds an object at most twice, and the API server takes none above 3 MiB. It can be larger all the same,
with characters that JSON escapes, and is refused then."""

_FORM = Form(
    holds="an AdmissionReview", largest=LARGEST_BODY, refusal="The body is larger than 8 MiB; send a smaller object."
)
_TOO_LARGE = "is larger than 8 MiB, where <, > and & take six bytes each"
_MEASURED = 8 * 1024
"""Bytes of a body above which its document counts; that of a shorter one takes less than 1 MiB."""
_NO_PATH = f"No webhook has this path; POST an AdmissionReview to one of {', '.join(f'/{name}' for name in ENTRIES)}."
_NO_METHOD = "This path answers POST only; send an AdmissionReview."
_JSON_TYPE = {hdrs.CONTENT_TYPE: JSON}


class Calls(RoutedCalls):
    """Answers `POST /<entry>` for every webhook entry."""

    def __init__(self, admission: Admission, callers: Callers) -> None:
        """Prepare.

        Args:
            admission: Answers the reviews.
            callers: Allows or refuses calls of entries with effects.
        """
        load_rules()
        self.admission = admission
        self.callers = callers
        self._bodies = BodyBudget()
        self._documents = BodyBudget(MOST_DECODED, small=0)
        metrics = admission.metrics
        routes = {
            f"/{name}": Route(
                partial(self._review, entry), partial(metrics.count_call, name), "turned_down", _NO_METHOD
            )
            for name, entry in ENTRIES.items()
        }
        super().__init__(routes.get, _NO_PATH, Traffic())
        metrics.watch_calls(lambda: self.traffic.under_way)

    async def _review(self, entry: Entry, request: web.BaseRequest) -> web.Response:
        if refusal := self.callers.refusal(entry, request.transport):
            raise web.HTTPForbidden(text=refusal)
        _FORM.check(request)
        try:
            deadline = self.admission.deadline(_timeout(request.rel_url.raw_query_string))
            answer = await self._answer_to(request, entry, deadline)
        except (BadDuration, BadReview) as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        return web.Response(body=answer, headers=_JSON_TYPE)

    async def _answer_to(self, request: web.BaseRequest, entry: Entry, deadline: Deadline) -> bytes:
        address = _address(request)
        payer = self.callers.payer(request.transport, address)
        try:
            async with self._bodies.hold(_FORM.size(request), payer, deadline):
                return await self._read_and_answer(request, entry, deadline, payer, address)
        except NoMemory:
            refusal, beginning = _no_memory, await _FORM.read_beginning(request, deadline)
        except Unread as error:
            refusal, beginning = error.refusal, error.beginning
        too_large = _TOO_LARGE if refusal == _FORM.too_large else ""
        answer = self.admission.refuse(entry, beginning, deadline, too_large)
        if answer is None:
            raise refusal()
        return answer

    async def _read_and_answer(
        self, request: web.BaseRequest, entry: Entry, deadline: Deadline, payer: str, address: str
    ) -> bytes:
        body = await _FORM.receive(request, deadline)
        size = min(most_decoded(body), MOST_DECODED) if len(body) > _MEASURED else 0
        is_known = self.callers.knows(request.transport)
        try:
            async with self._documents.hold(size, payer, deadline):
                return await self.admission.answer(entry, body, deadline, caller_is_known=is_known, address=address)
        except NoMemory as error:
            raise Unread(_no_memory, body[:BEGINNING]) from error


def _no_memory() -> web.HTTPException:
    return web.HTTPServiceUnavailable(text="Too many large bodies are being reviewed; send this one again later.")


@lru_cache(maxsize=64)
def _timeout(raw_query: str) -> str | None:
    """The timeout in the query of a call; an API server sends the same query with every call of an entry."""
    return URL.build(query_string=raw_query, encoded=True).query.get("timeout")


def _address(request: web.BaseRequest) -> str:
    """The address that the client of a call counts under; empty if it is unknown."""
    connection = guarded_connection(request.transport)
    if connection is not None:
        return connection.address
    return counted_address(request.remote) if request.remote else ""
