"""The outcome of a migration: new texts of files, and a line for each object with GPUs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from policies.kubernetes.objects import generate_name_of, name_of
from policies.kubernetes.printable import printable
from policies.phrases import format_count

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from policies.kubernetes.yaml import Position
    from webhook.cli.migrations.files import SourceFile

__all__ = ["FileOutcome", "Line", "Migration", "label_of"]


@dataclass(frozen=True, slots=True)
class Line:
    """What happened to an object, or a warning about it."""

    kind: Literal["migrated", "left", "unchanged", "warning"]
    file: str
    position: Position
    label: str
    text: str = ""

    def __str__(self) -> str:
        said = f": {self.text}" if self.text else ""
        return printable(f"{self.file}:{self.position.line}  {self.label}  {self.kind}{said}")


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """A file before and after."""

    file: SourceFile
    after: str

    @property
    def is_changed(self) -> bool:
        """True if the text is another one."""
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

    @property
    def exit_code(self) -> int:
        """1 if something that requests GPUs was left, else 0."""
        return int(self.has_manual_changes or any(line.kind == "left" for line in self.lines))

    @property
    def summary(self) -> str:
        """The numbers of objects."""
        counts = {kind: sum(line.kind == kind for line in self.lines) for kind in ("migrated", "left", "unchanged")}
        listed = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        return f"{format_count(sum(counts.values()), 'object')}{f': {listed}' if listed else ''}"


def label_of(document: Object, namespace: str) -> str:
    """Kind, namespace and name of an object."""
    generated = generate_name_of(document)
    name = name_of(document) or (f"{generated}*" if generated else "")
    return f"{document.get('kind')} {namespace}/{name}" if namespace else f"{document.get('kind')} {name}"
