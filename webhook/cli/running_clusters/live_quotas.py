"""Quota reports of running clusters."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from policies.quota.report.reporting import COUNTED_FROM, QUOTA
from webhook.cli.options import check_namespace_exists
from webhook.cli.progress import Progress
from webhook.cli.quota_reports import WITHOUT, QuotaReports, report_quotas_of_view, unknown_kinds
from webhook.cli.running_clusters.connections import NoClusterError, connected_client
from webhook.cli.running_clusters.object_reads import list_namespaces, list_trimmed, stored_settings, typed_list
from webhook.cli.settings import chosen_settings
from webhook.cluster.errors import APIError
from webhook.cluster.kind_reads import Unreadable
from webhook.cluster.lists import list_all
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from webhook.cluster.client import APIClient

__all__ = ["report_quotas"]

_KINDS = (*COUNTED_FROM, "DeviceClass")
"""Listed beside quotas and namespaces: the kinds that hold GPUs, and those that describe the GPUs."""


def report_quotas(kubeconfig: str | None, context: str | None, namespace: str, settings: str | None) -> QuotaReports:
    """Report the quotas of a running cluster.

    Args:
        kubeconfig: A file; None for the one that kubectl uses.
        context: The context of the kubeconfig; its current one if None.
        namespace: The only namespace to look into; empty for all.
        settings: The file with the administrator's settings; if None, those of the cluster.

    Raises:
        NoClusterError: The cluster cannot be read.
        UnreadableInputError: The settings have problems.
    """
    with Progress() as progress:
        return asyncio.run(_report_quotas(kubeconfig, context, namespace, chosen_settings(settings), progress))


async def _report_quotas(
    kubeconfig: str | None, context: str | None, namespace: str, chosen: GPUAdmissionPolicy | None, progress: Progress
) -> QuotaReports:
    async with connected_client(kubeconfig, context) as client:
        policy, notes = (chosen, []) if chosen else await stored_settings(client)
        facts = [await _list_quotas(client, namespace), *await list_namespaces(client, namespace)]
        listed = await asyncio.gather(*(list_trimmed(client, kind, namespace, progress) for kind in _KINDS))
        view = ManifestsView([*facts, *(each for each in listed if not isinstance(each, Unreadable))])
        check_namespace_exists(view, namespace)
        unreadable = {each.wanted.kind: each for each in listed if isinstance(each, Unreadable)}
        gaps = [f"{unreadable[kind].clause}, so {WITHOUT[kind]}" for kind in unknown_kinds(view, namespace)]
        return report_quotas_of_view(view, policy, namespace, [*notes, *gaps])


async def _list_quotas(client: APIClient, namespace: str) -> Object:
    resource = RESOURCES[QUOTA]
    try:
        return typed_list(resource, await list_all(client, resource, namespace))
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
