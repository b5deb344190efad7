"""Overlays: a view with what the API server has just shown, which no cache has yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.view import PassingView

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.kubernetes.objects import Object
    from policies.view import ClusterView, Unknown

__all__ = ["Overlay"]


class Overlay(PassingView):
    """A view in which some objects are as the API server has just shown them, for who asks for them by name."""

    def __init__(self, view: ClusterView, seen: Mapping[tuple[str, str, str], Object | None]) -> None:
        """Args: the view, and the objects by kind, namespace and name; None for those that certainly do not exist."""
        super().__init__(view)
        self._seen = seen

    def get(self, kind: str, name: str, namespace: str = "") -> Object | Unknown | None:
        """One object; None when it certainly does not exist."""
        key = kind, namespace, name
        return self._seen[key] if key in self._seen else super().get(kind, name, namespace)
