"""Audits and quotas of running clusters."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from policies.audit import Survey, audit
from policies.entries import CONFIGURATIONS
from policies.quota.report.reporting import COUNTED_FROM
from policies.view import UNKNOWN, Unknown
from webhook.cli.audit_reports import Audited, uncovered_notes
from webhook.cli.options import check_namespace_exists
from webhook.cli.quota_reports import QUOTA, WITHOUT, QuotaReports, quota_reports, unknown_kinds
from webhook.cli.settings import chosen_settings, settings_in
from webhook.cluster.client import APIClient
from webhook.cluster.errors import APIError, ClusterError, Unreachable
from webhook.cluster.lists import list_all, pages
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.resources import RESOURCES
from webhook.cluster.server_version import parse_version
from webhook.cluster.sync import Sync
from webhook.cluster.trimmed import trim_for
from webhook.controllers.audit_round import survey_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from webhook.cluster.live import LiveView
    from webhook.cluster.resources import Resource

__all__ = [
    "Cluster",
    "NoClusterError",
    "audit_cluster",
    "connected_client",
    "list_namespaces",
    "list_trimmed",
    "read_cluster",
    "report_quotas",
    "stored_settings",
]

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
        if not (error.is_not_found or error.is_forbidden):
            raise
        # If the kind is not installed, there are no settings. If it is forbidden, they are unknown, and a note says so.
        known = [] if error.is_forbidden else [empty]
    return settings_in(ManifestsView(known))


async def _version(client: APIClient) -> tuple[int, int] | Unknown:
    try:
        return parse_version(await client.get("/version"))
    except APIError:
        return UNKNOWN


_KINDS_OF_QUOTAS = (*COUNTED_FROM, "DeviceClass", "ResourceSlice")
"""Listed beside quotas and namespaces: the kinds that hold GPUs, and those that describe the GPUs."""
_NAMESPACED = ("Pod", "ResourceClaim")


def audit_cluster(kubeconfig: str | None, context: str | None, namespace: str, settings: str | None) -> Audited:
    """Audit a running cluster.

    Args:
        kubeconfig: A file; None for the one that kubectl uses.
        context: The context of the kubeconfig; its current one if None.
        namespace: The only namespace to look into; empty for all.
        settings: The file with the administrator's settings; if None, those of the cluster.

    Raises:
        NoClusterError: The cluster cannot be read.
        UnreadableInputError: The settings have problems.
    """
    return asyncio.run(_audit(kubeconfig, context, namespace, chosen_settings(settings)))


def report_quotas(kubeconfig: str | None, context: str | None, namespace: str, settings: str | None) -> QuotaReports:
    """Report the quotas of a running cluster; arguments and errors as for `audit_cluster`."""
    return asyncio.run(_report_quotas(kubeconfig, context, namespace, chosen_settings(settings)))


async def _audit(
    kubeconfig: str | None, context: str | None, namespace: str, chosen: GPUAdmissionPolicy | None
) -> Audited:
    async with read_cluster(kubeconfig, context) as cluster:
        check_namespace_exists(cluster.view, namespace)
        policy = chosen or cluster.settings
        survey = Survey(cluster.view, policy, namespace)

        async def take(page: list[Object]) -> None:
            survey.add(page)

        await survey_cluster(cluster.client, survey, take)
        report = audit(cluster.view, policy, survey)
        return Audited(report, (*cluster.notes, *await _uncovered_notes(cluster.client, policy)))


async def _uncovered_notes(client: APIClient, policy: GPUAdmissionPolicy) -> list[str]:
    stored = []
    for kind, name in CONFIGURATIONS:
        try:
            stored.append(await client.get(RESOURCES[kind].path(name=name)))
        except APIError as error:
            if error.is_forbidden:
                return [f"{kind} {name} cannot be read, so it is unknown which settings it covers"]
            if not error.is_not_found:
                raise
    return uncovered_notes(stored, policy)


async def _report_quotas(
    kubeconfig: str | None, context: str | None, namespace: str, chosen: GPUAdmissionPolicy | None
) -> QuotaReports:
    async with connected_client(kubeconfig, context) as client:
        policy, notes = (chosen, []) if chosen else await stored_settings(client)
        facts = [await _list_quotas(client, namespace), *await list_namespaces(client, namespace)]
        listed = await asyncio.gather(*(list_trimmed(client, kind, namespace) for kind in _KINDS_OF_QUOTAS))
        view = ManifestsView([*facts, *(each for each in listed if each is not None)])
        check_namespace_exists(view, namespace)
        gaps = [f"you may not list {kind}s, so {WITHOUT[kind]}" for kind in unknown_kinds(view, namespace)]
        return quota_reports(view, policy, namespace, [*notes, *gaps])


async def _list_quotas(client: APIClient, namespace: str) -> Object:
    resource = RESOURCES[QUOTA]
    try:
        return _list(resource, await list_all(client, resource, namespace))
    except APIError as error:
        if error.is_not_found:
            raise NoClusterError(
                f"{client.url} serves no GPUQuotas: the CustomResourceDefinition {resource.name} is not installed; "
                "kubectl apply -f deploy/install.yaml installs it, see docs/install.md"
            ) from error
        if error.is_forbidden:
            role = "request the ClusterRole gpu-admission-quota-view"
            one = "" if namespace else "; with -n NAMESPACE only those of one namespace are listed"
            raise NoClusterError(f"{client.url}: {error}; {role}{one}") from error
        raise


async def list_namespaces(client: APIClient, namespace: str) -> list[Object]:
    """The list of all namespaces, or of the only one to look into; empty if reading them is forbidden."""
    resource = RESOURCES["Namespace"]
    if not namespace:
        listed = await list_trimmed(client, "Namespace", "")
        return [] if listed is None else [listed]
    try:
        return [_list(resource, [await client.get(resource.path(name=namespace))])]
    except APIError as error:
        if error.is_not_found:
            return [_list(resource, [])]
        if error.is_forbidden:
            return []
        raise


async def list_trimmed(
    client: APIClient, kind: str, namespace: str, *, dropped: Callable[[Object], None] | None = None
) -> Object | None:
    """The trimmed objects of a kind; empty if it is not served, None if listing it is forbidden.

    Args:
        client: The connection.
        kind: The kind.
        namespace: The only namespace to read; empty for all.
        dropped: Called for each object that is not kept, such as a pod without GPUs.
    """
    resource = RESOURCES[kind]
    trim, items = trim_for(resource), []
    try:
        async for page in pages(client, resource, namespace if kind in _NAMESPACED else ""):
            for item in page:
                kept = trim(item)
                if kept is not None:
                    items.append(kept)
                elif dropped is not None:
                    dropped(item)
    except APIError as error:
        if error.is_forbidden:
            return None
        if not error.is_not_found:
            raise
    return _list(resource, items)


def _list(resource: Resource, items: Iterable[Object]) -> Object:
    head: dict[str, Any] = {"apiVersion": resource.api_version, "kind": f"{resource.kind}List"}
    return {**head, "items": list(items)}
