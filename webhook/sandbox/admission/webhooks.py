"""Admission of the sandbox: the plug-ins that matter for GPU pods, then the webhooks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from webhook.sandbox.admission.audit import Audit
from webhook.sandbox.admission.calls import Caller
from webhook.sandbox.admission.configurations import check_configuration
from webhook.sandbox.admission.matching import is_exempt
from webhook.sandbox.admission.mutating import Mutation
from webhook.sandbox.admission.plugins import with_plugins
from webhook.sandbox.admission.questions import Questions
from webhook.sandbox.admission.validating import validate

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.kubernetes.objects import Object
    from webhook.sandbox.admission.calls import Resolver
    from webhook.sandbox.attempt import Attempt, Objects

__all__ = ["Webhooks"]


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
