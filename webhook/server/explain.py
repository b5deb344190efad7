"""`POST /v1/explain`: explains where an object fits, why not elsewhere, and what to change."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aiohttp import hdrs, web

from webhook.cluster.lookups import NotFoundError
from webhook.server.bodies import JSON, Form
from webhook.server.deadlines import BadDuration
from webhook.server.explain_gate import NotAdmitted
from webhook.server.explain_question import BadQuestion, as_sentence, decode_question
from webhook.server.explainer import UnavailableError
from webhook.server.logs import log_explanation

if TYPE_CHECKING:
    from webhook.server.deadlines import Deadline
    from webhook.server.explain_gate import ExplainGate
    from webhook.server.explainer import Explainer
    from webhook.server.metrics import Metrics

__all__ = ["LARGEST_QUESTION", "ROUTE", "ExplainCalls"]

ROUTE = "explain"

LARGEST_QUESTION = 2 * 1024 * 1024
"""Bytes. etcd stores no object above 1.5 MiB unless told otherwise."""

_FORM = Form(
    holds="the question",
    largest=LARGEST_QUESTION,
    too_large="The body is larger than 2 MiB, and no object that a cluster stores is.",
)
_RETRY = {hdrs.RETRY_AFTER: "1"}


class ExplainCalls:
    """Handles the calls of `/v1/explain`; reads no body of a caller that the gate does not admit."""

    def __init__(self, explainer: Explainer, gate: ExplainGate, metrics: Metrics) -> None:
        """Create the handler of one server."""
        self._explainer = explainer
        self._gate = gate
        self._metrics = metrics

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one call.

        Raises:
            web.HTTPException: there is no answer; the text is one sentence.
        """
        try:
            deadline = self._explainer.deadline(request.query.get("timeout"))
            caller = await self._admit(request, deadline)
            _FORM.check(request)
            body = await _FORM.read(request, deadline)
            asked = decode_question(body, self._explainer.added_kinds)
            answer = await self._explainer.answer(asked, deadline, lambda: request.transport is not None)
        except (BadDuration, BadQuestion) as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        except NotFoundError as error:
            raise web.HTTPNotFound(text=_not_found(error)) from error
        except UnavailableError as error:
            raise web.HTTPServiceUnavailable(text=str(error), headers=_RETRY) from error
        self._metrics.count_explanation("answered")
        self._metrics.time_explanation(deadline.elapsed)
        log_explanation(caller, asked, answer.verdicts, deadline.elapsed)
        return web.Response(body=answer.body, content_type=JSON)

    async def _admit(self, request: web.Request, deadline: Deadline) -> str:
        """The caller's name, if the gate admits it."""
        try:
            caller = await self._gate.admit(request, deadline)
        except NotAdmitted as error:
            self._metrics.count_explain_caller(error.outcome)
            raise _refusal(error) from error
        self._metrics.count_explain_caller("allowed")
        return caller


def _refusal(error: NotAdmitted) -> web.HTTPException:
    match error.outcome:
        case "unauthenticated":
            return web.HTTPUnauthorized(text=str(error), headers={hdrs.WWW_AUTHENTICATE: "Bearer"})
        case "forbidden":
            return web.HTTPForbidden(text=str(error))
        case "unavailable":
            seconds = str(math.ceil(error.retry_after))
            return web.HTTPServiceUnavailable(text=str(error), headers={hdrs.RETRY_AFTER: seconds})


def _not_found(error: NotFoundError) -> str:
    sentence = f"{error.sentence[0].upper()}{error.sentence[1:]}"
    remedy = "" if error.is_certain else "; post the object itself"
    return as_sentence(f"{sentence}{remedy}{error.hint}")
