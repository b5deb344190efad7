"""The connection to a running cluster, and its objects and settings, read once."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from policies.view import UNKNOWN, Unknown
from webhook.cli.settings import settings_in
from webhook.cluster.client import APIClient
from webhook.cluster.errors import APIError, ClusterError, Unreachable
from webhook.cluster.lists import list_all
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.resources import RESOURCES
from webhook.cluster.server_version import parse_version
from webhook.cluster.sync import Sync

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from policies.settings import GPUAdmissionPolicy
    from webhook.cluster.live import LiveView

__all__ = ["Cluster", "NoClusterError", "connected_client", "read_cluster", "stored_settings"]

_SECONDS = 60.0
"""Time limit for the first lists; those of 100,000 pods take 10 seconds."""


class NoClusterError(click.ClickException):
    """A cluster cannot be read."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that was read once."""

    client: APIClient
    sync: Sync
    settings: GPUAdmissionPolicy
    """The settings of the cluster, or the built-in defaults."""
    notes: tuple[str, ...]
    """Problems of the settings, and kinds that cannot be read; without full stops."""

    @property
    def view(self) -> LiveView:
        """The objects of the cluster."""
        return self.sync.view


@asynccontextmanager
async def read_cluster(
    kubeconfig: str | None, context: str | None, *, seconds: float = _SECONDS
) -> AsyncIterator[Cluster]:
    """Connect, list everything that is watched, and disconnect at the end.

    Args:
        kubeconfig: A file; if None, the one that kubectl uses, else the ServiceAccount of this pod.
        context: The context of the kubeconfig; its current one if None.
        seconds: The time limit for the first lists.

    Raises:
        NoClusterError: The cluster cannot be reached, or not all of it can be listed in time.
    """
    async with connected_client(kubeconfig, context) as client:
        version = await _version(client)
        settings, notes = await stored_settings(client)
        sync = Sync(client)
        sync.start(settings.configuration.operator_namespaces)
        try:
            try:
                async with asyncio.timeout(seconds):
                    await sync.wait_for_first()
            except TimeoutError as error:
                raise NoClusterError(f"{client.url}: after {seconds:g} seconds, {sync.reason()}") from error
            sync.view.set_server_version(version)
            yield Cluster(client, sync, settings, (*notes, *sync.notes()))
        finally:
            await sync.close()


@asynccontextmanager
async def connected_client(kubeconfig: str | None, context: str | None) -> AsyncIterator[APIClient]:
    """Connect, and disconnect at the end; errors of the API server end the command with a sentence.

    Args:
        kubeconfig: A file; if None, the one that kubectl uses, else the ServiceAccount of this pod.
        context: The context of the kubeconfig; its current one if None.

    Raises:
        NoClusterError: The cluster cannot be reached, or refuses.
    """
    try:
        client = await APIClient.connect(kubeconfig, context)
    except ClusterError as error:
        raise NoClusterError(str(error)) from error
    try:
        yield client
    except Unreachable as error:
        raise NoClusterError(str(error)) from error
    except ClusterError as error:
        # The message of an API server does not name the server.
        raise NoClusterError(f"{client.url}: {error}") from error
    finally:
        await client.close()


async def stored_settings(client: APIClient) -> tuple[GPUAdmissionPolicy, list[str]]:
    """The settings of a running cluster, or the built-in defaults, and notes on them without full stops."""
    resource = RESOURCES["GPUAdmissionPolicy"]
    empty: dict[str, Any] = {"apiVersion": resource.api_version, "kind": "GPUAdmissionPolicyList", "items": []}
    try:
        known = [{**empty, "items": await list_all(client, resource)}]
    except APIError as error:
        if not (error.not_found or error.forbidden):
            raise
        # If the kind is not installed, there are no settings. If it is forbidden, they are unknown, and a note says so.
        known = [] if error.forbidden else [empty]
    return settings_in(ManifestsView(known))


async def _version(client: APIClient) -> tuple[int, int] | Unknown:
    try:
        return parse_version(await client.get("/version"))
    except APIError:
        return UNKNOWN
