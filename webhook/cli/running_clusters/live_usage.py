"""Usage reports of running clusters."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from policies.kubernetes.objects import name_of, namespace_of
from policies.usage import READ_FROM, usage_report
from policies.view import PassingView, Unknown
from webhook.cli.options import check_namespace_exists
from webhook.cli.progress import Progress
from webhook.cli.running_clusters.connections import connected_client
from webhook.cli.running_clusters.object_reads import list_namespaces, list_trimmed
from webhook.cli.usage_reports import WITHOUT, Usage
from webhook.cluster.kind_reads import Unreadable, Why
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.resources import RESOURCES
from webhook.cluster.store_counts import OtherPods

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.kubernetes.objects import Object
    from policies.view import ClusterView
    from webhook.cluster.client import APIClient

__all__ = ["report_usage"]


def report_usage(kubeconfig: str | None, context: str | None, namespace: str) -> Usage:
    """Report the usage of the GPUs of a running cluster.

    Args:
        kubeconfig: A file; None for the one that kubectl uses.
        context: The context of the kubeconfig; its current one if None.
        namespace: The only namespace whose pods and claims are shown; empty for all. Those of all namespaces are read, if
            the user may list them, because they decide which GPUs are free.

    Raises:
        NoClusterError: The cluster cannot be read.
        NoNamespaceError: The namespace does not exist.
    """
    with Progress() as progress:
        return asyncio.run(_report_usage(kubeconfig, context, namespace, progress))


async def _report_usage(kubeconfig: str | None, context: str | None, namespace: str, progress: Progress) -> Usage:
    async with connected_client(kubeconfig, context) as client:
        others = OtherPods()
        listed = await asyncio.gather(*(_list_widely(client, kind, namespace, others, progress) for kind in READ_FROM))
        facts = [found for found, _ in listed if not isinstance(found, Unreadable)]
        if namespace:
            facts += await list_namespaces(client, namespace)
        known = ManifestsView(facts)
        check_namespace_exists(known, namespace)
        reads = [*zip(READ_FROM, listed, strict=True)]
        partial = [kind for kind, (found, is_whole) in reads if not is_whole and not isinstance(found, Unreadable)]
        notes = []
        for kind, (found, _) in reads:
            if kind in partial:
                notes.append(f"you may list {kind}s of namespace {namespace} only, so {WITHOUT[kind]}")
            elif isinstance(found, Unreadable):
                notes.append(f"{found.clause}, so {WITHOUT[kind]}")
        return Usage(usage_report(_WithOtherPods(known, others), namespace, partial=partial), tuple(notes))


async def _list_widely(
    client: APIClient, kind: str, namespace: str, others: OtherPods, progress: Progress
) -> tuple[Object | Unreadable, bool]:
    """The objects of a kind, of all namespaces if the user may list them, and whether they are all."""

    def count(item: Object) -> None:
        others.put(namespace_of(item), name_of(item), item)

    found = await list_trimmed(client, kind, "", progress, drop=count if kind == "Pod" else None)
    if isinstance(found, Unreadable) and found.why is Why.FORBIDDEN and namespace and RESOURCES[kind].namespaced:
        return await list_trimmed(client, kind, namespace, progress), False
    return found, True


class _WithOtherPods(PassingView):
    """A view that knows what pods without GPUs use, which are not kept."""

    def __init__(self, view: ClusterView, others: OtherPods) -> None:
        super().__init__(view)
        self._others = others

    def others_on(self, node: str) -> Mapping[str, int] | Unknown:
        """The resources of a node that pods without GPUs use."""
        return self._others.on(node)
