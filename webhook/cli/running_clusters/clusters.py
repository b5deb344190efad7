"""Running clusters that are read whole, as a replica reads them."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webhook.cli.running_clusters.connections import NoClusterError
from webhook.cli.running_clusters.object_reads import stored_settings
from webhook.cluster.server_version import parse_version, read_version
from webhook.cluster.sync import Sync

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from policies.settings import GPUAdmissionPolicy
    from webhook.cli.progress import Progress
    from webhook.cluster.client import APIClient
    from webhook.cluster.live import LiveView

__all__ = ["Cluster", "read_cluster"]

# Notes and errors say what goes wrong; without a handler, Python would print the log messages as well.
logging.getLogger("gpu_admission").addHandler(logging.NullHandler())

_SECONDS = 60.0
"""Time limit for the first lists; those of 100,000 pods take 10 seconds."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that was read once."""

    view: LiveView
    """The objects of the cluster."""
    settings: GPUAdmissionPolicy
    """The settings of the cluster, or the built-in defaults."""
    notes: tuple[str, ...]
    """Problems of the settings, and kinds that cannot be read; without full stops."""


@asynccontextmanager
async def read_cluster(
    client: APIClient,
    progress: Progress,
    stored: tuple[GPUAdmissionPolicy, list[str]] | None = None,
    *,
    seconds: float = _SECONDS,
) -> AsyncIterator[Cluster]:
    """List everything that is watched, and end the watches at the end.

    Args:
        client: The connection.
        progress: Shows how many kinds were read.
        stored: What `stored_settings` returned, if the caller has read it.
        seconds: The time limit for the first lists.

    Raises:
        NoClusterError: Not everything can be listed in time.
    """
    version = parse_version(await read_version(client))
    settings, notes = stored or await stored_settings(client)
    sync = Sync(client)
    sync.start(settings.configuration.operator_namespaces)
    progress.show(lambda: _progress_of(sync))
    try:
        try:
            async with asyncio.timeout(seconds):
                await sync.wait_for_first()
        except TimeoutError as error:
            raise NoClusterError(f"{client.url}: after {seconds:g} seconds, {sync.reason()}") from error
        sync.view.set_server_version(version)
        yield Cluster(sync.view, settings, (*notes, *sync.notes()))
    finally:
        await sync.close()


def _progress_of(sync: Sync) -> str:
    caches = [*sync.caches]
    done = sum(cache.store.state != "waiting" for cache in caches)
    return f"reading the cluster: {done} of {len(caches)} kinds"
