"""A view of a cluster from manifests: a folder of files, or the files under review."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

from policies.kubernetes.objects import DEFAULT_NAMESPACE, lookup, name_of, namespace_of
from policies.kubernetes.view import UNKNOWN, ChangedView, ClusterView, Unknown
from policies.kubernetes.workloads import group_of
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.kubernetes.objects import Object


_NAMESPACE = "Namespace"
_VERSION = re.compile(r"v?(\d+)\.(\d+)")

_READ_BY_RULES = (
    "ClusterGPUQuota ClusterPolicy ClusterTrainingRuntime ConfigMap DeviceClass DeviceTaintRule Event"
    " GPUAdmissionPolicy GPUCluster GPUQuota GPUQuotaGroup LimitRange MutatingWebhookConfiguration NVIDIADriver"
    " Namespace Node Pod PodGroup PriorityClass ResourceClaim ResourceClaimTemplate ResourceQuota ResourceSlice"
    " RuntimeClass Secret TrainingRuntime ValidatingWebhookConfiguration"
)
_RESOURCES = {kind: RESOURCES[kind] for kind in _READ_BY_RULES.split()}
"""The resources of the kinds that rules read. Other groups have kinds of the same names: `Node` of longhorn.io,
`ClusterPolicy` of kyverno.io. Objects of all other kinds are kept as they are."""


class ManifestsView(ClusterView):
    """Facts from manifests.

    `cluster` has the objects of a cluster: if a kind occurs there, all of its objects are known; every other kind is
    unknown. An empty list (`kind: PodList, items: []`) makes its kind known. `reviewed` has the objects under review,
    which refer to each other but say nothing about what else exists. Objects of another API group than that of the kind
    that rules read are ignored. A list with `metadata.namespace`, as snapshots of one namespace have it, makes its kind known
    in that namespace only; a NamespaceList, only that Namespace.

    The output of `kubectl version -o yaml` in `cluster` gives the API server's version.
    """

    def __init__(self, cluster: Iterable[Object] = (), reviewed: Iterable[Object] = ()) -> None:
        self._objects: defaultdict[str, dict[tuple[str, str], Object]] = defaultdict(dict)
        self._known: set[tuple[str, str]] = set()
        """Kinds whose objects are all known, each with the only namespace; empty for all namespaces."""
        self._reviewed: defaultdict[str, list[Object]] = defaultdict(list)
        self._replaced: defaultdict[str, dict[tuple[str, str], Object | None]] = defaultdict(dict)
        """The object of the cluster with the name of each object under review; None if there is none."""
        self._version: tuple[int, int] | Unknown = UNKNOWN
        self._gates: Mapping[str, bool] = {}
        self._lists: dict[str, Sequence[Object]] = {}
        """All objects of each kind that was listed, so that results per object are found by the list."""
        self._by_namespace: dict[str, Mapping[str, Sequence[Object]]] = {}
        """The same by namespace."""
        for document in cluster:
            if isinstance(document, dict):
                self._add_document(document)
        for document in reviewed:
            for item in unwrap_lists(document):
                kind, key = item["kind"], (_namespace(item["kind"], item), name_of(item))
                stored = self._objects[kind].get(key)
                if self._add(item):
                    self._reviewed[kind].append(item)
                    self._replaced[kind].setdefault(key, stored)

    def get(self, kind: str, name: str, namespace: str = "") -> Object | Unknown | None:
        """One object; None only if all objects of the kind are known."""
        is_known = self.knows(kind, name if kind == _NAMESPACE else namespace)
        found = self._objects[kind].get((namespace, name)) if kind in self._objects else None
        return found if found is not None or is_known else UNKNOWN

    def list(self, kind: str, namespace: str = "") -> Sequence[Object] | Unknown:
        """All objects of a kind, if they are known."""
        if not self.knows(kind, namespace):
            return UNKNOWN
        if namespace:
            if kind not in self._by_namespace:
                self._by_namespace[kind] = by_namespace = defaultdict(list)
                for (where, _), item in self._objects[kind].items():
                    by_namespace[where].append(item)
            return self._by_namespace[kind].get(namespace, [])
        if kind not in self._lists:
            self._lists[kind] = [*self._objects[kind].values()]
        return self._lists[kind]

    def before_review(self, *kinds: str) -> ClusterView:
        """The cluster in which the objects under review of these kinds are not yet created or changed."""
        keys = [(kind, *key) for kind in kinds for key in self._replaced[kind]]
        return ChangedView(self, {key: partial(self._stored_object, *key) for key in keys})

    def list_before_review(self, kind: str) -> Sequence[Object] | Unknown:
        """All objects of a kind as the cluster has them, if they are known."""
        return self.before_review(kind).list(kind)

    def _stored_object(self, kind: str, namespace: str, name: str) -> Object | Unknown | None:
        return self._replaced[kind][namespace, name] if self.knows(kind, namespace) else UNKNOWN

    def objects_under_review(self, kind: str) -> Sequence[Object]:
        """The objects of a kind under review."""
        return self._reviewed.get(kind, ())

    def server_version(self) -> tuple[int, int] | Unknown:
        """The version in the output of `kubectl version`."""
        return self._version

    def feature_gates(self) -> Mapping[str, bool]:
        """The `featureGates` beside the version, as snapshots have them."""
        return self._gates

    def knows(self, kind: str, namespace: str = "") -> bool:
        """True if all objects of a kind are known, or all of those in a namespace."""
        return (kind, "") in self._known or (kind, namespace) in self._known

    def add_known(self, kind: str, namespace: str = "", objects: Iterable[Object] = ()) -> None:
        """Make a kind known, in all namespaces or in one, and add its objects.

        Objects that are there already win, such as those under review.
        """
        self._known.add((kind, namespace))
        self._lists.pop(kind, None)
        self._by_namespace.pop(kind, None)
        for each in objects:
            key = namespace_of(each), name_of(each)
            if self._objects[kind].setdefault(key, each) is not each and self._replaced[kind].get(key, each) is None:
                self._replaced[kind][key] = each

    def _add_document(self, document: Object) -> None:
        version = lookup(document, ("serverVersion", "gitVersion"))
        if isinstance(version, str) and (match := _VERSION.match(version)):
            self._version = int(match.group(1)), int(match.group(2))
        if "serverVersion" in document and isinstance(gates := document.get("featureGates"), dict):
            self._gates = {name: on for name, on in gates.items() if isinstance(on, bool)}
        kind = _kind_of_items(document)
        namespace = namespace_of(document) if kind else ""
        if kind and _is_of_known_group(kind, document):
            self._known.add((kind, namespace))
        for item in unwrap_lists(document):
            if self._add(item):
                self._known.add((item["kind"], namespace))

    def _add(self, item: Object) -> bool:
        """Keep an object, unless it is of another group than the kind of this name that rules read."""
        kind = item["kind"]
        if not _is_of_known_group(kind, item):
            return False
        self._objects[kind][_namespace(kind, item), name_of(item)] = item
        return True


def _is_of_known_group(kind: str, document: Object) -> bool:
    return kind not in _RESOURCES or _RESOURCES[kind].group == group_of(document)


def _namespace(kind: str, item: Object) -> str:
    """The namespace of an object; if the scope of its kind is unknown, the one that it names."""
    if kind not in _RESOURCES:
        return namespace_of(item)
    return (namespace_of(item) or DEFAULT_NAMESPACE) if _RESOURCES[kind].namespaced else ""


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
    """The kind of a list's items, empty for a `List`; None for other documents."""
    kind, items = document.get("kind"), document.get("items", ())  # null for an empty list, in Go
    listed = isinstance(kind, str) and kind.endswith("List") and isinstance(items, list | None)
    return kind.removesuffix("List") if isinstance(kind, str) and listed else None
