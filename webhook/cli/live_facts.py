"""Facts of a running cluster for a review: each kind is read when a rule first needs it."""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from policies.kubernetes.objects import name_of, namespace_of
from policies.view import UNKNOWN, Unknown
from webhook.cli.progress import Progress
from webhook.cli.running_clusters import connected_client, stored_settings
from webhook.cli.settings import ClusterFiles, read_settings
from webhook.cli.snapshots.reduced_lists import UnreadableKindError, reduced_pages
from webhook.cli.snapshots.reductions import reduction_of
from webhook.cluster.errors import APIError
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.server_version import parse_version
from webhook.cluster.watched_kinds import Watched, watched_kinds

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator

    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from webhook.cli.manifest_reader import ManifestReader
    from webhook.cluster.client import APIClient
    from webhook.cluster.resources import Resource

__all__ = ["LiveFacts", "RunningCluster", "running_cluster"]

_NAMESPACE = "Namespace"
_PER_NAMESPACE = frozenset({"Pod", "ResourceClaim"})
"""Kinds with so many objects that a question about one namespace reads only that one."""


class RunningCluster:
    """A cluster that is read while a review runs; only reads are sent."""

    def __init__(self, client: APIClient, runner: asyncio.Runner, progress: Progress) -> None:
        self._client = client
        self._runner = runner
        self._progress = progress
        self.unknown: dict[str, None] = {}
        """Why facts that rules needed are unknown, without full stops."""

    def files(self, file: str | None, reader: ManifestReader) -> ClusterFiles:
        """No files, and the settings of a file, else those of the cluster; problems go to the reader."""
        if file is not None:
            return ClusterFiles([], read_settings(file, reader), [])
        policy, notes = self._wait(stored_settings(self._client))
        return ClusterFiles([], policy, notes)

    def view(self, settings: GPUAdmissionPolicy, reviewed: Iterable[Object]) -> LiveFacts:
        """The facts of the cluster, with the objects under review."""
        return LiveFacts(self, settings, reviewed)

    def version(self) -> tuple[int, int] | Unknown:
        """The version of the API server; unknown if RBAC hides it."""
        try:
            return parse_version(self._wait(self._client.get("/version")))
        except APIError as error:
            if not error.is_forbidden:
                raise
            return UNKNOWN

    def read_list(self, wanted: Watched, version: tuple[int, int] | Unknown) -> list[Object]:
        """The objects of a list.

        Raises:
            UnreadableKindError: The list is forbidden, or fails.
        """
        found: list[Object] = self._wait(self._list(wanted, version))
        return found

    def get(self, resource: Resource, name: str) -> Object | Unknown | None:
        """One cluster-scoped object; None if it does not exist, unknown if it is forbidden."""
        try:
            found: Object = self._wait(self._client.get(resource.path(name=name)))
        except APIError as error:
            if error.is_not_found:
                return None
            if error.is_forbidden:
                return UNKNOWN
            raise
        return reduction_of(resource)(found)

    async def _list(self, wanted: Watched, version: tuple[int, int] | Unknown) -> list[Object]:
        found: list[Object] = []
        self._progress.show(f"reading {wanted.words}")
        async for page in reduced_pages(self._client, wanted, version):
            found += page
            self._progress.show(f"reading {wanted.words}: {len(found):,}")
        return found

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(work)


@contextmanager
def running_cluster(kubeconfig: str | None, context: str | None) -> Iterator[RunningCluster]:
    """Connect, and disconnect at the end; then print what could not be read.

    Args:
        kubeconfig: A file; if None, the one that kubectl uses, else the ServiceAccount of this pod.
        context: The context of the kubeconfig; its current one if None.

    Raises:
        NoClusterError: The cluster cannot be reached, or does not accept the credentials.
    """
    connection = connected_client(kubeconfig, context)
    with asyncio.Runner() as runner, Progress() as progress:
        cluster = RunningCluster(runner.run(_enter(connection)), runner, progress)
        try:
            yield cluster
        except BaseException:
            runner.run(_leave(connection, *sys.exc_info()))
            raise
        runner.run(_leave(connection, None, None, None))
    for reason in cluster.unknown:
        click.echo(f"Warning: {reason}; rules treat it as unknown", err=True)


async def _enter(connection: Any) -> APIClient:
    client: APIClient = await connection.__aenter__()
    return client


async def _leave(connection: Any, *error: Any) -> None:
    await connection.__aexit__(*error)


class LiveFacts(ManifestsView):
    """The objects under review, and those of a running cluster, read when they are first needed.

    A kind that RBAC forbids to list in all namespaces is read in the namespace that a rule asks about. What cannot be
    read is unknown. Secrets, and ConfigMaps outside the namespaces of the GPU Operator, are never read.
    """

    def __init__(self, cluster: RunningCluster, settings: GPUAdmissionPolicy, reviewed: Iterable[Object]) -> None:
        """`settings` name the namespaces of the GPU Operator."""
        super().__init__((), reviewed)
        self._cluster = cluster
        self._watched: dict[str, list[Watched]] = {}
        self._read: dict[Watched, str] = {}
        """The lists that were requested, and why each is unknown; empty if it is known."""
        self._read_version = False
        for each in watched_kinds(settings.configuration.operator_namespaces):
            self._watched.setdefault(each.kind, []).append(each)

    def server_version(self) -> tuple[int, int] | Unknown:
        """The version of the API server."""
        if not self._read_version:
            self._read_version = True
            self._version = self._cluster.version()
        return self._version

    def _is_known(self, kind: str, namespace: str = "") -> bool:
        if super()._is_known(kind, namespace):
            return True
        lists = [each for each in self._watched.get(kind, ()) if not namespace or each.namespace in ("", namespace)]
        read = [self._is_read(each, namespace) for each in lists]
        if lists and all(read):
            self._known.add((kind, namespace))
        return super()._is_known(kind, namespace)

    def _is_read(self, wanted: Watched, namespace: str) -> bool:
        """Read what a question about a namespace needs; false if it is unknown."""
        resource = wanted.resource
        attempts = [wanted]
        if namespace and resource.namespaced and not wanted.namespace:
            within = Watched(resource, namespace, wanted.name, wanted.fields)
            attempts = [within] if wanted.kind in _PER_NAMESPACE else [wanted, within]
        if any(not self._why_unknown(each) for each in attempts):
            return True
        if resource.kind == _NAMESPACE and namespace:
            return self._is_namespace_read(resource, namespace)
        if wanted.namespace and self.get(_NAMESPACE, wanted.namespace) is None:
            return True
        self._cluster.unknown[self._why_unknown(attempts[-1])] = None
        return False

    def _why_unknown(self, wanted: Watched) -> str:
        """Read a list, unless it was read before; why it is unknown, empty if it is known."""
        if wanted not in self._read:
            try:
                objects = self._cluster.read_list(wanted, self.server_version())
            except UnreadableKindError as error:
                self._read[wanted] = str(error)
            else:
                self._read[wanted] = ""
                self._keep(wanted.kind, wanted.namespace, objects)
        return self._read[wanted]

    def _is_namespace_read(self, resource: Resource, name: str) -> bool:
        """Read one Namespace, because users who may not list them can often read their own."""
        one = Watched(resource, name=name)
        if one not in self._read:
            found = self._cluster.get(resource, name)
            self._read[one] = f"forbidden: get {one.words}" if found is UNKNOWN else ""
            if found is UNKNOWN:
                self._cluster.unknown[self._read[one]] = None
            else:
                self._keep(resource.kind, name, [found] if found is not None else [])
        return not self._read[one]

    def _keep(self, kind: str, namespace: str, objects: list[Object]) -> None:
        """Add objects of the cluster; those under review win."""
        self._known.add((kind, namespace))
        for each in objects:
            self._objects[kind].setdefault((namespace_of(each), name_of(each)), each)
