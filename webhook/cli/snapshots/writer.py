"""Writes a snapshot: reads everything that the offline commands need, and writes it into a folder."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING

import click

from policies.admission.webhooks import CONFIGURATIONS
from policies.configuration import is_configuration
from policies.kubernetes.names import format_count
from policies.kubernetes.objects import name_of, namespace_of
from policies.rules.request import Request
from webhook.cli.dump import dump
from webhook.cli.running_clusters.connections import NoClusterError, connected_client, stored_settings, typed_list
from webhook.cli.snapshots.folders import HEAD, ListFile, check_target, replaced_folder
from webhook.cli.snapshots.reductions import reduction_of, without_values
from webhook.cli.snapshots.replaced_names import ReplacedNames
from webhook.cluster.clockwork import rfc3339
from webhook.cluster.kind_reads import ABOUT_THE_KIND, Unreadable, read_object, read_pages, read_version
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.resources import LARGE_PAGE, RESOURCES, workload_resources
from webhook.cluster.watched_kinds import Watched, watched_kinds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from policies.kubernetes.objects import Object
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cli.progress import Progress
    from webhook.cluster.client import APIClient
    from webhook.cluster.resources import Resource

__all__ = ["Snapshot", "take_snapshot"]

_NAMESPACE, _CONFIG_MAP = "Namespace", "ConfigMap"
_FIRST = (_NAMESPACE, "ClusterPolicy", "NVIDIADriver", "GPUCluster")
"""Kinds that decide what is kept of ConfigMaps, which are read after them."""


@dataclass(slots=True)
class Snapshot:
    """The content of a snapshot, and why kinds are missing."""

    url: str
    """Of the API server."""
    files: dict[str, int] = field(default_factory=dict)
    """The number of objects in each file."""
    unknown: list[Unreadable] = field(default_factory=list)
    """Why kinds are not in the snapshot."""
    notes: list[str] = field(default_factory=list)
    """Problems of the cluster's settings, without full stops."""

    def summary(self, folder: Path) -> str:
        """The number of written objects, in one sentence."""
        objects = format_count(sum(self.files.values()), "object")
        kinds = format_count(sum(map(bool, self.files.values())), "kind")
        unknown = f"; unknown: {format_count(len(self.unknown), 'kind')}" if self.unknown else ""
        return f"{objects} of {kinds} written to {folder}{unknown}"


def take_snapshot(
    folder: Path, kubeconfig: str | None, context: str | None, namespace: str, progress: Progress, *, renames: bool
) -> Snapshot:
    """Write a snapshot of a running cluster.

    Args:
        folder: Is created, or replaced if it is empty or has a snapshot.
        kubeconfig: A file; None for the one that kubectl uses.
        context: The context of the kubeconfig; its current one if None.
        namespace: The only namespace to read; empty for all.
        progress: Shows what is read.
        renames: True to replace the names that users choose.

    Raises:
        NoClusterError: The cluster cannot be read.
        click.UsageError: The folder has other files, or the namespace does not exist.
    """
    check_target(folder)
    return asyncio.run(_take(folder, kubeconfig, context, namespace, progress, renames=renames))


async def _take(
    folder: Path, kubeconfig: str | None, context: str | None, namespace: str, progress: Progress, *, renames: bool
) -> Snapshot:
    async with connected_client(kubeconfig, context) as client:
        answer = await read_version(client)
        settings, notes = await stored_settings(client)
        snapshot = Snapshot(client.url, notes=notes)
        with replaced_folder(folder) as written:
            rename = ReplacedNames(settings.configuration.operator_namespaces).rename if renames else None
            writer = _Writer(client, written, namespace, settings, progress, snapshot, rename)
            await writer.write()
            head = {
                "serverVersion": answer,
                "snapshot": {
                    "gpuAdmission": version_of("gpu-admission"),
                    "time": rfc3339(datetime.now(UTC)),
                    **({} if renames else {"server": client.url, "namespace": namespace}),
                    "namesReplaced": renames,
                    "unknown": [each.redacted if renames else str(each) for each in snapshot.unknown],
                    "files": snapshot.files,
                },
            }
            (written / HEAD).write_text(dump(head), encoding="utf-8")
        return snapshot


@dataclass(slots=True)
class _Writer:
    """Reads one kind after the other into files."""

    client: APIClient
    folder: Path
    namespace: str
    settings: GPUAdmissionPolicy
    progress: Progress
    snapshot: Snapshot
    rename: Callable[[Object], Object] | None
    facts: list[Object] = field(default_factory=list)
    """Lists of the first kinds."""

    async def write(self) -> None:
        watched = self._by_kind()
        for kind in (*_FIRST, *(kind for kind in watched if kind not in _FIRST)):
            if kind == _CONFIG_MAP:
                await self._write_config_maps(watched[kind])
            else:
                await self._write_kind(*watched[kind])
        for resource in (*await workload_resources(self.client, self.settings), RESOURCES["NodePool"]):
            await self._write_kind(Watched(resource))
        for kind, name in CONFIGURATIONS:
            await self._write_object(RESOURCES[kind], name)
        if not any(self.snapshot.files.values()):
            raise NoClusterError(
                f"{self.client.url}: nothing can be read: {'; '.join(map(str, self.snapshot.unknown))}"
            )

    def _by_kind(self) -> dict[str, list[Watched]]:
        """The kinds that policies read; Deployments are read as workloads."""
        found: dict[str, list[Watched]] = {}
        for each in watched_kinds(self.settings.configuration.operator_namespaces):
            if each.kind != "Deployment":
                found.setdefault(each.kind, []).append(each)
        return found

    async def _write_kind(self, wanted: Watched) -> None:
        resource = wanted.resource
        only = self.namespace if resource.namespaced else ""
        reduce = reduction_of(resource)
        kept: list[Object] = []

        async def take(page: list[Object]) -> None:
            reduced = [found for item in page if (found := reduce(item)) is not None]
            self._add(file, reduced)
            kept.extend(reduced if resource.kind in _FIRST else ())

        with ListFile(self.folder, resource, only) as file:
            unreadable = await self._read(wanted.within(only), take)
            if unreadable is not None:
                file.discard()
        if unreadable is not None:
            if resource.kind == _NAMESPACE and self.namespace:
                # Users who may not list namespaces can often read their own.
                await self._write_object(resource, self.namespace, unreadable)
            else:
                self.snapshot.unknown.append(unreadable)
            return
        self.snapshot.files[file.name] = file.count
        if resource.kind in _FIRST:
            self.facts.append(typed_list(resource, kept))
        if resource.kind == _NAMESPACE and self.namespace not in ("", *map(name_of, kept)):
            raise click.UsageError(f"namespace {self.namespace} does not exist")

    async def _read(self, wanted: Watched, take: Callable[[list[Object]], Awaitable[None]]) -> Unreadable | None:
        return await read_pages(self.client, wanted, take, limit=LARGE_PAGE, expected=ABOUT_THE_KIND)

    async def _write_object(self, resource: Resource, name: str, unlisted: Unreadable | None = None) -> None:
        """One cluster-scoped object; `unlisted` says why its kind cannot be listed."""
        found = await read_object(self.client, resource, name)
        if isinstance(found, Unreadable):
            self.snapshot.unknown.append(unlisted or found)
            return
        if found is None and unlisted:
            raise click.UsageError(f"namespace {name} does not exist")
        reduced = None if found is None else reduction_of(resource)(found)
        with ListFile(self.folder, resource, name if unlisted else "") as file:
            self._add(file, [] if reduced is None else [reduced])
        self.snapshot.files[file.name] = file.count

    async def _write_config_maps(self, wanted: list[Watched]) -> None:
        """The ConfigMaps of the operator's namespaces.

        Those that configure GPUs are whole; of the others, which a ClusterPolicy may name, the keys are kept.
        """
        view = ManifestsView(self.facts)
        namespaces = [each for each in wanted if self.namespace in ("", each.namespace)]
        if not namespaces:
            return
        reduce = reduction_of(RESOURCES[_CONFIG_MAP])

        async def take(page: list[Object]) -> None:
            reduced = (found for item in page if (found := reduce(item)) is not None)
            self._add(file, [self._reduced_config_map(each, view) for each in reduced])

        with ListFile(self.folder, RESOURCES[_CONFIG_MAP], self.namespace) as file:
            for each in namespaces:
                if view.get(_NAMESPACE, each.namespace) is None:
                    continue
                unreadable = await self._read(each, take)
                if unreadable is not None:
                    file.discard()
                    self.snapshot.unknown.append(unreadable)
                    return
        self.snapshot.files[file.name] = file.count

    def _reduced_config_map(self, config_map: Object, view: ManifestsView) -> Object:
        name, namespace = name_of(config_map), namespace_of(config_map)
        request = Request(config_map, kind=_CONFIG_MAP, name=name, namespace=namespace)
        is_read = is_configuration(request, view, self.settings)
        return config_map if is_read else without_values(config_map)

    def _add(self, file: ListFile, page: list[Object]) -> None:
        file.add(page if self.rename is None else [self.rename(each) for each in page])
        self.progress.show(f"reading {file.name.removesuffix('.json')}: {file.count:,}")
