"""Surveying: what an audit looks at beside the view, read from the API server page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webhook.cluster.errors import APIError
from webhook.cluster.lists import pages
from webhook.cluster.resources import RESOURCES
from webhook.cluster.workload_resources import workload_resources

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from policies.audit import Survey
    from policies.kubernetes.objects import Object
    from webhook.cluster.client import APIClient
    from webhook.cluster.resources import Resource

__all__ = ["survey_cluster"]

_POD = RESOURCES["Pod"]
_NODE_POOL = RESOURCES["NodePool"]


async def survey_cluster(client: APIClient, survey: Survey, take: Callable[[list[Object]], Awaitable[None]]) -> None:
    """Read everything that a survey is to be told of.

    A kind that nobody has installed has no objects. One that the API server does not let us list is not known, and the
    survey is told why.

    Args:
        client: Talks to the API server.
        survey: Says which namespace to look into, and is told what is not known.
        take: Adds a page of objects to the survey.

    Raises:
        ClusterError: The API server did not answer, or stopped within a list.
    """
    workloads = await workload_resources(client, survey.settings)
    makers = [each for each in workloads if (each.group, each.kind) in survey.kinds]
    for resource in (_POD, *makers, _NODE_POOL):
        try:
            await _survey(client, resource, survey, take)
        except APIError as error:
            if not error.forbidden:
                raise
            survey.miss(resource.kind, f"forbidden: list {resource.name}")


async def _survey(
    client: APIClient, resource: Resource, survey: Survey, take: Callable[[list[Object]], Awaitable[None]]
) -> None:
    namespace = survey.namespace if resource.namespaced else ""
    try:
        async for page in pages(client, resource, namespace):
            await take(page)
    except APIError as error:
        if not error.not_found:
            raise
