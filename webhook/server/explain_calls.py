"""The calls of the port of explanations, which answers nothing else."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING

from aiohttp import web

from policies.analyses.explain import Explanation
from policies.kubernetes.objects import json_document
from webhook.server.app import Route, RoutedCalls
from webhook.server.bodies import JSON, Form
from webhook.server.explain_gate import PATH
from webhook.server.explain_question import decode_question

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webhook.server.app import Traffic
    from webhook.server.questions import Questions

__all__ = ["LARGEST_QUESTION", "ExplainCalls", "namespaced_path"]

LARGEST_QUESTION = 2 * 1024 * 1024
"""Bytes. etcd stores objects of at most 1.5 MiB by default."""

_FORM = Form(
    holds="the question",
    largest=LARGEST_QUESTION,
    refusal="The body is larger than 2 MiB, and no object that a cluster stores is.",
)
_NAMESPACED = re.compile(r"/v1/namespaces/([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)/explain")
_NO_PATH = f"This port answers POST {PATH} and POST /v1/namespaces/NAMESPACE/explain, and nothing else."
_NO_METHOD = "This path answers POST only; send a question about an object."


def namespaced_path(namespace: str) -> str:
    """The path of explanations for a namespace."""
    return f"/v1/namespaces/{namespace}/explain"


class ExplainCalls(RoutedCalls):
    """Answers questions at two paths, with explanations as JSON."""

    def __init__(self, questions: Questions, traffic: Traffic) -> None:
        """Prepare; `traffic` counts the calls together with those of other ports."""
        super().__init__(self._find_route, _NO_PATH, traffic)
        self._questions = questions

    def _find_route(self, path: str) -> Route | None:
        namespaced = _NAMESPACED.fullmatch(path)
        if namespaced is None and path != PATH:
            return None
        answer = partial(self._answer_question, namespaced[1] if namespaced else "")
        return Route(answer, self._questions.metrics.count_explanation, "unavailable", _NO_METHOD)

    async def _answer_question(self, namespace: str, request: web.BaseRequest) -> web.Response:
        body = await self._questions.answer(namespace, request, _FORM, decode_question, _as_json)
        return web.Response(body=body, content_type=JSON)


def _as_json(explanations: Sequence[Explanation]) -> bytes:
    return json.dumps(json_document(explanations, list[Explanation])).encode()
