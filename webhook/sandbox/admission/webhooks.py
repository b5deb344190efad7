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
from webhook.sandbox.admission.reviewer import Reviewer, failed_call
from webhook.sandbox.attempt import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.kubernetes.objects import Object
    from webhook.sandbox.admission.calls import Resolver
    from webhook.sandbox.admission.hooks import Hook
    from webhook.sandbox.attempt import Attempt, Objects

__all__ = ["Webhooks"]


class Webhooks:
    """An `Admission` that calls the webhooks whose configurations are stored."""

    def __init__(self, objects: Objects, resolve: Resolver = lambda _namespace, _name, _port: None) -> None:
        """Without `resolve`, only webhooks with a URL can be called."""
        self.audit = Audit()
        self._objects = objects
        self._caller = Caller(resolve)
        self._reviewer = Reviewer(objects, self._caller, self.audit)

    async def mutate(self, attempt: Attempt, warn: Callable[[str], None]) -> Object | None:
        """The object after plug-ins and mutating webhooks, with defaults.

        Raises:
            Refused: The write is refused.
        """
        if is_exempt(attempt):
            return attempt.object
        mutation = Mutation(self._reviewer, warn)
        for number in range(2):
            with_changes = replace(attempt, object=with_plugins(attempt, self._objects))
            attempt = await mutation.round(with_changes, number)
            if not mutation.changed:
                break
        return attempt.object

    async def validate(self, attempt: Attempt, warn: Callable[[str], None]) -> None:
        """Call the validating webhooks for the object that will be stored.

        Raises:
            Refused: The write is refused.
        """
        if is_exempt(attempt):
            check_configuration(attempt)
            return
        await validate(self._reviewer, attempt, warn)

    async def close(self) -> None:
        """Close the connections to webhooks."""
        await self._caller.close()


_FAILED_OPEN = "failed-open.validating.webhook.admission.k8s.io/"


async def validate(reviewer: Reviewer, attempt: Attempt, warn: Callable[[str], None]) -> None:
    """Call all validating webhooks for a write at once; raises the first refusal in list order.

    The API server reports the refusal that arrives first; a fixed order suits tests.
    Source: k8s.io/apiserver pkg/admission/plugin/webhook/validating/dispatcher.go.

    Raises:
        Refused: A webhook refuses, or a necessary call fails.
    """
    variables = Variables(attempt)
    concerned = [
        hook
        for hook in hooks(reviewer.objects, "ValidatingWebhookConfiguration")
        if reviewer.concerns(hook, attempt, variables)
    ]
    warnings: list[list[str]] = [[] for _ in concerned]
    calls = (_ask(reviewer, place, hook, attempt, warnings[place].append) for place, hook in enumerate(concerned))
    refusals = await asyncio.gather(*calls)
    for warning in (text for texts in warnings for text in texts):
        warn(warning)
    for refusal in refusals:
        if refusal is not None:
            raise refusal


async def _ask(
    reviewer: Reviewer, place: int, hook: Hook, attempt: Attempt, warn: Callable[[str], None]
) -> Refused | None:
    try:
        await reviewer.ask(hook, attempt, warn, mutating=False)
    except Refused as refusal:
        return refusal
    except CallFailed as error:
        if not hook.ignores_failures:
            return failed_call(hook, error)
        reviewer.audit.note(attempt, f"{_FAILED_OPEN}round_0_index_{place}", hook.name)
    return None
