"""Reads questions about placement strictly, and answers them in a thread, one at a time."""

from __future__ import annotations

import json
import math
import re
import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from aiohttp import hdrs, web

from policies.admission import templates_of
from policies.analyses.explain import Explanation, Headroom, explain, headroom
from policies.kubernetes.bounds import Work, bounded_by, check_cancelled
from policies.kubernetes.names import with_full_stop
from policies.kubernetes.objects import DEFAULT_NAMESPACE, json_document, name_of, namespace_of
from policies.outcome import EVERYTHING, Audience, questions
from webhook.cluster.lookups import KindUnknownError, NotFoundError, find_resource, look_up
from webhook.server.app import Route, RoutedCalls
from webhook.server.bodies import JSON, BadJSON, Form, read_json
from webhook.server.caller_limits import CallerLimit, CallerLimits
from webhook.server.explain_gate import PATH, NotAdmitted
from webhook.server.logs import log_explanation
from webhook.server.turns import BadDuration, Busy, Deadline, Turns, run_aside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.settings import AddedKind, GPUAdmissionPolicy
    from webhook.cluster.resources import Resource
    from webhook.server.app import Traffic
    from webhook.server.explain_gate import Caller, ExplainGate
    from webhook.server.metrics import Metrics


MOST_TEMPLATES = 64
"""Pod templates of one workload; each is a separate question, and RayClusters and JobSets have a handful."""

_HOW = 'post {"object": a manifest, "namespace": a name} or {"kind": "pod", "namespace": a name, "name": a name}'
_FIELDS = ("object", "namespace", "kind", "name")


class BadQuestion(ValueError):  # noqa: N818 - the name says what is wrong, as BadReview does
    """A body without a question that can be explained. Its text is one sentence for the caller."""


@dataclass(frozen=True, slots=True)
class PostedObject:
    """A question about an object in the body."""

    object: Object
    namespace: str
    """The namespace of an object without one; empty for `default`."""

    @property
    def reference(self) -> tuple[str, str, str]:
        """Kind, namespace and name of the object, for the log."""
        return self.object["kind"], namespace_of(self.object) or self.namespace, name_of(self.object)


@dataclass(frozen=True, slots=True)
class NamedObject:
    """A question about an object of the cluster."""

    resource: Resource
    name: str
    namespace: str
    """Empty for `default`."""

    @property
    def reference(self) -> tuple[str, str, str]:
        """Kind, namespace and name of the object, for the log."""
        return self.resource.kind, self.namespace, self.name


def decode_question(body: bytes, added: Iterable[AddedKind] = ()) -> PostedObject | NamedObject:
    """Read the question of a call.

    Args:
        body: The JSON body.
        added: The kinds that the settings add.

    Raises:
        BadQuestion: the body is not a valid question.
    """
    try:
        document = read_json(body)
    except BadJSON as error:
        raise BadQuestion(str(error)) from error
    if not isinstance(document, dict):
        raise BadQuestion(f"The body is not a JSON object; {_HOW}.")
    for key in document:
        if key not in _FIELDS:
            raise BadQuestion(f"The field {json.dumps(key[:100])} is unknown; {_HOW}.")
    namespace = _text(document, "namespace")
    if "object" in document:
        if "kind" in document or "name" in document:
            raise BadQuestion(f"The body has both an object and kind or name; {_HOW}.")
        posted = document["object"]
        if not isinstance(posted, dict):
            raise BadQuestion("The object must be a manifest with apiVersion and kind.")
        for field in ("apiVersion", "kind"):
            if not isinstance(posted.get(field), str) or not posted[field]:
                raise BadQuestion(f"The object has no {field}; every object of Kubernetes names one.")
        return PostedObject(posted, namespace)
    kind, name = _text(document, "kind"), _text(document, "name")
    if not kind or not name:
        raise BadQuestion(f"The body has neither an object, nor a kind and a name; {_HOW}.")
    try:
        return NamedObject(find_resource(kind, added), name, namespace)
    except KindUnknownError as error:
        raise BadQuestion(with_full_stop(f"The kind cannot be explained: {error}")) from error


def _text(document: dict[str, Any], field: str) -> str:
    value = document.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadQuestion(f"The field {field} must be a string; {_HOW}.")
    return value


Render: TypeAlias = "Callable[[Sequence[Explanation]], bytes]"
"""Makes the body of an answer from explanations; called in a thread."""

MOST_WAITING = 8
"""Questions that wait for the one that is being answered: of users of one namespace, and as many of all others."""


class UnavailableError(Exception):
    """No answer in time; a retry may succeed. Its text is one sentence for the caller."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The body of an answer, and its verdicts."""

    body: bytes
    verdicts: tuple[str, ...]
    """One of each explanation, for the log."""


@dataclass(eq=False)
class Explainer:
    """Explains one question after the other in a thread, so that reviews continue in the event loop.

    A caller's selectors may cost as much for each device as Kubernetes allows, which can take hours on a large cluster.
    So the work stops at the deadline of its call, or when the caller disconnects; then the next question begins. Namespaces
    take turns, so that one with many questions does not keep out the others.
    """

    view: ClusterView
    settings: Callable[[], GPUAdmissionPolicy]
    """Returns the administrator's current settings."""
    clock: Callable[[], float] = time.monotonic
    """Returns monotonic seconds."""
    _turns: Turns = field(default_factory=Turns, init=False)
    _waiting: Counter[bool] = field(default_factory=Counter, init=False)
    """The number of waiting questions, those of users of one namespace apart from all others."""

    @property
    def added_kinds(self) -> tuple[AddedKind, ...]:
        """The kinds of workloads that the settings add."""
        return self.settings().workloads.kinds

    def deadline(self, timeout: str | None) -> Deadline:
        """Begin the deadline of a call with the `timeout` of its query.

        Raises:
            BadDuration: `timeout` is not a duration.
        """
        return Deadline.start(self.clock, timeout)

    async def answer(
        self,
        asked: PostedObject | NamedObject,
        deadline: Deadline,
        is_awaited: Callable[[], bool],
        render: Render | None,
        audience: Audience = EVERYTHING,
    ) -> Answer:
        """Answer a question.

        Args:
            asked: The question.
            deadline: Deadline of the call.
            is_awaited: True if the caller is still connected; called often, from a thread.
            render: Makes the body of the answer; None for how many more fit, as JSON.
            audience: What the answer may name.

        Raises:
            BadQuestion: the object cannot be explained.
            NotFoundError: the cluster does not show the object.
            UnavailableError: too many questions are waiting, or the time is up.
        """
        await self._take_turn(audience.namespace, deadline)

        def check_caller() -> None:
            if not is_awaited():
                raise UnavailableError("The caller has gone.")
            if deadline.has_passed:
                raise TimeoutError

        try:
            with bounded_by(Work(check=check_caller)):
                return await run_aside(
                    lambda: self._explain(asked, render, audience), deadline.remaining, self._turns.release
                )
        except TimeoutError as error:
            raise UnavailableError(
                "The explanation took longer than the call's timeout; ask with ?timeout=30s, the longest."
            ) from error

    async def _take_turn(self, namespace: str, deadline: Deadline) -> None:
        is_member = bool(namespace)
        if self._waiting[is_member] >= MOST_WAITING:
            raise UnavailableError("Other questions are being answered, and enough are waiting; ask again in a moment.")
        self._waiting[is_member] += 1
        try:
            await self._turns.take(("", namespace), deadline)
        except Busy as error:
            raise UnavailableError(
                "Other questions were being answered until the call's timeout; ask again in a moment."
            ) from error
        finally:
            self._waiting[is_member] -= 1

    def _explain(self, asked: PostedObject | NamedObject, render: Render | None, audience: Audience) -> Answer:
        check_cancelled()
        namespace, stored = asked.namespace or DEFAULT_NAMESPACE, isinstance(asked, NamedObject)
        settings = self.settings()
        if isinstance(asked, NamedObject):
            hints = not audience.namespace
            document = look_up(self.view, asked.resource, asked.name, asked.namespace, hints_elsewhere=hints)
        else:
            document = asked.object
        count = len(templates_of(document, self.view, settings))
        if count > MOST_TEMPLATES:
            raise BadQuestion(
                f"The object has {count} pod templates; at most {MOST_TEMPLATES} are explained in one call."
            )
        if render is None:
            room = headroom(document, namespace, self.view, settings, audience=audience)
            if room is None:
                raise BadQuestion(_NOT_SCHEDULED)
            body = json.dumps(json_document([room], list[Headroom])).encode()
            return Answer(body, ("unknown" if room.more is None else "fits" if room.more else "none fits",))
        found = questions(document, namespace, self.view, settings, found=stored)
        if not found:
            raise BadQuestion(_NOT_SCHEDULED)
        explanations = [explain(question, self.view, settings, audience=audience) for question in found]
        return Answer(render(explanations), tuple(str(explanation.verdict) for explanation in explanations))


_NOT_SCHEDULED = (
    "Objects of this kind are not scheduled; ask about a Pod, a workload with pod templates, a ResourceClaim or a "
    "ResourceClaimTemplate."
)
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


@dataclass(eq=False)
class Questions:
    """Answers questions of all ports within the same limits.

    It reads no body of a caller that the gate does not admit.
    """

    explainer: Explainer
    gate: ExplainGate
    metrics: Metrics
    _limits: CallerLimits = field(
        default_factory=lambda: CallerLimits(_BURST, _PER_MINUTE, _TOO_OFTEN, _RETRY_SECONDS), init=False
    )

    async def answer(
        self,
        namespace: str,
        request: web.BaseRequest,
        form: Form,
        decode: Callable[[bytes, Iterable[AddedKind]], PostedObject | NamedObject],
        render: Render | None,
    ) -> bytes:
        """The body of the answer to a call.

        Args:
            namespace: The namespace in the path of the call; empty for explanations that name everything.
            request: The call.
            form: The format of its body.
            decode: Reads the question in the body; raises BadQuestion.
            render: Makes the body of the answer, in a thread; None for how many more fit.

        Raises:
            web.HTTPException: There is no answer; the text is one sentence.
        """
        explainer = self.explainer
        try:
            deadline = explainer.deadline(request.query.get("timeout"))
            caller = await self.admit(request, namespace, deadline)
            with self._place_of(caller):
                form.check(request)
                body = await form.read(request, deadline)
                asked = _within(namespace, decode(body, explainer.added_kinds))
                answer = await explainer.answer(
                    asked, deadline, lambda: request.transport is not None, render, caller.audience
                )
        except (BadDuration, BadQuestion) as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        except NotFoundError as error:
            sentence = f"{error.sentence[0].upper()}{error.sentence[1:]}"
            remedy = "" if error.is_certain else "; post the object itself"
            raise web.HTTPNotFound(text=with_full_stop(f"{sentence}{remedy}{error.hint.text}")) from error
        except UnavailableError as error:
            raise web.HTTPServiceUnavailable(text=str(error), headers=_RETRY) from error
        self.metrics.count_explanation("answered")
        self.metrics.time_explanation(deadline.elapsed)
        log_explanation(caller.name, asked.reference, answer.verdicts, deadline.elapsed)
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


LARGEST_QUESTION = 2 * 1024 * 1024
"""Bytes. etcd stores objects of at most 1.5 MiB by default."""

_FORM = Form(
    holds="the question",
    largest=LARGEST_QUESTION,
    refusal="The body is larger than 2 MiB, and no object that a cluster stores is.",
)
_PATHS = re.compile(r"/v1/(?:namespaces/([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)/)?(explain|fit)")
_NO_PATH = f"This port answers POST {PATH} and POST /v1/fit, also below /v1/namespaces/NAMESPACE, and nothing else."
_NO_METHOD = "This path answers POST only; send a question about an object."


def namespaced_path(namespace: str, word: str = "explain") -> str:
    """The path of explanations for a namespace; with the word `fit`, that of how many more fit."""
    return f"/v1/namespaces/{namespace}/{word}"


class ExplainCalls(RoutedCalls):
    """Answers questions with explanations, or with how many more fit, as JSON."""

    def __init__(self, questions: Questions, traffic: Traffic) -> None:
        """Prepare; `traffic` counts the calls together with those of other ports."""
        super().__init__(self._find_route, _NO_PATH, traffic)
        self._questions = questions

    def _find_route(self, path: str) -> Route | None:
        found = _PATHS.fullmatch(path)
        if found is None:
            return None
        answer = partial(self._answer_question, found[1] or "", _render if found[2] == "explain" else None)
        return Route(answer, self._questions.metrics.count_explanation, "unavailable", _NO_METHOD)

    async def _answer_question(self, namespace: str, render: Render | None, request: web.BaseRequest) -> web.Response:
        body = await self._questions.answer(namespace, request, _FORM, decode_question, render)
        return web.Response(body=body, content_type=JSON)


def _render(found: Sequence[Explanation]) -> bytes:
    return json.dumps(json_document(found, list[Explanation])).encode()
