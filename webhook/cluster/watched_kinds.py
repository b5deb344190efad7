"""The kinds that are watched for the policies, and where."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from policies.devices.pod_groups import POD_GROUP
from policies.kubernetes.versions import Feature
from policies.kubernetes.view import UNKNOWN, Unknown
from webhook.cluster.resources import RESOURCES, Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from webhook.cluster.store import Store


DRA = "resource.k8s.io"
"""The group of claims, classes and slices."""


@dataclass(frozen=True, slots=True)
class Watched:
    """The objects of one list and watch."""

    resource: Resource
    namespace: str = ""
    """The only namespace; empty for all."""
    name: str = ""
    """The only object; empty for all."""
    fields: tuple[str, ...] = ()
    """Further terms of the field selector."""
    labels: str = ""
    """The label selector."""
    part: bool = False
    """True if not all objects are kept, so that a missing one may exist. Only for pods."""

    @property
    def kind(self) -> str:
        """The kind of the objects."""
        return self.resource.kind

    @property
    def path(self) -> str:
        """The path of the collection that is listed and watched."""
        return self.resource.path(self.namespace)

    @property
    def query(self) -> dict[str, str]:
        """The query of the list and the watch: the selectors, if any."""
        terms = (*((f"metadata.name={self.name}",) if self.name else ()), *self.fields)
        selectors = {"fieldSelector": ",".join(terms), "labelSelector": self.labels}
        return {name: selector for name, selector in selectors.items() if selector}

    @property
    def words(self) -> str:
        """The watched objects, for messages: `configmaps in gpu-operator`."""
        one = f" {self.name}" if self.name else ""
        return f"{self.resource.name}{one}{f' in {self.namespace}' if self.namespace else ''}"

    def within(self, namespace: str) -> Watched:
        """The same objects, in one namespace only if it is not empty."""
        return replace(self, namespace=namespace or self.namespace)

    def covers(self, name: str, namespace: str) -> bool:
        """True if an object of this kind with this name is watched."""
        return self.name in ("", name) and self.namespace in ("", namespace)


_EVERYWHERE = (
    "Node Namespace LimitRange ResourceQuota RuntimeClass PriorityClass PodGroup DeviceClass ResourceSlice ResourceClaim"
    " ResourceClaimTemplate DeviceTaintRule ClusterPolicy NVIDIADriver GPUCluster ComputeDomain GPUAdmissionPolicy GPUQuota"
    " ClusterGPUQuota GPUQuotaGroup"
    " ClusterTrainingRuntime TrainingRuntime Prometheus ServiceMonitor"
)
_RUNNING = ("status.phase!=Succeeded", "status.phase!=Failed")
"""Pods that have ended hold nothing, and clusters that run jobs have many of them. Kubernetes' scheduler uses the same
selector."""
_MONITORS = "servicemonitors.monitoring.coreos.com"
"""The only CRD that rules read; all CRDs together are tens of megabytes."""


def watched_kinds(operator_namespaces: Iterable[str]) -> tuple[Watched, ...]:
    """Everything that is watched.

    All pods that have not ended are listed, because no field selector finds those with GPUs; only pods that may get GPUs
    are kept. ConfigMaps are read only in the namespaces of the GPU Operator, so that other namespaces need not grant it.
    Secrets are never read; rules treat them as unknown.

    Args:
        operator_namespaces: The namespaces in which the GPU Operator may run.
    """
    everywhere = [Watched(RESOURCES[kind]) for kind in _EVERYWHERE.split()]
    operators = [
        each
        for namespace in dict.fromkeys(operator_namespaces)
        for each in (
            Watched(RESOURCES["ConfigMap"], namespace),
            Watched(RESOURCES["Deployment"], namespace, name="gpu-operator"),
        )
    ]
    crd = Watched(RESOURCES["CustomResourceDefinition"], name=_MONITORS)
    return (*everywhere, Watched(RESOURCES["Pod"], fields=_RUNNING, part=True), crd, *operators)


SELDOM_SERVED = frozenset(["DeviceTaintRule", POD_GROUP])
"""Kinds behind a feature gate that is off by default, at least in Kubernetes 1.36. A note says that they are not served only
if they were, or if pods name a PodGroup."""

H = TypeVar("H", bound="Hashable")


class KnownKind:
    """One kind as the view shows it.

    - An API that is not served has no objects: the CRDs of the GPU Operator are not installed, or DRA is disabled. The
      exception is `resource.k8s.io` before Kubernetes 1.34, which may be served in an older version.
    - A PodGroup that a pod names is unknown if PodGroups are not served: the API server would drop the name if it had none,
      so it has them in a version that is not read here, or had them before.
    - A namespace that does not exist has no objects, even if RBAC forbids to read it.
    - A kind that is forbidden, was never listed, or whose last contact is too long ago, is unknown.
    """

    def __init__(self, stores: Sequence[tuple[Watched, Store]], surroundings: ClusterView) -> None:
        """At least one store.

        Args:
            stores: The stores of the kind.
            surroundings: The view, for facts of other kinds that the answers depend on.
        """
        self._stores = stores
        self._surroundings = surroundings
        self._in_namespaces = any(watched.namespace for watched, _ in stores)

    @property
    def generation(self) -> int:
        """A number that grows whenever an answer may change."""
        generation = self._surroundings.generation("Namespace") if self._in_namespaces else 0
        for _, store in self._stores:
            # A store that becomes too old keeps its version; it gets a new one at the next contact.
            generation += 2 * store.version + (not store.is_trusted)
        return generation

    @property
    def others_generation(self) -> int:
        """A number that grows whenever an answer of `others_on` may change."""
        return self.generation + sum(store.others.version for _, store in self._stores if store.others is not None)

    def get(self, name: str, namespace: str) -> Object | Unknown | None:
        """One object of the kind; None if it does not exist."""
        for watched, store in self._stores:
            if watched.covers(name, namespace):
                if not self._is_known(watched, store):
                    return UNKNOWN
                found = store.get(namespace, name)
                may_exist = watched.part or (store.state == "absent" and watched.kind == POD_GROUP)
                return UNKNOWN if found is None and may_exist else found
        return UNKNOWN

    def list(self, namespace: str) -> Sequence[Object] | Unknown:
        """The known objects of the kind; unknown if no store for the namespace is known."""
        pairs = [pair for pair in self._stores if not namespace or pair[0].namespace in ("", namespace)]
        known = [store for watched, store in pairs if self._is_known(watched, store)]
        if not known:
            return UNKNOWN
        return known[0].list(namespace) if len(known) == 1 else [each for store in known for each in store.list()]

    def count_each(self, function: Callable[[Object], H | None]) -> Mapping[H, int] | Unknown:
        """The number of known objects for each value of `function`; unknown if no store is known."""
        known = [store for watched, store in self._stores if self._is_known(watched, store)]
        if not known:
            return UNKNOWN
        counts: Counter[H] = Counter()
        for store in known:
            counts.update(store.counts(function))
        return counts

    def others_on(self, node: str) -> Mapping[str, int] | Unknown:
        """The amounts that pods which are not kept use on a node; unknown while pods are."""
        watched, store = self._stores[0]
        return UNKNOWN if store.others is None or not self._is_known(watched, store) else store.others.on(node)

    def _is_known(self, watched: Watched, store: Store) -> bool:
        if store.is_trusted:
            return True
        if store.state == "absent":
            # An older API server may serve the group in another version.
            version = self._surroundings.server_version()
            return watched.resource.group != DRA or Feature.ResourceV1.default_in(version) is True
        is_gone = bool(watched.namespace) and self._surroundings.get("Namespace", watched.namespace) is None
        return is_gone and store.state == "forbidden"
