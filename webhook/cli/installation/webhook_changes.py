"""Applies and deletes the webhook configurations, in the order of docs/upgrade.md."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import click

from policies.admission import entry_of
from policies.kubernetes.names import format_count, inflect
from policies.kubernetes.objects import has_ended, lookup, mapping_at, name_of
from webhook.cli.installation.webhook_configurations import (
    any_bundle,
    apply_configuration,
    delete_configurations,
    differing_webhooks,
    image_of,
    installed_configurations,
    read_version_manifests,
)
from webhook.cli.progress import current_progress
from webhook.cli.running_clusters import NoClusterError, run_connected
from webhook.cluster.answers import APIError, ClusterError, Unreachable
from webhook.cluster.lists import list_all
from webhook.cluster.resources import RESOURCES
from webhook.controllers.replica_config import DEPLOYMENT, NAMESPACE

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from webhook.cli.cluster_options import ClusterOptions
    from webhook.cli.installation.webhook_configurations import VersionManifests
    from webhook.cluster.client import APIClient


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
    # Replicas outside of the cluster, by `serve --url`, are called without the Service.
    webhooks = [webhook for each in manifests.configurations for webhook in each["webhooks"]]
    calls_service = any(lookup(each, ("clientConfig", "service")) for each in webhooks)
    if calls_service and not lookup(deployment, ("spec", "replicas")):
        raise click.ClickException(
            f"Deployment {DEPLOYMENT} in namespace {NAMESPACE} is scaled to 0 replicas: scale it up first, because nothing "
            "answers these webhooks"
        )
    return deployment


async def rollout_remainder(client: APIClient, deployment: Object) -> str:
    """The remaining step of a rollout; empty once every pod is one of the newest template.

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


_PAUSE_SECONDS = 0.5
_NO_CHANGE = "no webhook was changed; look at `kubectl -n gpu-admission get pods`, and run the command again when all replicas are ready"


def apply_webhooks(file: str, source: ClusterOptions, seconds: float, *, rolls_back: bool) -> list[str]:
    """Apply the webhook configurations of a file; returns a line for each.

    Args:
        file: Manifests of a version, or `-`.
        source: The cluster.
        seconds: How long to wait.
        rolls_back: True if the service of the version follows; False if it is running.

    Raises:
        NoClusterError: The cluster cannot be reached, or refuses.
        UnreadableInputError: The file cannot be read.
        click.ClickException: The service is of another version, or waiting took too long.
    """
    manifests = read_version_manifests(file)

    async def apply(client: APIClient) -> list[str]:
        _check_names(manifests, rolls_back=rolls_back)
        if not rolls_back:
            await _wait_for_service(client, manifests, seconds)
        bundle = any_bundle(await installed_configurations(client))
        done: list[str] = []
        for each in manifests.configurations:
            what = f"{each['kind']} {name_of(each)}"
            try:
                outcome = await apply_configuration(client, each, bundle)
            except ClusterError as error:
                server = "" if isinstance(error, Unreachable) else f"{client.url}: "
                state = "".join(f"; {line}" for line in done)
                raise NoClusterError(f"{server}{error}; {what} is not applied{state}; run the command again") from error
            done.append(f"{what} {outcome}")
        return done

    return run_connected(source, apply)


def check_webhooks(file: str, source: ClusterOptions, seconds: float) -> list[str]:
    """Check that the service and the webhooks are those of a file; returns a line for each configuration.

    Args:
        file: Manifests of a version, or `-`.
        source: The cluster.
        seconds: How long to wait for the service.

    Raises:
        NoClusterError: The cluster cannot be reached, or refuses.
        UnreadableInputError: The file cannot be read.
        click.ClickException: The service or a webhook is another one, or waiting took too long.
    """
    manifests = read_version_manifests(file)

    async def check(client: APIClient) -> list[str]:
        await _wait_for_service(client, manifests, seconds)
        return [await _confirm(client, each, file) for each in manifests.configurations]

    return run_connected(source, check)


async def _confirm(client: APIClient, configuration: Object, file: str) -> str:
    what = f"{configuration['kind']} {name_of(configuration)}"
    if names := await differing_webhooks(client, configuration):
        raise click.ClickException(
            f"{what} is not installed as in {file}; webhooks that differ: {', '.join(names)}; apply it with "
            "`gpu-admission apply-webhooks` or `helm upgrade`"
        )
    return f"{what} is installed as in {file}"


def delete_webhooks(source: ClusterOptions) -> list[str]:
    """Delete both webhook configurations; returns a line for each.

    Raises:
        NoClusterError: The cluster cannot be reached, or refuses.
    """
    return run_connected(source, delete_configurations)


def _check_names(manifests: VersionManifests, *, rolls_back: bool) -> None:
    """Check that this version answers all webhooks.

    An image that runs already proves more, and a later version may have other webhooks than this one.

    Raises:
        click.ClickException: A webhook is of another version.
    """
    if manifests.image and not rolls_back:
        return
    webhooks = (webhook for each in manifests.configurations for webhook in each["webhooks"])
    if names := sorted({str(webhook.get("name")) for webhook in webhooks if entry_of(webhook) is None}):
        raise click.ClickException(
            f"this gpu-admission does not know webhook {', '.join(names)} of the manifests: give those of this version "
            "or of the one before, and take the gpu-admission of the newer of both versions (docs/upgrade.md)"
        )


async def _wait_for_service(client: APIClient, manifests: VersionManifests, seconds: float) -> None:
    """Wait until every replica is of the newest template of the Deployment.

    An API server that answered once may be restarted meanwhile, so its failures are waited out.

    Raises:
        click.ClickException: The service is of another version, or the rollout takes longer than that.
        ClusterError: The first answer is an error, or the API server refuses.
    """
    end = time.monotonic() + seconds
    has_answered = False
    while True:
        try:
            what = await rollout_remainder(client, await read_deployment(client, manifests))
        except ClusterError as error:
            if not (has_answered and error.is_transient):
                raise
            what = f"the API server does not answer: {error}"
        if not what:
            return
        has_answered = True
        current_progress().show(f"waiting: {what}")
        if time.monotonic() > end:
            raise click.ClickException(f"after {seconds:g} seconds, {what}; {_NO_CHANGE}")
        await asyncio.sleep(_PAUSE_SECONDS)
