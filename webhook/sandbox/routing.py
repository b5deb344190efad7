"""Paths of the API: which kind, object and subresource one names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from webhook.cluster.resources import Resource
    from webhook.sandbox.kinds import Kind, Kinds

__all__ = ["Target", "parse_path"]


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names: an object, a part of one, or a collection."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    """Empty for a collection."""
    subresource: str = ""

    @property
    def resource(self) -> Resource:
        """The resource of the kind."""
        return self.kind.resource


def parse_path(kinds: Kinds, path: str) -> Target | None:
    """The target of a decoded path; None where nothing is served."""
    match path.strip("/").split("/"):
        case ["api", version, *steps]:
            group = ""
        case ["apis", group, version, *steps]:
            pass
        case _:
            return None
    match steps:
        case ["namespaces", namespace, plural, *rest] if _namespaced(kinds, group, version, plural):
            pass
        case [plural, *rest]:
            namespace = ""
        case _:
            return None
    kind = kinds.at(group, version, plural)
    if kind is None or len(rest) > 2 or "" in (*rest, namespace or "-"):
        return None
    if rest and kind.resource.namespaced and not namespace:
        return None
    name, subresource = (*rest, "", "")[:2]
    return Target(kind, namespace, name, subresource)


def _namespaced(kinds: Kinds, group: str, version: str, plural: str) -> bool:
    kind = kinds.at(group, version, plural)
    return kind is not None and kind.resource.namespaced
