"""The cluster as policies see it: facts that may be unknown."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from policies.kubernetes.objects import Object

__all__ = ["UNKNOWN", "ClusterView", "Key", "Overlay", "PassingView", "Unknown"]

T = TypeVar("T")
H = TypeVar("H", bound="Hashable")

Key = tuple[str, str, str]
"""Kind, namespace and name of an object."""


class Unknown(Enum):
    """The type of `UNKNOWN`; an enum so that type checkers can tell it from every other value."""

    UNKNOWN = "unknown"


UNKNOWN: Final[Literal[Unknown.UNKNOWN]] = Unknown.UNKNOWN
"""The answer to a question about something the view cannot see: not None, not empty, not zero."""


class ClusterView(Protocol):
    """Read-only facts about a cluster at one moment.

    A rule states what it does when a fact is unknown, and its message names the missing object. Objects are raw JSON
    and belong to the view: callers must not change them.
    """

    def get(self, kind: str, name: str, namespace: str = "") -> Object | Unknown | None:
        """One object; None if it certainly does not exist."""
        ...

    def list(self, kind: str, namespace: str = "") -> Sequence[Object] | Unknown:
        """All objects of a kind; only those of one namespace if it is given."""
        ...

    def objects_under_review(self, kind: str) -> Sequence[Object]:
        """The objects of a kind that are reviewed together: those of the same files or of an audit."""
        ...

    def server_version(self) -> tuple[int, int] | Unknown:
        """Major and minor version of the API server."""
        ...

    def derive(self, function: Callable[[ClusterView], T]) -> T:
        """`function(view)`, cached until the facts that it read change.

        Decisions often need a digest of many objects (which GPUs exist, how many of each). Reading 5,000 nodes for every
        pod would be too slow.
        """
        ...

    def derive_each(self, kind: str, function: Callable[[Object], T]) -> Sequence[T] | Unknown:
        """The results of `function` for all objects of a kind, in the order of `list`; unknown if the kind is.

        Results are cached per object, so a digest that is made of them is cheap to compute again after one object changed.

        Args:
            kind: The kind of the objects.
            function: A function of a module. It reads only the object, and does not raise.
        """
        ...

    def count_each(
        self, kind: str, function: Callable[[Object], H | None], wanted: Callable[[H], bool]
    ) -> Mapping[H, int] | Unknown:
        """The number of objects of a kind for each wanted result of `function`, without None.

        Unknown if the kind is.

        A view of a running cluster counts each change when it happens, so the number of objects does not matter. Like
        `others_on`, do not call it in functions passed to `derive`.

        Args:
            kind: The kind of the objects.
            function: A function of a module. It reads only the object, returns few different values, and does not raise.
            wanted: True for the results that matter to the caller, who need not look again when others change. Two that
                are equal want the same.
        """
        ...

    def others_on(self, node: str) -> Mapping[str, int] | Unknown:
        """The resources of a node that pods use which `list` does not show.

        In billionths of each resource, and one of `pods` for each. A view may list only pods that may get GPUs, and keep
        the sums of all others. Do not call it in functions passed to `derive`: every pod that starts or ends in the cluster
        would make their results outdated.
        """
        ...


class PassingView:
    """A view that forwards every call to another view; subclasses override some of them.

    Derived results stay the same, because the other view caches them for all callers. Override only objects from which
    nothing is derived.
    """

    def __init__(self, view: ClusterView) -> None:
        """Forward all calls to a view."""
        self._view = view

    def get(self, kind: str, name: str, namespace: str = "") -> Object | Unknown | None:
        """One object; None if it certainly does not exist."""
        return self._view.get(kind, name, namespace)

    def list(self, kind: str, namespace: str = "") -> Sequence[Object] | Unknown:
        """All objects of a kind; only those of one namespace if it is given."""
        return self._view.list(kind, namespace)

    def objects_under_review(self, kind: str) -> Sequence[Object]:
        """The objects of a kind that are reviewed together."""
        return self._view.objects_under_review(kind)

    def server_version(self) -> tuple[int, int] | Unknown:
        """Major and minor version of the API server."""
        return self._view.server_version()

    def derive(self, function: Callable[[ClusterView], T]) -> T:
        """The result of `function` for the other view."""
        return self._view.derive(function)

    def derive_each(self, kind: str, function: Callable[[Object], T]) -> Sequence[T] | Unknown:
        """The results of `function` for all objects of a kind, in the order of `list`."""
        return self._view.derive_each(kind, function)

    def count_each(
        self, kind: str, function: Callable[[Object], H | None], wanted: Callable[[H], bool]
    ) -> Mapping[H, int] | Unknown:
        """The number of objects of a kind for each wanted result of `function`."""
        return self._view.count_each(kind, function, wanted)

    def others_on(self, node: str) -> Mapping[str, int] | Unknown:
        """The resources of a node that pods use which `list` does not show."""
        return self._view.others_on(node)


class Overlay(PassingView):
    """A view in which some objects are replaced for `get`; lists and digests stay the same."""

    def __init__(
        self, view: ClusterView, objects: Mapping[Key, Object | Callable[[], Object | Unknown | None] | None]
    ) -> None:
        """Put objects over a view.

        None stands for an object that certainly does not exist; a function is called when its object is needed.
        """
        super().__init__(view)
        self._objects = objects

    def get(self, kind: str, name: str, namespace: str = "") -> Object | Unknown | None:
        """One object; None if it certainly does not exist."""
        key = kind, namespace, name
        if key not in self._objects:
            return super().get(kind, name, namespace)
        found = self._objects[key]
        return found() if callable(found) else found
