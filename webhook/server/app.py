"""The web application: one path for each webhook entry and one for explanations."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING

from aiohttp import hdrs, web

from policies.entries import ENTRIES, RETIRED
from policies.review import load_rooms
from webhook.server.admission import Admission
from webhook.server.admission_review import BadReview
from webhook.server.bodies import JSON, BodyBudget, Form, NoMemory
from webhook.server.callers import Callers
from webhook.server.deadlines import BadDuration
from webhook.server.explain_gate import PATH
from webhook.server.explainer import ROUTE, ExplainCalls
from webhook.server.logs import log_crash, log_refusal
from webhook.server.open_connections import counted_address
from webhook.server.strict_json import MOST_VALUES, most_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aiohttp.typedefs import Handler

    from policies.entries import Entry
    from webhook.server.deadlines import Deadline
    from webhook.server.explain_gate import ExplainGate
    from webhook.server.explainer import Explainer

__all__ = ["ADMISSION", "CALLERS", "LARGEST_BODY", "TRAFFIC", "Traffic", "create_app"]


class Traffic:
    """Counts the calls in flight, so that a server can wait for the last one.

    aiohttp waits for handlers too when it shuts down, but drops the bytes that connections send meanwhile: it would
    never answer a call whose body is still arriving.
    """

    def __init__(self, show: Callable[[float], None]) -> None:
        """Begin without calls; `show` is called with the number whenever it changes."""
        self._show = show
        self.under_way = 0
        """The number of calls between their head and their answer."""
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.draining = False
        """True if answers close their connection (`Connection: close`), so that clients open new ones elsewhere."""

    @contextmanager
    def call(self) -> Iterator[None]:
        """Count one call, from its head to its answer."""
        self._change(1)
        try:
            yield
        finally:
            self._change(-1)

    async def wait_until_idle(self, longest: float) -> bool:
        """Wait until no call is in flight; False if one still is after `longest` seconds."""
        try:
            async with asyncio.timeout(longest):
                await self._quiet.wait()
        except TimeoutError:
            return False
        return True

    def _change(self, by: int) -> None:
        self.under_way += by
        self._show(self.under_way)
        if self.under_way:
            self._quiet.clear()
        else:
            self._quiet.set()


LARGEST_BODY = 8 * 1024 * 1024
"""Bytes. A review holds an object at most twice, and the API server takes none above 3 MiB. It can be larger all the same,
with characters that JSON escapes, and is refused then."""

ADMISSION = web.AppKey("admission", Admission)
CALLERS = web.AppKey("callers", Callers)
TRAFFIC = web.AppKey("traffic", Traffic)
_BODIES = web.AppKey("bodies", BodyBudget)
_DOCUMENTS = web.AppKey("documents", BodyBudget)

_FORM = Form(
    holds="an AdmissionReview",
    largest=LARGEST_BODY,
    refusal="The body is larger than 8 MiB; send a smaller object.",
)
_TOO_LARGE = "is larger than 8 MiB, where <, > and & take six bytes each"
_NO_MEMORY = "Too many large bodies are being reviewed; send this one again later."
_MOST_VALUES_HELD = 2 * MOST_VALUES
"""Values of all large documents that are reviewed at once, up to 90 MiB of Python's objects."""
_FEW_VALUES = 10_000
"""Values of a document that is not counted among them; a small body has no more."""
_NO_PATH = (
    f"No webhook has this path; POST an AdmissionReview to one of {', '.join(f'/{name}' for name in ENTRIES if name not in RETIRED)}, or a "
    f"question to {PATH}."
)
_NO_METHOD = "This path answers POST only; send an AdmissionReview."
_NO_METHOD_TO_EXPLAIN = "This path answers POST only; send a question about an object."
_KEPT = (hdrs.ALLOW, hdrs.RETRY_AFTER, hdrs.WWW_AUTHENTICATE)
"""Headers of refusals that say what else to do."""


def create_app(admission: Admission, callers: Callers, explainer: Explainer, gate: ExplainGate) -> web.Application:
    """The application that answers `POST /<entry>` for every webhook entry, and `POST /v1/explain`.

    Args:
        admission: Answers the reviews.
        callers: Allows or refuses calls of entries with effects.
        explainer: Answers the questions.
        gate: Allows or refuses calls for explanations.
    """
    load_rooms()
    app = web.Application(middlewares=[_answer_every_call], client_max_size=LARGEST_BODY)
    app[ADMISSION] = admission
    app[CALLERS] = callers
    app[_BODIES] = BodyBudget()
    app[_DOCUMENTS] = BodyBudget(_MOST_VALUES_HELD, _FEW_VALUES)
    app[TRAFFIC] = Traffic(admission.metrics.set_in_flight)
    for name in ENTRIES:
        app.router.add_post(f"/{name}", _handle, name=name)
    app.router.add_post(PATH, ExplainCalls(explainer, gate, admission.metrics).handle, name=ROUTE)
    return app


async def _handle(request: web.Request) -> web.Response:
    admission = request.app[ADMISSION]
    entry = _entry(request)
    if refusal := request.app[CALLERS].refusal(entry, request.transport):
        raise web.HTTPForbidden(text=refusal)
    _FORM.check(request)
    try:
        deadline = admission.deadline(request.query.get("timeout"))
        if _FORM.is_too_large(request):
            answer = admission.refuse(entry, await _FORM.skip(request, deadline), deadline, _TOO_LARGE)
            if answer is None:
                raise _FORM.too_large
        else:
            answer = await _answer_to(request, entry, deadline)
    except (BadDuration, BadReview) as error:
        raise web.HTTPBadRequest(text=str(error)) from error
    return web.Response(body=answer, content_type=JSON)


async def _answer_to(request: web.Request, entry: Entry, deadline: Deadline) -> bytes:
    admission = request.app[ADMISSION]
    is_known = request.app[CALLERS].knows(request.transport)
    address = counted_address(request.remote) if request.remote else ""
    payer = request.app[CALLERS].payer(request.transport, address)
    body = b""
    try:
        async with request.app[_BODIES].hold(_FORM.size(request), payer, deadline):
            body = await _FORM.read(request, deadline)
            async with request.app[_DOCUMENTS].hold(min(most_values(body), MOST_VALUES), payer, deadline):
                return await admission.answer(entry, body, deadline, caller_is_known=is_known, address=address)
    except NoMemory as error:
        answer = admission.refuse(entry, body or await _FORM.skip(request, deadline), deadline)
        if answer is None:
            raise web.HTTPServiceUnavailable(text=_NO_MEMORY) from error
        return answer


def _entry(request: web.Request) -> Entry:
    return ENTRIES[request.match_info.route.name or ""]


@web.middleware
async def _answer_every_call(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Count a call and answer it, also after an exception; while the server drains, close the connection."""
    traffic = request.app[TRAFFIC]
    with traffic.call():
        try:
            response = await handler(request)
        except web.HTTPException as refusal:
            response = _refusal_response(request, refusal)
        except Exception as error:  # noqa: BLE001 - a bug must not show a traceback to the caller
            response = _crash_response(request, error)
    response.headers[hdrs.SERVER] = "gpu-admission"
    if traffic.draining:
        response.force_close()
    return response


def _refusal_response(request: web.Request, refusal: web.HTTPException) -> web.Response:
    sentence = _sentence(request, refusal)
    log_refusal(request.path, request.remote, refusal.status, sentence)
    _count(request, "unavailable" if isinstance(refusal, web.HTTPServiceUnavailable) else "turned_down")
    headers = {name: refusal.headers[name] for name in _KEPT if name in refusal.headers}
    return web.Response(status=refusal.status, text=f"{sentence}\n", headers=headers)


def _sentence(request: web.Request, refusal: web.HTTPException) -> str:
    """The text of a refusal; replaces aiohttp's own text if the router found no handler."""
    if request.match_info.http_exception is None:
        return refusal.text or refusal.reason
    if not isinstance(refusal, web.HTTPMethodNotAllowed):
        return _NO_PATH
    return _NO_METHOD_TO_EXPLAIN if request.path == PATH else _NO_METHOD


def _crash_response(request: web.Request, error: Exception) -> web.Response:
    # 503 rather than 500: to the API server both are a failed call, and its failure policy decides.
    identifier = secrets.token_hex(4)
    log_crash(request.path, identifier, error)
    _count(request, "failed")
    return web.Response(status=503, text=f"The webhook failed; its log has the details under the id {identifier}.\n")


def _count(request: web.Request, verdict: str) -> None:
    metrics, route = request.app[ADMISSION].metrics, request.match_info.route.name
    if route == ROUTE:
        metrics.count_explanation(verdict)
    elif route is not None:
        metrics.count_call(route, "turned_down" if verdict == "unavailable" else verdict)
