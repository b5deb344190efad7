"""Audits of running clusters, and their reports for policy tools."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from enum import Enum
from functools import cache, partial
from typing import TYPE_CHECKING

import click

from policies.admission import CONFIGURATIONS
from policies.analyses.audit import (
    MOST_FINDINGS,
    OPEN_REPORTS,
    POLICY_REPORTS,
    REPORT_NAME,
    Survey,
    audit,
    is_our_report,
    policy_reports,
)
from policies.analyses.explain import name_redactor
from policies.kubernetes.names import MANAGED, format_count, resource_name
from policies.kubernetes.objects import items_at, lookup, name_of, namespace_of
from policies.outcome import Audience
from webhook.cli.options import check_namespace_exists
from webhook.cli.progress import current_progress
from webhook.cli.reports.audit_reports import Audited, Published, settings_notes
from webhook.cli.running_clusters import connected_client, in_parallel, read_cluster
from webhook.cli.settings import chosen_settings, read_static
from webhook.cli.unwatched_objects import ViewWithWorkloads, gpu_workloads, with_pod_events
from webhook.cluster.answers import APIError
from webhook.cluster.kind_reads import Unreadable, read_list, read_object
from webhook.cluster.resources import RESOURCES, Resource
from webhook.cluster.watched_kinds import Watched
from webhook.controllers.audit_round import survey_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
    from typing import Any

    from policies.analyses.audit import ReportAPI
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cli.cluster_options import ClusterOptions
    from webhook.cluster.client import APIClient


_MOST_PUBLISHED = 50_000
"""Findings of all reports together."""


def audit_cluster(source: ClusterOptions, *, publishes: bool = False, static: Sequence[str] = ()) -> Audited:
    """Audit a running cluster.

    Args:
        source: The cluster.
        publishes: True if the findings are written into the cluster as reports for policy tools.
        static: Files and folders of the API servers.

    Raises:
        NoClusterError: The cluster cannot be read.
        NoReportAPIError: The cluster serves no API for reports.
        UnreadableInputError: The settings or files have problems.
    """
    chosen, in_files = chosen_settings(source.settings), read_static(static)

    async def run() -> Audited:
        async with audited_cluster(source, chosen, publishes=publishes, static=in_files) as audited:
            return audited

    return asyncio.run(run())


@asynccontextmanager
async def audited_cluster(
    source: ClusterOptions,
    chosen: GPUAdmissionPolicy | None,
    *,
    publishes: bool = False,
    static: Sequence[Object] = (),
    with_events: bool = False,
) -> AsyncIterator[Audited]:
    """The audit of a running cluster, whose view is kept up to date until the end.

    Args:
        source: The cluster.
        chosen: The administrator's settings; if None, those of the cluster.
        publishes: True to write the findings into the cluster, as reports for policy tools.
        static: The objects in files of the API server.
        with_events: True if the view also has the events of pods, and the workloads that may request GPUs.

    Raises:
        NoClusterError: The cluster cannot be read.
        NoReportAPIError: The cluster serves no API for reports.
    """
    namespace = source.namespace
    async with connected_client(source) as client, read_cluster(client) as cluster:
        api = await find_report_api(client, cluster_wide=not namespace) if publishes else None
        check_namespace_exists(cluster.view, namespace)
        policy = chosen or cluster.settings
        survey = Survey(cluster.view, policy, namespace)
        count = 0
        workloads: list[Object] = []

        async def take(page: list[Object]) -> None:
            nonlocal count
            survey.add(page)
            workloads.extend(gpu_workloads(page, policy) if with_events else ())
            count += len(page)
            current_progress().show_count("auditing", count)

        await survey_cluster(client, survey, take)
        notes = (*cluster.notes, *await _settings_notes(client, cluster.view, policy, static))
        report, published = audit(cluster.view, policy, survey, most_findings=_MOST_PUBLISHED), None
        if api is not None:
            reports = policy_reports(report, api, namespace, _redaction(cluster.view))
            published = await publish(client, api, reports, namespace, is_complete=not report.gaps)
        shown = report.limit_findings(MOST_FINDINGS)
        view: ClusterView = cluster.view
        unknown: list[str] = []
        if with_events:
            view, unknown = await with_pod_events(client, ViewWithWorkloads(view, workloads), namespace)
        yield Audited(shown, (*notes, *unknown), view, policy, client.url, published)


def _redaction(view: ClusterView) -> Callable[[str, str], str]:
    """Removes names from texts in the report of a namespace, which users can read who may not list nodes."""

    @cache
    def redactor(namespace: str) -> Callable[[str], str]:
        return name_redactor(view, Audience(namespace, sees_nodes=False))

    return lambda namespace, text: redactor(namespace)(text) if namespace else text


async def _settings_notes(
    client: APIClient, view: ClusterView, policy: GPUAdmissionPolicy, static: Sequence[Object]
) -> list[str]:
    stored = []
    for kind, name in CONFIGURATIONS:
        found = await read_object(client, RESOURCES[kind], name)
        if isinstance(found, Unreadable):
            return [f"{kind} {name} cannot be read, so it is unknown which settings it covers"]
        if found is not None:
            stored.append(found)
    return settings_notes(stored, view, policy, static)


_ATTEMPTS = 3
"""Attempts to write a report that changes at the same time."""
_OURS = f"{MANAGED}=true"
_GRANT = "grant the ClusterRole of docs/audit.md"


class NoReportAPIError(click.ClickException):
    """The cluster serves no API for reports."""

    exit_code = 2


class _Outcome(Enum):
    WRITTEN = "written"
    UNCHANGED = "unchanged"
    DELETED = "deleted"
    GONE = "gone"
    """The namespace of the report, or the report to delete, does not exist any more."""


async def find_report_api(client: APIClient, *, cluster_wide: bool) -> ReportAPI:
    """The API that reports are written to: OpenReports if it is served.

    Args:
        client: The connection.
        cluster_wide: True if a report on cluster-scoped objects is written too.

    Raises:
        NoReportAPIError: No such API is served.
        ClusterError: The API server did not answer.
    """
    for api in (OPEN_REPORTS, POLICY_REPORTS):
        try:
            served = await client.get(f"/apis/{api.group}/{api.version}")
        except APIError as error:
            if not error.is_not_found:
                raise
            continue
        kinds = {lookup(each, ("kind",)) for each in items_at(served, ("resources",))}
        if kinds >= {api.kind, *([api.cluster_kind] if cluster_wide else [])}:
            return api
    versions = " nor ".join(
        f"{api.api_version} ({api.kind}, {api.cluster_kind})" for api in (OPEN_REPORTS, POLICY_REPORTS)
    )
    raise NoReportAPIError(
        f"{client.url} serves neither {versions}, so no reports can be published; install the CRDs of OpenReports: "
        "helm upgrade --install openreports --repo https://openreports.github.io/reports-api openreports"
    )


async def publish(
    client: APIClient,
    api: ReportAPI,
    reports: Sequence[Object],
    namespace: str,
    *,
    is_complete: bool,
) -> Published:
    """Write the reports that have changed, and delete our reports of namespaces that have none now.

    Our reports in the other API, which an earlier audit wrote before this one was served, are deleted. A report that something
    else made is not touched. If a right is missing, the other reports are written.

    Args:
        client: The connection.
        api: What `find_report_api` returned.
        reports: The reports of the audit.
        namespace: The only namespace that was audited; empty for all. Reports outside it are not touched.
        is_complete: False if not everything was reviewed; then no report is deleted, because its findings may still hold.

    Raises:
        ClusterError: The API server did not answer.
    """
    publisher = _Publisher(client, api)
    stored, problems = await publisher.our_reports(namespace)
    wanted = {namespace_of(report) for report in reports}
    outdated = [report for where, report in stored.items() if where not in wanted]
    if outdated and not is_complete:
        problems.append(
            f"reports of earlier audits without findings now are kept, because not everything was reviewed: {len(outdated)}"
        )
        outdated = []
    former = _Publisher(client, POLICY_REPORTS if api == OPEN_REPORTS else OPEN_REPORTS)
    tasks = [
        *(partial(publisher.write, report, stored.get(namespace_of(report))) for report in reports),
        *(partial(publisher.delete, report) for report in outdated),
        *(partial(former.delete, report) for report in await former.listed_reports(namespace)),
    ]
    done = 0

    async def run(task: Callable[[], Coroutine[Any, Any, _Outcome | str]]) -> _Outcome | str:
        nonlocal done
        outcome = await task()
        done += 1
        current_progress().show_count("publishing reports", done, len(tasks))
        return outcome

    found = await in_parallel(run, tasks)
    written, unchanged, deleted = map(found.count, (_Outcome.WRITTEN, _Outcome.UNCHANGED, _Outcome.DELETED))
    numbers = f"{format_count(written, 'report')} written, {unchanged:,} unchanged, {deleted:,} deleted"
    failures = (each for each in found if isinstance(each, str))
    return Published(f"published to {api.group}: {numbers}", (*problems, *failures))


class _Publisher:
    """Requests for the reports of one API."""

    def __init__(self, client: APIClient, api: ReportAPI) -> None:
        self._client = client
        self._namespaced = Resource(api.group, api.version, resource_name(api.kind), api.kind, namespaced=True)
        self._cluster = Resource(
            api.group, api.version, resource_name(api.cluster_kind), api.cluster_kind, namespaced=False
        )

    async def our_reports(self, namespace: str) -> tuple[dict[str, Object], list[str]]:
        """The stored reports of earlier audits by namespace, and what hides some of them.

        The report on the cluster is under an empty name.
        """
        stored: dict[str, Object] = {}
        problems = []
        for wanted in self._own_lists(namespace):
            listed = await read_list(self._client, wanted, _own_report)
            if isinstance(listed, Unreadable):
                plural = wanted.resource.plural
                problems.append(f"outdated {plural} of earlier audits are not deleted: {listed.error}; {_GRANT}")
            else:
                stored.update((namespace_of(report), report) for report in listed)
        return stored, problems

    async def listed_reports(self, namespace: str) -> list[Object]:
        """The stored reports of earlier audits; without kinds that are not served or may not be listed."""
        # RBAC also forbids to list kinds that are not installed, so a note about it would mislead most users.
        found = [await read_list(self._client, wanted, _own_report) for wanted in self._own_lists(namespace)]
        return [report for listed in found if not isinstance(listed, Unreadable) for report in listed]

    def _own_lists(self, namespace: str) -> list[Watched]:
        own = Watched(self._namespaced, namespace, labels=_OURS)
        return [own] if namespace else [own, Watched(self._cluster, labels=_OURS)]

    async def write(self, report: Object, stored: Object | None) -> _Outcome | str:
        """Create or update a report; returns the outcome, or why it was not written.

        Args:
            report: The report.
            stored: The report of an earlier audit; None if none is known.
        """
        try:
            return await self._create(report) if stored is None else await self._update(report, stored)
        except APIError as error:
            # A namespace that is deleted meanwhile needs no report.
            return _Outcome.GONE if error.is_not_found else _problem(report, "written", error)

    async def delete(self, stored: Object) -> _Outcome | str:
        """Delete a report if it is as it was listed; returns the outcome, or why it was not deleted."""
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"resourceVersion": stored["metadata"]["resourceVersion"]},
        }
        try:
            await self._client.delete(self._path(stored), options)
        except APIError as error:
            return _Outcome.GONE if error.is_not_found else _problem(stored, "deleted", error)
        return _Outcome.DELETED

    async def _create(self, report: Object) -> _Outcome | str:
        try:
            await self._client.post(self._resource(report).path(namespace_of(report)), report)
        except APIError as error:
            if not error.already_exists:
                raise
            return await self._update(report, await self._client.get(self._path(report)))
        return _Outcome.WRITTEN

    async def _update(self, report: Object, stored: Object) -> _Outcome | str:
        for _ in range(_ATTEMPTS):
            if not is_our_report(stored):
                return f"{_label(report)} does not have the label {MANAGED}=true, so another tool wrote it and it is not changed; delete it"
            labels = {**(lookup(stored, ("metadata", "labels")) or {}), **report["metadata"]["labels"]}
            merged = {**stored, **report, "metadata": {**stored["metadata"], "labels": labels}}
            if merged == stored:
                return _Outcome.UNCHANGED
            try:
                await self._client.put(self._path(report), merged)
            except APIError as error:
                if not error.is_conflict:
                    raise
                stored = await self._client.get(self._path(report))
            else:
                return _Outcome.WRITTEN
        return f"{_label(report)} is not written, because it changes all the time; run the command again"

    def _resource(self, report: Object) -> Resource:
        return self._namespaced if namespace_of(report) else self._cluster

    def _path(self, report: Object) -> str:
        return self._resource(report).path(namespace_of(report), REPORT_NAME)


def _own_report(report: Object) -> Object | None:
    return report if name_of(report) == REPORT_NAME else None


def _label(report: Object) -> str:
    """Kind, namespace and name."""
    namespace = namespace_of(report)
    return f"{report['kind']} {namespace}/{REPORT_NAME}" if namespace else f"{report['kind']} {REPORT_NAME}"


def _problem(report: Object, done: str, error: APIError) -> str:
    remedy = f"; {_GRANT}" if error.is_forbidden else ""
    return f"{_label(report)} is not {done}: {error}{remedy}"
