"""JSON Patch: edits to raw JSON that record themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import FieldPath, lookup

if TYPE_CHECKING:
    from policies.decision import Operation

__all__ = ["Editor"]


class Editor:
    """Changes a document and keeps the operations that make the same change elsewhere.

    The document given is never touched: containers on the way to a change are copied, everything else is shared. Each
    is copied once, so that many edits of a large document cost no more than their number; `document` is the editor's
    own, and goes on changing with every edit.

    An operation that replaces or removes is preceded by a `test` of what it expects to find, so that a patch never
    lands on an object that it was not made for. Typed models would drop fields they do not know and write defaults
    back; diffing libraries cost a millisecond per pod; edits that record themselves do neither.
    """

    def __init__(self, document: Any) -> None:
        self.document: Any = document
        self.operations: list[Operation] = []
        # By identity, and kept here so that nothing else can have it.
        self._copies: dict[int, Any] = {}

    def __bool__(self) -> bool:
        """Whether anything was changed."""
        return bool(self.operations)

    def add(self, path: FieldPath, value: Any) -> None:
        """Set a mapping key that does not exist or is null; missing parents are made in the same operation.

        Raises:
            KeyError: there is a value at `path` already.
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
        """Add items at the end of the list at `path`, which is made when it is missing."""
        existing = lookup(self.document, path)
        if existing is None and values:
            self.add(path, values)
        elif values:
            for value in values:
                self._write({"op": "add", "path": path.pointer() + "/-", "value": value})
            self._own(path)[path[-1]] = [*existing, *values]

    def replace(self, path: FieldPath, value: Any) -> None:
        """Put another value where one is."""
        old = self._parent(path)[path[-1]]
        self._write({"op": "test", "path": path.pointer(), "value": old})
        self._write({"op": "replace", "path": path.pointer(), "value": value})
        self._own(path)[path[-1]] = value

    def remove(self, path: FieldPath) -> None:
        """Take a mapping key or a list item away."""
        old = self._parent(path)[path[-1]]
        self._write({"op": "test", "path": path.pointer(), "value": old})
        self._write({"op": "remove", "path": path.pointer()})
        del self._own(path)[path[-1]]

    def _parent(self, path: FieldPath) -> Any:
        return lookup(self.document, path[:-1])

    def _write(self, operation: Operation) -> None:
        """Write an operation down; what it holds is copied again before a later edit changes it."""
        self.operations.append(operation)
        held = [operation.get("value")]
        while held:
            part = held.pop()
            self._copies.pop(id(part), None)
            held += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()

    def _own(self, path: FieldPath) -> Any:
        """The container that holds `path`, copied along the way down so that the original stays as it was."""
        self.document = node = self._copied(self.document)
        for step in path[:-1]:
            node[step] = self._copied(node[step])
            node = node[step]
        return node

    def _copied(self, part: Any) -> Any:
        """A container of the document as one that may be changed: itself, where it is a copy already."""
        if id(part) not in self._copies:
            part = part.copy()
            self._copies[id(part)] = part
        return part
