"""Facts of a running cluster for a review: each kind is read when a rule first needs it."""

from __future__ import annotations

from asyncio import Runner
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from webhook.cli.running_clusters.connections import cluster_errors, connect, stored_settings
from webhook.cli.settings import ClusterFiles, read_settings
from webhook.cli.snapshots.reductions import reduction_of
from webhook.cluster.kind_reads import ABOUT_THE_KIND, Unreadable, parse_version, read_list, read_object, read_version
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.resources import LARGE_PAGE
from webhook.cluster.watched_kinds import Watched, watched_kinds

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import Unknown
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cli.manifest_reader import ManifestReader
    from webhook.cli.progress import Progress
    from webhook.cluster.client import APIClient
    from webhook.cluster.resources import Resource

__all__ = ["LiveFacts", "RunningCluster", "running_cluster"]

_NAMESPACE = "Namespace"
_PER_NAMESPACE = frozenset({"Pod", "ResourceClaim"})
"""Kinds with so many objects that a question about one namespace reads only that one."""


class RunningCluster:
    """A cluster that is read while a review runs; only reads are sent."""

    def __init__(self, client: APIClient, runner: Runner, progress: Progress) -> None:
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
        return parse_version(self._wait(read_version(self._client)))

    def read_list(self, wanted: Watched) -> list[Object] | Unreadable:
        """The objects of a list, reduced to what rules read, or why they are unknown."""
        self._progress.show(f"reading {wanted.words}")
        reading = read_list(
            self._client,
            wanted,
            reduction_of(wanted.resource),
            show=lambda count: self._progress.show(f"reading {wanted.words}: {count:,}"),
            limit=LARGE_PAGE,
            expected=ABOUT_THE_KIND,
        )
        found: list[Object] | Unreadable = self._wait(reading)
        return found

    def get(self, resource: Resource, name: str) -> Object | Unreadable | None:
        """One cluster-scoped object, None if it does not exist, or why it is unknown."""
        found: Object | Unreadable | None = self._wait(read_object(self._client, resource, name))
        return reduction_of(resource)(found) if isinstance(found, dict) else found

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(work)


@contextmanager
def running_cluster(kubeconfig: str | None, context: str | None, progress: Progress) -> Iterator[RunningCluster]:
    """Connect, and disconnect at the end; then print what could not be read.

    Args:
        kubeconfig: A file; if None, the one that kubectl uses, else the ServiceAccount of this pod.
        context: The context of the kubeconfig; its current one if None.
        progress: Shows what is read; must end before the cluster is left.

    Raises:
        NoClusterError: The cluster cannot be reached, or does not accept the credentials.
    """
    with Runner() as runner:
        client = runner.run(connect(kubeconfig, context))
        cluster = RunningCluster(client, runner, progress)
        try:
            with cluster_errors(client):
                yield cluster
        finally:
            runner.run(client.close())
    for reason in cluster.unknown:
        click.echo(f"Warning: {reason}; it counts as unknown", err=True)


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
        self._server_version: tuple[int, int] | Unknown | None = None
        """None before it is read."""
        for each in watched_kinds(settings.configuration.operator_namespaces):
            self._watched.setdefault(each.kind, []).append(each)

    def server_version(self) -> tuple[int, int] | Unknown:
        """The version of the API server."""
        if self._server_version is None:
            self._server_version = self._cluster.version()
        return self._server_version

    def knows(self, kind: str, namespace: str = "") -> bool:
        """True if all objects of a kind, or of a kind in a namespace, are read now or were before."""
        if super().knows(kind, namespace):
            return True
        lists = [each for each in self._watched.get(kind, ()) if not namespace or each.namespace in ("", namespace)]
        read = [self._is_read(each, namespace) for each in lists]
        if lists and all(read):
            self.add_known(kind, namespace)
        return super().knows(kind, namespace)

    def _is_read(self, wanted: Watched, namespace: str) -> bool:
        """Read what a question about a namespace needs; false if it is unknown."""
        resource = wanted.resource
        attempts = [wanted]
        if namespace and resource.namespaced and not wanted.namespace:
            within = wanted.within(namespace)
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
            found = self._cluster.read_list(wanted)
            if isinstance(found, Unreadable):
                self._read[wanted] = str(found)
            else:
                self._read[wanted] = ""
                self.add_known(wanted.kind, wanted.namespace, found)
        return self._read[wanted]

    def _is_namespace_read(self, resource: Resource, name: str) -> bool:
        """Read one Namespace, because users who may not list them can often read their own."""
        one = Watched(resource, name=name)
        if one not in self._read:
            found = self._cluster.get(resource, name)
            if isinstance(found, Unreadable):
                self._read[one] = str(found)
                self._cluster.unknown[self._read[one]] = None
            else:
                self._read[one] = ""
                self.add_known(resource.kind, name, [found] if found is not None else [])
        return not self._read[one]
