"""The calls of the webhook's port: one path for each webhook entry."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

from aiohttp import hdrs, web
from yarl import URL

from policies.admission import load_rules
from policies.admission.entries import ENTRIES
from webhook.server.admission_review import BadReview
from webhook.server.bodies import JSON, BodyBudget, Form, NoMemory
from webhook.server.deadlines import BadDuration
from webhook.server.guarded_connection import guarded_connection
from webhook.server.open_connections import counted_address
from webhook.server.routed_calls import Route, RoutedCalls, Traffic
from webhook.server.strict_json import MOST_VALUES, most_values

if TYPE_CHECKING:
    from policies.admission.entries import Entry
    from webhook.server.admission import Admission
    from webhook.server.callers import Callers
    from webhook.server.deadlines import Deadline

__all__ = ["LARGEST_BODY", "Calls"]


LARGEST_BODY = 8 * 1024 * 1024
"""Bytes. A review holds an object at most twice, and the API server takes none above 3 MiB. It can be larger all the same,
with characters that JSON escapes, and is refused then."""

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
        self._documents = BodyBudget(_MOST_VALUES_HELD, _FEW_VALUES)
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
            if _FORM.is_too_large(request):
                beginning = await _FORM.skip(request, deadline)
                answer = self.admission.refuse(entry, beginning, deadline, _TOO_LARGE)
                if answer is None:
                    raise _FORM.too_large
            else:
                answer = await self._answer_to(request, entry, deadline)
        except (BadDuration, BadReview) as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        return web.Response(body=answer, headers=_JSON_TYPE)

    async def _answer_to(self, request: web.BaseRequest, entry: Entry, deadline: Deadline) -> bytes:
        is_known = self.callers.knows(request.transport)
        address = _address(request)
        payer = self.callers.payer(request.transport, address)
        body = b""
        try:
            async with self._bodies.hold(_FORM.size(request), payer, deadline):
                body = await _FORM.read(request, deadline)
                async with self._documents.hold(_values_held(body), payer, deadline):
                    return await self.admission.answer(entry, body, deadline, caller_is_known=is_known, address=address)
        except NoMemory as error:
            beginning = body or await _FORM.skip(request, deadline)
            answer = self.admission.refuse(entry, beginning, deadline)
            if answer is None:
                raise web.HTTPServiceUnavailable(text=_NO_MEMORY) from error
            return answer


@lru_cache(maxsize=64)
def _timeout(raw_query: str) -> str | None:
    """The timeout in the query of a call; an API server sends the same query with every call of an entry."""
    return URL.build(query_string=raw_query, encoded=True).query.get("timeout")


def _values_held(body: bytes) -> int:
    """The values that a body takes of the budget. A short one is not counted: each value has a byte."""
    return min(most_values(body), MOST_VALUES) if len(body) > _FEW_VALUES else 0


def _address(request: web.BaseRequest) -> str:
    """What the client of a call counts under; empty if it is unknown."""
    connection = guarded_connection(request.transport)
    if connection is not None:
        return connection.address
    return counted_address(request.remote) if request.remote else ""
