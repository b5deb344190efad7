"""Answers questions about placement in a thread, one at a time."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from policies.explanation import explain
from policies.kubernetes.objects import DEFAULT_NAMESPACE
from policies.outcome import EVERYTHING, Audience, questions
from policies.work import Work, bounded_by, check_cancelled
from policies.workload_templates import templates_of
from webhook.cluster.lookups import look_up
from webhook.server.deadlines import Deadline
from webhook.server.explain_question import MOST_TEMPLATES, BadQuestion, NamedObject
from webhook.server.pacing import run_aside
from webhook.server.turns import Busy, Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from policies.explanation import Explanation
    from policies.kubernetes.objects import Object
    from policies.settings import AddedKind, GPUAdmissionPolicy
    from policies.view import ClusterView
    from webhook.server.explain_question import PostedObject

__all__ = ["MOST_WAITING", "Answer", "Explainer", "Render", "UnavailableError"]

Render: TypeAlias = "Callable[[Sequence[Explanation]], bytes]"
"""Makes the body of an answer; called in a thread."""

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
        render: Render,
        audience: Audience = EVERYTHING,
    ) -> Answer:
        """Answer a question.

        Args:
            asked: The question.
            deadline: Deadline of the call.
            is_awaited: True if the caller is still connected; called often, from a thread.
            render: Makes the body of the answer.
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

    def _explain(self, asked: PostedObject | NamedObject, render: Render, audience: Audience) -> Answer:
        check_cancelled()
        namespace, stored = asked.namespace or DEFAULT_NAMESPACE, isinstance(asked, NamedObject)
        settings, document = self.settings(), self._object(asked, audience)
        count = len(templates_of(document, self.view, settings))
        if count > MOST_TEMPLATES:
            raise BadQuestion(
                f"The object has {count} pod templates; at most {MOST_TEMPLATES} are explained in one call."
            )
        found = questions(document, namespace, self.view, settings, found=stored)
        if not found:
            raise BadQuestion(
                "Objects of this kind are not scheduled; ask about a Pod, a workload with pod templates, a ResourceClaim or "
                "a ResourceClaimTemplate."
            )
        explanations = [explain(question, self.view, settings, audience=audience) for question in found]
        return Answer(render(explanations), tuple(str(explanation.verdict) for explanation in explanations))

    def _object(self, asked: PostedObject | NamedObject, audience: Audience) -> Object:
        if isinstance(asked, NamedObject):
            hints_elsewhere = not audience.namespace
            return look_up(self.view, asked.resource, asked.name, asked.namespace, hints_elsewhere=hints_elsewhere)
        return asked.object
