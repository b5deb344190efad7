"""Waits until every replica of the Deployment is one of its newest template."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from policies.kubernetes.objects import has_ended
from policies.kubernetes.paths import lookup, mapping_at
from policies.phrases import format_count, inflect
from webhook.cli.webhook_changes.manifests import IMAGE
from webhook.cluster.errors import APIError
from webhook.cluster.lists import list_all
from webhook.cluster.resources import RESOURCES
from webhook.replica.config import DEPLOYMENT, NAMESPACE

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from webhook.cluster.client import APIClient

__all__ = ["read_deployment", "rollout_remainder"]


async def read_deployment(client: APIClient, image: str) -> Object:
    """The Deployment of gpu-admission.

    Args:
        client: The connection.
        image: The image that it must run; empty for any.

    Raises:
        click.ClickException: It does not exist, or runs another image.
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
    installed = lookup(deployment, IMAGE)
    if image and installed != image:
        raise click.ClickException(
            f"Deployment {DEPLOYMENT} in namespace {NAMESPACE} runs image {installed}, but the manifests have {image}: "
            "apply the service first, because replicas of another version do not answer these webhooks (docs/upgrade.md)"
        )
    return deployment


async def rollout_remainder(client: APIClient, deployment: Object) -> str:
    """What a rollout still waits for; empty once every pod is one of the newest template.

    Pods that drain count: the API server may have a connection to one of them.
    """
    wanted = lookup(deployment, ("spec", "replicas"))
    status = mapping_at(deployment, ("status",))
    if status.get("observedGeneration", 0) < lookup(deployment, ("metadata", "generation")):
        return "the Deployment controller has not seen the newest template"
    for field, what in (("updatedReplicas", "updated"), ("availableReplicas", "available")):
        if status.get(field, 0) < wanted:
            return f"{status.get(field, 0)} of {wanted} replicas are {what}"
    labels = mapping_at(deployment, ("spec", "selector", "matchLabels"))
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    pods = await list_all(client, RESOURCES["Pod"], NAMESPACE, {"labelSelector": selector})
    running = sum(not has_ended(pod) for pod in pods)
    if running > wanted:
        count = running - wanted
        return f"{format_count(count, 'earlier replica')} {inflect('has', count)} not ended"
    return ""
