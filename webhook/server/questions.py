"""Questions of users: admission, limits and answers."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from aiohttp import hdrs, web

from policies.kubernetes.objects import namespace_of
from policies.phrases import with_full_stop
from webhook.cluster.lookups import NotFoundError
from webhook.server.caller_limits import CallerLimit, CallerLimits
from webhook.server.deadlines import BadDuration
from webhook.server.explain_gate import NotAdmitted
from webhook.server.explain_question import BadQuestion, NamedObject, PostedObject
from webhook.server.explainer import UnavailableError
from webhook.server.logs import log_explanation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from policies.settings import AddedKind
    from webhook.server.bodies import Form
    from webhook.server.deadlines import Deadline
    from webhook.server.explain_gate import Caller, ExplainGate
    from webhook.server.explainer import Explainer, Render
    from webhook.server.metrics import Metrics

__all__ = ["MOST_OF_ONE_NAMESPACE", "MOST_OF_ONE_USER", "Questions"]

_RETRY_SECONDS = 1
_RETRY = {hdrs.RETRY_AFTER: str(_RETRY_SECONDS)}
MOST_OF_ONE_USER = 2
"""Questions of one user of a namespace that wait or are being answered, so that other users get their turn."""
MOST_OF_ONE_NAMESPACE = 4
"""The same for all users of a namespace, because a user who may create service accounts can act as many users."""
_BURST, _PER_MINUTE = 30, 30
"""Questions that a user of a namespace may ask at once, and then in a minute."""
_TOO_MANY = f"You have {MOST_OF_ONE_USER} questions here already; wait for their answers."
_TOO_MANY_OF_NAMESPACE = f"This namespace has {MOST_OF_ONE_NAMESPACE} questions here already; ask again in a moment."
_TOO_OFTEN = f"You may ask {_PER_MINUTE} questions a minute; ask again in a moment."


class Questions:
    """Answers questions of all ports within the same limits.

    It reads no body of a caller that the gate does not admit.
    """

    def __init__(self, explainer: Explainer, gate: ExplainGate, metrics: Metrics) -> None:
        """Prepare."""
        self._explainer = explainer
        self.gate = gate
        self.metrics = metrics
        self._limits = CallerLimits(_BURST, _PER_MINUTE, _TOO_OFTEN, _RETRY_SECONDS)

    async def answer(
        self,
        namespace: str,
        request: web.BaseRequest,
        form: Form,
        decode: Callable[[bytes, Iterable[AddedKind]], PostedObject | NamedObject],
        render: Render,
    ) -> bytes:
        """The body of the answer to a call.

        Args:
            namespace: The namespace in the path of the call; empty for explanations that name everything.
            request: The call.
            form: The format of its body.
            decode: Reads the question in the body; raises BadQuestion.
            render: Makes the body of the answer, in a thread.

        Raises:
            web.HTTPException: There is no answer; the text is one sentence.
        """
        explainer = self._explainer
        try:
            deadline = explainer.deadline(request.query.get("timeout"))
            caller = await self.admit(request, namespace, deadline)
            with self._place_of(caller):
                form.check(request)
                body = await form.read(request, deadline)
                asked = _within(namespace, decode(body, explainer.added_kinds))
                is_awaited = partial(_is_connected, request)
                answer = await explainer.answer(asked, deadline, is_awaited, render, caller.audience)
        except (BadDuration, BadQuestion) as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        except NotFoundError as error:
            raise web.HTTPNotFound(text=_not_found(error)) from error
        except UnavailableError as error:
            raise web.HTTPServiceUnavailable(text=str(error), headers=_RETRY) from error
        self.metrics.count_explanation("answered")
        self.metrics.time_explanation(deadline.elapsed)
        log_explanation(caller.name, asked, answer.verdicts, deadline.elapsed)
        return answer.body

    async def admit(self, request: web.BaseRequest, namespace: str, deadline: Deadline) -> Caller:
        """The caller, if the gate admits it.

        Raises:
            web.HTTPException: It does not; the text is one sentence.
        """
        try:
            caller = await self.gate.admit(request, namespace, deadline)
        except NotAdmitted as error:
            self.metrics.count_explain_caller(error.outcome)
            raise _refusal(error) from error
        self.metrics.count_explain_caller("allowed")
        return caller

    def _place_of(self, caller: Caller) -> AbstractContextManager[None]:
        """Count a question of a user of one namespace while it is answered; others are not limited.

        Raises:
            web.HTTPTooManyRequests: On entering: the user, or the namespace, has too many.
        """
        user, namespace = caller.name, caller.audience.namespace
        if not namespace:
            return nullcontext()
        of_user = CallerLimit(("user", user), MOST_OF_ONE_USER, _TOO_MANY)
        of_namespace = CallerLimit(("namespace", namespace), MOST_OF_ONE_NAMESPACE, _TOO_MANY_OF_NAMESPACE)
        return self._limits.hold_place(user, (of_user, of_namespace))


def _is_connected(request: web.BaseRequest) -> bool:
    return request.transport is not None


def _within(namespace: str, asked: PostedObject | NamedObject) -> PostedObject | NamedObject:
    """The question about the namespace of the path; unchanged without one.

    Raises:
        BadQuestion: The question names another namespace.
    """
    if not namespace:
        return asked
    named = {asked.namespace, namespace_of(asked.object) if isinstance(asked, PostedObject) else ""} - {"", namespace}
    if named:
        other = json.dumps(min(named)[:100])
        raise BadQuestion(f"The question is about namespace {other}; ask it at the path of that namespace.")
    return replace(asked, namespace=namespace)


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
    return with_full_stop(f"{sentence}{remedy}{error.hint}")
