"""Connections to a running cluster, and what commands read from it; errors end the command."""

from __future__ import annotations

import asyncio
import logging
from asyncio import Runner
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import click

from policies.analyses.installation.component_versions import METRICS, ServerFeatures, features_in
from policies.analyses.installation.network import Clock
from policies.kubernetes.objects import lookup, mappings_at
from policies.kubernetes.view import UNKNOWN, Unknown
from webhook.cli.progress import current_progress
from webhook.cli.settings import settings_in
from webhook.cli.snapshots.reductions import reduction_of
from webhook.cluster.answers import APIError, ClusterError, Unreachable
from webhook.cluster.client import APIClient
from webhook.cluster.kind_reads import (
    ABOUT_THE_KIND,
    Unreadable,
    parse_version,
    read_gates,
    read_list,
    read_object,
    read_version,
)
from webhook.cluster.lists import LARGE_PAGE, workload_resources
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.resources import RESOURCES, Resource
from webhook.cluster.sync import Sync
from webhook.cluster.trimmed import trim_for
from webhook.cluster.watched_kinds import Watched, watched_kinds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping

    from policies.kubernetes.objects import Object
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cli.cluster_options import ClusterOptions
    from webhook.cluster.live import LiveView


Item = TypeVar("Item")
Result = TypeVar("Result")


# Notes and errors say what goes wrong; without a handler, Python would print the log messages as well.
logging.getLogger("gpu_admission").addHandler(logging.NullHandler())

_MOST_AT_ONCE = 6
"""Requests that are sent at a time."""
_SECONDS = 60.0
"""Time limit for the first lists; those of 100,000 pods take 10 seconds."""
_NAMESPACE = "Namespace"
_PER_NAMESPACE = frozenset({"Pod", "ResourceClaim"})
"""Kinds with so many objects that a question about one namespace reads only that one."""


class NoClusterError(click.ClickException):
    """A cluster cannot be read."""

    exit_code = 2


async def connect(source: ClusterOptions) -> APIClient:
    """A client, which the caller closes.

    Raises:
        NoClusterError: No cluster is configured, or the configuration cannot be used.
    """
    try:
        return await APIClient.connect(source.kubeconfig, source.context)
    except ClusterError as error:
        raise NoClusterError(str(error)) from error


@contextmanager
def cluster_errors(client: APIClient) -> Iterator[None]:
    """Turn errors of requests into NoClusterError."""
    try:
        yield
    except Unreachable as error:
        raise NoClusterError(str(error)) from error
    except ClusterError as error:
        # The message of an API server does not name the server.
        raise NoClusterError(f"{client.url}: {error}") from error


@asynccontextmanager
async def connected_client(source: ClusterOptions) -> AsyncIterator[APIClient]:
    """Connect, and disconnect at the end.

    Raises:
        NoClusterError: The cluster cannot be reached, or refuses.
    """
    client = await connect(source)
    try:
        with cluster_errors(client):
            yield client
    finally:
        await client.close()


def run_connected(source: ClusterOptions, work: Callable[[APIClient], Awaitable[Result]]) -> Result:
    """The result of work with a client, which is closed then.

    Raises:
        NoClusterError: The cluster cannot be reached, or refuses.
    """

    async def run() -> Result:
        async with connected_client(source) as client:
            return await work(client)

    return asyncio.run(run())


class Discovery:
    """The resources that the API server serves, read once for each group and version."""

    def __init__(self, client: APIClient) -> None:
        self._client = client
        self._known: dict[str, dict[str, Resource]] = {}

    async def resource(self, document: Object) -> Resource | None:
        """The resource of an object; None if the API server does not serve its kind."""
        found = await self.kinds(str(document.get("apiVersion")))
        return found.get(str(document.get("kind")))

    async def kinds(self, api_version: str) -> dict[str, Resource]:
        """The resources of a group and version by kind; empty if it is not served."""
        if api_version not in self._known:
            self._known[api_version] = await self._read(api_version)
        return self._known[api_version]

    async def versions(self, group: str) -> list[str]:
        """The served versions of a group, the preferred one first."""
        answer = await self._get(f"/apis/{group}")
        preferred = lookup(answer, ("preferredVersion", "version"))
        found = [str(each.get("version")) for each in mappings_at(answer, ("versions",))]
        return sorted(found, key=lambda version: version != preferred)

    async def _read(self, api_version: str) -> dict[str, Resource]:
        group, _, version = api_version.rpartition("/")
        answer = await self._get(f"/apis/{api_version}" if group else f"/api/{version}")
        return {
            str(each.get("kind")): Resource(
                group, version, str(each["name"]), str(each.get("kind")), bool(each.get("namespaced"))
            )
            for each in mappings_at(answer, ("resources",))
            if "/" not in str(each.get("name"))
        }

    async def _get(self, path: str) -> Any:
        try:
            return await self._client.get(path)
        except APIError as error:
            # An aggregated API that is not available answers 503; a check of its own says so.
            if error.is_not_found or error.code == 503:
                return None
            raise


async def in_parallel(call: Callable[[Item], Awaitable[Result]], items: Iterable[Item]) -> list[Result]:
    """The results of a call for each item, in their order, a few at a time."""
    limit = asyncio.Semaphore(_MOST_AT_ONCE)

    async def run(item: Item) -> Result:
        async with limit:
            return await call(item)

    return [*await asyncio.gather(*map(run, items))]


async def read_clock(client: APIClient) -> Clock | None:
    """The clock of the API server and the local one; None if it sends no Date, or refuses."""
    before = datetime.now(UTC)
    try:
        answer = await client.answer("GET", "/version")
    except APIError as error:
        if error.is_forbidden:
            return None
        raise
    after = datetime.now(UTC)
    date = answer.headers.get("Date")
    return Clock(parsedate_to_datetime(date), before, after) if date else None


def typed_list(resource: Resource, items: Iterable[Object]) -> Object:
    """A list as the API server returns it: `PodList` for pods."""
    return {"apiVersion": resource.api_version, "kind": f"{resource.kind}List", "items": list(items)}


async def stored_settings(client: APIClient) -> tuple[GPUAdmissionPolicy, list[str]]:
    """The settings of a running cluster, or the built-in defaults, and notes on them without full stops."""
    # If the kind is not installed, there are no settings. If it is forbidden, they are unknown, and a note says so.
    listed = await list_trimmed(client, "GPUAdmissionPolicy")
    return settings_in(ManifestsView([] if isinstance(listed, Unreadable) else [listed]))


async def list_namespaces(client: APIClient, namespace: str) -> list[Object]:
    """The list of all namespaces, or of the only one to look into; empty if reading them is forbidden."""
    resource = RESOURCES["Namespace"]
    if not namespace:
        listed = await list_trimmed(client, "Namespace")
        return [] if isinstance(listed, Unreadable) else [listed]
    found = await read_object(client, resource, namespace)
    return [] if isinstance(found, Unreadable) else [typed_list(resource, [] if found is None else [found])]


async def list_trimmed(
    client: APIClient,
    kind: str,
    namespace: str = "",
    *,
    drop: Callable[[Object], None] | None = None,
) -> Object | Unreadable:
    """The trimmed objects of a kind, or why they are unknown.

    Args:
        client: The connection.
        kind: The kind.
        namespace: The only namespace to read, if the kind is namespaced; empty for all.
        drop: Is called for each object that is not kept, such as a pod without GPUs.
    """
    resource = RESOURCES[kind]
    trim = trim_for(resource)

    def keep(item: Object) -> Object | None:
        kept = trim(item)
        if kept is None and drop is not None:
            drop(item)
        return kept

    show = partial(current_progress().show_count, f"reading {resource.plural}")
    listed = await read_list(client, Watched(resource, namespace if resource.namespaced else ""), keep, show=show)
    return listed if isinstance(listed, Unreadable) else typed_list(resource, listed)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that was read once."""

    view: LiveView
    """The objects of the cluster."""
    settings: GPUAdmissionPolicy
    """The settings of the cluster, or the built-in defaults."""
    notes: tuple[str, ...]
    """Problems of the settings, and kinds that cannot be read; without full stops."""


@asynccontextmanager
async def read_cluster(
    client: APIClient,
    stored: tuple[GPUAdmissionPolicy, list[str]] | None = None,
    *,
    seconds: float = _SECONDS,
) -> AsyncIterator[Cluster]:
    """List everything that is watched, and end the watches at the end.

    Args:
        client: The connection.
        stored: What `stored_settings` returned, if the caller has read it.
        seconds: The time limit for the first lists.

    Raises:
        NoClusterError: Not everything can be listed in time.
    """
    version = parse_version(await read_version(client))
    settings, notes = stored or await stored_settings(client)
    sync = Sync(client)
    sync.start(settings.configuration.operator_namespaces, follows_version=False)
    current_progress().show(lambda: _progress_of(sync))
    try:
        sync.view.set_server_version(version)
        sync.view.set_feature_gates(await shown_gates(client))
        try:
            async with asyncio.timeout(seconds):
                await sync.wait_for_first()
        except TimeoutError as error:
            raise NoClusterError(f"{client.url}: after {seconds:g} seconds, {sync.reason()}") from error
        yield Cluster(sync.view, settings, (*notes, *sync.notes()))
    finally:
        await sync.close()


def _progress_of(sync: Sync) -> str:
    caches = [*sync.caches]
    done = sum(cache.store.state != "waiting" for cache in caches)
    return f"reading the cluster: {done} of {len(caches)} kinds"


async def read_features(client: APIClient) -> ServerFeatures | Unknown | None:
    """Plugins and feature gates in the metrics of the API server; None if it has no metrics."""
    try:
        async with aclosing(client.text_lines("/metrics")) as lines:
            return features_in([line async for line in lines if line.startswith(METRICS)])
    except APIError as error:
        if error.is_not_found:
            return None
        if error.is_forbidden:
            return UNKNOWN
        raise


async def shown_gates(client: APIClient) -> Mapping[str, bool]:
    """The gates of the table of versions that the API server shows; empty if it hides its metrics."""
    gates = await read_gates(client)
    return {} if isinstance(gates, Unknown) else gates


async def server_facts(client: APIClient) -> Object:
    """The version and the shown feature gates of the API server, as files of a cluster have them."""
    version, gates = await read_version(client), await shown_gates(client)
    return {"serverVersion": version, **({"featureGates": gates} if gates else {})}


class RunningCluster:
    """A cluster that is read while a review runs; only reads are sent."""

    def __init__(self, client: APIClient, runner: Runner) -> None:
        self._client = client
        self._runner = runner
        self.unknown: dict[str, None] = {}
        """Sentences on facts that rules needed and that are unknown, without full stops."""

    @property
    def server(self) -> str:
        """The host and the port of the API server."""
        return urlsplit(self._client.url).netloc

    def settings(self) -> tuple[GPUAdmissionPolicy, list[str]]:
        """The settings of the cluster, and notes on them."""
        found: tuple[GPUAdmissionPolicy, list[str]] = self._wait(stored_settings(self._client))
        return found

    def view(self, settings: GPUAdmissionPolicy, reviewed: Iterable[Object]) -> LiveFacts:
        """The facts of the cluster, with the objects under review."""
        return LiveFacts(self, settings, reviewed)

    def view_with_workloads(self, settings: GPUAdmissionPolicy) -> LiveFacts:
        """The facts of the cluster, with Deployments, Jobs and all other kinds that create pods."""
        resources: list[Resource] = self._wait(workload_resources(self._client, settings))
        return LiveFacts(self, settings, (), map(Watched, resources))

    def version(self) -> tuple[int, int] | Unknown:
        """The version of the API server; unknown if RBAC hides it."""
        return parse_version(self._wait(read_version(self._client)))

    def feature_gates(self) -> Mapping[str, bool]:
        """The feature gates that the API server shows."""
        gates: Mapping[str, bool] = self._wait(shown_gates(self._client))
        return gates

    def read_list(self, wanted: Watched) -> list[Object] | Unreadable:
        """The objects of a list, reduced to what rules read, or why they are unknown."""
        current_progress().show(f"reading {wanted.words}")
        reading = read_list(
            self._client,
            wanted,
            reduction_of(wanted.resource),
            show=partial(current_progress().show_count, f"reading {wanted.words}"),
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
def running_cluster(source: ClusterOptions) -> Iterator[RunningCluster]:
    """Connect, and disconnect at the end; then print what could not be read.

    Args:
        source: The cluster.

    Raises:
        NoClusterError: The cluster cannot be reached, or does not accept the credentials.
    """
    with Runner() as runner:
        client = runner.run(connect(source))
        cluster = RunningCluster(client, runner)
        try:
            with cluster_errors(client):
                yield cluster
        finally:
            runner.run(client.close())
    for reason in cluster.unknown:
        current_progress().print_line(f"Warning: {reason}; it counts as unknown")


class LiveFacts(ManifestsView):
    """The objects under review, and those of a running cluster, read when they are first needed.

    A kind that RBAC forbids to list in all namespaces is read in the namespace that a rule asks about. What cannot be
    read is unknown. Secrets, and ConfigMaps outside the namespaces of the GPU Operator, are never read.
    """

    def __init__(
        self,
        cluster: RunningCluster,
        settings: GPUAdmissionPolicy,
        reviewed: Iterable[Object],
        others: Iterable[Watched] = (),
    ) -> None:
        """`settings` name the namespaces of the GPU Operator; `others` are read besides what rules need."""
        super().__init__((), reviewed)
        self._cluster = cluster
        self._watched: dict[str, list[Watched]] = {}
        self._read: dict[Watched, str] = {}
        """The lists that were requested, and why each is unknown; empty if it is known."""
        self._server_version: tuple[int, int] | Unknown | None = None
        """None before it is read."""
        self._feature_gates: Mapping[str, bool] | None = None
        """None before they are read."""
        for each in (*watched_kinds(settings.configuration.operator_namespaces), *others):
            self._watched.setdefault(each.kind, []).append(each)

    def server_version(self) -> tuple[int, int] | Unknown:
        """The version of the API server."""
        if self._server_version is None:
            self._server_version = self._cluster.version()
        return self._server_version

    def feature_gates(self) -> Mapping[str, bool]:
        """The feature gates that the API server shows."""
        if self._feature_gates is None:
            self._feature_gates = self._cluster.feature_gates()
        return self._feature_gates

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
