"""The API resources of workloads: those of the built-in kinds, and those of kinds that the settings add, by discovery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import lookup
from policies.kubernetes.workloads import WORKLOAD_KINDS
from webhook.cluster.errors import APIError
from webhook.cluster.resources import RESOURCES, Resource

if TYPE_CHECKING:
    from policies.settings import GPUAdmissionPolicy
    from webhook.cluster.reader import Reader

__all__ = ["WORKLOAD_RESOURCES", "workload_resources"]

_NAMESAKES = {("batch.volcano.sh", "Job"): Resource("batch.volcano.sh", "v1alpha1", "jobs", "Job", namespaced=True)}
"""Kinds whose name is also that of a kind in `RESOURCES`."""

WORKLOAD_RESOURCES = {key: _NAMESAKES.get(key) or RESOURCES[key[1]] for key in WORKLOAD_KINDS}
"""By group and kind, of every built-in kind that makes pods."""


async def workload_resources(client: Reader, settings: GPUAdmissionPolicy) -> list[Resource]:
    """The resources of all kinds that make pods; an added kind that the API server does not serve is left out.

    Raises:
        ClusterError: The API server does not answer.
    """
    added = [await _served(client, each.group, each.kind) for each in settings.workloads.kinds]
    found = {(each.group, each.kind): each for each in added if each is not None}
    return [*{**WORKLOAD_RESOURCES, **found}.values()]


async def _served(client: Reader, group: str, kind: str) -> Resource | None:
    """The resource of a kind in the first version of its group that has it, as clients prefer them."""
    versions = lookup(await _discovered(client, f"/apis/{group}"), ("versions",))
    for listed in versions if isinstance(versions, list) else ():
        version = lookup(listed, ("version",))
        resources = lookup(await _discovered(client, f"/apis/{group}/{version}"), ("resources",))
        for each in resources if isinstance(resources, list) else ():
            name, namespaced = lookup(each, ("name",)), lookup(each, ("namespaced",))
            if lookup(each, ("kind",)) == kind and isinstance(name, str) and "/" not in name:
                return Resource(group, str(version), name, kind, namespaced=bool(namespaced))
    return None


async def _discovered(client: Reader, path: str) -> Any:
    try:
        return await client.get(path)
    except APIError as error:
        if not error.not_found:
            raise
        return None
