"""The report of a running cluster as a page."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from webhook.cli.cluster_pages import page_of, read_earlier_cluster
from webhook.cli.progress import Progress
from webhook.cli.running_clusters.live_audits import audited_cluster
from webhook.cli.settings import chosen_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["page_of_cluster"]


def page_of_cluster(
    kubeconfig: str | None, context: str | None, namespace: str, settings: str | None, since: Sequence[str]
) -> str:
    """The page of a running cluster.

    Args:
        kubeconfig: A file; None for the one that kubectl uses.
        context: The context of the kubeconfig; its current one if None.
        namespace: The only namespace to show; empty for all.
        settings: The file with the administrator's settings; if None, those of the cluster.
        since: Files and folders of the same cluster earlier; empty to compare with nothing.

    Raises:
        NoClusterError: The cluster cannot be read.
        UnreadableInputError: The settings or the files have problems.
        NoNamespaceError: The namespace does not exist.
    """
    chosen, before = chosen_settings(settings), read_earlier_cluster(since)

    async def run(progress: Progress) -> str:
        async with audited_cluster(kubeconfig, context, namespace, chosen, progress) as audited:
            progress.show("writing the page")
            return page_of(audited, namespace, _name(audited.server), before)

    with Progress() as progress:
        return asyncio.run(run(progress))


def _name(url: str) -> str:
    """The cluster as its API server is called."""
    return urlsplit(url).netloc or url
