"""Creates ResourceClaimTemplates before the answer that references them.

A converted pod references a template. Validation needs it 2 ms later, perhaps in another replica, and the claim is
created as soon as the pod is stored. So the replica that converts a pod creates its template before it answers.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from policies.conversion.exemptions import Mode, mode_of
from policies.conversion.templates import is_marked, is_ours, unmark, without_nulls
from policies.kubernetes.names import DRA_LABEL
from policies.kubernetes.objects import lookup
from policies.kubernetes.view import UNKNOWN
from webhook.cluster.answers import APIError, Unreachable
from webhook.cluster.client import MERGE_PATCH
from webhook.cluster.lists import get_if_exists
from webhook.cluster.resources import RESOURCES
from webhook.server.caller_limits import AT_ONCE, PER_MINUTE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from policies.conversion.templates import Key
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Template
    from webhook.cluster.client import APIClient
    from webhook.server.caller_limits import TemplateRates
    from webhook.server.turns import Deadline


FIELD_MANAGER = {"fieldManager": "gpu-admission"}
"""The name in `metadata.managedFields`."""

REMEMBERED_SECONDS = 60.0
"""Seconds for which a template that was seen is not read again, if no cache shows templates. Much shorter than it takes
to sweep one."""

_LAG_SECONDS = 2.0
"""The longest assumed lag of a cache. A template that it does not show after that was deleted, alone or with its
namespace, which may exist again under the same name."""

_RESOURCE = RESOURCES["ResourceClaimTemplate"]
_NAMESPACE = RESOURCES["Namespace"]
_MOST_REMEMBERED = 4096
_CALL_SECONDS = 10.0
_MORE_TURNS = 2
"""Retries after an interruption, such as a deletion between two calls, or a closed connection."""

_ACTIONABLE_CODES = (403, 404, 422, 429)
"""Codes of refusals that a user or administrator can act on: permissions, quotas, a namespace that is terminating or
missing, an API that is not served, policies of other webhooks, too many requests."""

TemplateResult = Literal["created", "found", "unmarked", "foreign", "failed", "limited", "unmatched"]


class RefusedTemplate(Exception):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """The API server refuses a template, for a reason that users can act on."""

    def __init__(self, template: Template, error: APIError) -> None:
        super().__init__(error.message)
        self.template = template
        self.error = error


class TooManyTemplates(Exception):  # noqa: N818 - as above
    """A namespace reached its limit of new templates."""

    def __init__(self, template: Template, seconds: int) -> None:
        super().__init__(
            f"namespace {template.namespace} gets at most {AT_ONCE} new ResourceClaimTemplates at once and {PER_MINUTE} "
            "more a minute"
        )
        self.template = template
        self.seconds = seconds
        """Seconds after which a retry may succeed."""


@dataclass(eq=False)
class TemplateKeeper:
    """Creates templates that do not exist.

    Concurrent calls for a template share one task that creates it, so that the shortest deadline does not end the others.
    """

    client: APIClient
    """Sends requests to the API server."""
    view: ClusterView
    """The cluster; a template that it shows is not requested."""
    rates: TemplateRates | None = None
    """Limits new templates per namespace; None if callers cannot choose the templates."""
    clock: Callable[[], float] = time.monotonic
    """Returns monotonic seconds."""
    count: Callable[[TemplateResult], None] = lambda _: None
    """Called for each template that was requested from the API server."""
    _remembered: OrderedDict[Key, float] = field(default_factory=OrderedDict, init=False)
    _under_way: dict[Key, asyncio.Task[Object]] = field(default_factory=dict, init=False)

    async def ensure(self, templates: Iterable[Template], deadline: Deadline) -> dict[Key, Object]:
        """Create the templates that do not exist.

        Returns:
            The stored templates that have another spec; empty if all have the right one.

        Raises:
            TimeoutError: the deadline passed; running requests continue.
            RefusedTemplate: the API server refuses one, for a reason that users can act on.
            TooManyTemplates: one is new, and its namespace reached its limit.
            APIError: the API server failed.
            Unreachable: the API server did not answer.
        """
        foreign: dict[Key, Object] = {}
        async with asyncio.timeout(max(deadline.remaining, 0)):
            for template in templates:
                key = template.namespace, template.name
                if key in foreign or self._knows(template):
                    continue
                stored = await self._stored_template(template)
                if without_nulls(stored.get("spec")) != template.spec:
                    foreign[key] = stored
                    continue
                self._remembered[key] = self.clock()
                self._remembered.move_to_end(key)
                if len(self._remembered) > _MOST_REMEMBERED:
                    self._remembered.popitem(last=False)
        return foreign

    async def converts(self, namespace: str, deadline: Deadline) -> bool:
        """True if the label of a namespace says that its pods are converted.

        A review for any other namespace is forged: the API server does not send one. If the cache does not show the label,
        it may lag behind, so the namespace is read from the API server.

        Raises:
            TimeoutError: The deadline passed.
            APIError: The API server failed.
            Unreachable: It did not answer.
        """
        if mode_of(namespace, self.view) is Mode.ENABLED:
            return True
        stored: Object | None = None
        if namespace:
            async with asyncio.timeout(max(deadline.remaining, 0)):
                stored = await get_if_exists(self.client, _NAMESPACE.path(name=namespace), timeout=_CALL_SECONDS)
        if lookup(stored, ("metadata", "labels", DRA_LABEL)) == Mode.ENABLED.value:
            return True
        self.count("unmatched")
        return False

    def forget(self, template: Template) -> None:
        """Read a template from the API server the next time, even if it was seen recently."""
        self._remembered.pop((template.namespace, template.name), None)

    def _knows(self, template: Template) -> bool:
        key = template.namespace, template.name
        shown = self.view.get(_RESOURCE.kind, template.name, template.namespace)
        if isinstance(shown, dict) and not is_marked(shown):
            return True
        seconds = REMEMBERED_SECONDS if shown is UNKNOWN else _LAG_SECONDS
        return self.clock() - self._remembered.get(key, -seconds) < seconds

    async def _stored_template(self, template: Template) -> Object:
        try:
            return await asyncio.shield(self._task_for(template))
        except APIError as error:
            if error.code in _ACTIONABLE_CODES:
                raise RefusedTemplate(template, error) from error
            raise

    def _task_for(self, template: Template) -> asyncio.Task[Object]:
        key = template.namespace, template.name
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.create_task(
                self._create_or_adopt(template), name=f"template {template.namespace}/{template.name}"
            )
            self._under_way[key] = task
            task.add_done_callback(lambda done: self._finish_task(key, done))
        return task

    def _finish_task(self, key: Key, task: asyncio.Task[Object]) -> None:
        del self._under_way[key]
        # If all callers were cancelled, only this reads the exception; asyncio warns about exceptions that are not read.
        error = None if task.cancelled() else task.exception()
        if isinstance(error, TooManyTemplates):
            self.count("limited")
        elif task.cancelled() or error is not None:
            self.count("failed")

    async def _create_or_adopt(self, template: Template, more_turns: int = _MORE_TURNS) -> Object:
        """The stored template, created if it does not exist."""
        try:
            return await self._create(template)
        except Unreachable:
            # A connection that was kept alive may have been closed meanwhile; creating twice changes nothing.
            if not more_turns:
                raise
        except APIError as error:
            if error.already_exists:
                try:
                    return await self._adopt(template)
                except APIError as gone:
                    if not (more_turns and gone.is_not_found):
                        raise
            # A conflict of something new is about what else is written with it, such as the status of a ResourceQuota.
            elif not (more_turns and error.is_conflict):
                raise
        return await self._create_or_adopt(template, more_turns - 1)

    async def _create(self, template: Template) -> Object:
        if self.rates is not None and not self.rates.take(template.namespace):
            return await self._adopt_without_token(template, self.rates)
        path = _RESOURCE.path(template.namespace)
        try:
            stored: Object = await self.client.post(path, template.manifest(), FIELD_MANAGER, timeout=_CALL_SECONDS)
        except APIError:
            if self.rates is not None:
                self.rates.give_back(template.namespace)
            raise
        self.count("created")
        return stored

    async def _adopt_without_token(self, template: Template, rates: TemplateRates) -> Object:
        """The existing template; the limit applies to new templates only."""
        try:
            return await self._adopt(template)
        except APIError as error:
            if not error.is_not_found:
                raise
            raise TooManyTemplates(template, max(1, rates.seconds_until_next(template.namespace))) from error

    async def _adopt(self, template: Template) -> Object:
        """The existing template; removes the mark for sweeping if it has the right spec.

        The sweep deletes no template that lost our label, and the ValidatingAdmissionPolicy lets us write to none, so the mark
        on such a template stays.
        """
        path = _RESOURCE.path(template.namespace, template.name)
        stored: Object = await self.client.get(path, timeout=_CALL_SECONDS)
        if without_nulls(stored.get("spec")) != template.spec:
            self.count("foreign")
        elif is_marked(stored) and is_ours(stored):
            body = {"metadata": {"annotations": unmark()}}
            stored = await self.client.patch(path, body, FIELD_MANAGER, content_type=MERGE_PATCH, timeout=_CALL_SECONDS)
            self.count("unmarked")
        else:
            self.count("found")
        return stored
