"""The files of a migration, read with their texts."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from policies.kubernetes.names import format_count, printable
from policies.kubernetes.objects import generate_name_of, name_of
from webhook.cli.folders import files_of
from webhook.cli.manifest_reader import STDIN
from webhook.cli.repository import RepositoryReader
from webhook.cli.user_files import FileVersion, read_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.kubernetes.objects import Object
    from policies.kubernetes.yaml import Position
    from webhook.cli.folders import NamedFiles, OtherFiles
    from webhook.cli.manifest_reader import Content, Manifest


_BYTE_ORDER_MARK = "\ufeff"


@dataclass(slots=True)
class SourceFile:
    """A file with objects, or standard input."""

    name: str
    content: bytes
    version: FileVersion | None = None
    """The file as it was read; None for standard input."""
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
        version = None if found.file == STDIN else FileVersion.of(found.file, found.content)
        self.files[path] = SourceFile(found.file, found.content, version, manifests)
        return manifests


@dataclass(frozen=True, slots=True)
class Line:
    """The outcome for an object, or a warning about it."""

    kind: Literal["migrated", "left", "unchanged", "warning"]
    file: str
    position: Position
    label: str
    """Kind, namespace and name of the object."""
    text: str = ""
    """The templates, the reason or the warning; empty for an unchanged object."""

    def __str__(self) -> str:
        details = f": {self.text}" if self.text else ""
        return printable(f"{self.file}:{self.position.line}  {self.label}  {self.kind}{details}")


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """A file before and after."""

    file: SourceFile
    after: str

    @property
    def is_changed(self) -> bool:
        """True if the text changes."""
        return self.after != self.file.text


@dataclass(slots=True)
class Migration:
    """The outcome for all files."""

    files: list[FileOutcome] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Assumptions, and what to do by hand in files that cannot be rewritten."""
    skipped: tuple[str, ...] = ()
    has_manual_changes: bool = False
    """True if files that cannot be rewritten request GPUs."""
    has_unwritten_files: bool = False
    """True if a file that changes was not written."""

    @property
    def exit_code(self) -> int:
        """2 if a file was not written, 1 if something that requests GPUs was left, else 0."""
        return (
            2
            if self.has_unwritten_files
            else int(self.has_manual_changes or any(line.kind == "left" for line in self.lines))
        )

    @property
    def summary(self) -> str:
        """The numbers of objects."""
        counts = {kind: sum(line.kind == kind for line in self.lines) for kind in ("migrated", "left", "unchanged")}
        listed = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        return f"{format_count(sum(counts.values()), 'object')}{f': {listed}' if listed else ''}"

    def leave(self, file: SourceFile, reason: str) -> None:
        """Report that a file was not written, in the lines of the objects that would have changed."""
        self.has_unwritten_files = True
        self.lines = [
            replace(line, kind="left", text=reason) if line.file == file.name and line.kind == "migrated" else line
            for line in self.lines
            if line.file != file.name or line.kind != "warning"
        ]


def label_of(document: Object, namespace: str) -> str:
    """Kind, namespace and name of an object."""
    generated = generate_name_of(document)
    name = name_of(document) or (f"{generated}*" if generated else "")
    return f"{document.get('kind')} {namespace}/{name}" if namespace else f"{document.get('kind')} {name}"


_RESOURCE = re.compile(r"[^#]*?(?<![\w.-])(nvidia\.com/(?:gpu|mig-\d+g\.\d+gb(?:\.me)?)(?:\.shared)?)[\"']?\s*:")
"""A resource that is requested; the labels of nodes have longer names."""
_PLACEHOLDER = "{{"
_CHART = "Chart.yaml"
_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml")
_CHART_ADVICE = (
    "is part of a Helm chart: replace it by `claims: [{name: gpu, request: CONTAINER}]` in the container's resources, add "
    "resourceClaims to the pod and a ResourceClaimTemplate to the chart; `helm template CHART | gpu-admission migrate -` shows "
    "both"
)
_PATCH_ADVICE = (
    "is a patch or a base that kustomize changes: write the claim into the base, and change only other fields by the patch; "
    "`kubectl kustomize FOLDER | gpu-admission migrate -` shows the result"
)
_TEMPLATE_ADVICE = "has placeholders: render it, and see the result with `... | gpu-admission migrate -`"


def manual_changes(paths: Iterable[str], outcomes: Iterable[FileOutcome], named: NamedFiles) -> Iterator[str]:
    """Sentences about lines to change by hand, which request GPUs: file, line, and what to write there."""
    read = {os.path.realpath(outcome.file.name) for outcome in outcomes}
    for path in paths:
        if os.path.isdir(path):
            for file in files_of(path, None, lambda _: None):
                if os.path.realpath(file) not in read and not named.option_of(file, path):
                    yield from _places(file)


def _places(file: str) -> Iterator[str]:
    try:
        text = read_file(file).decode()
    except (OSError, UnicodeDecodeError):
        return
    if _is_below(file, (_CHART,)):
        advice = _CHART_ADVICE
    elif _is_below(file, _KUSTOMIZATIONS):
        advice = _PATCH_ADVICE
    elif _PLACEHOLDER in text:
        advice = _TEMPLATE_ADVICE
    else:
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if found := _RESOURCE.match(line):
            yield printable(f"{file}:{number}: {found[1]} {advice}")


def _is_below(file: str, names: tuple[str, ...]) -> bool:
    """True if a folder above a file has a file of one of these names."""
    folder = os.path.dirname(os.path.abspath(file))
    while True:
        if any(os.path.exists(os.path.join(folder, name)) for name in names):
            return True
        parent = os.path.dirname(folder)
        if parent == folder:
            return False
        folder = parent
