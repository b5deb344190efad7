"""Connections of commands to a running cluster, whose errors end the command with a sentence."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import click

from webhook.cluster.client import APIClient
from webhook.cluster.errors import ClusterError, Unreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

__all__ = ["NoClusterError", "cluster_errors", "connect", "connected_client"]


class NoClusterError(click.ClickException):
    """A cluster cannot be read."""

    exit_code = 2


async def connect(kubeconfig: str | None, context: str | None) -> APIClient:
    """A client, which the caller closes.

    Args:
        kubeconfig: A file; if None, the one that kubectl uses, else the ServiceAccount of this pod.
        context: The context of the kubeconfig; its current one if None.

    Raises:
        NoClusterError: No cluster is configured, or the configuration cannot be used.
    """
    try:
        return await APIClient.connect(kubeconfig, context)
    except ClusterError as error:
        raise NoClusterError(str(error)) from error


@contextmanager
def cluster_errors(client: APIClient) -> Iterator[None]:
    """Turn errors of requests into NoClusterError."""
    try:
        yield
    except Unreachable as error:
        raise NoClusterError(str(error)) from error
    except ClusterError as error:
        # The message of an API server does not name the server.
        raise NoClusterError(f"{client.url}: {error}") from error


@asynccontextmanager
async def connected_client(kubeconfig: str | None, context: str | None) -> AsyncIterator[APIClient]:
    """Connect, and disconnect at the end; arguments as for `connect`.

    Raises:
        NoClusterError: The cluster cannot be reached, or refuses.
    """
    client = await connect(kubeconfig, context)
    try:
        with cluster_errors(client):
            yield client
    finally:
        await client.close()
