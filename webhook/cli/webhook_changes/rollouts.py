"""Waits until every replica of the Deployment is one of its newest template."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from policies.kubernetes.objects import has_ended, name_of
from policies.kubernetes.paths import lookup, mapping_at
from policies.phrases import format_count, inflect
from webhook.cli.webhook_changes.manifests import image_of
from webhook.cluster.errors import APIError
from webhook.cluster.lists import list_all
from webhook.cluster.resources import RESOURCES
from webhook.replica.config import DEPLOYMENT, NAMESPACE

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from webhook.cli.webhook_changes.manifests import VersionManifests
    from webhook.cluster.client import APIClient

__all__ = ["read_deployment", "rollout_remainder"]


async def read_deployment(client: APIClient, manifests: VersionManifests) -> Object:
    """The Deployment of gpu-admission.

    Args:
        client: The connection.
        manifests: Those of the version that it must run.

    Raises:
        click.ClickException: It does not exist, runs another image, or has no replicas.
        ClusterError: It cannot be read.
    """
    try:
        deployment: Object = await client.get(RESOURCES["Deployment"].path(NAMESPACE, DEPLOYMENT))
    except APIError as error:
        if not error.is_not_found:
            raise
        raise click.ClickException(
            f"Deployment {DEPLOYMENT} in namespace {NAMESPACE} not found: apply the service first, because a webhook is called "
            "as soon as its configuration exists (docs/upgrade.md)"
        ) from error
    installed = image_of(deployment)
    image = manifests.image
    if image and installed != image:
        raise click.ClickException(
            f"Deployment {DEPLOYMENT} in namespace {NAMESPACE} runs image {installed}, but the manifests have {image}: "
            "apply the service first, because replicas of another version do not answer these webhooks (docs/upgrade.md)"
        )
    if not lookup(deployment, ("spec", "replicas")) and _call_the_service(manifests):
        raise click.ClickException(
            f"Deployment {DEPLOYMENT} in namespace {NAMESPACE} is scaled to 0 replicas: scale it up first, because nothing "
            "answers these webhooks"
        )
    return deployment


def _call_the_service(manifests: VersionManifests) -> bool:
    """True if webhooks call the Service, not replicas outside of the cluster by `serve --url`."""
    webhooks = (webhook for each in manifests.configurations for webhook in each["webhooks"])
    return any(lookup(webhook, ("clientConfig", "service")) for webhook in webhooks)


async def rollout_remainder(client: APIClient, deployment: Object) -> str:
    """What a rollout still waits for; empty once every pod is one of the newest template.

    Pods that drain count: the API server may have a connection to one of them.
    """
    wanted = lookup(deployment, ("spec", "replicas"))
    paused = ", and the rollout is paused; resume it" if lookup(deployment, ("spec", "paused")) else ""
    status = mapping_at(deployment, ("status",))
    if status.get("observedGeneration", 0) < lookup(deployment, ("metadata", "generation")):
        return "the Deployment controller has not seen the newest template"
    for field, what in (("updatedReplicas", "updated"), ("availableReplicas", "available")):
        if status.get(field, 0) < wanted:
            return f"{status.get(field, 0)} of {wanted} replicas are {what}{paused}"
    labels = mapping_at(deployment, ("spec", "selector", "matchLabels"))
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    pods = await list_all(client, RESOURCES["Pod"], NAMESPACE, {"labelSelector": selector})
    running = [pod for pod in pods if not has_ended(pod)]
    if len(running) > wanted:
        count = len(running) - wanted
        return f"{format_count(count, 'earlier replica')} {inflect('has', count)} not ended{_ending_pods(running)}"
    return ""


def _ending_pods(pods: list[Object]) -> str:
    """The names of pods that are being deleted; on a node that was lost, only --force ends them."""
    found = [pod for pod in pods if lookup(pod, ("metadata", "deletionTimestamp"))]
    names = sorted(f"{name_of(pod)} on node {lookup(pod, ('spec', 'nodeName'))}" for pod in found)
    return f" ({', '.join(names)}; if a node was lost, delete its pod with --force)" if names else ""
