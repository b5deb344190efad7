"""Reads of the API server: lists of whole collections, page by page, and resources of workloads."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.kubernetes.objects import items_at, lookup, name_of
from webhook.cluster.answers import APIError, BadAnswer
from webhook.cluster.resources import WORKLOAD_RESOURCES, Resource

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from policies.kubernetes.objects import Object
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cluster.client import APIClient


async def workload_resources(client: APIClient, settings: GPUAdmissionPolicy) -> list[Resource]:
    """The resources of all workload kinds; omits added kinds that the API server does not serve.

    Raises:
        ClusterError: The API server does not answer.
    """
    added = [await _discover_resource(client, each.group, each.kind) for each in settings.workloads.kinds]
    found = {(each.group, each.kind): each for each in added if each is not None}
    return [*{**WORKLOAD_RESOURCES, **found}.values()]


async def _discover_resource(client: APIClient, group: str, kind: str) -> Resource | None:
    """The resource of a kind in the first version of its group that serves it."""
    for listed in items_at(await get_if_exists(client, f"/apis/{group}"), ("versions",)):
        version = lookup(listed, ("version",))
        for each in items_at(await get_if_exists(client, f"/apis/{group}/{version}"), ("resources",)):
            name, namespaced = lookup(each, ("name",)), lookup(each, ("namespaced",))
            if lookup(each, ("kind",)) == kind and isinstance(name, str) and "/" not in name:
                return Resource(group, str(version), name, kind, namespaced=bool(namespaced))
    return None


async def get_if_exists(client: APIClient, path: str, *, timeout: float = 10.0) -> Any:
    """An object or a document; None if it does not exist, or its kind is not served.

    Raises:
        ClusterError: The API server refused for another reason, or did not answer.
    """
    try:
        return await client.get(path, timeout=timeout)
    except APIError as error:
        if not error.is_not_found:
            raise
        return None


async def get_object(
    client: APIClient, resource: Resource, name: str, namespace: str = "", *, timeout: float = 10.0
) -> Any:
    """One object, in the first version of its resource that is served.

    Raises:
        ClusterError: The object does not exist (404), or the API server refused or did not answer.
        ValueError: The name or the namespace is invalid.
    """
    *others, last = _candidates(client, resource)
    for each in others:
        try:
            return await client.get(each.path(namespace, name), timeout=timeout)
        except APIError as error:
            if not error.is_not_found:
                raise
    return await client.get(last.path(namespace, name), timeout=timeout)


def _candidates(client: APIClient, resource: Resource) -> list[Resource]:
    return client.served_versions.candidates(resource) if resource.other_versions else [resource]


async def list_one(client: APIClient, resource: Resource, name: str, namespace: str = "") -> Object | None:
    """One object as the API server stores it now; None if it does not exist. Needs only the right to list.

    Raises:
        ClusterError: As `list_all`.
    """
    found = await list_all(client, resource, namespace, {"fieldSelector": f"metadata.name={name}"})
    return found[0] if found else None


PAGE = 100
"""Objects in one page of a list. A page is parsed and freed in the event loop: 100 pods
take 10 ms, 500 take 50 ms and more."""


LARGE_PAGE = 500
"""Objects in one page for commands, which have nothing else to do meanwhile; as in client-go's tools/pager."""


_PAGE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list, as the API server sent it."""

    items: list[Object]
    """Objects with names, but without `kind` and `apiVersion`."""
    resource_version: str
    """The version of the whole list, the same in all of its pages."""
    resource: Resource
    """The resource in the version of the items."""


async def list_all(
    client: APIClient, resource: Resource, namespace: str = "", query: Mapping[str, str] | None = None
) -> list[Object]:
    """The stored objects of a collection at one moment, with `kind` and `apiVersion`.

    Raises:
        APIError: The collection is forbidden, or not installed (404).
        Unreachable: The API server did not answer, or the answer is not a list.
    """
    return [item async for page in pages(client, resource, namespace, query) for item in page]


async def pages(
    client: APIClient,
    resource: Resource,
    namespace: str = "",
    query: Mapping[str, str] | None = None,
    *,
    limit: int = PAGE,
) -> AsyncGenerator[list[Object]]:
    """The objects of a large collection, a page at a time; raises as `list_all` does."""
    async with contextlib.aclosing(raw_pages(client, resource, namespace, query, limit=limit)) as found:
        async for page in found:
            head = {"apiVersion": page.resource.api_version, "kind": resource.kind}
            yield [{**head, **item} for item in page.items]


async def raw_pages(
    client: APIClient, resource: Resource, namespace: str = "", query: Mapping[str, str] | None = None, *, limit: int
) -> AsyncGenerator[Page]:
    """The pages of a list as they arrive; raises as `list_all` does.

    The request has no resourceVersion, so the list is the newest by quorum. The API server prepares the next page while
    the caller works on this one. A resource with several versions is read in the first that is served.

    Args:
        client: Reads from the API server.
        resource: The resource to list.
        namespace: The only namespace to list; empty for all.
        query: `labelSelector`, `fieldSelector`.
        limit: Objects in a page; 0 for one page.
    """
    served, *others = _candidates(client, resource)

    def request(token: str) -> asyncio.Task[Any]:
        paging = {**({"limit": str(limit)} if limit else {}), **({"continue": token} if token else {})}
        path = served.path(namespace)
        return asyncio.create_task(client.get(path, {**(query or {}), **paging}, timeout=_PAGE_SECONDS))

    token, answer = "", request("")
    try:
        while True:
            try:
                page = await answer
            except APIError as error:
                if token or not others or not error.is_not_found:
                    raise
                served, *others = others
                answer = request("")
                continue
            path = served.path(namespace)
            version, items = lookup(page, ("metadata", "resourceVersion")), lookup(page, ("items",)) or []
            if not (isinstance(version, str) and version and isinstance(items, list) and all(map(name_of, items))):
                raise BadAnswer(f"GET {path}: expected a list of {resource.plural}")
            before, token = token, lookup(page, ("metadata", "continue")) or ""
            if token and (token == before or not isinstance(token, str)):
                raise BadAnswer(f"GET {path}: the list of {resource.plural} does not end")
            if token:
                answer = request(token)
            if resource.other_versions:
                client.served_versions.note(served)
            yield Page(items, version, served)
            if not token:
                return
    finally:
        answer.cancel()
        await asyncio.gather(answer, return_exceptions=True)
