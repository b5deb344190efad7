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
        """One object; None when it certainly does not exist."""
        ...

    def list(self, kind: str, namespace: str = "") -> Sequence[Object] | Unknown:
        """All objects of a kind, of one namespace where one is given."""
        ...

    def objects_under_review(self, kind: str) -> Sequence[Object]:
        """The objects of a kind that are reviewed together: those of the same files or of an audit."""
        ...

    def server_version(self) -> tuple[int, int] | Unknown:
        """Major and minor version of the API server."""
        ...

    def derive(self, function: Callable[[ClusterView], T]) -> T:
        """`function(view)`, remembered for as long as the facts it read stay the same.

        Decisions often need a digest of many objects (which GPUs exist, how many of each); reading 5,000 nodes for
        every pod would not do.
        """
        ...

    def derive_each(self, kind: str, function: Callable[[Object], T]) -> Sequence[T] | Unknown:
        """`function` of every object of a kind, in the order of `list`; unknown while the kind is.

        A digest of many objects that is made of such parts costs little to make anew when one of them has changed: the
        parts of all others are remembered.

        Args:
            kind: Whose objects.
            function: One that a module defines. It reads nothing but the object, and does not raise.
        """
        ...

    def count_each(self, kind: str, function: Callable[[Object], H | None]) -> Mapping[H, int] | Unknown:
        """For how many objects of a kind `function` gives the same, None left out; unknown while the kind is.

        A view of a running cluster counts each change when it happens, so that an answer takes no longer with more
        objects. Call it outside of what is derived, like `others_on`.

        Args:
            kind: Whose objects.
            function: One that a module defines. It reads nothing but the object, gives few different values, and does
                not raise.
        """
        ...

    def others_on(self, node: str) -> Mapping[str, int] | Unknown:
        """What pods that `list` does not show take of a node.

        In billionths of each resource, and one of `pods` for each. A view may list only pods that may get GPUs, and keep
        these sums of all others. Call it outside of what is derived: a digest that rests on them is outdated whenever any pod of the cluster comes or goes.
        """
        ...


class PassingView:
    """A view that passes every question on; for those that answer some of them in another way.

    What is derived stays what it is, since the view caches it for all callers: replace only objects that nothing is
    derived from.
    """

    def __init__(self, view: ClusterView) -> None:
        """Pass all questions on to a view."""
        self._view = view

    def get(self, kind: str, name: str, namespace: str = "") -> Object | Unknown | None:
        """One object; None when it certainly does not exist."""
        return self._view.get(kind, name, namespace)

    def list(self, kind: str, namespace: str = "") -> Sequence[Object] | Unknown:
        """All objects of a kind, of one namespace where one is given."""
        return self._view.list(kind, namespace)

    def objects_under_review(self, kind: str) -> Sequence[Object]:
        """The objects of a kind that are reviewed together."""
        return self._view.objects_under_review(kind)

    def server_version(self) -> tuple[int, int] | Unknown:
        """Major and minor version of the API server."""
        return self._view.server_version()

    def derive(self, function: Callable[[ClusterView], T]) -> T:
        """`function` of the view that is asked."""
        return self._view.derive(function)

    def derive_each(self, kind: str, function: Callable[[Object], T]) -> Sequence[T] | Unknown:
        """`function` of every object of a kind, in the order of `list`."""
        return self._view.derive_each(kind, function)

    def count_each(self, kind: str, function: Callable[[Object], H | None]) -> Mapping[H, int] | Unknown:
        """For how many objects of a kind `function` gives the same."""
        return self._view.count_each(kind, function)

    def others_on(self, node: str) -> Mapping[str, int] | Unknown:
        """What pods that `list` does not show take of a node."""
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
        """One object; None when it certainly does not exist."""
        key = kind, namespace, name
        if key not in self._objects:
            return super().get(kind, name, namespace)
        found = self._objects[key]
        return found() if callable(found) else found
