"""Quotas: of a cluster in files, or of a running one."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from policies.kubernetes.objects import name_of, namespace_of
from policies.quota.report.report import QuotaState
from policies.quota.report.reporting import COUNTED_FROM, quota_report
from policies.view import UNKNOWN
from webhook.cli.connection import NoClusterError, reached, stored_settings
from webhook.cli.documents import Reader
from webhook.cli.namespaces import check_exists
from webhook.cli.settings import chosen_settings, read_settings, settings_of_files
from webhook.cluster.manifests import ManifestsView

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.kubernetes.objects import Object
    from policies.quota.report.report import QuotaReport
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView
    from webhook.cluster.client import APIClient
    from webhook.cluster.resources import Resource

__all__ = ["QuotasTold", "as_json", "is_good", "quotas_of_files", "quotas_running"]

_QUOTA = "GPUQuota"
_DEFAULT_NAMESPACE = "default"
_LISTED = (*COUNTED_FROM, "DeviceClass", "ResourceSlice")
"""What is listed beside quotas and namespaces: what holds GPUs, and what tells which GPUs these are."""
_IN_NAMESPACES = ("Pod", "ResourceClaim")
_MISSING = {
    "Pod": "what they hold is not shown, and what is used only where a status says it",
    "ResourceClaim": "what they hold is not shown",
    "Node": "what pods hold is shown as the most that they could have got",
}


@dataclass(frozen=True, slots=True)
class QuotasTold:
    """Reports, and what there is to say about how they came about."""

    reports: tuple[QuotaReport, ...]
    """By namespace."""
    namespace: str
    """The only one that was looked into; empty for all."""
    notes: tuple[str, ...]
    """Sentences without full stops."""


def quotas_of_files(cluster: Sequence[str], namespace: str, settings: str | None) -> QuotasTold:
    """The quotas of a cluster as its manifests tell it.

    Args:
        cluster: Files and folders.
        namespace: The only one to look into; empty for all.
        settings: The file with the administrator's choices; if None, the GPUAdmissionPolicy among the manifests.

    Raises:
        UnreadableInputError: with the problems of all files.
        click.UsageError: they tell of no quotas, or there is no such namespace.
    """
    reader = Reader()
    chosen = read_settings(settings, reader)
    facts = reader.cluster(cluster)
    if reader.problems:
        reader.fail()
    view = ManifestsView(facts)
    if view.list(_QUOTA) is UNKNOWN:
        raise click.UsageError(
            f"nothing to tell: no GPUQuota in {', '.join(cluster)}; kubectl get gpuquotas -A -o yaml prints those of a "
            "cluster"
        )
    check_exists(view, namespace)
    policy, notes = (chosen, []) if settings else settings_of_files(view)
    gaps = [f"there are no {kind}s in the files, so {_MISSING[kind]}" for kind in _unknown(view)]
    return _told(view, policy, namespace, [*notes, *gaps])


def quotas_running(kubeconfig: str | None, context: str | None, namespace: str, settings: str | None) -> QuotasTold:
    """The quotas of a running cluster.

    Args:
        kubeconfig: The file that says which; None for what kubectl would take.
        context: The context in it.
        namespace: The only one to look into; empty for all.
        settings: The file with the administrator's choices; if None, the cluster's own hold.

    Raises:
        NoClusterError: there is none, it does not answer, or does not show its quotas.
        UnreadableInputError: with the problems of the settings.
    """
    return asyncio.run(_running(kubeconfig, context, namespace, chosen_settings(settings)))


def is_good(told: QuotasTold) -> bool:
    """Whether every quota is counted and nothing is over its limit."""
    return all(report.state is QuotaState.WITHIN for report in told.reports)


def as_json(told: QuotasTold) -> str:
    """Everything, as one mapping."""
    content = {"quotas": [report.as_json() for report in told.reports], "notes": list(told.notes)}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


async def _running(
    kubeconfig: str | None, context: str | None, namespace: str, chosen: GPUAdmissionPolicy | None
) -> QuotasTold:
    async with reached(kubeconfig, context) as client:
        policy, notes = (chosen, []) if chosen else await stored_settings(client)
        facts = [await _quotas(client, namespace), *await _namespaces(client, namespace)]
        listed = await asyncio.gather(*(_listed(client, kind, namespace) for kind in _LISTED))
        view = ManifestsView([*facts, *(each for each in listed if each is not None)])
        check_exists(view, namespace)
        gaps = [f"you may not list {kind}s, so {_MISSING[kind]}" for kind in _unknown(view)]
        return _told(view, policy, namespace, [*notes, *gaps])


def _told(view: ClusterView, policy: GPUAdmissionPolicy, namespace: str, notes: Sequence[str]) -> QuotasTold:
    found = view.list(_QUOTA, namespace)
    quotas = sorted(() if found is UNKNOWN else found, key=lambda each: (namespace_of(each), name_of(each)))
    now = datetime.now(UTC)
    reports = tuple(quota_report(quota, view, policy, now) for quota in quotas)
    return QuotasTold(reports, namespace, tuple(notes) if reports else ())


def _unknown(view: ClusterView) -> list[str]:
    return [kind for kind in COUNTED_FROM if view.list(kind) is UNKNOWN]


async def _quotas(client: APIClient, namespace: str) -> Object:
    """All GPUQuotas, whole: whoever asks about them has to see them."""
    from webhook.cluster.errors import APIError  # noqa: PLC0415 - as all of these imports: files need no client
    from webhook.cluster.lists import list_all  # noqa: PLC0415
    from webhook.cluster.resources import RESOURCES  # noqa: PLC0415

    resource = RESOURCES[_QUOTA]
    try:
        return _list(resource, await list_all(client, resource, namespace))
    except APIError as error:
        if error.not_found:
            raise NoClusterError(
                f"{client.url} serves no GPUQuotas: the CustomResourceDefinition {resource.name} is not installed; "
                "kubectl apply -f deploy/install.yaml installs it, see docs/install.md"
            ) from error
        if error.forbidden:
            help_ = "ask for the ClusterRole gpu-admission-quota-view"
            one = "" if namespace else "; with -n NAMESPACE only those of one namespace are listed"
            raise NoClusterError(f"{client.url}: {error}; {help_}{one}") from error
        raise


async def _namespaces(client: APIClient, namespace: str) -> list[Object]:
    """The namespaces, or the one that is asked about; nothing where that is forbidden."""
    from webhook.cluster.errors import APIError  # noqa: PLC0415 - as above
    from webhook.cluster.resources import RESOURCES  # noqa: PLC0415

    resource = RESOURCES["Namespace"]
    if not namespace:
        listed = await _listed(client, "Namespace", "")
        return [] if listed is None else [listed]
    try:
        return [_list(resource, [await client.get(resource.path(name=namespace))])]
    except APIError as error:
        if error.not_found:
            return [_list(resource, [])]
        if error.forbidden:
            return []
        raise


async def _listed(client: APIClient, kind: str, namespace: str) -> Object | None:
    """The objects of a kind, trimmed, as a list; None where they may not be listed. What nobody serves, there is none of."""
    from webhook.cluster.errors import APIError  # noqa: PLC0415 - as above
    from webhook.cluster.lists import pages  # noqa: PLC0415
    from webhook.cluster.resources import RESOURCES  # noqa: PLC0415
    from webhook.cluster.sharing import Sharing  # noqa: PLC0415
    from webhook.cluster.trimmed import trim_for  # noqa: PLC0415

    resource = RESOURCES[kind]
    trim, items = trim_for(resource, Sharing()), []
    try:
        async for page in pages(client, resource, namespace if kind in _IN_NAMESPACES else ""):
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
