"""Marks in comments: the lines that were there before a migration, and those that it added.

With them a migrated text is turned back line by line, whatever else was edited meanwhile.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from policies.migration.text_edits import Splice, apply_splices

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

__all__ = ["ADDED", "has_marks", "marked_splices", "template_lines", "without_marks"]

ADDED = "# added by gpu-admission"
"""The end of a line that migration added, and the beginning of a document that it added."""
_WAS = "# gpu-admission was:"
_WAS_LINE = re.compile(rf"([ \t]*){_WAS} ?(.*)", re.DOTALL)

_LINES = re.compile(r"[^\n]*\n|[^\n]+")


class _Hunk(NamedTuple):
    """Whole lines, and the replacements in them."""

    start: int
    end: int
    splices: tuple[Splice, ...]


def marked_splices(text: str, splices: Sequence[Splice]) -> list[Splice]:
    """The replacements of whole lines, which keep the former lines as comments and mark the new ones."""
    return [_with_mark_lines(text, hunk) for hunk in _hunks(text, splices)]


def template_lines(lines: Iterable[str], line_break: str, *, is_first: bool, about: str) -> str:
    """The document of a template, marked as a whole, with the `---` that divides it from its neighbour.

    Args:
        lines: The lines of the template.
        line_break: The line break of the text.
        is_first: True if no `---` precedes the document.
        about: What the template is for, in a few words.
    """
    begin = [f"{ADDED}: {about}"] if is_first else [f"---  {ADDED}: {about}"]
    return "".join(f"{line}{line_break}" for line in [*begin, *lines, *(["---"] if is_first else [])])


def has_marks(text: str) -> bool:
    """True if a text may have marks of a migration."""
    return ADDED in text or _WAS in text


def without_marks(text: str, scalars: Iterable[tuple[int, int]]) -> str:
    """The text without what is marked as added, and with the former lines.

    Args:
        text: The text.
        scalars: The parts of the text that are scalars. What looks like a mark there is no comment.
    """
    return "".join(_restored_lines(_lines(text), _lines_in(text, scalars)))


def _lines_in(text: str, scalars: Iterable[tuple[int, int]]) -> set[int]:
    """The numbers of the lines that begin in a scalar, counted from 0."""
    breaks = [each.start() for each in re.finditer("\n", text)]
    return {
        number
        for start, end in scalars
        for number in range(bisect_left(breaks, start) + 1, bisect_left(breaks, end) + 1)
    }


def _lines(text: str) -> list[str]:
    """The lines with their line breaks; other breaks of Unicode do not end a line."""
    return _LINES.findall(text)


def _restored_lines(lines: Iterable[str], scalars: Container[int]) -> Iterator[str]:
    skips = ""
    for number, line in enumerate(lines):
        is_divider = line.startswith("---")
        if skips and not is_divider:
            continue
        if skips == "inclusive":
            skips = ""
            continue
        skips = ""
        if number in scalars:
            yield line
        elif line.startswith(ADDED):
            skips = "inclusive"
        elif is_divider and line.removeprefix("---").lstrip().startswith(ADDED):
            skips = "exclusive"
        elif was := _WAS_LINE.fullmatch(line):
            yield was[1] + was[2]
        elif not line.rstrip().endswith(ADDED):
            yield line


def _hunks(text: str, splices: Sequence[Splice]) -> Iterator[_Hunk]:
    hunk: _Hunk | None = None
    for splice in splices:
        start = text.rfind("\n", 0, splice.start) + 1
        is_whole = splice.start == start and (splice.end == start or text[splice.end - 1] == "\n")
        end = splice.end if is_whole else text.index("\n", splice.end) + 1
        if hunk is not None and start < hunk.end:
            hunk = _Hunk(hunk.start, max(hunk.end, end), (*hunk.splices, splice))
            continue
        if hunk is not None:
            yield hunk
        hunk = _Hunk(start, end, (splice,))
    if hunk is not None:
        yield hunk


def _with_mark_lines(text: str, hunk: _Hunk) -> Splice:
    before = text[hunk.start : hunk.end]
    moved = [Splice(start - hunk.start, end - hunk.start, new) for start, end, new in hunk.splices]
    old, new = _lines(before), _lines(apply_splices(before, moved))
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    last = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old[same:][::-1], new[same:][::-1], strict=False))
    )
    kept = old[len(old) - last :]
    lines = [
        *old[:same],
        *(_line_as_comment(line) for line in old[same : len(old) - last]),
        *(_line_with_mark(line) for line in new[same : len(new) - last]),
        *kept,
    ]
    return Splice(hunk.start, hunk.end, "".join(lines))


def _line_as_comment(line: str) -> str:
    content = line.lstrip(" \t") if line.strip() else line
    return f"{line[: len(line) - len(content)]}{_WAS} {content}"


def _line_with_mark(line: str) -> str:
    content = line.rstrip("\r\n")
    return f"{content}  {ADDED}{line[len(content) :]}"
