"""The webhook configurations in the manifests of a version, and the image of its Deployment."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.admission import CONFIGURATIONS
from policies.kubernetes.objects import lookup, mapping_at, mappings_at, name_of
from webhook.cli.manifest_reader import ManifestReader, Problem
from webhook.cluster.answers import APIError
from webhook.cluster.resources import RESOURCES
from webhook.controllers.replica_config import DEPLOYMENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.kubernetes.objects import Object
    from webhook.cluster.client import APIClient


@dataclass(frozen=True, slots=True)
class VersionManifests:
    """The webhook configurations and the image of a version, as a file has them."""

    configurations: tuple[Object, ...]
    """Both webhook configurations of gpu-admission."""
    image: str
    """The image that runs gpu-admission; empty if the file has no Deployment of it."""


def read_version_manifests(file: str) -> VersionManifests:
    """Read a file, or standard input if it is `-`; other objects are ignored.

    Raises:
        UnreadableInputError: The file cannot be read, or does not have each webhook configuration of gpu-admission once, with
            webhooks.
    """
    reader = ManifestReader()
    objects = [manifest.object for manifest in reader.manifests([file])]
    found = [each for each in objects if (each.get("kind"), name_of(each)) in CONFIGURATIONS]
    reader.problems += [Problem(file, text) for text in _problems(found)]
    reader.check()
    deployments = [each for each in objects if (each.get("kind"), name_of(each)) == ("Deployment", DEPLOYMENT)]
    return VersionManifests(tuple(found), next(filter(None, map(image_of, deployments)), ""))


def image_of(deployment: Object) -> str:
    """The image of the container gpu-admission of a Deployment; empty if it has none.

    An overlay may put other containers before it.
    """
    containers = mappings_at(deployment, ("spec", "template", "spec", "containers"))
    images = (each.get("image") for each in containers if each.get("name") == DEPLOYMENT)
    return next((image for image in images if isinstance(image, str)), "")


def _problems(found: list[Object]) -> Iterator[str]:
    """Sentences on configurations that cannot be applied; of half a version, nothing answers."""
    kinds = [each["kind"] for each in found]
    if missing := [f"{kind} {name}" for kind, name in CONFIGURATIONS if kind not in kinds]:
        yield f"has no {' and no '.join(missing)}; give the manifests of one version of gpu-admission"
    if len({*kinds}) < len(kinds):
        yield "has a webhook configuration twice; give the manifests of one version"
    for each in found:
        webhooks = each.get("webhooks")
        if not isinstance(webhooks, list) or not webhooks or not all(isinstance(webhook, dict) for webhook in webhooks):
            yield (
                f"{each['kind']} {name_of(each)}: webhooks: must be a list of at least one webhook, because applying it would "
                "delete those that are installed; to delete them, use `gpu-admission delete-webhooks`"
            )


_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_BUNDLE = ("clientConfig", "caBundle")
_MOST_RACES = 10
"""Replicas and cert-manager write the caBundle meanwhile, a few times at most."""


async def apply_configuration(client: APIClient, configuration: Object, bundle: Any) -> str:
    """Create a webhook configuration, or replace the installed one; returns what was done.

    Args:
        client: The connection.
        configuration: As in a manifest, or as it was read from a cluster.
        bundle: The caBundle of any webhook that is installed.

    Raises:
        ClusterError: It cannot be read or written.
    """
    resource, name = RESOURCES[configuration["kind"]], name_of(configuration)
    for _ in range(_MOST_RACES):
        installed = await _stored_configuration(client, configuration)
        merged = merged_configuration(configuration, installed, bundle)
        if installed and all(merged[key] == installed.get(key) for key in ("metadata", "webhooks")):
            return "unchanged"
        try:
            if installed:
                await client.put(resource.path(name=name), merged)
            else:
                await client.post(resource.path(), _new_configuration(merged))
        except APIError as error:
            if not (error.is_conflict or error.already_exists):
                raise
            conflict = error
        else:
            return "configured" if installed else "created"
    raise conflict


async def installed_configurations(client: APIClient) -> list[Object]:
    """The webhook configurations that are installed.

    Raises:
        ClusterError: One cannot be read.
    """
    wanted = [{"kind": kind, "metadata": {"name": name}} for kind, name in CONFIGURATIONS]
    return [found for each in wanted if (found := await _stored_configuration(client, each))]


async def _stored_configuration(client: APIClient, configuration: Object) -> Object:
    """The installed object of a configuration's kind and name; empty if there is none."""
    try:
        found: Object = await client.get(RESOURCES[configuration["kind"]].path(name=name_of(configuration)))
    except APIError as error:
        if not error.is_not_found:
            raise
        return {}
    return found


def any_bundle(installed: Iterable[Object]) -> Any:
    """The caBundle of any webhook of configurations; None if no webhook has one."""
    bundles = (lookup(webhook, _BUNDLE) for each in installed for webhook in mappings_at(each, ("webhooks",)))
    return next(filter(None, bundles), None)


async def differing_webhooks(client: APIClient, configuration: Object) -> list[str]:
    """The names of webhooks that are not installed as in a configuration; without the caBundle.

    Raises:
        ClusterError: It cannot be read.
    """
    installed = await _stored_configuration(client, configuration)
    wanted, found = (
        {webhook.get("name"): webhook for webhook in mappings_at(each, ("webhooks",))}
        for each in (merged_configuration(configuration, installed, None), installed)
    )
    return sorted(str(name) for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))


async def delete_configurations(client: APIClient) -> list[str]:
    """Delete the webhook configurations; returns a line for each.

    Raises:
        ClusterError: One cannot be deleted.
    """
    lines = []
    for kind, name in CONFIGURATIONS:
        outcome = "deleted"
        try:
            await client.delete(RESOURCES[kind].path(name=name))
        except APIError as error:
            if not error.is_not_found:
                raise
            outcome = "not found"
        lines.append(f"{kind} {name} {outcome}")
    return lines


def merged_configuration(configuration: Object, installed: Object, bundle: Any) -> Object:
    """A webhook configuration of a manifest, with metadata and the caBundle of the installed one.

    A webhook that the manifest adds gets the caBundle of another one: all have the same service. Without it, its calls would
    fail until a replica, or cert-manager, writes it. `bundle` is that of the other configuration, if this one has none.
    """
    bundles = {webhook.get("name"): lookup(webhook, _BUNDLE) for webhook in mappings_at(installed, ("webhooks",))}
    other = any_bundle([installed]) or bundle
    saved = _was_read(configuration)
    webhooks = [
        _with_bundle(webhook, bundles.get(webhook.get("name")) or other, saved=saved)
        for webhook in mappings_at(configuration, ("webhooks",))
    ]
    return {**configuration, "metadata": _merged_metadata(configuration, installed), "webhooks": webhooks}


def _new_configuration(configuration: Object) -> Object:
    """A configuration to create: one that was read from a cluster has metadata that only API servers set."""
    metadata = mapping_at(configuration, ("metadata",))
    kept = {field: metadata[field] for field in ("name", "labels", "annotations") if field in metadata}
    return {**configuration, "metadata": kept}


def _was_read(configuration: Object) -> bool:
    """True if a configuration was read from a cluster, as docs/break-glass.md saves it."""
    return bool(lookup(configuration, ("metadata", "resourceVersion")))


def _with_bundle(webhook: dict[str, Any], bundle: Any, *, saved: bool) -> dict[str, Any]:
    """A webhook with a caBundle: its own, unless that was saved, and may be older than the certificate."""
    client = mapping_at(webhook, ("clientConfig",))
    if not bundle or (client.get("caBundle") and not saved):
        return webhook
    return {**webhook, "clientConfig": {**client, "caBundle": bundle}}


def _merged_metadata(configuration: Object, installed: Object) -> dict[str, Any]:
    """The metadata of the installed object, with the labels and annotations of the manifest.

    `kubectl apply` compares the manifest with the one that it applied last, so that one is updated where it exists. A
    configuration that was read from a cluster is not a manifest: kubectl would try to remove its caBundle and its uid. It
    has the manifest that was applied last itself.
    """
    metadata = mapping_at(installed, ("metadata",))
    merged = {**(metadata or mapping_at(configuration, ("metadata",)))}
    for field in ("labels", "annotations"):
        both = {**mapping_at(metadata, (field,)), **mapping_at(configuration, ("metadata", field))}
        if both:
            merged[field] = both
    if _LAST_APPLIED in mapping_at(metadata, ("annotations",)) and not _was_read(configuration):
        merged["annotations"][_LAST_APPLIED] = json.dumps(configuration, separators=(",", ":"), sort_keys=True) + "\n"
    return merged
