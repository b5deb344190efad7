"""A view in which one kind has only some of its objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from policies.kubernetes.objects import name_of, namespace_of
from policies.view import PassingView

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from policies.kubernetes.objects import Object
    from policies.view import ClusterView, Unknown

__all__ = ["Narrowed"]

T = TypeVar("T")


class Narrowed(PassingView):
    """The cluster as it would be with only these objects of a kind.

    A rule that asks what else there is asks about a moment; of a stored object the moment is when it was made.
    """

    def __init__(self, view: ClusterView, kind: str, objects: Sequence[Object]) -> None:
        """Args: everything; the kind that is narrowed; what there is of it."""
        super().__init__(view)
        self._kind = kind
        self._objects = objects

    def get(self, kind: str, name: str, namespace: str = "") -> Object | Unknown | None:
        """One object; None when it does not exist."""
        if kind != self._kind:
            return super().get(kind, name, namespace)
        named = (each for each in self._objects if (name_of(each), namespace_of(each)) == (name, namespace))
        return next(named, None)

    def list(self, kind: str, namespace: str = "") -> Sequence[Object] | Unknown:
        """All objects of a kind."""
        if kind != self._kind:
            return super().list(kind, namespace)
        return [each for each in self._objects if not namespace or namespace_of(each) == namespace]

    def derive(self, function: Callable[[ClusterView], T]) -> T:
        """`function(self)`, made anew: what the view remembers was made of all objects."""
        return function(self)

    def derive_each(self, kind: str, function: Callable[[Object], T]) -> Sequence[T] | Unknown:
        """`function` of every object of a kind; unknown while the kind is."""
        if kind == self._kind:
            return [function(each) for each in self._objects]
        return super().derive_each(kind, function)
