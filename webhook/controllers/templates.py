"""Upkeep of templates by the leader: what is missing is made again, and what nobody needs is swept."""

from __future__ import annotations

import logging
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from policies.conversion.sweep import Key, mark, next_step, next_steps, unmark, used_by_pods
from policies.kubernetes.objects import name_of, namespace_of
from policies.review.upkeep import missing_templates, needed_by_workloads
from policies.view import UNKNOWN
from webhook.cluster.client import MERGE_PATCH
from webhook.cluster.clockwork import Clockwork
from webhook.cluster.errors import APIError, ClusterError
from webhook.cluster.lists import list_all, pages
from webhook.cluster.resources import RESOURCES, workload_resources
from webhook.controllers.run import IncompleteRound
from webhook.server.deadlines import Deadline
from webhook.server.pacing import run_spread
from webhook.server.template_keeper import FIELD_MANAGER, REMEMBERED_SECONDS, RefusedTemplate

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from datetime import timedelta

    from policies.conversion.sweep import Step
    from policies.decision import Template
    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView
    from webhook.cluster.client import APIClient
    from webhook.controllers.metrics import ControllerMetrics
    from webhook.server.template_keeper import TemplateKeeper

__all__ = ["TemplateRepair", "TemplateSweep"]

_logger = logging.getLogger("gpu_admission.controllers")

_TEMPLATE = RESOURCES["ResourceClaimTemplate"]
_POD = RESOURCES["Pod"]
_POD_GROUP = RESOURCES["PodGroup"]
_CREATE_SECONDS = "30s"
_COMPUTE_SECONDS = 120.0
"""For one step, aside from the event loop; in a large cluster it takes a second."""


class TemplateRepair:
    """Makes the templates again that converted pods wait for: somebody deleted them, or restored pods from a backup."""

    def __init__(
        self,
        keeper: TemplateKeeper,
        view: ClusterView,
        settings: Callable[[], GPUAdmissionPolicy],
        metrics: ControllerMetrics,
        *,
        clockwork: Clockwork = Clockwork(),  # noqa: B008 - it is immutable
    ) -> None:
        """Args: who creates, what to look at, the choices of the administrator as they are now, what counts, time."""
        self._keeper = keeper
        self._view = view
        self._settings = settings
        self._metrics = metrics
        self._clockwork = clockwork

    async def round(self) -> None:
        """Make every template that is missing.

        Raises:
            IncompleteRound: Some could not be made, or nobody knows which there are.
        """
        find = partial(missing_templates, _known("Pod", self._view), self._view, self._settings())
        missing = await run_spread(find, _COMPUTE_SECONDS)
        problems = [problem for template in missing if (problem := await self._make(template))]
        _complete(problems, f"{len(problems)} of {len(missing)} missing ResourceClaimTemplates could not be made again")

    async def _make(self, template: Template) -> str:
        """Make one; what went wrong, or an empty text."""
        # That it was seen a moment ago is no reason to believe that it is there.
        self._keeper.forget(template)
        try:
            deadline = Deadline.start(self._clockwork.clock, _CREATE_SECONDS)
            foreign = await self._keeper.ensure([template], deadline)
        except (RefusedTemplate, ClusterError, TimeoutError) as error:
            return f"{template.namespace}/{template.name}: {str(error) or 'the API server has not answered in time'}"
        if foreign:
            self._metrics.count_template("foreign")
            return f"{template.namespace}/{template.name} exists with another spec; delete it, and it is made again"
        self._metrics.count_template("repaired")
        fields = {"namespace": template.namespace, "template": template.name}
        _logger.warning(
            "a ResourceClaimTemplate that pods wait for was missing and is made again", extra={"fields": fields}
        )
        return ""


class TemplateSweep:
    """Deletes templates of ours that nobody has needed for a while, and nothing else."""

    def __init__(
        self,
        client: APIClient,
        view: ClusterView,
        settings: Callable[[], GPUAdmissionPolicy],
        metrics: ControllerMetrics,
        grace: timedelta,
        *,
        clockwork: Clockwork = Clockwork(),  # noqa: B008 - it is immutable
    ) -> None:
        """Prepare.

        Args:
            client: Talks to the API server.
            view: The cluster; what it shows is checked with the API server before anything is deleted.
            settings: The choices of the administrator as they are now; they decide what workloads will need.
            metrics: Counts.
            grace: For how long a template is kept that nobody needs.
            clockwork: Time and chance.

        Raises:
            ValueError: The grace is so short that a replica could rely on a template without having seen the mark.
        """
        if grace.total_seconds() < 2 * REMEMBERED_SECONDS:
            raise ValueError(f"the grace must be {2 * REMEMBERED_SECONDS:g} seconds or more, and is {grace}")
        self._client = client
        self._view = view
        self._settings = settings
        self._metrics = metrics
        self._grace = grace
        self._clockwork = clockwork

    async def round(self) -> None:
        """Mark what nobody needs, take marks off what somebody needs again, delete what was marked long enough.

        Raises:
            IncompleteRound: Some could not be dealt with, or nobody knows which there are.
        """
        users = (*_known(_POD.kind, self._view), *_known(_POD_GROUP.kind, self._view))
        used = await run_spread(partial(used_by_pods, users), _COMPUTE_SECONDS)
        # What two reads of the clock would decide differently is decided once.
        now, templates = self._clockwork.now(), _known(_TEMPLATE.kind, self._view)
        steps = await run_spread(partial(next_steps, templates, used, now, self._grace), _COMPUTE_SECONDS)
        problems = []
        for namespace, group in groupby(sorted(steps, key=lambda item: _key(item[0])), lambda item: _key(item[0])[0]):
            todo = list(group)
            try:
                problems += await self._sweep(namespace, todo, used)
            except ClusterError as error:
                problems.append(f"namespace {namespace}: {error}")
        _complete(problems, "some ResourceClaimTemplates could not be swept")

    async def _sweep(self, namespace: str, todo: Iterable[tuple[Object, Step]], used: Collection[Key]) -> list[str]:
        """Do what is to be done in one namespace; what went wrong."""
        todo = list(todo)
        if any(step == "delete" for _, step in todo):
            used = await self._used_now(namespace)
        problems = []
        for template, _ in todo:
            try:
                await self._treat(_key(template), used)
            except ClusterError as error:
                # Gone, or changed under our hands: what is right then, the next round finds.
                if not (isinstance(error, APIError) and (error.not_found or error.conflict)):
                    problems.append(f"{namespace}/{name_of(template)}: {error}")
        return problems

    async def _used_now(self, namespace: str) -> set[Key]:
        """What pods and workloads need according to the API server, rather than to a view that may be behind."""
        pods = await list_all(self._client, _POD, namespace)
        used = set(await run_spread(partial(used_by_pods, pods), _COMPUTE_SECONDS))
        for resource in (_POD_GROUP, *await workload_resources(self._client, self._settings())):
            try:
                async for page in pages(self._client, resource, namespace):
                    if resource is _POD_GROUP:
                        used |= used_by_pods(page)
                        continue
                    # Each is reviewed, which takes a thousand of them half a second.
                    find = partial(needed_by_workloads, page, self._view, self._settings())
                    used |= await run_spread(find, _COMPUTE_SECONDS)
            except APIError as error:
                if not error.not_found:  # nobody has installed the kind
                    raise
        return used

    async def _treat(self, key: Key, used: Collection[Key]) -> None:
        """Do to a template what is right for it as it is stored now; every write fails if it changes meanwhile."""
        namespace, name = key
        path = _TEMPLATE.path(namespace, name)
        stored: Object = await self._client.get(path)
        now = self._clockwork.now()
        step = next_step(stored, used=key in used, now=now, grace=self._grace)
        metadata = stored["metadata"]
        if step is None:
            return
        if step == "delete":
            guard = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
            await self._client.delete(path, {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": guard})
            self._metrics.count_template("deleted")
            _logger.info(
                "deleted an unused ResourceClaimTemplate", extra={"fields": {"namespace": namespace, "template": name}}
            )
            return
        annotations = mark(now) if step == "mark" else unmark()
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"], "annotations": annotations}}
        await self._client.patch(path, body, FIELD_MANAGER, content_type=MERGE_PATCH)
        self._metrics.count_template(f"{step}ed")


def _known(kind: str, view: ClusterView) -> Sequence[Object]:
    objects = view.list(kind)
    if objects is UNKNOWN:
        raise IncompleteRound(f"nothing is known of {kind}s yet, so nothing is done to templates")
    return objects


def _complete(problems: list[str], what: str) -> None:
    """Raise with the first of the problems, if there are any, and how many more there are."""
    if problems:
        more = f"; and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise IncompleteRound(f"{what}: {problems[0]}{more}")


def _key(template: Object) -> Key:
    return namespace_of(template), name_of(template)
