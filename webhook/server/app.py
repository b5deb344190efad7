"""The web application: one path per webhook entry, and a plain sentence for everything that is no call of one."""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import TYPE_CHECKING

from aiohttp import hdrs, web

from policies.entries import ENTRIES
from policies.review import load_rooms
from webhook.server.admission import Admission
from webhook.server.admission_review import BadReview
from webhook.server.callers import Callers
from webhook.server.deadlines import BadDuration
from webhook.server.logs import log_crash, log_refusal
from webhook.server.traffic import Traffic

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

    from policies.entries import Entry
    from webhook.server.deadlines import Deadline

__all__ = ["ADMISSION", "CALLERS", "LARGEST_BODY", "TRAFFIC", "create_app"]

LARGEST_BODY = 8 * 1024 * 1024
"""Bytes. A review holds an object at most twice, and the API server takes none above 3 MiB."""

ADMISSION = web.AppKey("admission", Admission)
CALLERS = web.AppKey("callers", Callers)
TRAFFIC = web.AppKey("traffic", Traffic)

_JSON = "application/json"
_SENTENCES = {
    404: f"No webhook has this path; POST an AdmissionReview to one of {', '.join(f'/{name}' for name in ENTRIES)}.",
    405: "This path answers POST only; what is posted is an AdmissionReview.",
    413: "The body is larger than 8 MiB, and no AdmissionReview of an API server is.",
}
"""What to say instead of aiohttp's own words."""


def create_app(admission: Admission, callers: Callers) -> web.Application:
    """The application that answers `POST /<entry>` for every webhook entry.

    Args:
        admission: Answers the reviews.
        callers: Says who may call entries with effects.
    """
    load_rooms()
    app = web.Application(middlewares=[_answered], client_max_size=LARGEST_BODY)
    app[ADMISSION] = admission
    app[CALLERS] = callers
    app[TRAFFIC] = Traffic(admission.metrics.set_in_flight)
    for name in ENTRIES:
        app.router.add_post(f"/{name}", _handle, name=name)
    return app


async def _handle(request: web.Request) -> web.Response:
    admission = request.app[ADMISSION]
    entry = _entry(request)
    if refusal := request.app[CALLERS].refusal(entry, request.transport):
        raise web.HTTPForbidden(text=refusal)
    _check_form(request)
    try:
        deadline = admission.deadline(request.query.get("timeout"))
        answer = admission.answer(entry, await _body(request, deadline), deadline)
    except (BadDuration, BadReview) as error:
        raise web.HTTPBadRequest(text=str(error)) from error
    return web.Response(body=answer, content_type=_JSON)


def _entry(request: web.Request) -> Entry:
    return ENTRIES[request.match_info.route.name or ""]


def _check_form(request: web.Request) -> None:
    if request.content_type != _JSON:
        shown = json.dumps(request.content_type[:100])
        raise web.HTTPUnsupportedMediaType(text=f"The content type is {shown}; send an AdmissionReview as {_JSON}.")
    if hdrs.CONTENT_ENCODING in request.headers:
        raise web.HTTPUnsupportedMediaType(text="The body has a Content-Encoding; send it as it is.")
    if (request.content_length or 0) > LARGEST_BODY:
        raise web.HTTPRequestEntityTooLarge(LARGEST_BODY)


async def _body(request: web.Request, deadline: Deadline) -> bytes:
    try:
        async with asyncio.timeout(deadline.remaining):
            return await request.read()
    except TimeoutError as error:
        raise web.HTTPRequestTimeout(text="The body did not arrive before the call's timeout.") from error
    except (ConnectionError, web.RequestPayloadError) as error:
        raise web.HTTPBadRequest(text="The body breaks off.") from error


@web.middleware
async def _answered(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every call gets an answer with a sentence, and is counted; while the server drains, it is a connection's last."""
    traffic = request.app[TRAFFIC]
    with traffic.call():
        try:
            response = await handler(request)
        except web.HTTPException as refusal:
            response = _turned_down(request, refusal)
        except Exception as error:  # noqa: BLE001 - a mistake of ours must not show the caller a traceback
            response = _crashed(request, error)
    response.headers[hdrs.SERVER] = "gpu-admission"
    if traffic.draining:
        response.force_close()
    return response


def _turned_down(request: web.Request, refusal: web.HTTPException) -> web.Response:
    sentence = _SENTENCES.get(refusal.status) or refusal.text or refusal.reason
    log_refusal(request.path, request.remote, refusal.status, sentence)
    _count(request, "turned_down")
    allow = {hdrs.ALLOW: refusal.headers[hdrs.ALLOW]} if hdrs.ALLOW in refusal.headers else {}
    return web.Response(status=refusal.status, text=f"{sentence}\n", headers=allow)


def _crashed(request: web.Request, error: Exception) -> web.Response:
    # 503 rather than 500: to the API server both are a failed call, and its failure policy decides.
    identifier = secrets.token_hex(4)
    log_crash(request.path, identifier, error)
    _count(request, "failed")
    return web.Response(status=503, text=f"The webhook failed; its log has the details under the id {identifier}.\n")


def _count(request: web.Request, verdict: str) -> None:
    entry = request.match_info.route.name
    if entry is not None:
        request.app[ADMISSION].metrics.count_call(entry, verdict)
