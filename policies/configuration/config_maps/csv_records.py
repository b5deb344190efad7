"""CSV as Go's encoding/csv reads it, with a place for every field.

Lists of metrics are read with `#` as the comment character and without lazy quotes; the count of fields is checked by
its users. Source: go.dev/src/encoding/csv/reader.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CSVError", "CSVField", "read_records"]


@dataclass(frozen=True, slots=True)
class CSVField:
    """One field of a record."""

    text: str
    line: int
    """1-based."""
    column: int
    """1-based, in characters, where the field begins; at its quote where it has one."""

    @property
    def trimmed(self) -> str:
        """The text without the spaces around it; tabs stay, as for the DCGM exporter."""
        return self.text.strip(" ")

    @property
    def place(self) -> tuple[int, int]:
        """Where the trimmed text begins."""
        return self.line, self.column + len(self.text) - len(self.text.lstrip(" "))


@dataclass(frozen=True, slots=True)
class CSVError:
    """A line that is not a record; Go's reader stops there."""

    line: int
    column: int
    reason: str
    """In Go's words."""

    def __str__(self) -> str:
        return f"parse error on line {self.line}, column {self.column}: {self.reason}"


_BARE_QUOTE = 'bare " in non-quoted field'
_LOOSE_QUOTE = 'extraneous or missing " in quoted-field'


def read_records(text: str) -> Iterator[list[CSVField] | CSVError]:
    """The records of a text, and an error for each invalid line; reading continues after it."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    position = 0
    while position < len(lines):
        line = lines[position].removesuffix("\r")
        if not line or line.startswith("#"):
            position += 1
            continue
        record, position = _read_record(lines, position)
        yield record


def _read_record(lines: list[str], first: int) -> tuple[list[CSVField] | CSVError, int]:
    """The record that begins on a line, and the line after it: quoted fields may go on over several."""
    fields: list[CSVField] = []
    position, line, start = first, lines[first].removesuffix("\r"), 0
    while True:
        if not line.startswith('"', start):
            end = line.find(",", start)
            text = line[start:] if end < 0 else line[start:end]
            if '"' in text:
                return CSVError(position + 1, start + text.index('"') + 1, _BARE_QUOTE), position + 1
            fields.append(CSVField(text, position + 1, start + 1))
        else:
            begin, parts, cursor = (position + 1, start + 1), [], start + 1
            while True:
                quote = line.find('"', cursor)
                if quote < 0:
                    if position + 1 == len(lines):
                        return CSVError(position + 1, len(line) + 1, _LOOSE_QUOTE), first + 1
                    parts.append(line[cursor:] + "\n")
                    position, cursor = position + 1, 0
                    line = lines[position].removesuffix("\r")
                    continue
                parts.append(line[cursor:quote])
                if not line.startswith('"', quote + 1):
                    break
                parts.append('"')
                cursor = quote + 2
            end = quote + 1 if quote + 1 < len(line) else -1
            if end >= 0 and line[end] != ",":
                return CSVError(position + 1, quote + 1, _LOOSE_QUOTE), first + 1
            fields.append(CSVField("".join(parts), *begin))
        if end < 0:
            return fields, position + 1
        start = end + 1
