"""Audits and quotas of running clusters."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from policies.audit import Survey, audit
from policies.entries import CONFIGURATIONS
from policies.quota.report.reporting import COUNTED_FROM
from webhook.cli.audits import Audited, uncovered_notes
from webhook.cli.connection import NoClusterError, connected_client, read_cluster, stored_settings
from webhook.cli.options import check_namespace_exists
from webhook.cli.quotas import QUOTA, WITHOUT, QuotaReports, quota_reports, unknown_kinds
from webhook.cli.settings import chosen_settings
from webhook.cluster.errors import APIError
from webhook.cluster.lists import list_all, pages
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.resources import RESOURCES
from webhook.cluster.sharing import Sharing
from webhook.cluster.trimmed import trim_for
from webhook.controllers.audit import survey_cluster

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from webhook.cluster.client import APIClient
    from webhook.cluster.resources import Resource

__all__ = ["audit_cluster", "report_quotas"]

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
            if error.forbidden:
                return [f"{kind} {name} cannot be read, so it is unknown which settings it covers"]
            if not error.not_found:
                raise
    return uncovered_notes(stored, policy)


async def _report_quotas(
    kubeconfig: str | None, context: str | None, namespace: str, chosen: GPUAdmissionPolicy | None
) -> QuotaReports:
    async with connected_client(kubeconfig, context) as client:
        policy, notes = (chosen, []) if chosen else await stored_settings(client)
        facts = [await _list_quotas(client, namespace), *await _list_namespaces(client, namespace)]
        listed = await asyncio.gather(*(_list_trimmed(client, kind, namespace) for kind in _KINDS_OF_QUOTAS))
        view = ManifestsView([*facts, *(each for each in listed if each is not None)])
        check_namespace_exists(view, namespace)
        gaps = [f"you may not list {kind}s, so {WITHOUT[kind]}" for kind in unknown_kinds(view)]
        return quota_reports(view, policy, namespace, [*notes, *gaps])


async def _list_quotas(client: APIClient, namespace: str) -> Object:
    resource = RESOURCES[QUOTA]
    try:
        return _list(resource, await list_all(client, resource, namespace))
    except APIError as error:
        if error.not_found:
            raise NoClusterError(
                f"{client.url} serves no GPUQuotas: the CustomResourceDefinition {resource.name} is not installed; "
                "kubectl apply -f deploy/install.yaml installs it, see docs/install.md"
            ) from error
        if error.forbidden:
            role = "request the ClusterRole gpu-admission-quota-view"
            one = "" if namespace else "; with -n NAMESPACE only those of one namespace are listed"
            raise NoClusterError(f"{client.url}: {error}; {role}{one}") from error
        raise


async def _list_namespaces(client: APIClient, namespace: str) -> list[Object]:
    """The list of all namespaces, or of the only one to look into; empty if reading them is forbidden."""
    resource = RESOURCES["Namespace"]
    if not namespace:
        listed = await _list_trimmed(client, "Namespace", "")
        return [] if listed is None else [listed]
    try:
        return [_list(resource, [await client.get(resource.path(name=namespace))])]
    except APIError as error:
        if error.not_found:
            return [_list(resource, [])]
        if error.forbidden:
            return []
        raise


async def _list_trimmed(client: APIClient, kind: str, namespace: str) -> Object | None:
    """The trimmed objects of a kind; empty if it is not served, None if listing it is forbidden."""
    resource = RESOURCES[kind]
    trim, items = trim_for(resource, Sharing()), []
    try:
        async for page in pages(client, resource, namespace if kind in _NAMESPACED else ""):
            items += [kept for item in page if (kept := trim(item)) is not None]
    except APIError as error:
        if error.forbidden:
            return None
        if not error.not_found:
            raise
    return _list(resource, items)


def _list(resource: Resource, items: Iterable[Object]) -> Object:
    head: dict[str, Any] = {"apiVersion": resource.api_version, "kind": f"{resource.kind}List"}
    return {**head, "items": list(items)}
