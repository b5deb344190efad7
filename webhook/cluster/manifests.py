"""A view of a cluster from its manifests: what a folder of files, or the files under review, tell."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, TypeVar

from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.paths import lookup
from policies.kubernetes.workloads import group_of
from policies.view import UNKNOWN, ClusterView, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from policies.kubernetes.objects import Object

__all__ = ["ManifestsView", "unwrap_lists"]

T = TypeVar("T")
H = TypeVar("H", bound="Hashable")

_VERSION = re.compile(r"v?(\d+)\.(\d+)")

_CLUSTER_SCOPED = {
    "Namespace": "",
    "Node": "",
    "RuntimeClass": "node.k8s.io",
    "DeviceClass": "resource.k8s.io",
    "ResourceSlice": "resource.k8s.io",
    "PriorityClass": "scheduling.k8s.io",
    "ClusterPolicy": "nvidia.com",
    "GPUCluster": "nvidia.com",
    "NVIDIADriver": "nvidia.com",
    "GPUAdmissionPolicy": "gpu-admission.io",
    "ClusterTrainingRuntime": "trainer.kubeflow.org",
    "MutatingWebhookConfiguration": "admissionregistration.k8s.io",
    "ValidatingWebhookConfiguration": "admissionregistration.k8s.io",
}
_NAMESPACED = {
    "ConfigMap": "",
    "LimitRange": "",
    "Pod": "",
    "PodGroup": "scheduling.k8s.io",
    "ResourceQuota": "",
    "Secret": "",
    "ResourceClaim": "resource.k8s.io",
    "ResourceClaimTemplate": "resource.k8s.io",
    "GPUQuota": "gpu-admission.io",
    "TrainingRuntime": "trainer.kubeflow.org",
}
_GROUPS = _CLUSTER_SCOPED | _NAMESPACED
"""The API group of each kind that rules ask for by name: `Node` is also a kind of longhorn.io, and `ClusterPolicy` one of
kyverno.io. What is no kind of these is kept as it comes."""


class ManifestsView:
    """Facts from objects that were read before.

    `cluster` is what a cluster is known to hold: of a kind that occurs there, what is not there does not exist; of
    every other kind nothing is known. An empty list (`kind: PodList, items: []`) makes its kind known. `reviewed` adds
    the objects under review, which refer to each other but say nothing about what else exists. Objects of another API
    group than that of the kind that rules mean are left out.

    The output of `kubectl version -o yaml` among `cluster` gives the API server's version.
    """

    def __init__(self, cluster: Iterable[Object] = (), reviewed: Iterable[Object] = ()) -> None:
        self._objects: defaultdict[str, dict[tuple[str, str], Object]] = defaultdict(dict)
        self._known: set[str] = set()
        self._reviewed: defaultdict[str, list[Object]] = defaultdict(list)
        self._version: tuple[int, int] | Unknown = UNKNOWN
        self._derived: dict[Any, Any] = {}
        for document in cluster:
            if isinstance(document, dict):
                self._add_known(document)
        for document in reviewed:
            for item in unwrap_lists(document):
                if self._add(item):
                    self._reviewed[item["kind"]].append(item)

    def get(self, kind: str, name: str, namespace: str = "") -> Object | Unknown | None:
        """One object; None only where all objects of the kind are known."""
        found = self._objects[kind].get((namespace, name)) if kind in self._objects else None
        return found if found is not None or kind in self._known else UNKNOWN

    def list(self, kind: str, namespace: str = "") -> Sequence[Object] | Unknown:
        """All objects of a kind, where they are known."""
        if kind not in self._known:
            return UNKNOWN
        return [item for (where, _), item in self._objects[kind].items() if not namespace or where == namespace]

    def objects_under_review(self, kind: str) -> Sequence[Object]:
        """The objects of a kind under review."""
        return self._reviewed.get(kind, ())

    def server_version(self) -> tuple[int, int] | Unknown:
        """The version that `kubectl version` told."""
        return self._version

    def derive(self, function: Callable[[ClusterView], T]) -> T:
        """`function(self)`, computed once: manifests do not change."""
        if function not in self._derived:
            self._derived[function] = function(self)
        derived: T = self._derived[function]
        return derived

    def derive_each(self, kind: str, function: Callable[[Object], T]) -> Sequence[T] | Unknown:
        """`function` of every object of a kind, computed once."""
        if kind not in self._known:
            return UNKNOWN
        if (kind, function) not in self._derived:
            self._derived[kind, function] = [function(item) for item in self._objects[kind].values()]
        parts: Sequence[T] = self._derived[kind, function]
        return parts

    def count_each(self, kind: str, function: Callable[[Object], H | None]) -> Mapping[H, int] | Unknown:
        """For how many objects of a kind `function` gives the same."""
        parts = self.derive_each(kind, function)
        return UNKNOWN if parts is UNKNOWN else Counter(part for part in parts if part is not None)

    def others_on(self, node: str) -> Mapping[str, int] | Unknown:
        """Nothing: of manifests all pods are listed, where any are known."""
        return {} if "Pod" in self._known else UNKNOWN

    def _add_known(self, document: Object) -> None:
        version = lookup(document, ("serverVersion", "gitVersion"))
        if isinstance(version, str) and (match := _VERSION.match(version)):
            self._version = int(match.group(1)), int(match.group(2))
        if (kind := _kind_of_items(document)) and _is_meant(kind, document):
            self._known.add(kind)
        for item in unwrap_lists(document):
            if self._add(item):
                self._known.add(item["kind"])

    def _add(self, item: Object) -> bool:
        """Keep an object, unless its kind is another group's namesake of one that rules ask for."""
        kind = item["kind"]
        if not _is_meant(kind, item):
            return False
        self._objects[kind][_namespace(kind, item), name_of(item)] = item
        return True


def _is_meant(kind: str, document: Object) -> bool:
    return _GROUPS.get(kind, group_of(document)) == group_of(document)


def _namespace(kind: str, item: Object) -> str:
    """Where an object is: of a kind whose scope nobody here knows, where it says itself."""
    if kind in _CLUSTER_SCOPED:
        return ""
    return namespace_of(item) or ("default" if kind in _NAMESPACED else "")


def unwrap_lists(document: Any) -> Iterable[Object]:
    """The objects in a document: itself, or the items of a `List` or of a typed list such as `NodeList`."""
    if not isinstance(document, dict):
        return
    kind = _kind_of_items(document)
    if kind is None and isinstance(document.get("kind"), str):
        yield document
    elif kind is not None:
        own = {"kind": kind, "apiVersion": document.get("apiVersion")} if kind else {}
        for item in document["items"] or []:
            yield from unwrap_lists({**own, **item} if own and isinstance(item, dict) else item)


def _kind_of_items(document: Object) -> str | None:
    """What a list holds, empty for a `List` of anything; None for what is no list. Go writes no items as null."""
    kind, items = document.get("kind"), document.get("items", ())
    listed = isinstance(kind, str) and kind.endswith("List") and isinstance(items, list | None)
    return kind.removesuffix("List") if isinstance(kind, str) and listed else None
