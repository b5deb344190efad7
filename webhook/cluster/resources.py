"""The API resources that this program uses, and lists of their objects, read page by page."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

from policies.kubernetes.names import resource_name
from policies.kubernetes.objects import items_at, lookup, name_of
from policies.kubernetes.workloads import WORKLOAD_KINDS
from webhook.cluster.answers import APIError, BadAnswer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Mapping

    from policies.kubernetes.objects import Object
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cluster.client import APIClient

__all__ = [
    "LARGE_PAGE",
    "NEW_EVENT",
    "PAGE",
    "RESOURCES",
    "WORKLOAD_RESOURCES",
    "Contact",
    "Reader",
    "Resource",
    "get_if_exists",
    "list_all",
    "pages",
    "raw_pages",
    "workload_resources",
]


@dataclass(eq=False)
class Contact:
    """A reader for one reflector that records when the API server last answered; bookmarks count."""

    client: Reader
    clock: Callable[[], float]
    last: float | None = field(default=None, init=False)
    """The time of the last answer, by the clock; None before the first."""
    lists: int = field(default=0, init=False)
    """Lists that were started; a list of many pages counts once."""

    async def get(self, path: str, query: Mapping[str, str] | None = None, *, timeout: float = 10.0) -> Any:
        """As the client's."""
        self.lists += "continue" not in (query or {})
        answer = await self.client.get(path, query, timeout=timeout)
        self.last = self.clock()
        return answer

    async def watch(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        read_timeout: float,
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[dict[str, Any]]:
        """As the client's."""

        def on_open_too() -> None:
            self.last = self.clock()
            if on_open is not None:
                on_open()

        events = self.client.watch(path, query, read_timeout=read_timeout, on_open=on_open_too)
        async with contextlib.aclosing(events):
            async for event in events:
                self.last = self.clock()
                yield event


Reader: TypeAlias = "APIClient | Contact"
"""The source that lists and watches read from."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of objects as the API server serves it."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    """As `kubectl api-resources` lists them."""

    @property
    def api_version(self) -> str:
        """The `apiVersion` of objects: `v1`, `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def name(self) -> str:
        """The unambiguous name for `kubectl get`: `pods`, `jobs.batch`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of one object, or of the collection if no name is given.

        Args:
            namespace: The namespace of the object; empty for cluster-scoped objects, and for a list of all namespaces.
            name: The name of the object; empty for the collection.
            subresource: `status`, `binding` and the like.

        Raises:
            ValueError: The namespace or the name is invalid, missing, or must not be given.
        """
        if namespace and not self.namespaced:
            raise ValueError(f"a {self.kind} has no namespace, but {namespace[:63]!r} was given")
        if name and self.namespaced and not namespace:
            raise ValueError(f"a {self.kind} needs a namespace, but none was given for {name[:253]!r}")
        if subresource and not name:
            raise ValueError(f"subresource {subresource!r} needs the name of a {self.kind}")
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        parts += ["namespaces", _segment(namespace)] if namespace else []
        parts += [self.plural]
        parts += [_segment(part) for part in (name, *subresource.split("/")) if part]
        return "/" + "/".join(parts)


def _segment(name: str) -> str:
    """A name as one segment of a path. Source: apimachinery pkg/api/validation/path/name.go."""
    if name in (".", "..") or "/" in name or "%" in name:
        raise ValueError(f'invalid name {name[:253]!r}: must not be "." or "..", and must not contain "/" or "%"')
    return quote(name, safe=":")


_TABLE = """
v1 cluster Namespace=ns Node=no
v1 namespaced ConfigMap=cm Event=ev LimitRange=limits Pod=po PodTemplate ReplicationController=rc
v1 namespaced ResourceQuota=quota Secret Service=svc ServiceAccount=sa
apps/v1 namespaced DaemonSet=ds Deployment=deploy ReplicaSet=rs StatefulSet=sts
batch/v1 namespaced CronJob=cj Job
coordination.k8s.io/v1 namespaced Lease
networking.k8s.io/v1 namespaced NetworkPolicy=netpol
policy/v1 namespaced PodDisruptionBudget=pdb
node.k8s.io/v1 cluster RuntimeClass
scheduling.k8s.io/v1 cluster PriorityClass=pc
scheduling.k8s.io/v1alpha2 namespaced PodGroup
resource.k8s.io/v1 cluster DeviceClass ResourceSlice
resource.k8s.io/v1 namespaced ResourceClaim ResourceClaimTemplate
admissionregistration.k8s.io/v1 cluster MutatingWebhookConfiguration ValidatingWebhookConfiguration
admissionregistration.k8s.io/v1 cluster ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
apiextensions.k8s.io/v1 cluster CustomResourceDefinition=crd,crds
flowcontrol.apiserver.k8s.io/v1 cluster FlowSchema PriorityLevelConfiguration
authentication.k8s.io/v1 cluster TokenReview
authorization.k8s.io/v1 cluster SelfSubjectAccessReview SubjectAccessReview
rbac.authorization.k8s.io/v1 cluster ClusterRole ClusterRoleBinding
rbac.authorization.k8s.io/v1 namespaced Role RoleBinding
gpu-admission.io/v1alpha1 cluster GPUAdmissionPolicy
gpu-admission.io/v1alpha1 namespaced GPUQuota
nvidia.com/v1 cluster ClusterPolicy
nvidia.com/v1alpha1 cluster GPUCluster NVIDIADriver
resource.nvidia.com/v1beta1 namespaced ComputeDomain
karpenter.sh/v1 cluster NodePool
monitoring.coreos.com/v1 namespaced PrometheusRule ServiceMonitor
jobset.x-k8s.io/v1alpha2 namespaced JobSet
kubeflow.org/v1 namespaced JAXJob Notebook PaddleJob PyTorchJob TFJob XGBoostJob
kubeflow.org/v2beta1 namespaced MPIJob
leaderworkerset.x-k8s.io/v1 namespaced LeaderWorkerSet=lws
ray.io/v1 namespaced RayCluster RayJob RayService
argoproj.io/v1alpha1 namespaced Rollout
grove.io/v1alpha1 namespaced PodCliqueSet
serving.kserve.io/v1beta1 namespaced InferenceService
sparkoperator.k8s.io/v1beta2 namespaced ScheduledSparkApplication SparkApplication
trainer.kubeflow.org/v1alpha1 cluster ClusterTrainingRuntime
trainer.kubeflow.org/v1alpha1 namespaced TrainingRuntime TrainJob
"""
"""The apiVersion, the scope and the kinds, with the short names that `kubectl api-resources` lists."""


def _resources(table: str) -> Iterator[Resource]:
    """The resources of a table; the name of each is the English plural of its kind."""
    for line in table.strip().splitlines():
        api_version, scope, kinds = line.split(maxsplit=2)
        group, _, version = api_version.rpartition("/")
        for kind, _, short in (each.partition("=") for each in kinds.split()):
            names = tuple(short.split(",")) if short else ()
            yield Resource(group, version, resource_name(kind), kind, scope == "namespaced", names)


_PROMETHEUS = Resource("monitoring.coreos.com", "v1", "prometheuses", "Prometheus", namespaced=True)
RESOURCES: Mapping[str, Resource] = MappingProxyType(
    {resource.kind: resource for resource in (*_resources(_TABLE), _PROMETHEUS)}
)
"""By kind, in the version that Kubernetes 1.34 and newer serve, or the operator's newest. Kubernetes 1.36 and newer serve
PodGroups only with the feature gate GenericWorkload.

Sources: the API reference of Kubernetes 1.36; the CRDs of gpu-operator, dra-driver-nvidia-gpu, karpenter,
prometheus-operator, jobset, lws, kuberay, training-operator, mpi-operator, argo-rollouts, grove, kserve, spark-operator
and trainer.
"""

NEW_EVENT = Resource("events.k8s.io", "v1", "events", "Event", namespaced=True)
"""The newer form of events, which can be a series; API servers store both forms as one object."""

_NAMESAKES = {("batch.volcano.sh", "Job"): Resource("batch.volcano.sh", "v1alpha1", "jobs", "Job", namespaced=True)}
"""Workload kinds that have the name of another kind in `RESOURCES`."""

WORKLOAD_RESOURCES = {key: _NAMESAKES.get(key) or RESOURCES[key[1]] for key in WORKLOAD_KINDS}
"""The resources of all built-in workload kinds, by group and kind."""


async def workload_resources(client: Reader, settings: GPUAdmissionPolicy) -> list[Resource]:
    """The resources of all workload kinds; omits added kinds that the API server does not serve.

    Raises:
        ClusterError: The API server does not answer.
    """
    added = [await _discover_resource(client, each.group, each.kind) for each in settings.workloads.kinds]
    found = {(each.group, each.kind): each for each in added if each is not None}
    return [*{**WORKLOAD_RESOURCES, **found}.values()]


async def _discover_resource(client: Reader, group: str, kind: str) -> Resource | None:
    """The resource of a kind in the first version of its group that serves it."""
    for listed in items_at(await get_if_exists(client, f"/apis/{group}"), ("versions",)):
        version = lookup(listed, ("version",))
        for each in items_at(await get_if_exists(client, f"/apis/{group}/{version}"), ("resources",)):
            name, namespaced = lookup(each, ("name",)), lookup(each, ("namespaced",))
            if lookup(each, ("kind",)) == kind and isinstance(name, str) and "/" not in name:
                return Resource(group, str(version), name, kind, namespaced=bool(namespaced))
    return None


async def get_if_exists(client: Reader, path: str, *, timeout: float = 10.0) -> Any:
    """An object or a document; None if it does not exist, or its kind is not served.

    Raises:
        ClusterError: The API server refused for another reason, or did not answer.
    """
    try:
        return await client.get(path, timeout=timeout)
    except APIError as error:
        if not error.is_not_found:
            raise
        return None


PAGE = 100
"""Objects in one page of a list. A page is parsed and freed in the event loop: 100 pods
take 10 ms, 500 take 50 ms and more."""
LARGE_PAGE = 500
"""Objects in one page for commands, which have nothing else to do meanwhile; as in client-go's tools/pager."""
_PAGE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list, as the API server sent it."""

    items: list[Object]
    """Objects with names, but without `kind` and `apiVersion`."""
    resource_version: str
    """The version of the whole list, the same in all of its pages."""


async def list_all(
    client: Reader, resource: Resource, namespace: str = "", query: Mapping[str, str] | None = None
) -> list[Object]:
    """The stored objects of a collection at one moment, with `kind` and `apiVersion`.

    Raises:
        APIError: The collection is forbidden, or not installed (404).
        Unreachable: The API server did not answer, or the answer is not a list.
    """
    return [item async for page in pages(client, resource, namespace, query) for item in page]


async def pages(
    client: Reader,
    resource: Resource,
    namespace: str = "",
    query: Mapping[str, str] | None = None,
    *,
    limit: int = PAGE,
) -> AsyncGenerator[list[Object]]:
    """The objects of a large collection, a page at a time; raises as `list_all` does."""
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    async with contextlib.aclosing(raw_pages(client, resource, namespace, query, limit=limit)) as found:
        async for page in found:
            yield [{**head, **item} for item in page.items]


async def raw_pages(
    client: Reader, resource: Resource, namespace: str = "", query: Mapping[str, str] | None = None, *, limit: int
) -> AsyncGenerator[Page]:
    """The pages of a list as they arrive; raises as `list_all` does.

    The request has no resourceVersion, so the list is the newest by quorum. The API server prepares the next page while
    the caller works on this one.

    Args:
        client: Reads from the API server.
        resource: The resource to list.
        namespace: The only namespace to list; empty for all.
        query: `labelSelector`, `fieldSelector`.
        limit: Objects in a page; 0 for one page.
    """
    path = resource.path(namespace)

    def request(token: str) -> asyncio.Task[Any]:
        paging = {**({"limit": str(limit)} if limit else {}), **({"continue": token} if token else {})}
        return asyncio.create_task(client.get(path, {**(query or {}), **paging}, timeout=_PAGE_SECONDS))

    token, answer = "", request("")
    try:
        while True:
            page = await answer
            version, items = lookup(page, ("metadata", "resourceVersion")), lookup(page, ("items",)) or []
            if not (isinstance(version, str) and version and isinstance(items, list) and all(map(name_of, items))):
                raise BadAnswer(f"GET {path}: expected a list of {resource.plural}")
            before, token = token, lookup(page, ("metadata", "continue")) or ""
            if token and (token == before or not isinstance(token, str)):
                raise BadAnswer(f"GET {path}: the list of {resource.plural} does not end")
            if token:
                answer = request(token)
            yield Page(items, version)
            if not token:
                return
    finally:
        answer.cancel()
        await asyncio.gather(answer, return_exceptions=True)
