"""The connection to a cluster: options that say which, and one look at everything that policies ask for."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from policies.view import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from policies.settings import GPUAdmissionPolicy
    from webhook.cluster.client import APIClient
    from webhook.cluster.live import LiveView
    from webhook.cluster.sync import Sync

__all__ = ["Cluster", "NoClusterError", "connected", "connection_options", "reached", "stored_settings"]

F = TypeVar("F", bound="Callable[..., Any]")

_SECONDS = 60.0
"""For how long the first lists may take; those of 100,000 pods take 10."""


class NoClusterError(click.ClickException):
    """No cluster could be read; nothing is said of it."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that was read once."""

    client: APIClient
    sync: Sync
    settings: GPUAdmissionPolicy
    """Its own, or the built-in defaults."""
    notes: tuple[str, ...]
    """What is wrong with its own settings, and what is not known of it; without full stops."""

    @property
    def view(self) -> LiveView:
        """What it is like."""
        return self.sync.view


def connection_options(command: F) -> F:
    """Add the options that say which cluster to read."""
    options = (
        click.option("--kubeconfig", metavar="FILE", help="Whom to connect to, and as whom; as kubectl finds it else."),
        click.option("--context", metavar="NAME", help="The context of the kubeconfig; else its current one."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@asynccontextmanager
async def connected(
    kubeconfig: str | None, context: str | None, *, seconds: float = _SECONDS
) -> AsyncIterator[Cluster]:
    """Connect, list everything that is watched, and close again.

    Args:
        kubeconfig: A file; if None, where kubectl looks, and then the pod that this runs in.
        context: Which context of it; its current one if None.
        seconds: For how long the first lists may take.

    Raises:
        NoClusterError: There is none, it does not answer, or not all of it in time.
    """
    from webhook.cluster.sync import Sync  # noqa: PLC0415 - as all of these imports: files need no client

    async with reached(kubeconfig, context) as client:
        version = await _version(client)
        settings, notes = await stored_settings(client)
        sync = Sync(client)
        sync.start(settings.configuration.operator_namespaces)
        try:
            await _first(sync, client.url, seconds)
            sync.view.set_server_version(version)
            yield Cluster(client, sync, settings, (*notes, *sync.notes()))
        finally:
            await sync.close()


@asynccontextmanager
async def reached(kubeconfig: str | None, context: str | None) -> AsyncIterator[APIClient]:
    """Connect, and close again; whatever the API server does not answer meanwhile ends the command with a sentence.

    Args:
        kubeconfig: A file; if None, where kubectl looks, and then the pod that this runs in.
        context: Which context of it; its current one if None.

    Raises:
        NoClusterError: There is none, it does not answer, or refuses.
    """
    from webhook.cluster.client import APIClient  # noqa: PLC0415 - help and mistakes do not wait for a client's
    from webhook.cluster.errors import ClusterError, Unreachable  # noqa: PLC0415 - libraries

    try:
        client = await APIClient.connect(kubeconfig, context)
    except ClusterError as error:
        raise NoClusterError(str(error)) from error
    try:
        yield client
    except Unreachable as error:
        raise NoClusterError(str(error)) from error
    except ClusterError as error:
        # What the API server says does not tell which one says it.
        raise NoClusterError(f"{client.url}: {error}") from error
    finally:
        await client.close()


async def _version(client: APIClient) -> tuple[int, int] | Unknown:
    from webhook.cluster.errors import APIError  # noqa: PLC0415 - as above
    from webhook.cluster.server_version import parse_version  # noqa: PLC0415

    try:
        return parse_version(await client.get("/version"))
    except APIError:
        # It answers, and does not tell.
        return UNKNOWN


async def _first(sync: Sync, url: str, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await sync.wait_for_first()
    except TimeoutError as error:
        raise NoClusterError(f"{url}: after {seconds:g} seconds, {sync.reason()}") from error


async def stored_settings(client: APIClient) -> tuple[GPUAdmissionPolicy, list[str]]:
    """The settings of a running cluster, or the built-in defaults, and notes on them: sentences without full stops."""
    from webhook.cli.settings import settings_among  # noqa: PLC0415 - as above
    from webhook.cluster.errors import APIError  # noqa: PLC0415
    from webhook.cluster.lists import list_all  # noqa: PLC0415
    from webhook.cluster.manifests import ManifestsView  # noqa: PLC0415
    from webhook.cluster.resources import RESOURCES  # noqa: PLC0415

    resource = RESOURCES["GPUAdmissionPolicy"]
    try:
        stored = await list_all(client, resource)
    except APIError as error:
        if not (error.not_found or error.forbidden):
            raise
        # Not installed, so there are none; forbidden, so they are unknown, which a note tells.
        known = [] if error.forbidden else [_empty(resource.api_version)]
    else:
        known = [{**_empty(resource.api_version), "items": stored}]
    return settings_among(ManifestsView(known))


def _empty(version: str) -> dict[str, Any]:
    return {"apiVersion": version, "kind": "GPUAdmissionPolicyList", "items": []}
