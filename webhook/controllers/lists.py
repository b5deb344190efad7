"""Lists: all objects of a collection, read from the API server page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from policies.kubernetes.objects import Object
    from webhook.cluster.client import APIClient
    from webhook.cluster.resources import Resource

__all__ = ["list_all", "pages"]

_PAGE = "500"


async def list_all(client: APIClient, resource: Resource, namespace: str = "") -> list[Object]:
    """The objects of a collection as they were at one moment, as the API server's storage has them.

    Items of lists do not say what they are; here they do.

    Raises:
        APIError: It may not be read, or nobody has installed it (404).
        Unreachable: The API server did not answer.
    """
    return [item async for page in pages(client, resource, namespace) for item in page]


async def pages(client: APIClient, resource: Resource, namespace: str = "") -> AsyncIterator[list[Object]]:
    """The same a page at a time, for collections that are too large to be held; errors as for `list_all`."""
    query = {"limit": _PAGE}
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    while True:
        page = await client.get(resource.path(namespace), query)
        yield [{**head, **item} for item in page.get("items") or []]
        if not (token := page["metadata"].get("continue")):
            return
        query = {"limit": _PAGE, "continue": token}
