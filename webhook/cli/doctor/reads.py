"""Reads of doctor: what RBAC forbids, or does not answer in time, is unread, and the rest goes on."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

from policies.health import METRICS, Unread, calls_in
from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.paths import items_at, lookup, mappings_at
from policies.preflight.rights import Right
from webhook.cluster.errors import APIError, ClusterError
from webhook.cluster.kind_reads import Unreadable, Why, read_list, read_object
from webhook.cluster.lists import PAGE, raw_pages

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from policies.health import APIServerCalls
    from policies.kubernetes.objects import Object
    from webhook.cli.running_clusters.discovery import Discovery
    from webhook.cluster.client import APIClient
    from webhook.cluster.resources import Resource
    from webhook.cluster.watched_kinds import Watched

__all__ = ["count_nodes", "list_objects", "read_calls", "read_manifest_object", "read_named", "readable"]

Result = TypeVar("Result")

_SECONDS = 30.0
"""For one fact, with all pages of a list."""
_EXPECTED = (Why.NOT_SERVED,)
"""The reason that `readable` gets as a result; it catches the others as errors."""


async def readable(right: str, read: Awaitable[Result | Unreadable]) -> Result | Unread:
    """The result of a read, or why there is none.

    Args:
        right: What the read needs, in the words of `kubectl auth can-i`.
        read: The read.
    """
    try:
        async with asyncio.timeout(_SECONDS):
            found = await read
    except TimeoutError:
        return Unread(error=f"no complete answer within {_SECONDS:g} seconds")
    except APIError as error:
        return Unread(right=right) if error.is_forbidden else Unread(error=str(error))
    except ClusterError as error:
        return Unread(error=str(error))
    return Unread(error=str(found)) if isinstance(found, Unreadable) else found


def _right(verb: str, resource: Resource, namespace: str = "", name: str = "") -> str:
    return Right(verb, resource.group, resource.plural, namespace, name).text


async def read_named(client: APIClient, resource: Resource, name: str, namespace: str = "") -> Object | Unread | None:
    """One object; None if it does not exist."""
    read = read_object(client, resource, name, namespace, expected=_EXPECTED)
    return await readable(_right("get", resource, namespace, name), read)


async def read_manifest_object(client: APIClient, discovery: Discovery, wanted: Object) -> Object | Unread | None:
    """What is stored of an object of the manifests; None if it does not exist, or its kind is not served.

    The right that is missing is that for all objects of the kind, so that it is named once.
    """
    resource = await readable(f"discover {wanted.get('apiVersion')}", discovery.resource(wanted))
    if resource is None or isinstance(resource, Unread):
        return resource
    found = await read_named(client, resource, name_of(wanted), namespace_of(wanted))
    if isinstance(found, Unread) and found.right:
        return Unread(right=_right("get", resource, namespace_of(wanted)))
    return found


async def list_objects(client: APIClient, wanted: Watched) -> Sequence[Object] | Unread:
    """The objects of a list; empty if its kind is not installed."""
    read = read_list(client, wanted, expected=_EXPECTED)
    return await readable(_right("list", wanted.resource, wanted.namespace), read)


async def count_nodes(client: APIClient, resource: Resource, most: int) -> int | Unread:
    """How many nodes are ready and accept all pods; stops to read beyond `most`."""

    async def read() -> int:
        count = 0
        async with contextlib.aclosing(raw_pages(client, resource, limit=PAGE)) as found:
            async for page in found:
                count += sum(map(_accepts_pods, page.items))
                if count >= most:
                    break
        return count

    return await readable(_right("list", resource), read())


def _accepts_pods(node: Object) -> bool:
    conditions = mappings_at(node, ("status", "conditions"))
    taints = items_at(node, ("spec", "taints"))
    return (
        not lookup(node, ("spec", "unschedulable"))
        and any((each.get("type"), each.get("status")) == ("Ready", "True") for each in conditions)
        and not any(lookup(each, ("effect",)) in ("NoSchedule", "NoExecute") for each in taints)
    )


async def read_calls(client: APIClient) -> APIServerCalls | Unread:
    """What the API server counted of our webhooks; only these lines of its metrics are kept."""

    async def read() -> Any:
        async with contextlib.aclosing(client.text_lines("/metrics", timeout=_SECONDS)) as lines:
            return calls_in([line async for line in lines if line.startswith(METRICS)])

    return await readable("get /metrics", read())
