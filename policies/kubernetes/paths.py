"""Field paths: where in an object something is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["FieldPath", "items_at", "lookup", "mapping_at", "mappings_at", "replace_at"]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class FieldPath(tuple[str | int, ...]):
    """A place in a JSON document: mapping keys and list indexes, outermost first.

    It prints as Kubernetes prints field paths (`spec.containers[0].resources.limits[nvidia.com/gpu]`) and converts to
    the JSON Pointer that a patch needs.
    """

    __slots__ = ()

    def __truediv__(self, step: str | int) -> FieldPath:
        return FieldPath((*self, step))

    def __str__(self) -> str:
        text = ""
        for step in self:
            if isinstance(step, int) or not _IDENTIFIER.fullmatch(step):
                text += f"[{step}]" if str(step).isprintable() else f"[{step!r}]"
            else:
                text += f".{step}" if text else step
        return text

    def pointer(self) -> str:
        """The path as a JSON Pointer (RFC 6901)."""
        text = ""
        for step in self:
            text += f"/{step}" if isinstance(step, int) else "/" + step.replace("~", "~0").replace("/", "~1")
        return text


def lookup(document: Any, path: Iterable[str | int]) -> Any:
    """The value at `path`, or None where the path leads nowhere."""
    for step in path:
        if isinstance(step, str) and isinstance(document, dict):
            document = document.get(step)
        elif isinstance(step, int) and isinstance(document, list) and -len(document) <= step < len(document):
            document = document[step]
        else:
            return None
    return document


def items_at(document: Any, path: Iterable[str | int]) -> list[Any]:
    """The items of the list at `path`; empty if the value is missing or not a list."""
    value = lookup(document, path)
    return value if isinstance(value, list) else []


def mapping_at(document: Any, path: Iterable[str | int]) -> dict[str, Any]:
    """The mapping at `path`; empty if the value is missing or not a mapping."""
    value = lookup(document, path)
    return value if isinstance(value, dict) else {}


def mappings_at(document: Any, path: Iterable[str | int]) -> list[dict[str, Any]]:
    """The mappings in the list at `path`, without other items; empty if the value is not a list."""
    return [item for item in items_at(document, path) if isinstance(item, dict)]


def replace_at(document: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """A copy of a document with another value at `path`, which the document must have."""
    if not path:
        return value
    changed = document.copy()
    changed[path[0]] = replace_at(document[path[0]], path[1:], value)
    return changed
