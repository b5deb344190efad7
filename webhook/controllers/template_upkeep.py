"""Upkeep of templates by the leader: missing ones are created again, unused ones are deleted."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from policies.admission import missing_templates, needed_by_workloads
from policies.conversion.templates import Key, mark, next_step, next_steps, unmark, used_by_pods
from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.view import UNKNOWN
from webhook.cluster.answers import APIError, ClusterError
from webhook.cluster.client import MERGE_PATCH
from webhook.cluster.clockwork import Clockwork
from webhook.cluster.kind_reads import read_pages
from webhook.cluster.lists import list_all, workload_resources
from webhook.cluster.resources import RESOURCES
from webhook.cluster.watched_kinds import Watched
from webhook.controllers.metrics import IncompleteRound
from webhook.server.template_keeper import FIELD_MANAGER, REMEMBERED_SECONDS, RefusedTemplate
from webhook.server.turns import Deadline, run_spread

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import timedelta

    from policies.conversion.templates import Step
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Template
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cluster.client import APIClient
    from webhook.controllers.metrics import ControllerMetrics
    from webhook.server.template_keeper import TemplateKeeper


_logger = logging.getLogger("gpu_admission.controllers")

_TEMPLATE = RESOURCES["ResourceClaimTemplate"]
_POD = RESOURCES["Pod"]
_POD_GROUP = RESOURCES["PodGroup"]
_CREATE_SECONDS = "30s"
_COMPUTE_SECONDS = 120.0
"""For one step in a thread; it takes a second in a large cluster."""


@dataclass(frozen=True, slots=True)
class TemplateRepair:
    """Creates missing templates of converted pods: they were deleted, or pods came from a backup."""

    keeper: TemplateKeeper
    view: ClusterView
    settings: Callable[[], GPUAdmissionPolicy]
    """Returns the administrator's current settings."""
    metrics: ControllerMetrics
    clockwork: Clockwork = field(default_factory=Clockwork)

    async def round(self) -> None:
        """Create every missing template.

        Raises:
            IncompleteRound: Some could not be created, or pods are unknown.
        """
        find = partial(missing_templates, _known_objects("Pod", self.view), self.view, self.settings())
        missing = await run_spread(find, _COMPUTE_SECONDS)
        problems = [problem for template in missing if (problem := await self._create(template))]
        _raise_first(
            problems, f"{len(problems)} of {len(missing)} missing ResourceClaimTemplates could not be created again"
        )

    async def _create(self, template: Template) -> str:
        """Create a template; returns the problem or an empty text."""
        # The keeper may remember a template that was deleted since.
        self.keeper.forget(template)
        try:
            deadline = Deadline.start(self.clockwork.clock, _CREATE_SECONDS)
            foreign = await self.keeper.ensure([template], deadline)
        except (RefusedTemplate, ClusterError, TimeoutError) as error:
            return f"{template.namespace}/{template.name}: {str(error) or 'the API server has not answered in time'}"
        if foreign:
            self.metrics.count_template("foreign")
            return f"{template.namespace}/{template.name} exists with another spec; delete it to have it created again"
        self.metrics.count_template("repaired")
        fields = {"namespace": template.namespace, "template": template.name}
        _logger.warning(
            "a ResourceClaimTemplate that pods wait for was missing and is created again", extra={"fields": fields}
        )
        return ""


@dataclass(frozen=True, slots=True)
class TemplateSweep:
    """Deletes our own templates that were unused for a while."""

    client: APIClient
    """Talks to the API server."""
    view: ClusterView
    """The cluster; checked with the API server before anything is deleted."""
    settings: Callable[[], GPUAdmissionPolicy]
    """Returns the administrator's current settings, which decide what workloads need."""
    metrics: ControllerMetrics
    """Counts changed templates."""
    grace: timedelta
    """For how long an unused template is kept."""
    clockwork: Clockwork = field(default_factory=Clockwork)
    """Time and randomness."""

    def __post_init__(self) -> None:
        """Check the grace.

        Raises:
            ValueError: It is so short that a replica could rely on a template without having seen the mark.
        """
        if self.grace.total_seconds() < 2 * REMEMBERED_SECONDS:
            raise ValueError(f"the grace must be {2 * REMEMBERED_SECONDS:g} seconds or more, and is {self.grace}")

    async def round(self) -> None:
        """Mark unused templates, unmark used ones, and delete those that were marked long enough.

        Raises:
            IncompleteRound: Some could not be processed, or templates or pods are unknown.
        """
        users = (*_known_objects(_POD.kind, self.view), *_known_objects(_POD_GROUP.kind, self.view))
        used = await run_spread(partial(used_by_pods, users), _COMPUTE_SECONDS)
        # One time for all templates of the round.
        now, templates = self.clockwork.now(), _known_objects(_TEMPLATE.kind, self.view)
        steps = await run_spread(partial(next_steps, templates, used, now, self.grace), _COMPUTE_SECONDS)
        problems = []
        for namespace, group in groupby(sorted(steps, key=lambda item: _key(item[0])), lambda item: _key(item[0])[0]):
            try:
                problems += await self._sweep(namespace, list(group), used)
            except ClusterError as error:
                problems.append(f"namespace {namespace}: {error}")
        _raise_first(problems, "some ResourceClaimTemplates could not be swept")

    async def _sweep(self, namespace: str, todo: Sequence[tuple[Object, Step]], used: Collection[Key]) -> list[str]:
        """Process the templates of one namespace; returns the problems."""
        if any(step == "delete" for _, step in todo):
            used = await self._used_now(namespace)
        problems = []
        for template, _ in todo:
            try:
                await self._treat(_key(template), used)
            except ClusterError as error:
                if isinstance(error, APIError) and error.is_invalid:
                    # Its author filled its annotations, so no mark fits. That must not make every round fail.
                    fields = {"namespace": namespace, "template": name_of(template), "error": str(error)}
                    _logger.info("left a ResourceClaimTemplate that cannot be marked", extra={"fields": fields})
                # If it was deleted or changed meanwhile, the next round decides again.
                elif not (isinstance(error, APIError) and (error.is_not_found or error.is_conflict)):
                    problems.append(f"{namespace}/{name_of(template)}: {error}")
        return problems

    async def _used_now(self, namespace: str) -> set[Key]:
        """The templates that pods and workloads use, by the API server: the view may be outdated."""
        pods = await list_all(self.client, _POD, namespace)
        used = set(await run_spread(partial(used_by_pods, pods), _COMPUTE_SECONDS))

        async def take_groups(page: list[Object]) -> None:
            used.update(used_by_pods(page))

        async def take_workloads(page: list[Object]) -> None:
            # Each workload is reviewed: half a second for a thousand of them.
            find = partial(needed_by_workloads, page, self.view, self.settings())
            used.update(await run_spread(find, _COMPUTE_SECONDS))

        # A kind that is forbidden may use any template, so it ends the round for this namespace.
        await read_pages(self.client, Watched(_POD_GROUP, namespace), take_groups, expected=())
        for resource in await workload_resources(self.client, self.settings()):
            await read_pages(self.client, Watched(resource, namespace), take_workloads, expected=())
        return used

    async def _treat(self, key: Key, used: Collection[Key]) -> None:
        """Mark, unmark or delete a template by its stored state; a write fails if that changes."""
        namespace, name = key
        path = _TEMPLATE.path(namespace, name)
        stored: Object = await self.client.get(path)
        now = self.clockwork.now()
        step = next_step(stored, used=key in used, now=now, grace=self.grace)
        metadata = stored["metadata"]
        if step is None:
            return
        if step == "delete":
            guard = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
            await self.client.delete(path, {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": guard})
            self.metrics.count_template("deleted")
            _logger.info(
                "deleted an unused ResourceClaimTemplate", extra={"fields": {"namespace": namespace, "template": name}}
            )
            return
        annotations = mark(now) if step == "mark" else unmark()
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"], "annotations": annotations}}
        await self.client.patch(path, body, FIELD_MANAGER, content_type=MERGE_PATCH)
        self.metrics.count_template(f"{step}ed")


def _known_objects(kind: str, view: ClusterView) -> Sequence[Object]:
    objects = view.list(kind)
    if objects is UNKNOWN:
        raise IncompleteRound(f"{kind}s are unknown, so no template is changed")
    return objects


def _raise_first(problems: list[str], what: str) -> None:
    """Raises IncompleteRound with the first problem, if any, and the number of others."""
    if problems:
        more = f"; and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise IncompleteRound(f"{what}: {problems[0]}{more}")


def _key(template: Object) -> Key:
    return namespace_of(template), name_of(template)
