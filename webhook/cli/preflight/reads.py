"""Reads of a preflight: lists that RBAC may forbid, policies of engines, features of the server."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from policies.kubernetes.paths import items_at, lookup
from policies.preflight.server_features import METRICS, ServerFeatures, features_in
from policies.view import UNKNOWN, Unknown
from webhook.cli.running_clusters.server_reads import in_parallel
from webhook.cluster.errors import APIError
from webhook.cluster.kind_reads import Unreadable, read_list
from webhook.cluster.resources import RESOURCES, Resource
from webhook.cluster.watched_kinds import Watched

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from policies.kubernetes.objects import Object
    from webhook.cli.running_clusters.discovery import Discovery
    from webhook.cluster.client import APIClient

__all__ = [
    "api_services",
    "broken_conversions",
    "list_objects",
    "name_only",
    "namespace_fields",
    "node_fields",
    "read_features",
    "read_policies",
    "slice_fields",
]

_API_SERVICES = Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False)
_ADMISSION = "admissionregistration.k8s.io"
_ENGINES = ("kyverno.io", "policies.kyverno.io", "constraints.gatekeeper.sh")
_ENGINE_KINDS = ("Policy", "ClusterPolicy", "ValidatingPolicy", "MutatingPolicy", "ImageValidatingPolicy")
"""Kyverno's kinds that refuse or change objects; every kind of Gatekeeper's group is a constraint."""
_BUILT_IN = ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")


async def list_objects(
    client: APIClient,
    resource: Resource,
    keep: Callable[[Object], Object | None] = lambda document: document,
    namespace: str = "",
) -> Sequence[Object] | Unknown:
    """What `keep` returns of the objects of a collection; unknown if they cannot be read."""
    found = await read_list(client, Watched(resource, namespace), keep)
    return UNKNOWN if isinstance(found, Unreadable) else found


async def api_services(client: APIClient) -> Sequence[Object] | Unknown:
    """All APIServices."""
    return await list_objects(client, _API_SERVICES)


async def read_features(client: APIClient) -> ServerFeatures | Unknown | None:
    """Plugins and feature gates in the metrics of the API server; None if it has no metrics."""
    try:
        async with contextlib.aclosing(client.text_lines("/metrics")) as lines:
            return features_in([line async for line in lines if line.startswith(METRICS)])
    except APIError as error:
        if error.is_not_found:
            return None
        if error.is_forbidden:
            return UNKNOWN
        raise


async def read_policies(client: APIClient, discovery: Discovery) -> tuple[list[Object], list[str]]:
    """The policies of all engines, with bindings; and the kinds that may not be listed."""
    resources: list[Resource] = []
    for version in (await discovery.versions(_ADMISSION))[:1]:
        kinds = await discovery.kinds(f"{_ADMISSION}/{version}")
        resources += [kinds[name] for each in _BUILT_IN for name in (each, f"{each}Binding") if name in kinds]
    for group in _ENGINES:
        for version in (await discovery.versions(group))[:1]:
            kinds = await discovery.kinds(f"{group}/{version}")
            resources += [each for kind, each in kinds.items() if group == _ENGINES[-1] or kind in _ENGINE_KINDS]
    found = await in_parallel(partial(list_objects, client), resources)
    unread = [each.name for each, listed in zip(resources, found, strict=True) if isinstance(listed, Unknown)]
    return [document for listed in found if not isinstance(listed, Unknown) for document in listed], unread


async def broken_conversions(client: APIClient) -> list[tuple[str, str]] | Unknown:
    """The CRDs of kinds that gpu-admission reads whose conversion webhook fails, with the error of a list."""
    listed = await list_objects(client, RESOURCES["CustomResourceDefinition"], _conversion_of)
    if isinstance(listed, Unknown):
        return UNKNOWN
    broken = []
    for each in listed:
        resource = RESOURCES.get(each["kind"])
        if resource is None or resource.group != each["group"]:
            continue
        try:
            await client.get(resource.path(), {"limit": "1"})
        except APIError as error:
            if not (error.is_forbidden or error.is_not_found):
                broken.append((f"{resource.plural}.{resource.group}", str(error)))
    return broken


def _conversion_of(definition: Object) -> Object | None:
    """Group and kind of a CRD that is converted by a webhook."""
    if lookup(definition, ("spec", "conversion", "strategy")) != "Webhook":
        return None
    return {"group": lookup(definition, ("spec", "group")), "kind": lookup(definition, ("spec", "names", "kind"))}


def node_fields(node: Object) -> Object:
    """The fields of a node that a preflight reads."""
    status = node.get("status")
    return {
        "metadata": {"name": lookup(node, ("metadata", "name"))},
        "spec": {"providerID": lookup(node, ("spec", "providerID"))},
        "status": {
            "nodeInfo": {"kubeletVersion": lookup(status, ("nodeInfo", "kubeletVersion"))},
            "conditions": items_at(status, ("conditions",)),
        },
    }


def slice_fields(document: Object) -> Object:
    """The fields of a ResourceSlice that a preflight reads."""
    spec = document.get("spec")
    return {"spec": {"driver": lookup(spec, ("driver",)), "nodeName": lookup(spec, ("nodeName",))}}


def name_only(document: Object) -> Object:
    """The name of an object."""
    return {"metadata": {"name": lookup(document, ("metadata", "name"))}}


def namespace_fields(document: Object) -> Object | None:
    """The name and the labels of a namespace; None if it is being deleted."""
    if lookup(document, ("metadata", "deletionTimestamp")) is not None:
        return None
    metadata = document.get("metadata")
    return {"metadata": {"name": lookup(metadata, ("name",)), "labels": lookup(metadata, ("labels",)) or {}}}
