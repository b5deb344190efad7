"""Reads lists of a running cluster, reduced to what rules read."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from policies.view import UNKNOWN, Unknown
from webhook.cli.snapshots.reductions import reduction_of
from webhook.cluster.errors import APIError
from webhook.cluster.lists import raw_pages
from webhook.cluster.watched_kinds import DRA_SERVED_SINCE

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from policies.kubernetes.objects import Object
    from webhook.cluster.client import APIClient
    from webhook.cluster.watched_kinds import Watched

__all__ = ["UnreadableKindError", "reduced_pages"]

_PAGE = 500
"""Objects in one page, as in client-go's tools/pager."""
_DRA = "resource.k8s.io"
_FIRST_SERVER_ERROR = 500


class UnreadableKindError(Exception):
    """The objects of a kind are unknown; the text says why, without a full stop."""

    def __init__(self, reason: str, wanted: Watched, detail: str = "") -> None:
        """Say why objects are unknown.

        Args:
            reason: The words before the objects, such as `forbidden: list`; without names that users choose.
            wanted: The objects.
            detail: The answer of the API server, which may have any names.
        """
        sentence = f"{reason} {wanted.words}"
        super().__init__(f"{sentence}: {detail}" if detail else sentence)
        self.redacted = f"{reason} {wanted.resource.name}"
        """The text without names of objects and namespaces, and without the detail."""


async def reduced_pages(
    client: APIClient, wanted: Watched, version: tuple[int, int] | Unknown
) -> AsyncGenerator[list[Object]]:
    """The kept objects of a list, page by page; none if the API server does not serve the kind.

    Args:
        client: Reads from the API server.
        wanted: The objects to list.
        version: Of the API server; one before 1.34 may serve the kinds of DRA in another version.

    Raises:
        UnreadableKindError: RBAC forbids the list, or the API server fails to serve it.
        ClusterError: The API server does not answer, or does not accept the credentials.
    """
    reduce = reduction_of(wanted.resource)
    found = raw_pages(client, wanted.resource, wanted.namespace, wanted.query, limit=_PAGE)
    try:
        async with contextlib.aclosing(found):
            async for page in found:
                yield [kept for item in page.items if (kept := reduce(item)) is not None]
    except APIError as error:
        if error.is_not_found:
            group = wanted.resource.group
            if group == _DRA and (version is UNKNOWN or version < DRA_SERVED_SINCE):
                served = f"{group}/{wanted.resource.version}"
                raise UnreadableKindError(f"the API server does not serve {served}:", wanted) from error
        elif error.is_forbidden:
            raise UnreadableKindError("forbidden: list", wanted) from error
        elif error.code >= _FIRST_SERVER_ERROR:
            raise UnreadableKindError("the API server fails to list", wanted, str(error)) from error
        else:
            raise
