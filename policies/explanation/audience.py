"""Audiences: the objects that an explanation names; all others are counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.phrases import format_count, format_list

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["EVERYTHING", "OTHER_NAMESPACES", "Audience"]

OTHER_NAMESPACES = "pods of other namespaces"
"""What holds a device, if the holder must not be named."""


@dataclass(frozen=True, slots=True)
class Audience:
    """The reader of an explanation."""

    namespace: str = ""
    """The only namespace whose objects are named; empty for all namespaces."""
    sees_nodes: bool = True
    """True if nodes are named."""

    def may_name(self, namespace: str) -> bool:
        """True if objects of a namespace are named."""
        return self.namespace in ("", namespace)

    def nodes(self, names: Sequence[str], most: int) -> str:
        """The names of nodes, at most so many, or their number."""
        return format_list(names, most) if self.sees_nodes else format_count(len(names), "node")


EVERYTHING = Audience()
"""The reader may see every node and every namespace."""
