"""Quotas and usage of running clusters."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from policies.analyses.usage import READ_FROM, usage_report
from policies.analyses.wait_list import WaitList, wait_list
from policies.devices.device_taint_rules import KIND as TAINT_RULE
from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.versions import Feature
from policies.kubernetes.view import PassingView, Unknown
from policies.outcome import Audience
from policies.quota.demands.device_kinds import unlimited_remark
from policies.quota.limits.cluster_quota import CLUSTER_QUOTA, Group, group_shown
from policies.quota.limits.quota import GROUP
from policies.quota.quota_report import COUNTED_FROM, QUOTA
from policies.rules.settings import DEFAULTS
from webhook.cli.options import check_namespace_exists
from webhook.cli.reports.gpu_hours import hours_of_view
from webhook.cli.reports.quota_reports import (
    WITHOUT,
    NativeQuotas,
    QuotaReports,
    compile_quotas_of_view,
    report_quotas_of_view,
    unknown_kinds,
)
from webhook.cli.reports.usage_reports import USAGE_WITHOUT, Usage, sharing_notes, stuck_in
from webhook.cli.running_clusters import (
    NoClusterError,
    list_namespaces,
    list_trimmed,
    run_connected,
    server_facts,
    stored_settings,
    typed_list,
)
from webhook.cli.settings import chosen_settings
from webhook.cli.unwatched_objects import ViewWithWorkloads, list_gpu_workloads, with_pod_events
from webhook.cluster.answers import APIError
from webhook.cluster.kind_reads import Unreadable, Why
from webhook.cluster.lists import list_all
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.resources import RESOURCES
from webhook.cluster.store import OtherPods

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cli.cluster_options import ClusterOptions
    from webhook.cli.reports.gpu_hours import HoursReport
    from webhook.cluster.client import APIClient


_KINDS = (*COUNTED_FROM, "DeviceClass")
"""Listed beside quotas and namespaces: the kinds that hold GPUs, and those that describe the GPUs."""


def report_quotas(source: ClusterOptions) -> QuotaReports:
    """Report the quotas of a running cluster.

    Raises:
        NoClusterError: The cluster cannot be read.
        UnreadableInputError: The settings have problems.
    """
    chosen = chosen_settings(source.settings)
    return run_connected(source, lambda client: _report_quotas(client, source.namespace, chosen))


async def _report_quotas(client: APIClient, namespace: str, chosen: GPUAdmissionPolicy | None) -> QuotaReports:
    policy, notes, facts = await _read_quotas(client, namespace, chosen)
    teams = [each for kind in _TEAMS if not isinstance(each := await list_trimmed(client, kind), Unreadable)]
    if namespace and isinstance(group_shown(namespace, ManifestsView([*facts, *teams])), Group):
        facts += await list_namespaces(client, "")
        # Those of its group hold a part of the group's limits.
        listed = await asyncio.gather(*(_list_widely(client, kind, namespace, OtherPods()) for kind in _KINDS))
    else:
        listed = [(await list_trimmed(client, kind, namespace), True) for kind in _KINDS]
    known = [*facts, *(each for each, _ in listed if not isinstance(each, Unreadable))]
    is_whole = all(whole for _, whole in listed)
    view = ManifestsView([*known, *teams] if is_whole else known)
    check_namespace_exists(view, namespace)
    unreadable = {each.wanted.kind: each for each, _ in listed if isinstance(each, Unreadable)}
    gaps = [f"{unreadable[kind].clause}, so {WITHOUT[kind]}" for kind in unknown_kinds(view, namespace)]
    found = report_quotas_of_view(view, policy, namespace, [*notes, *gaps])
    if is_whole:
        return found
    of_group = report_quotas_of_view(ManifestsView([*facts[1:], *teams]), policy, namespace, ())
    note = "you may list pods of one namespace only, so what others hold of the group is not shown"
    reports = (*found.reports, *of_group.reports)
    return replace(found, reports=reports, notes=(*found.notes, note), unreadable=of_group.unreadable)


def report_hours(days: int, source: ClusterOptions) -> HoursReport:
    """Report the GPU hours of the last days of a running cluster, today included.

    Raises:
        NoClusterError: The cluster cannot be read.
        NoNamespaceError: The namespace does not exist.
    """
    return run_connected(source, lambda client: _report_hours(client, source.namespace, days))


async def _report_hours(client: APIClient, namespace: str, days: int) -> HoursReport:
    facts = [await _list_quotas(client, namespace), *await list_namespaces(client, namespace)]
    groups = await list_trimmed(client, GROUP)
    if isinstance(groups, Unreadable):
        gap = f"{groups.clause}, so the GPU hours of groups are not shown"
        return hours_of_view(ManifestsView(facts), namespace, days, [gap], is_live=True)
    return hours_of_view(ManifestsView([*facts, groups]), namespace, days, (), is_live=True)


_TEAMS = (CLUSTER_QUOTA, GROUP)
_COMPILED_FROM = ("Node", "DeviceClass", "ResourceSlice", "PriorityClass", CLUSTER_QUOTA)


def compile_quotas(source: ClusterOptions) -> NativeQuotas:
    """The ResourceQuotas for the GPUQuotas of a running cluster.

    Raises:
        NoClusterError: The cluster cannot be read.
        UnreadableInputError: The settings have problems.
    """
    chosen = chosen_settings(source.settings)
    return run_connected(source, lambda client: _compile_quotas(client, source.namespace, chosen))


async def _compile_quotas(client: APIClient, namespace: str, chosen: GPUAdmissionPolicy | None) -> NativeQuotas:
    policy, notes, facts = await _read_quotas(client, namespace, chosen)
    listed = await asyncio.gather(*(list_trimmed(client, kind) for kind in _COMPILED_FROM))
    known = [each for each in listed if not isinstance(each, Unreadable)]
    view = ManifestsView([*facts, *known, await server_facts(client)])
    check_namespace_exists(view, namespace)
    return compile_quotas_of_view(view, policy, namespace, notes)


async def _read_quotas(
    client: APIClient, namespace: str, chosen: GPUAdmissionPolicy | None
) -> tuple[GPUAdmissionPolicy, list[str], list[Object]]:
    """The settings, notes on them, and the GPUQuotas and namespaces of a cluster."""
    policy, notes = (chosen, []) if chosen else await stored_settings(client)
    return policy, notes, [await _list_quotas(client, namespace), *await list_namespaces(client, namespace)]


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


def report_usage(source: ClusterOptions) -> Usage:
    """Report the usage of the GPUs of a running cluster.

    Pods and claims of all namespaces are read, if the user may list them, because they decide which GPUs are free.

    Raises:
        NoClusterError: The cluster cannot be read.
        NoNamespaceError: The namespace does not exist.
    """
    chosen = chosen_settings(source.settings)
    return run_connected(source, lambda client: _report_usage(client, source.namespace, chosen))


async def _report_usage(client: APIClient, namespace: str, chosen: GPUAdmissionPolicy | None) -> Usage:
    others = OtherPods()
    listed = await asyncio.gather(*(_list_widely(client, kind, namespace, others) for kind in READ_FROM))
    facts = [found for found, _ in listed if not isinstance(found, Unreadable)]
    rules = await list_trimmed(client, TAINT_RULE)
    if isinstance(rules, Unreadable):
        facts.append(await server_facts(client))
    elif rules["items"]:
        facts += [rules, await server_facts(client)]
    if namespace:
        facts += await list_namespaces(client, namespace)
    known = ManifestsView(facts)
    check_namespace_exists(known, namespace)
    reads = [*zip(READ_FROM, listed, strict=True)]
    partial = [kind for kind, (found, is_whole) in reads if not is_whole and not isinstance(found, Unreadable)]
    notes = []
    for kind, (found, _) in reads:
        if kind in partial:
            notes.append(f"you may list {kind}s of namespace {namespace} only, so {USAGE_WITHOUT[kind]}")
        elif isinstance(found, Unreadable):
            notes.append(f"{found.clause}, so {USAGE_WITHOUT[kind]}")
    if isinstance(rules, Unreadable) and Feature.DRADeviceTaintRules.is_on(known) is True:
        notes.append(f"{rules.clause}, so GPUs that they taint count as free")
    policy, of_settings = (chosen, []) if chosen else await stored_settings(client)
    if unlimited_remark(known, DEFAULTS.quota):
        # Of usage, only shares without limit depend on the settings, which few users may read.
        notes += [*of_settings, *sharing_notes(known, policy.quota)]
    with_events, note = await with_pod_events(client, known, namespace)
    report = usage_report(_WithOtherPods(known, others), namespace, partial=partial, settings=policy.quota)
    now = datetime.now(UTC)
    is_whole = not partial and not report.unknown
    waiting = await _wait_list(client, facts, others, policy, namespace, now, is_whole=is_whole)
    return Usage(report, (*notes, *note), stuck_in(with_events, namespace, now), waiting)


_EXPLAINED_FROM = ("DeviceClass", "Namespace", "PriorityClass", "ResourceClaimTemplate", "ResourceQuota")
"""The kinds that explanations of stored pods need beside those of usage."""
_NOT_LISTED = "you may not list everything that decides where it fits"


async def _wait_list(
    client: APIClient,
    facts: Sequence[Object],
    others: OtherPods,
    settings: GPUAdmissionPolicy,
    namespace: str,
    now: datetime,
    *,
    is_whole: bool,
) -> WaitList:
    """The pods and workloads that wait.

    Pods are explained if everything that decides where they fit can be listed.
    """
    server = await server_facts(client)
    listed = await asyncio.gather(*(list_trimmed(client, kind) for kind in _EXPLAINED_FROM))
    more = [found for found in listed if not isinstance(found, Unreadable)]
    known, _ = await with_pod_events(client, ManifestsView([*facts, server, *more]), namespace)
    view = ViewWithWorkloads(_WithOtherPods(known, others), await list_gpu_workloads(client, settings, namespace))
    unexplained = "" if is_whole and len(more) == len(listed) else _NOT_LISTED
    return wait_list(view, settings, now, Audience(namespace), unexplained=unexplained)


async def _list_widely(
    client: APIClient, kind: str, namespace: str, others: OtherPods
) -> tuple[Object | Unreadable, bool]:
    """The objects of a kind, of all namespaces if the user may list them, and whether they are all."""

    def count(item: Object) -> None:
        others.put(namespace_of(item), name_of(item), item)

    found = await list_trimmed(client, kind, "", drop=count if kind == "Pod" else None)
    if isinstance(found, Unreadable) and found.why is Why.FORBIDDEN and namespace and RESOURCES[kind].namespaced:
        return await list_trimmed(client, kind, namespace), False
    return found, True


class _WithOtherPods(PassingView):
    """A view that knows what pods without GPUs use, which are not kept."""

    def __init__(self, view: ClusterView, others: OtherPods) -> None:
        super().__init__(view)
        self._others = others

    def others_on(self, node: str) -> Mapping[str, int] | Unknown:
        """The resources of a node that pods without GPUs use."""
        return self._others.on(node)
