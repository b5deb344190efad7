"""Runs doctor: reads a running installation, and checks what was read."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from policies.admission.webhooks import CONFIGURATIONS
from policies.analyses.installation import InstallationFacts, Unread, diagnose, wanted_objects
from policies.kubernetes.names import MANAGED
from policies.kubernetes.objects import has_ended, items_at, lookup, mapping_at, mappings_at, name_of
from webhook.cli.doctor.reads import (
    bundles_of,
    count_nodes,
    list_objects,
    read_calls,
    read_manifest_object,
    read_named,
    read_replica,
    stored_certificates,
)
from webhook.cli.preflight.reads import read_manifests
from webhook.cli.running_clusters.connections import Discovery, connected_client, in_parallel, read_clock
from webhook.cli.settings import settings_in
from webhook.cli.shipped_files import shipped_path
from webhook.cluster.answers import APIError
from webhook.cluster.leases import REPLICA_QUERY
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.resources import RESOURCES
from webhook.cluster.watched_kinds import Watched
from webhook.controllers.replica_config import DEPLOYMENT, LEASE, NAMESPACE, SECRET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.analyses.installation import Diagnosis
    from policies.kubernetes.objects import Object
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cli.progress import Progress
    from webhook.cluster.client import APIClient

__all__ = ["run_doctor"]

_LABELS = {"app.kubernetes.io/name": "gpu-admission"}
"""Of the pods, if the Deployment cannot be read."""
_MANAGED = f"{MANAGED}=true"
_API_SERVERS = "apiserver.kubernetes.io/identity=kube-apiserver"
"""Leases that API servers keep. Source: k8s.io/kubernetes pkg/controlplane/apiserver."""
_MOST_REPLICAS = 20
"""Replicas that are asked."""


def run_doctor(kubeconfig: str | None, context: str | None, progress: Progress) -> Diagnosis:
    """Check the installation in a running cluster.

    Args:
        kubeconfig: A file; None for the one that kubectl uses.
        context: The context of the kubeconfig; its current one if None.
        progress: Shows what is read.

    Raises:
        NoClusterError: The cluster cannot be reached.
    """
    manifests = read_manifests([str(shipped_path("deploy") / "install.yaml")])

    async def run() -> Diagnosis:
        async with connected_client(kubeconfig, context) as client:
            return diagnose(await _facts(client, manifests, progress))

    return asyncio.run(run())


async def _facts(client: APIClient, manifests: Sequence[Object], progress: Progress) -> InstallationFacts:
    progress.show("reading the installation")
    now = await _server_time(client)
    named = partial(read_named, client)
    deployment = await named(RESOURCES["Deployment"], DEPLOYMENT, NAMESPACE)
    pods = await list_objects(client, Watched(RESOURCES["Pod"], NAMESPACE, labels=_selector(deployment)))
    running = [] if isinstance(pods, Unread) else [pod for pod in pods if _is_running(pod)][:_MOST_REPLICAS]
    progress.show(f"asking {len(running)} replicas")
    replicas = await in_parallel(partial(read_replica, client), running)
    configurations = {kind: await named(RESOURCES[kind], name) for kind, name in CONFIGURATIONS}
    issues = _issues_certificates(deployment)
    secret = await named(RESOURCES["Secret"], SECRET, NAMESPACE) if issues else None
    progress.show("reading metrics of the API server")
    calls = await read_calls(client)
    progress.show("comparing the installation with its manifests")
    discovery = Discovery(client)
    wanted = wanted_objects(manifests, issues_certificates=issues)
    stored = await in_parallel(partial(read_manifest_object, client, discovery), wanted)
    progress.show("reading pods and templates")
    policies = await list_objects(client, Watched(RESOURCES["GPUAdmissionPolicy"]))
    pending = Watched(RESOURCES["Pod"], fields=("spec.nodeName=",), labels=_MANAGED)
    api_servers = Watched(RESOURCES["Lease"], "kube-system", labels=_API_SERVERS)
    return InstallationFacts(
        now=now,
        version=version("gpu-admission"),
        deployment=deployment,
        pods=pods,
        nodes=await count_nodes(client, RESOURCES["Node"], most=2),
        replicas={name_of(pod): replica for pod, replica in zip(running, replicas, strict=True)},
        configurations=configurations,
        bundles=[*bundles_of(configurations, secret, now)],
        certificates=stored_certificates(secret),
        issues_certificates=issues,
        calls=calls,
        api_servers=_count(await list_objects(client, api_servers)),
        lease=await named(RESOURCES["Lease"], LEASE, NAMESPACE),
        replica_leases=await list_objects(
            client, Watched(RESOURCES["Lease"], NAMESPACE, labels=REPLICA_QUERY["labelSelector"])
        ),
        quotas=await list_objects(client, Watched(RESOURCES["GPUQuota"])),
        waiting_pods=await list_objects(client, pending),
        templates=await list_objects(client, Watched(RESOURCES["ResourceClaimTemplate"], labels=_MANAGED)),
        policies=policies,
        settings=_settings(policies),
        installed=[*zip(wanted, stored, strict=True)],
    )


async def _server_time(client: APIClient) -> datetime:
    """The time of the API server; the local one if it sends none, or hides its version.

    Raises:
        Unreachable: The API server does not answer.
    """
    try:
        clock = await read_clock(client)
    except APIError as error:
        if not error.is_forbidden:
            raise
        clock = None
    return clock.server if clock else datetime.now(UTC)


def _selector(deployment: Object | Unread | None) -> str:
    labels = {} if isinstance(deployment, Unread) else mapping_at(deployment, ("spec", "selector", "matchLabels"))
    return ",".join(f"{key}={value}" for key, value in (labels or _LABELS).items())


def _is_running(pod: Object) -> bool:
    return bool(lookup(pod, ("status", "podIP"))) and not has_ended(pod)


def _issues_certificates(deployment: Object | Unread | None) -> bool:
    """False if the Deployment names files of a certificate."""
    containers = (
        [] if isinstance(deployment, Unread) else mappings_at(deployment, ("spec", "template", "spec", "containers"))
    )
    return not any(
        str(argument).startswith("--tls-cert") for each in containers for argument in items_at(each, ("args",))
    )


def _count(listed: Sequence[Object] | Unread) -> int:
    return 0 if isinstance(listed, Unread) else len(listed)


def _settings(policies: Sequence[Object] | Unread) -> GPUAdmissionPolicy:
    """The settings in use; the defaults if they are invalid or unread."""
    found: list[Any] = [] if isinstance(policies, Unread) else [*policies]
    return settings_in(ManifestsView(found))[0]
