"""Audits of running clusters."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING

from policies.admission.webhooks import CONFIGURATIONS
from policies.analyses.audit import MOST_FINDINGS, Survey, audit, policy_reports
from policies.analyses.explain import name_redactor
from policies.outcome import Audience
from webhook.cli.audit_reports import Audited, uncovered_notes
from webhook.cli.options import check_namespace_exists
from webhook.cli.progress import Progress
from webhook.cli.running_clusters.connections import connected_client, read_cluster
from webhook.cli.running_clusters.published_reports import find_report_api, publish
from webhook.cli.settings import chosen_settings
from webhook.cluster.kind_reads import Unreadable, read_object
from webhook.cluster.resources import RESOURCES
from webhook.controllers.audit_round import survey_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cluster.client import APIClient

__all__ = ["audit_cluster", "audited_cluster"]

_MOST_PUBLISHED = 50_000
"""Findings of all reports together."""


def audit_cluster(
    kubeconfig: str | None, context: str | None, namespace: str, settings: str | None, *, publishes: bool = False
) -> Audited:
    """Audit a running cluster.

    Args:
        kubeconfig: A file; None for the one that kubectl uses.
        context: The context of the kubeconfig; its current one if None.
        namespace: The only namespace to look into; empty for all.
        settings: The file with the administrator's settings; if None, those of the cluster.
        publishes: True if the findings are written into the cluster as reports for policy tools.

    Raises:
        NoClusterError: The cluster cannot be read.
        NoReportAPIError: The cluster serves no API for reports.
        UnreadableInputError: The settings have problems.
    """
    chosen = chosen_settings(settings)

    async def run(progress: Progress) -> Audited:
        async with audited_cluster(kubeconfig, context, namespace, chosen, progress, publishes=publishes) as audited:
            return audited

    with Progress() as progress:
        return asyncio.run(run(progress))


@asynccontextmanager
async def audited_cluster(
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    chosen: GPUAdmissionPolicy | None,
    progress: Progress,
    *,
    publishes: bool = False,
) -> AsyncIterator[Audited]:
    """The audit of a running cluster, whose view is kept up to date until the end.

    Args:
        kubeconfig: A file; None for the one that kubectl uses.
        context: The context of the kubeconfig; its current one if None.
        namespace: The only namespace to look into; empty for all.
        chosen: The administrator's settings; if None, those of the cluster.
        progress: Shows what is read.
        publishes: True to write the findings into the cluster, as reports for policy tools.

    Raises:
        NoClusterError: The cluster cannot be read.
        NoReportAPIError: The cluster serves no API for reports.
    """
    async with connected_client(kubeconfig, context) as client, read_cluster(client, progress) as cluster:
        api = await find_report_api(client, cluster_wide=not namespace) if publishes else None
        check_namespace_exists(cluster.view, namespace)
        policy = chosen or cluster.settings
        survey = Survey(cluster.view, policy, namespace)
        count = 0

        async def take(page: list[Object]) -> None:
            nonlocal count
            survey.add(page)
            count += len(page)
            progress.show(f"auditing: {count:,} objects")

        await survey_cluster(client, survey, take)
        notes = (*cluster.notes, *await _uncovered_notes(client, policy))
        report, published = audit(cluster.view, policy, survey, most_findings=_MOST_PUBLISHED), None
        if api is not None:
            reports = policy_reports(report, api, namespace, _redaction(cluster.view))
            published = await publish(client, api, reports, namespace, progress, is_complete=not report.gaps)
        shown = report.limit_findings(MOST_FINDINGS)
        yield Audited(shown, notes, cluster.view, policy, client.url, published)


def _redaction(view: ClusterView) -> Callable[[str, str], str]:
    """Removes names from texts in the report of a namespace, which users can read who may not list nodes."""

    @cache
    def redactor(namespace: str) -> Callable[[str], str]:
        return name_redactor(view, Audience(namespace, sees_nodes=False))

    return lambda namespace, text: redactor(namespace)(text) if namespace else text


async def _uncovered_notes(client: APIClient, policy: GPUAdmissionPolicy) -> list[str]:
    stored = []
    for kind, name in CONFIGURATIONS:
        found = await read_object(client, RESOURCES[kind], name)
        if isinstance(found, Unreadable):
            return [f"{kind} {name} cannot be read, so it is unknown which settings it covers"]
        if found is not None:
            stored.append(found)
    return uncovered_notes(stored, policy)
