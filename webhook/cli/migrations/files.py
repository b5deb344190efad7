"""The files of a migration, read with their texts."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from webhook.cli.manifest_reader import STDIN
from webhook.cli.repository import RepositoryReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webhook.cli.manifest_reader import Content, Manifest
    from webhook.cli.other_files import OtherFiles

__all__ = ["MigrationReader", "SourceFile"]

_BYTE_ORDER_MARK = "\ufeff"


@dataclass(slots=True)
class SourceFile:
    """A file with objects, or standard input."""

    name: str
    content: bytes
    manifests: list[Manifest] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text, without a byte order mark."""
        return self.content.decode().removeprefix(_BYTE_ORDER_MARK)

    def encode(self, text: str) -> bytes:
        """A new text as it is written, with the byte order mark that the file has."""
        has_mark = self.content.startswith(_BYTE_ORDER_MARK.encode())
        return (_BYTE_ORDER_MARK * has_mark + text).encode()


class MigrationReader(RepositoryReader):
    """Reads manifests and keeps the texts of their files."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, SourceFile] = {}
        """By their paths without symbolic links, so that a file that is named twice is read once."""

    def _objects_of_manifest(self, found: Content) -> Iterator[Manifest]:
        """The objects of a file that must be a manifest."""
        yield from self._keep(found, list(super()._objects_of_manifest(found)))

    def _objects_among_others(self, found: Content, others: OtherFiles) -> Iterator[Manifest]:
        """The objects of a file that may have other documents."""
        yield from self._keep(found, list(super()._objects_among_others(found, others)))

    def _keep(self, found: Content, manifests: list[Manifest]) -> list[Manifest]:
        path = found.file if found.file == STDIN else os.path.realpath(found.file)
        if path in self.files:
            return []
        self.files[path] = SourceFile(found.file, found.content, manifests)
        return manifests
