"""The report of a cluster as a page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from policies.analyses.overview import overview, visible_overview
from policies.outcome import Audience
from webhook.cli.progress import current_progress
from webhook.cli.reports.audit_reports import audit_files
from webhook.cli.settings import chosen_settings, read_cluster_files
from webhook.cli.user_files import reason_of, replace_file
from webhook.cluster.manifests import ManifestsView
from webhook.pages.report import render_report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.kubernetes.view import ClusterView
    from webhook.cli.cluster_options import ClusterOptions
    from webhook.cli.reports.audit_reports import Audited


class UnwritablePageError(click.ClickException):
    """A page cannot be written."""

    exit_code = 2


def page_of_files(source: ClusterOptions, since: Sequence[str]) -> str:
    """The page of a cluster in files.

    Args:
        source: The cluster.
        since: Files and folders of the same cluster earlier; empty to compare with nothing.

    Raises:
        UnreadableInputError: Files have problems.
        click.UsageError: The files have no objects.
        NoNamespaceError: The namespace does not exist.
    """
    before = _earlier_cluster(since)
    return _page_of(audit_files(source), source.namespace, ", ".join(source.cluster), before)


def page_of_cluster(source: ClusterOptions, since: Sequence[str]) -> str:
    """The page of a running cluster.

    Args:
        source: The cluster.
        since: Files and folders of the same cluster earlier; empty to compare with nothing.

    Raises:
        NoClusterError: The cluster cannot be read.
        UnreadableInputError: The settings or the files have problems.
        NoNamespaceError: The namespace does not exist.
    """
    import asyncio
    from urllib.parse import urlsplit

    from webhook.cli.reports.live_audits import audited_cluster

    chosen, before = chosen_settings(source.settings), _earlier_cluster(since)

    async def run() -> str:
        async with audited_cluster(source, chosen, with_events=True) as audited:
            return _page_of(audited, source.namespace, urlsplit(audited.server).netloc or audited.server, before)

    return asyncio.run(run())


def _earlier_cluster(files: Sequence[str]) -> ClusterView | None:
    """The cluster to compare with; None if no files are given."""
    return ManifestsView(read_cluster_files(files, None).facts) if files else None


def _page_of(audited: Audited, namespace: str, cluster: str, before: ClusterView | None) -> str:
    """The page of a cluster that was audited; the heading calls it `cluster`."""
    current_progress().show("writing the page")
    now = datetime.now(UTC)
    audience = Audience(namespace)
    found = overview(audited.view, audited.settings, now, audited.report, before, audience)
    shown = visible_overview(found, audited.view, audience)
    title = f"GPUs of {cluster}{f', namespace {namespace}' if namespace else ''}"
    return render_report(shown, title=title, moment=f"{now:%Y-%m-%d %H:%M} UTC", notes=audited.notes)


def write_page(file: str, page: str) -> None:
    """Write a page as a whole; `-` is standard output.

    Raises:
        UnwritablePageError: The file cannot be written; it is as before then.
    """
    if file == "-":
        click.echo(page)
        return
    try:
        replace_file(file, page.encode())
    except OSError as error:
        raise UnwritablePageError(f"the page cannot be written to {file}: {reason_of(error)}") from error
