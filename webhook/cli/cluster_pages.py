"""The report of a cluster as a page: of files, and of any audited cluster."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from policies.analyses.overview import overview, visible_overview
from policies.outcome import Audience
from webhook.cli.audit_reports import audit_files
from webhook.cli.folders import replace_file
from webhook.cli.settings import read_cluster_files
from webhook.cluster.manifests import ManifestsView
from webhook.pages.report import render_report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.kubernetes.view import ClusterView
    from webhook.cli.audit_reports import Audited

__all__ = ["page_of", "page_of_files", "read_earlier_cluster", "write_page"]


class UnwritablePageError(click.ClickException):
    """A page cannot be written."""

    exit_code = 2


def page_of_files(cluster: Sequence[str], namespace: str, settings: str | None, since: Sequence[str]) -> str:
    """The page of a cluster in files.

    Args:
        cluster: Files and folders.
        namespace: The only namespace to show; empty for all.
        settings: The file with the administrator's settings; if None, the GPUAdmissionPolicy among the objects.
        since: Files and folders of the same cluster earlier; empty to compare with nothing.

    Raises:
        UnreadableInputError: Files have problems.
        click.UsageError: The files have no objects.
        NoNamespaceError: The namespace does not exist.
    """
    before = read_earlier_cluster(since)
    return page_of(audit_files(cluster, namespace, settings), namespace, ", ".join(cluster), before)


def read_earlier_cluster(files: Sequence[str]) -> ClusterView | None:
    """The cluster to compare with; None if no files are given.

    Raises:
        UnreadableInputError: Files have problems.
    """
    return ManifestsView(read_cluster_files(files, None).facts) if files else None


def page_of(audited: Audited, namespace: str, cluster: str, before: ClusterView | None) -> str:
    """The page of a cluster that was audited.

    Args:
        audited: The audit, with the cluster.
        namespace: The only namespace to show; empty for all.
        cluster: What the heading calls the cluster.
        before: The same cluster earlier; None to compare with nothing.
    """
    now = datetime.now(UTC)
    found = overview(audited.view, audited.settings, now, audited.report, before)
    shown = visible_overview(found, audited.view, Audience(namespace))
    of = f", namespace {namespace}" if namespace else ""
    title = f"GPUs of {cluster}{of}"
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
        reason = (error.strerror or str(error)).lower()
        raise UnwritablePageError(f"the page cannot be written to {file}: {reason}") from error
