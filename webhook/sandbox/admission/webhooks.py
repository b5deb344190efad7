"""Admission of the sandbox: the plug-ins that matter for GPU pods, then the webhooks."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from webhook.sandbox.admission.calls import Caller, CallFailed
from webhook.sandbox.admission.configurations import check_configuration
from webhook.sandbox.admission.hooks import hooks
from webhook.sandbox.admission.matching import Variables, is_exempt
from webhook.sandbox.admission.mutating import Mutation
from webhook.sandbox.admission.notes import Audit
from webhook.sandbox.admission.plugins import with_plugins
from webhook.sandbox.admission.reviewer import Questions, failed_closed
from webhook.sandbox.attempt import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.kubernetes.objects import Object
    from webhook.sandbox.admission.calls import Resolver
    from webhook.sandbox.admission.hooks import Hook
    from webhook.sandbox.attempt import Attempt, Objects

__all__ = ["Webhooks", "validate"]


class Webhooks:
    """An `Admission` that asks the webhooks whose configurations are stored."""

    def __init__(self, objects: Objects, resolve: Resolver = lambda _namespace, _name, _port: None) -> None:
        """Args: what is stored, and what finds the address of a service; without it, webhooks are called by URL."""
        self.audit = Audit()
        self._objects = objects
        self._caller = Caller(resolve)
        self._questions = Questions(objects, self._caller, self.audit)

    async def mutate(self, attempt: Attempt, warn: Callable[[str], None]) -> Object | None:
        """The object as plug-ins and mutating webhooks make it, with defaults filled in.

        Raises:
            Refused: the write is not let through.
        """
        if is_exempt(attempt):
            return attempt.object
        mutation = Mutation(self._questions, warn)
        attempt = await mutation.round(self._plugged(attempt), 0)
        if mutation.changed:
            attempt = await mutation.round(self._plugged(attempt), 1)
        return attempt.object

    async def validate(self, attempt: Attempt, warn: Callable[[str], None]) -> None:
        """Ask the validating webhooks about what is about to be stored.

        Raises:
            Refused: the write is not let through.
        """
        if is_exempt(attempt):
            check_configuration(attempt)
            return
        await validate(self._questions, attempt, warn)

    async def close(self) -> None:
        """Close the connections to webhooks."""
        await self._caller.close()

    def _plugged(self, attempt: Attempt) -> Attempt:
        return replace(attempt, object=with_plugins(attempt, self._objects))


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
