"""Writes lists of objects as JSON, which `--cluster` reads fastest: one object in a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import orjson

if TYPE_CHECKING:
    from pathlib import Path

    from policies.kubernetes.objects import Object
    from webhook.cluster.resources import Resource

__all__ = ["ListFile"]


class ListFile:
    """The file with all objects of a resource; removed again if it is not finished."""

    def __init__(self, folder: Path, resource: Resource, namespace: str = "") -> None:
        """`namespace` is the only one whose objects are in the file; empty for all."""
        self.name = f"{resource.name}.json"
        self.count = 0
        self._is_discarded = False
        self._path = folder / self.name
        self._file = self._path.open("wb")
        head: Object = {"apiVersion": resource.api_version, "kind": f"{resource.kind}List"}
        if namespace:
            head["metadata"] = {"namespace": namespace}
        self._file.write(orjson.dumps(head).removesuffix(b"}") + b',"items":[')

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        is_kept = kind is None and not self._is_discarded
        if is_kept:
            self._file.write(b"\n]}\n")
        self._file.close()
        if not is_kept:
            self._path.unlink()

    def discard(self) -> None:
        """Remove the file at the end, because not all objects can be read."""
        self._is_discarded = True

    def add(self, objects: list[Object]) -> None:
        """Add objects."""
        for each in objects:
            self._file.write((b",\n" if self.count else b"\n") + orjson.dumps(each))
            self.count += 1
