"""JSON Patch: an editor of raw JSON that records its operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes.objects import FieldPath, lookup

if TYPE_CHECKING:
    from policies.rules.decision import Operation


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
        parent = lookup(self.document, path[:-1])
        if parent is None:
            self.add(FieldPath(path[:-1]), {path[-1]: value})
        elif path[-1] not in parent:
            self._write({"op": "add", "path": path.pointer(), "value": value})
            self._own(path)[path[-1]] = value
        elif parent[path[-1]] is None:
            self.replace(path, value)
        else:
            raise KeyError(str(path))

    def extend(self, path: FieldPath, values: list[Any]) -> None:
        """Append items to the list at `path`; creates the list if it is missing."""
        existing = lookup(self.document, path)
        if existing is None and values:
            self.add(path, values)
        elif values:
            end = path.pointer() + "/-"
            for value in values:
                self._write({"op": "add", "path": end, "value": value})
            self._own(path)[path[-1]] = [*existing, *values]

    def replace(self, path: FieldPath, value: Any) -> None:
        """Replace an existing value."""
        pointer = self._test(path)
        self._write({"op": "replace", "path": pointer, "value": value})
        self._own(path)[path[-1]] = value

    def remove(self, path: FieldPath) -> None:
        """Remove a mapping key or a list item."""
        self._write({"op": "remove", "path": self._test(path)})
        del self._own(path)[path[-1]]

    def _test(self, path: FieldPath) -> str:
        """Record a test of the value at `path`, and return the path as a JSON Pointer."""
        pointer = path.pointer()
        self._write({"op": "test", "path": pointer, "value": lookup(self.document, path[:-1])[path[-1]]})
        return pointer

    def _write(self, operation: Operation) -> None:
        """Record an operation. Later edits copy its value first, so that they do not change the record."""
        self.operations.append(operation)
        held = [operation.get("value")] if self._copies else []
        while held:
            part = held.pop()
            if isinstance(part, dict | list):
                self._copies.pop(id(part), None)
                held += part.values() if isinstance(part, dict) else part

    def _own(self, path: FieldPath) -> Any:
        """The container of `path`, after copying it and its parents; the original stays unchanged.

        A container that is such a copy already is not copied again.
        """
        copies = self._copies
        node = self.document
        if id(node) not in copies:
            self.document = node = node.copy()
            copies[id(node)] = node
        for step in path[:-1]:
            child = node[step]
            if id(child) not in copies:
                node[step] = child = child.copy()
                copies[id(child)] = child
            node = child
        return node
