"""JSON Patch: an editor of raw JSON that records its operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import FieldPath, lookup

if TYPE_CHECKING:
    from policies.decision import Operation

__all__ = ["Editor"]


class Editor:
    """Edits a document and records the JSON Patch operations of its edits.

    The original document is never changed: the editor copies the containers on the path of an edit and shares the rest.
    It copies each container once, so the cost depends on the number of edits, not on the size of the document. Every
    edit changes `document`, which belongs to the editor.

    A `test` of the old value precedes each `replace` and `remove`, so that the patch fails on any other object. Typed
    models would drop unknown fields and write defaults back; diffing libraries take a millisecond per pod.
    """

    def __init__(self, document: Any) -> None:
        self.document: Any = document
        self.operations: list[Operation] = []
        # By `id`. The entry keeps the copy alive, so that no other object gets the same id.
        self._copies: dict[int, Any] = {}

    def __bool__(self) -> bool:
        """True if there was an edit."""
        return bool(self.operations)

    def add(self, path: FieldPath, value: Any) -> None:
        """Set a mapping key that is missing or null; the same operation creates missing parents.

        Raises:
            KeyError: `path` has a value already.
        """
        depth = next((end for end in range(1, len(path) + 1) if lookup(self.document, path[:end]) is None), None)
        if depth is None:
            raise KeyError(str(path))
        for step in reversed(path[depth:]):
            value = {step: value}
        path = FieldPath(path[:depth])
        if path[-1] in self._parent(path):
            self.replace(path, value)
            return
        self._write({"op": "add", "path": path.pointer(), "value": value})
        self._own(path)[path[-1]] = value

    def extend(self, path: FieldPath, values: list[Any]) -> None:
        """Append items to the list at `path`; creates the list if it is missing."""
        existing = lookup(self.document, path)
        if existing is None and values:
            self.add(path, values)
        elif values:
            for value in values:
                self._write({"op": "add", "path": path.pointer() + "/-", "value": value})
            self._own(path)[path[-1]] = [*existing, *values]

    def replace(self, path: FieldPath, value: Any) -> None:
        """Replace an existing value."""
        old = self._parent(path)[path[-1]]
        self._write({"op": "test", "path": path.pointer(), "value": old})
        self._write({"op": "replace", "path": path.pointer(), "value": value})
        self._own(path)[path[-1]] = value

    def remove(self, path: FieldPath) -> None:
        """Remove a mapping key or a list item."""
        old = self._parent(path)[path[-1]]
        self._write({"op": "test", "path": path.pointer(), "value": old})
        self._write({"op": "remove", "path": path.pointer()})
        del self._own(path)[path[-1]]

    def _parent(self, path: FieldPath) -> Any:
        return lookup(self.document, path[:-1])

    def _write(self, operation: Operation) -> None:
        """Record an operation. Later edits copy its value first, so that they do not change the record."""
        self.operations.append(operation)
        held = [operation.get("value")]
        while held:
            part = held.pop()
            self._copies.pop(id(part), None)
            held += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()

    def _own(self, path: FieldPath) -> Any:
        """The container of `path`, after copying it and its parents; the original stays unchanged."""
        self.document = node = self._own_copy(self.document)
        for step in path[:-1]:
            node[step] = self._own_copy(node[step])
            node = node[step]
        return node

    def _own_copy(self, part: Any) -> Any:
        """A copy of a container that the editor may change; the container itself if it is such a copy already."""
        if id(part) not in self._copies:
            part = part.copy()
            self._copies[id(part)] = part
        return part
