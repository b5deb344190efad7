"""Typed lists of the objects of a running cluster, as facts for views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webhook.cli.settings import settings_in
from webhook.cluster.kind_reads import Unreadable, read_list, read_object
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.resources import RESOURCES
from webhook.cluster.trimmed import trim_for
from webhook.cluster.watched_kinds import Watched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from webhook.cli.progress import Progress
    from webhook.cluster.client import APIClient
    from webhook.cluster.resources import Resource

__all__ = ["list_namespaces", "list_trimmed", "stored_settings", "typed_list"]


def typed_list(resource: Resource, items: Iterable[Object]) -> Object:
    """A list as the API server returns it: `PodList` for pods."""
    return {"apiVersion": resource.api_version, "kind": f"{resource.kind}List", "items": list(items)}


async def stored_settings(client: APIClient) -> tuple[GPUAdmissionPolicy, list[str]]:
    """The settings of a running cluster, or the built-in defaults, and notes on them without full stops."""
    # If the kind is not installed, there are no settings. If it is forbidden, they are unknown, and a note says so.
    listed = await list_trimmed(client, "GPUAdmissionPolicy")
    return settings_in(ManifestsView([] if isinstance(listed, Unreadable) else [listed]))


async def list_namespaces(client: APIClient, namespace: str) -> list[Object]:
    """The list of all namespaces, or of the only one to look into; empty if reading them is forbidden."""
    resource = RESOURCES["Namespace"]
    if not namespace:
        listed = await list_trimmed(client, "Namespace")
        return [] if isinstance(listed, Unreadable) else [listed]
    found = await read_object(client, resource, namespace)
    return [] if isinstance(found, Unreadable) else [typed_list(resource, [] if found is None else [found])]


async def list_trimmed(
    client: APIClient,
    kind: str,
    namespace: str = "",
    progress: Progress | None = None,
    *,
    drop: Callable[[Object], None] | None = None,
) -> Object | Unreadable:
    """The trimmed objects of a kind, or why they are unknown.

    Args:
        client: The connection.
        kind: The kind.
        namespace: The only namespace to read, if the kind is namespaced; empty for all.
        progress: Shows how many objects were read.
        drop: Is called for each object that is not kept, such as a pod without GPUs.
    """
    resource = RESOURCES[kind]
    trim = trim_for(resource)

    def keep(item: Object) -> Object | None:
        kept = trim(item)
        if kept is None and drop is not None:
            drop(item)
        return kept

    def show(count: int) -> None:
        if progress is not None:
            progress.show(f"reading {resource.plural}: {count:,}")

    listed = await read_list(client, Watched(resource, namespace if resource.namespaced else ""), keep, show=show)
    return listed if isinstance(listed, Unreadable) else typed_list(resource, listed)
