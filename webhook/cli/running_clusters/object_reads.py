"""Reads of lists and objects that RBAC may forbid, as facts for views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.view import UNKNOWN, Unknown
from webhook.cli.settings import settings_in
from webhook.cluster.errors import APIError
from webhook.cluster.lists import pages
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.resources import RESOURCES
from webhook.cluster.trimmed import trim_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from webhook.cli.progress import Progress
    from webhook.cluster.client import APIClient
    from webhook.cluster.resources import Resource

__all__ = ["list_namespaces", "list_trimmed", "read_object", "read_version", "stored_settings", "typed_list"]


def typed_list(resource: Resource, items: Iterable[Object]) -> Object:
    """A list as the API server returns it: `PodList` for pods."""
    return {"apiVersion": resource.api_version, "kind": f"{resource.kind}List", "items": list(items)}


async def read_version(client: APIClient) -> Any:
    """The version as the API server states it; None if RBAC hides it."""
    try:
        return await client.get("/version")
    except APIError as error:
        if not error.is_forbidden:
            raise
        return None


async def read_object(client: APIClient, resource: Resource, name: str) -> Object | Unknown | None:
    """One cluster-scoped object; None if it does not exist, unknown if reading it is forbidden."""
    try:
        found: Object = await client.get(resource.path(name=name))
    except APIError as error:
        if error.is_not_found:
            return None
        if error.is_forbidden:
            return UNKNOWN
        raise
    return found


async def stored_settings(client: APIClient) -> tuple[GPUAdmissionPolicy, list[str]]:
    """The settings of a running cluster, or the built-in defaults, and notes on them without full stops."""
    # If the kind is not installed, there are no settings. If it is forbidden, they are unknown, and a note says so.
    listed = await list_trimmed(client, "GPUAdmissionPolicy")
    return settings_in(ManifestsView([] if listed is None else [listed]))


async def list_namespaces(client: APIClient, namespace: str) -> list[Object]:
    """The list of all namespaces, or of the only one to look into; empty if reading them is forbidden."""
    resource = RESOURCES["Namespace"]
    if not namespace:
        listed = await list_trimmed(client, "Namespace")
        return [] if listed is None else [listed]
    found = await read_object(client, resource, namespace)
    return [] if found is UNKNOWN else [typed_list(resource, [] if found is None else [found])]


async def list_trimmed(
    client: APIClient,
    kind: str,
    namespace: str = "",
    progress: Progress | None = None,
    *,
    dropped: Callable[[Object], None] | None = None,
) -> Object | None:
    """The trimmed objects of a kind; empty if it is not served, None if listing it is forbidden.

    Args:
        client: The connection.
        kind: The kind.
        namespace: The only namespace to read, if the kind is namespaced; empty for all.
        progress: Shows how many objects were read.
        dropped: Called for each object that is not kept, such as a pod without GPUs.
    """
    resource = RESOURCES[kind]
    trim, items, count = trim_for(resource), [], 0
    try:
        async for page in pages(client, resource, namespace if resource.namespaced else ""):
            for item in page:
                kept = trim(item)
                if kept is not None:
                    items.append(kept)
                elif dropped is not None:
                    dropped(item)
            count += len(page)
            if progress is not None:
                progress.show(f"reading {resource.plural}: {count:,}")
    except APIError as error:
        if error.is_forbidden:
            return None
        if not error.is_not_found:
            raise
    return typed_list(resource, items)
