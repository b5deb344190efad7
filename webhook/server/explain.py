"""`POST /v1/explain`: where something would fit, why not elsewhere, and what to change, for known callers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import hdrs, web

from webhook.cluster.lookups import NotFoundError
from webhook.server.bodies import JSON, Form
from webhook.server.deadlines import BadDuration
from webhook.server.explain_question import BadQuestion, decode_question, ended
from webhook.server.explainer import UnavailableError
from webhook.server.logs import log_explanation
from webhook.server.tls import peer_name

if TYPE_CHECKING:
    from webhook.server.callers import Callers
    from webhook.server.explainer import Explainer
    from webhook.server.metrics import Metrics

__all__ = ["LARGEST_QUESTION", "PATH", "ROUTE", "ExplainCalls"]

PATH = "/v1/explain"
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
    """The calls of `/v1/explain`.

    Answers tell who holds which devices in every namespace, so there are none for callers that are not known.
    """

    def __init__(self, explainer: Explainer, callers: Callers, metrics: Metrics) -> None:
        self._explainer = explainer
        self._callers = callers
        self._metrics = metrics

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one call.

        Raises:
            web.HTTPException: with one plain sentence, when there is no answer.
        """
        if refusal := self._callers.refusal_to_explain(request.transport):
            raise web.HTTPForbidden(text=refusal)
        _FORM.check(request)
        caller = peer_name(request.transport)
        try:
            deadline = self._explainer.deadline(request.query.get("timeout"))
            asked = decode_question(await _FORM.read(request, deadline))
            answer = await self._explainer.answer(asked, deadline, lambda: request.transport is not None)
        except (BadDuration, BadQuestion) as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        except NotFoundError as error:
            raise web.HTTPNotFound(text=_not_found(error)) from error
        except UnavailableError as error:
            raise web.HTTPServiceUnavailable(text=str(error), headers=_RETRY) from error
        self._metrics.count_explanation("answered")
        self._metrics.time_explanation(deadline.elapsed)
        log_explanation(caller or "", asked, answer.verdicts, deadline.elapsed)
        return web.Response(body=answer.body, content_type=JSON)


def _not_found(error: NotFoundError) -> str:
    sentence = str(error)
    known = "" if error.kind_is_known else " to this server"
    return ended(f"{sentence[0].upper()}{sentence[1:]}{known}")
