"""A view of a cluster after objects are created, replaced or deleted; digests follow."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

from policies.kubernetes.objects import DEFAULT_NAMESPACE, name_of, namespace_of
from policies.view import UNKNOWN, ClusterView, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.view import Key

__all__ = ["ChangedView"]

T = TypeVar("T")
H = TypeVar("H", bound="Hashable")


class ChangedView:
    """Another view with some objects changed, in lists and digests too.

    `policies.view.Overlay` changes only what `get` returns, which is enough for one review. This view computes digests
    anew; results for objects that are the same come from the other view. A kind that the other view does not know stays
    unknown, except the changed objects themselves.
    """

    def __init__(self, view: ClusterView, objects: Mapping[Key, Object | None]) -> None:
        """Put objects over a view; None stands for an object that is deleted."""
        self._view = view
        self._objects = dict(objects)
        self._kinds = frozenset(kind for kind, _, _ in objects)
        self._lists: dict[str, Sequence[Object] | Unknown] = {}
        self._derived: dict[Any, Any] = {}

    def get(self, kind: str, name: str, namespace: str = "") -> Object | Unknown | None:
        """One object; None if it certainly does not exist."""
        key = kind, namespace, name
        return self._objects[key] if key in self._objects else self._view.get(kind, name, namespace)

    def list(self, kind: str, namespace: str = "") -> Sequence[Object] | Unknown:
        """All objects of a kind; only those of one namespace if it is given."""
        if kind not in self._kinds:
            return self._view.list(kind, namespace)
        if namespace:
            listed = self._view.list(kind, namespace)
            return listed if listed is UNKNOWN else self._after_change(kind, listed, namespace)
        if kind not in self._lists:
            listed = self._view.list(kind)
            self._lists[kind] = listed if listed is UNKNOWN else self._after_change(kind, listed)
        return self._lists[kind]

    def objects_under_review(self, kind: str) -> Sequence[Object]:
        """The objects of a kind that are reviewed together, and those that are changed."""
        if kind not in self._kinds:
            return self._view.objects_under_review(kind)
        return self._after_change(kind, self._view.objects_under_review(kind))

    def server_version(self) -> tuple[int, int] | Unknown:
        """Major and minor version of the API server."""
        return self._view.server_version()

    def derive(self, function: Callable[[ClusterView], T]) -> T:
        """`function(self)`, computed once."""
        if function not in self._derived:
            self._derived[function] = function(self)
        derived: T = self._derived[function]
        return derived

    def derive_each(self, kind: str, function: Callable[[Object], T]) -> Sequence[T] | Unknown:
        """The results of `function` for all objects of a kind, in the order of `list`."""
        if kind not in self._kinds:
            return self._view.derive_each(kind, function)
        key = kind, function
        if key not in self._derived:
            self._derived[key] = self._each(kind, function)
        results: Sequence[T] | Unknown = self._derived[key]
        return results

    def count_each(
        self, kind: str, function: Callable[[Object], H | None], wanted: Callable[[H], bool]
    ) -> Mapping[H, int] | Unknown:
        """The number of objects of a kind for each wanted result of `function`."""
        if kind not in self._kinds:
            return self._view.count_each(kind, function, wanted)
        results = self.derive_each(kind, function)
        if results is UNKNOWN:
            return UNKNOWN
        return Counter(each for each in results if each is not None and wanted(each))

    def others_on(self, node: str) -> Mapping[str, int] | Unknown:
        """The resources of a node that pods use which `list` does not show."""
        return self._view.others_on(node)

    def _after_change(self, kind: str, listed: Sequence[Object], namespace: str = "") -> Sequence[Object]:
        changed = [self._objects.get(self._key(kind, item), item) for item in listed]
        stored = {self._key(kind, item) for item in listed}
        added = [
            item
            for key, item in self._objects.items()
            if key[0] == kind and key not in stored and namespace in ("", key[1])
        ]
        return [item for item in (*changed, *added) if item is not None]

    def _each(self, kind: str, function: Callable[[Object], T]) -> Sequence[T] | Unknown:
        before, results, after = self._view.list(kind), self._view.derive_each(kind, function), self.list(kind)
        if before is UNKNOWN or results is UNKNOWN or after is UNKNOWN:
            return UNKNOWN
        known = {id(item): result for item, result in zip(before, results, strict=True)}
        return [known[id(item)] if id(item) in known else function(item) for item in after]

    def _key(self, kind: str, item: Object) -> Key:
        """The key of a listed object; a manifest of a namespaced object may name no namespace."""
        key = kind, namespace_of(item), name_of(item)
        return key if key in self._objects or key[1] else self._default_key(key)

    def _default_key(self, key: Key) -> Key:
        default = key[0], DEFAULT_NAMESPACE, key[2]
        return default if default in self._objects else key
