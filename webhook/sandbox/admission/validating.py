"""Validating webhooks: all at once, and all are heard before the first refusal, in list order, is told.

The API server tells the refusal that comes back first; the sandbox always tells the same one, so that tests can.
Source: k8s.io/apiserver pkg/admission/plugin/webhook/validating/dispatcher.go.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from webhook.sandbox.admission.calls import CallFailed
from webhook.sandbox.admission.conditions import Variables
from webhook.sandbox.admission.hooks import hooks
from webhook.sandbox.admission.questions import failed_closed
from webhook.sandbox.attempt import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from webhook.sandbox.admission.hooks import Hook
    from webhook.sandbox.admission.questions import Questions
    from webhook.sandbox.attempt import Attempt

__all__ = ["validate"]

_FAILED_OPEN = "failed-open.validating.webhook.admission.k8s.io/"


async def validate(questions: Questions, attempt: Attempt, warn: Callable[[str], None]) -> None:
    """Ask all validating webhooks that a write concerns.

    Raises:
        Refused: one of them says no, or cannot be asked and must be.
    """
    variables = Variables(attempt)
    concerned = [
        hook
        for hook in hooks(questions.objects, "ValidatingWebhookConfiguration")
        if questions.concerns(hook, attempt, variables)
    ]
    warnings: list[list[str]] = [[] for _ in concerned]
    asked = (_ask(questions, place, hook, attempt, warnings[place].append) for place, hook in enumerate(concerned))
    outcomes = await asyncio.gather(*asked)
    for warning in (text for texts in warnings for text in texts):
        warn(warning)
    for refusal in outcomes:
        if refusal is not None:
            raise refusal


async def _ask(
    questions: Questions, place: int, hook: Hook, attempt: Attempt, warn: Callable[[str], None]
) -> Refused | None:
    try:
        await questions.ask(hook, attempt, warn, mutating=False)
    except Refused as refusal:
        return refusal
    except CallFailed as error:
        if not hook.ignores_failures:
            return failed_closed(hook, error)
        questions.audit.note(attempt, f"{_FAILED_OPEN}round_0_index_{place}", hook.name)
    return None
