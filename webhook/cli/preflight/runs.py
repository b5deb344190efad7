"""Runs a preflight: reads, dry runs, and the checks of what they say."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from policies.admission.webhooks import CONFIGURATIONS
from policies.analyses.installation import Coverage, Facts, preflight, webhooks_in
from policies.kubernetes.names import DRA_LABEL
from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.view import Unknown
from webhook.cli.preflight import reads
from webhook.cli.preflight.dry_run_requests import (
    plan_objects,
    plan_runtime,
    read_own_rules,
    read_user,
    review_rights,
    try_objects,
)
from webhook.cli.preflight.reads import conditions_hold, count_pods, read_manifests
from webhook.cli.running_clusters.connections import Discovery, connected_client, read_clock
from webhook.cli.shipped_files import shipped_path
from webhook.cluster.kind_reads import parse_version, read_object, read_version
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.analyses.installation import PlannedObject, Preflight
    from policies.kubernetes.objects import Object
    from webhook.cli.progress import Progress
    from webhook.cluster.client import APIClient

__all__ = ["run_preflight"]

_NODE_LEASES = "kube-node-lease"


def run_preflight(files: Sequence[str], kubeconfig: str | None, context: str | None, progress: Progress) -> Preflight:
    """Check what applying manifests to a running cluster would do.

    Args:
        files: The manifests, of which `-` is standard input; if empty, those of this version.
        kubeconfig: A file; None for the one that kubectl uses.
        context: The context of the kubeconfig; its current one if None.
        progress: Shows what is read.

    Raises:
        UnreadableInputError: The manifests cannot be read.
        NoClusterError: The cluster cannot be reached, or fails.
    """
    documents = read_manifests(files or [str(shipped_path("deploy") / "install.yaml")])

    async def run() -> Preflight:
        async with connected_client(kubeconfig, context) as client:
            return preflight(await _facts(client, documents, progress))

    return asyncio.run(run())


async def _facts(client: APIClient, documents: Sequence[Object], progress: Progress) -> Facts:
    progress.show("reading the cluster")
    discovery = Discovery(client)
    clock = await read_clock(client)
    planned = await plan_objects(client, discovery, documents)
    namespaces = await reads.list_objects(client, RESOURCES["Namespace"], reads.namespace_fields)
    coverage = None if isinstance(namespaces, Unknown) else _coverage(documents, namespaces)
    claim_versions = await discovery.versions("resource.k8s.io")
    converting = coverage.namespaces_with(DRA_LABEL, "enabled") if coverage else []
    runtime = [*plan_runtime(planned, converting, serves_claims="v1" in claim_versions)]
    progress.show(f"trying {len(planned) + len(runtime)} objects")
    everything = [*planned, *runtime]
    tried = await try_objects(client, discovery, everything, await _read_namespaces(client, everything))
    policies, unread_policies = await reads.read_policies(client, discovery)
    images = await count_pods(client, coverage, progress)
    progress.show("reading the cluster")
    return Facts(
        planned=tried,
        user=await read_user(client),
        granted=await review_rights(client, planned),
        own_rules=await read_own_rules(client, planned),
        server_version=parse_version(await read_version(client)),
        claim_versions=claim_versions,
        nodes=await reads.list_objects(client, RESOURCES["Node"], reads.node_fields),
        leases=await reads.list_objects(client, RESOURCES["Lease"], namespace=_NODE_LEASES),
        slices=await reads.list_objects(client, RESOURCES["ResourceSlice"], reads.slice_fields),
        daemon_sets=await reads.list_objects(client, RESOURCES["DaemonSet"], reads.name_only),
        api_services=await reads.api_services(client),
        mutating=await reads.list_objects(client, RESOURCES["MutatingWebhookConfiguration"]),
        validating=await reads.list_objects(client, RESOURCES["ValidatingWebhookConfiguration"]),
        policies=policies,
        unread_policies=unread_policies,
        coverage=coverage,
        images=images,
        broken_conversions=await reads.broken_conversions(client),
        features=await reads.read_features(client),
        clock=clock,
    )


def _coverage(documents: Sequence[Object], namespaces: Sequence[Object]) -> Coverage:
    ours = [each for each in documents if (each.get("kind"), name_of(each)) in CONFIGURATIONS]
    return Coverage(webhooks_in(ours), namespaces, conditions_hold)


async def _read_namespaces(client: APIClient, planned: Sequence[PlannedObject]) -> dict[str, bool]:
    """The namespaces of objects, each with whether it exists, or may not be read."""
    found: dict[str, bool] = {}
    for namespace in dict.fromkeys(namespace_of(each.document) for each in planned if namespace_of(each.document)):
        found[namespace] = await read_object(client, RESOURCES["Namespace"], namespace) is not None
    return found
