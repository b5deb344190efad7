"""One webhook reviews one write: the call, its answer, and the refusal."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from webhook.sandbox import statuses
from webhook.sandbox.admission.calls import CallFailed
from webhook.sandbox.admission.matching import conditions_hold, is_meant
from webhook.sandbox.admission.reviews import BadAnswer, UnreadableAnswer, read_answer, review_of
from webhook.sandbox.attempt import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from webhook.sandbox.admission.calls import Caller
    from webhook.sandbox.admission.hooks import Hook
    from webhook.sandbox.admission.matching import Variables
    from webhook.sandbox.admission.notes import Audit
    from webhook.sandbox.admission.reviews import Answer
    from webhook.sandbox.attempt import Attempt, Objects

__all__ = ["Questions", "denied", "dry_run_unsupported", "failed_closed"]

_KNOWN_VERSION = "v1"
_SIDE_EFFECTS_ALLOWED = frozenset({"None", "NoneOnDryRun"})


class Questions:
    """Asks webhooks; what mutating and validating have in common."""

    def __init__(self, objects: Objects, caller: Caller, audit: Audit) -> None:
        """Args: where configurations and namespaces are, who calls, and where annotations are kept."""
        self.objects = objects
        self.audit = audit
        self._caller = caller

    def concerns(self, hook: Hook, attempt: Attempt, variables: Variables) -> bool:
        """Whether a webhook has to be asked about a write.

        Raises:
            Refused: that cannot be told, and the write must not go on.
        """
        return is_meant(hook, attempt, self.objects) and conditions_hold(hook, attempt, variables)

    async def ask(self, hook: Hook, attempt: Attempt, warn: Callable[[str], None], *, mutating: bool) -> Answer:
        """A webhook's answer, which lets the write through; its warnings and annotations are passed on either way.

        Raises:
            Refused: the webhook says no, or may have side effects that a dry-run must not have.
            CallFailed: there is no answer that counts.
        """
        if attempt.dry_run and hook.side_effects not in _SIDE_EFFECTS_ALLOWED:
            raise statuses.bad_request(dry_run_unsupported(hook.name))
        if _KNOWN_VERSION not in hook.review_versions:
            why = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
            raise CallFailed(f"could not create admission objects: {why}")
        uid = str(uuid.uuid4())
        document = await self._caller.ask(hook, review_of(attempt, uid))
        try:
            answer = read_answer(document, uid, mutating=mutating)
        except UnreadableAnswer as error:
            raise CallFailed(f"failed to call webhook: {error}") from None
        except BadAnswer as error:
            raise CallFailed(f"received invalid webhook response: {error}") from None
        for key, value in answer.annotations.items():
            self.audit.note(attempt, f"{hook.name}/{key}", value)
        for warning in answer.warnings:
            warn(warning)
        if not answer.allowed:
            raise denied(hook.name, answer.status)
        return answer


def failed_closed(hook: Hook, error: CallFailed) -> Refused:
    """What a failed call comes to where failurePolicy is Fail."""
    return statuses.internal_error(f'failed calling webhook "{hook.name}": {error}')


_LEAST_ERROR = 400


def denied(webhook: str, status: dict[str, Any] | None) -> Refused:
    """The webhook's own status, reason, details and code, with its name before its words."""
    given = status or {}
    by = f'admission webhook "{webhook}" denied the request'
    explanation = given.get("message") or given.get("reason")
    return Refused(
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


def dry_run_unsupported(webhook: str) -> str:
    """Why a dry-run is refused: the webhook may have side effects that it does not leave out."""
    return f'admission webhook "{webhook}" does not support dry run'
