"""Warnings of the API server and of webhooks about a request, as headers of its answer."""

from __future__ import annotations

import unicodedata
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from webhook.sandbox import statuses
from webhook.sandbox.admission.calls import CallCounts, CallFailed, Denied
from webhook.sandbox.admission.matching import conditions_hold, is_meant
from webhook.sandbox.admission.reviews import BadAnswer, UnreadableAnswer, read_answer, review_of

if TYPE_CHECKING:
    from webhook.sandbox.admission.calls import Caller, Phase
    from webhook.sandbox.admission.matching import Hook, Variables
    from webhook.sandbox.admission.reviews import Answer
    from webhook.sandbox.statuses import Attempt, Objects, Refused


_MOST_IN_TOTAL = 4096
_MOST_WHEN_CUT = 256
"""Code points. Source: k8s.io/apiserver pkg/endpoints/filters/warning.go."""


class Warnings:
    """Collects warnings: each text once, and each shortened if they are too long in total.

    A text with a newline or another control character does not fit into a header, and is dropped silently, as in the API
    server.
    """

    def __init__(self) -> None:
        self._recorded: list[str] = []
        self._shown: list[str] = []
        self._length = 0
        self._cuts = False

    def add(self, text: str) -> None:
        """Add a warning."""
        if not text or text in self._recorded or (self._cuts and self._length >= _MOST_IN_TOTAL):
            return
        self._recorded.append(text)
        if self._cuts or self._length + len(text) <= _MOST_IN_TOTAL:
            self._show(text)
            return
        self._cuts, self._shown, self._length = True, [], 0
        for recorded in self._recorded:
            self._show(recorded)

    def _show(self, text: str) -> None:
        shown = text[:_MOST_WHEN_CUT] if self._cuts else text
        if all(unicodedata.category(character) not in ("Cc", "Cs") for character in shown):
            self._shown.append(shown)
            self._length += len(shown)

    @property
    def texts(self) -> list[str]:
        """The warnings that a client gets, in order."""
        return list(self._shown)

    def headers(self) -> list[str]:
        """The values of the `Warning` headers of the answer, whether it is a success or a refusal."""
        escaped = (text.replace("\\", "\\\\").replace('"', '\\"') for text in self._shown)
        return [f'299 - "{text}"' for text in escaped]


Note = Callable[["Attempt", str, str], None]
"""Takes an audit annotation of a write: its key and its value."""


@dataclass(frozen=True, slots=True)
class Reviewer:
    """Calls webhooks, for mutation and validation."""

    objects: Objects
    """The webhook configurations and the namespaces."""
    caller: Caller
    note: Note
    """Takes audit annotations."""
    counts: CallCounts = field(default_factory=CallCounts)

    def concerns(self, hook: Hook, attempt: Attempt, variables: Variables, phase: Phase) -> bool:
        """True if a webhook must be called for a write.

        Raises:
            Refused: The match cannot be decided, and the write must not continue.
        """
        if not is_meant(hook, attempt, self.objects):
            return False
        count_error = partial(self.counts.count_condition, "evaluation_errors", hook, attempt, phase)
        holds = conditions_hold(hook, attempt, variables, count_error)
        if not holds:
            self.counts.count_condition("exclusions", hook, attempt, phase)
        return holds

    async def ask(self, hook: Hook, attempt: Attempt, warn: Callable[[str], None], *, mutating: bool) -> Answer:
        """The answer of a webhook that allows the write; passes on warnings and annotations.

        Raises:
            Refused: The webhook refuses, or may have side effects in a dry run.
            CallFailed: There is no valid answer.
        """
        if attempt.dry_run and hook.side_effects not in ("None", "NoneOnDryRun"):
            # It may have side effects that it does not omit in a dry run.
            raise statuses.bad_request(f'admission webhook "{hook.name}" does not support dry run')
        if "v1" not in hook.review_versions:
            why = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
            raise CallFailed(f"could not create admission objects: {why}")
        uid = str(uuid.uuid4())
        document = await self.caller.ask(hook, review_of(attempt, uid))
        try:
            answer = read_answer(document, uid, mutating=mutating)
        except UnreadableAnswer as error:
            raise CallFailed(f"failed to call webhook: {error}") from None
        except BadAnswer as error:
            raise CallFailed(f"received invalid webhook response: {error}") from None
        for key, value in answer.annotations.items():
            self.note(attempt, f"{hook.name}/{key}", value)
        for warning in answer.warnings:
            warn(warning)
        if not answer.allowed:
            raise _denial(hook.name, answer.status)
        return answer


def failed_call(hook: Hook, error: CallFailed) -> Refused:
    """The refusal for a failed call with failurePolicy Fail."""
    return statuses.internal_error(f'failed calling webhook "{hook.name}": {error}')


def _denial(webhook: str, status: dict[str, Any] | None) -> Denied:
    """The refusal with the webhook's own status, and its name in the message.

    Source: k8s.io/apiserver pkg/admission/plugin/webhook/errors/statuserror.go.
    """
    given = status or {}
    by = f'admission webhook "{webhook}" denied the request'
    explanation = given.get("message") or given.get("reason")
    return Denied(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            **given,
            "status": "Failure" if given.get("status") in (None, "", "Success") else given["status"],
            "message": f"{by}: {explanation}" if explanation else f"{by} without explanation",
            "code": max(given.get("code") or 0, 400),
        }
    )
