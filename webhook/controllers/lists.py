"""Lists: all objects of a collection, read from the API server page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from webhook.cluster.client import APIClient
    from webhook.cluster.resources import Resource

__all__ = ["list_all"]

_PAGE = "500"


async def list_all(client: APIClient, resource: Resource, namespace: str = "") -> list[Object]:
    """The objects of a collection as they were at one moment, as the API server's storage has them.

    Items of lists do not say what they are; here they do.

    Raises:
        APIError: It may not be read, or nobody has installed it (404).
        Unreachable: The API server did not answer.
    """
    query = {"limit": _PAGE}
    objects: list[Object] = []
    while True:
        page = await client.get(resource.path(namespace), query)
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        objects += [{**head, **item} for item in page.get("items") or []]
        if not (token := page["metadata"].get("continue")):
            return objects
        query = {"limit": _PAGE, "continue": token}
