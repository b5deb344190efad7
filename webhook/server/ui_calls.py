"""The calls of the page's port: its files, the live report, and why something is Pending."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from math import inf
from typing import TYPE_CHECKING

import orjson
from aiohttp import hdrs, web

from policies.analyses.overview import overview, visible_overview
from webhook.pages.explanation import render_explanation
from webhook.pages.rendering import asset, render_part
from webhook.pages.report import render_report_parts
from webhook.server.app import Route, RoutedCalls, Traffic
from webhook.server.bodies import JSON, Form
from webhook.server.live_reports import LiveReports
from webhook.server.questions import BadQuestion, NamedObject, decode_question
from webhook.server.report_streams import HEADERS, ReportStreams, check_origin

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from policies.analyses.audit import AuditReport
    from policies.analyses.explain import Explanation
    from policies.kubernetes.view import ClusterView
    from policies.outcome import Audience
    from policies.rules.settings import AddedKind, GPUAdmissionPolicy
    from webhook.server.live_reports import ReportParts
    from webhook.server.questions import Questions


_EXPLANATION_SECONDS = 5.0
"""Of CPU, for the explanations of all pods that wait, so that users who create many do not keep the report from others."""

_FORM = Form(holds="the question", largest=4096, refusal="The body is larger than 4 KiB; send a kind and a name.")
_DATA = re.compile(r"/ui/v1/(?:namespaces/([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)/)?(report|explain)")
_NO_PATH = (
    "This port answers GET /ui, and POST /ui/v1/report and /ui/v1/explain, also below /ui/v1/namespaces/NAMESPACE."
)
_NO_METHOD = "This path answers POST only."
_NO_METHOD_OF_FILES = "This path answers GET only."
_POSTED = "The page asks about objects of the cluster; send a kind and a name."


@dataclass(frozen=True, slots=True)
class _File:
    """A file of the page; it is the same for everybody and holds no data."""

    body: bytes
    content_type: str

    @property
    def tag(self) -> str:
        """The ETag of the file."""
        return f'"{sha256(self.body).hexdigest()[:32]}"'


class UICalls(RoutedCalls):
    """Answers a browser: files to everyone, data to callers whom the gate of explanations admits."""

    def __init__(self, questions: Questions, streams: ReportStreams, traffic: Traffic) -> None:
        """Prepare; `traffic` counts the calls of this port only, because streams last."""
        super().__init__(self._find_route, _NO_PATH, traffic)
        self._questions = questions
        self.streams = streams
        self._metrics = questions.metrics
        types = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
        names = ("page.css", "ui.css", "page.js", "ui.js", "ui.svg")
        self._files = {f"/ui/{name}": _File(asset(name).encode(), types[name.rpartition(".")[2]]) for name in names}
        self._files["/ui"] = _File(render_part("ui", title="GPUs of the cluster").encode(), "text/html")

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        response = await super()._answer(request)
        if not response.prepared:
            response.headers.update({name: text for name, text in HEADERS.items() if name not in response.headers})
        return response

    def _find_route(self, path: str) -> Route | None:
        if path == "/":
            return self._file_route(_redirect)
        if file := self._files.get(path):
            return self._file_route(partial(_send_file, file))
        if (found := _DATA.fullmatch(path)) is None:
            return None
        namespace = found[1] or ""
        if found[2] == "report":
            return self._data_route("report", partial(self.streams.answer, namespace))
        return self._data_route("explanation", partial(self._explain, namespace))

    def _file_route(self, answer: Callable[[web.BaseRequest], web.Response]) -> Route:
        async def answer_and_count(request: web.BaseRequest) -> web.StreamResponse:
            self._metrics.count_ui_call("page", "answered")
            return answer(request)

        count = partial(self._metrics.count_ui_call, "page")
        return Route(answer_and_count, count, "unavailable", _NO_METHOD_OF_FILES, hdrs.METH_GET)

    def _data_route(self, call: str, answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> Route:
        async def check_and_count(request: web.BaseRequest) -> web.StreamResponse:
            check_origin(request)
            response = await answer(request)
            self._metrics.count_ui_call(call, "answered")
            return response

        return Route(check_and_count, partial(self._metrics.count_ui_call, call), "unavailable", _NO_METHOD)

    async def _explain(self, namespace: str, request: web.BaseRequest) -> web.StreamResponse:
        body = await self._questions.answer(namespace, request, _FORM, _decode, _as_html)
        return web.Response(body=body, content_type=JSON)


def create_ui_calls(
    view: ClusterView,
    settings: Callable[[], GPUAdmissionPolicy],
    last_audit: Callable[[], AuditReport | None],
    questions: Questions,
) -> UICalls:
    """The calls of the page about a cluster.

    Args:
        view: The cluster.
        settings: Returns the administrator's current settings.
        last_audit: Returns the last audit of the cluster; called in a thread.
        questions: Answers questions; its gate admits callers.
    """
    traffic = Traffic()
    reports = LiveReports(view, part_maker(view, settings, last_audit), questions.metrics.time_report)
    return UICalls(questions, ReportStreams(reports, questions, traffic), traffic)


def part_maker(
    view: ClusterView, settings: Callable[[], GPUAdmissionPolicy], last_audit: Callable[[], AuditReport | None]
) -> ReportParts:
    """A function that renders the parts of the report; arguments as for `create_ui_calls`."""

    def make_parts(audience: Audience, now: datetime) -> Mapping[str, str]:
        ends = inf

        def has_time() -> bool:
            nonlocal ends
            # The time begins with the first explanation.
            ends = min(ends, time.thread_time() + _EXPLANATION_SECONDS)
            return time.thread_time() < ends

        found = overview(view, settings(), now, last_audit(), audience=audience, has_time=has_time)
        return render_report_parts(visible_overview(found, view, audience))

    return make_parts


def _redirect(request: web.BaseRequest) -> web.Response:
    return web.Response(status=302, headers={hdrs.LOCATION: "ui"})


def _send_file(file: _File, request: web.BaseRequest) -> web.Response:
    headers = {hdrs.ETAG: file.tag, hdrs.CACHE_CONTROL: "no-cache"}
    if request.headers.get(hdrs.IF_NONE_MATCH) == file.tag:
        return web.Response(status=304, headers=headers)
    return web.Response(body=file.body, content_type=file.content_type, charset="utf-8", headers=headers)


def _decode(body: bytes, added: Iterable[AddedKind]) -> NamedObject:
    question = decode_question(body, added)
    if not isinstance(question, NamedObject):
        raise BadQuestion(_POSTED)
    return question


def _as_html(explanations: Sequence[Explanation]) -> bytes:
    return orjson.dumps({"html": "".join(map(render_explanation, explanations))})
