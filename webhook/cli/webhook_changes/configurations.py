"""Writes webhook configurations, each in one request and with the caBundle that is installed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from policies.entries import CONFIGURATIONS
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup, mapping_at, mappings_at
from webhook.cluster.errors import APIError
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from policies.kubernetes.objects import Object
    from webhook.cluster.client import APIClient

__all__ = ["apply_configuration", "delete_configurations", "differing_webhooks", "merged_configuration"]

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_BUNDLE = ("clientConfig", "caBundle")
_MOST_RACES = 10
"""Replicas and cert-manager write the caBundle meanwhile, a few times at most."""


async def apply_configuration(client: APIClient, configuration: Object) -> str:
    """Create a webhook configuration, or replace the installed one; returns what was done.

    Raises:
        ClusterError: It cannot be read or written.
    """
    resource, name = RESOURCES[configuration["kind"]], name_of(configuration)
    for _ in range(_MOST_RACES):
        try:
            installed: Object = await client.get(resource.path(name=name))
        except APIError as error:
            if not error.is_not_found:
                raise
            await client.post(resource.path(), _new_configuration(configuration))
            return "created"
        merged = merged_configuration(configuration, installed)
        if all(merged[key] == installed.get(key) for key in ("metadata", "webhooks")):
            return "unchanged"
        try:
            await client.put(resource.path(name=name), merged)
        except APIError as error:
            if not error.is_conflict:
                raise
            conflict = error
        else:
            return "configured"
    raise conflict


async def differing_webhooks(client: APIClient, configuration: Object) -> list[str]:
    """The names of webhooks that are not installed as in a configuration; without the caBundle.

    Raises:
        ClusterError: It cannot be read.
    """
    resource, name = RESOURCES[configuration["kind"]], name_of(configuration)
    try:
        installed: Object = await client.get(resource.path(name=name))
    except APIError as error:
        if not error.is_not_found:
            raise
        installed = {}
    wanted, found = (
        {webhook.get("name"): webhook for webhook in mappings_at(each, ("webhooks",))}
        for each in (merged_configuration(configuration, installed), installed)
    )
    return sorted(str(name) for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))


async def delete_configurations(client: APIClient) -> AsyncIterator[tuple[str, str, str]]:
    """Delete the webhook configurations; yields kind, name and what was done.

    Raises:
        ClusterError: One cannot be deleted.
    """
    for kind, name in CONFIGURATIONS:
        try:
            await client.delete(RESOURCES[kind].path(name=name))
        except APIError as error:
            if not error.is_not_found:
                raise
            yield kind, name, "not found"
        else:
            yield kind, name, "deleted"


def merged_configuration(configuration: Object, installed: Object) -> Object:
    """A webhook configuration of a manifest, with metadata and the caBundle of the installed one.

    A webhook that the manifest adds gets the caBundle of another one: all have the same service. Without it, its calls would
    fail until a replica, or cert-manager, writes it.
    """
    bundles = {webhook.get("name"): lookup(webhook, _BUNDLE) for webhook in mappings_at(installed, ("webhooks",))}
    any_bundle = next(filter(None, bundles.values()), None)
    webhooks = [
        _with_bundle(webhook, bundles.get(webhook.get("name")) or any_bundle)
        for webhook in mappings_at(configuration, ("webhooks",))
    ]
    return {**configuration, "metadata": _merged_metadata(configuration, installed), "webhooks": webhooks}


def _new_configuration(configuration: Object) -> Object:
    """A configuration to create: one that was read from a cluster has metadata that only API servers set."""
    metadata = mapping_at(configuration, ("metadata",))
    kept = {field: metadata[field] for field in ("name", "labels", "annotations") if field in metadata}
    return {**configuration, "metadata": kept}


def _with_bundle(webhook: dict[str, Any], bundle: Any) -> dict[str, Any]:
    client = mapping_at(webhook, ("clientConfig",))
    if not bundle or client.get("caBundle"):
        return webhook
    return {**webhook, "clientConfig": {**client, "caBundle": bundle}}


def _merged_metadata(configuration: Object, installed: Object) -> dict[str, Any]:
    """The metadata of the installed object, with the labels and annotations of the manifest.

    `kubectl apply` compares the manifest with the one that it applied last, so that one is updated where it exists.
    """
    metadata = mapping_at(installed, ("metadata",))
    merged = {**metadata}
    for field in ("labels", "annotations"):
        both = {**mapping_at(metadata, (field,)), **mapping_at(configuration, ("metadata", field))}
        if both:
            merged[field] = both
    if _LAST_APPLIED in mapping_at(metadata, ("annotations",)):
        merged["annotations"][_LAST_APPLIED] = json.dumps(configuration, separators=(",", ":"), sort_keys=True) + "\n"
    return merged
