"""One webhook reviews one write: the call, its answer, and the refusal."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from webhook.sandbox import statuses
from webhook.sandbox.admission.call_counts import CallCounts, Denied
from webhook.sandbox.admission.calls import CallFailed
from webhook.sandbox.admission.matching import conditions_hold, is_meant
from webhook.sandbox.admission.reviews import BadAnswer, UnreadableAnswer, read_answer, review_of

if TYPE_CHECKING:
    from webhook.sandbox.admission.call_counts import Phase
    from webhook.sandbox.admission.calls import Caller
    from webhook.sandbox.admission.matching import Hook, Variables
    from webhook.sandbox.admission.reviews import Answer
    from webhook.sandbox.attempt import Attempt, Objects, Refused

__all__ = ["Note", "Reviewer", "failed_call"]

Note = Callable[["Attempt", str, str], None]
"""Takes an audit annotation of a write: its key and its value."""

_KNOWN_VERSION = "v1"
_SIDE_EFFECTS_ALLOWED = frozenset({"None", "NoneOnDryRun"})


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
        count_error = partial(self.counts.count_condition_error, hook, attempt, phase)
        holds = conditions_hold(hook, attempt, variables, count_error)
        if not holds:
            self.counts.count_exclusion(hook, attempt, phase)
        return holds

    async def ask(self, hook: Hook, attempt: Attempt, warn: Callable[[str], None], *, mutating: bool) -> Answer:
        """The answer of a webhook that allows the write; passes on warnings and annotations.

        Raises:
            Refused: The webhook refuses, or may have side effects in a dry run.
            CallFailed: There is no valid answer.
        """
        if attempt.dry_run and hook.side_effects not in _SIDE_EFFECTS_ALLOWED:
            # It may have side effects that it does not omit in a dry run.
            raise statuses.bad_request(f'admission webhook "{hook.name}" does not support dry run')
        if _KNOWN_VERSION not in hook.review_versions:
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


_LEAST_ERROR = 400


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
            "code": max(given.get("code") or 0, _LEAST_ERROR),
        }
    )
