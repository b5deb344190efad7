"""Marks in comments: the lines that were there before a migration, and those that it added.

With them a migrated text is turned back line by line, whatever else was edited meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_left
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.analyses.migrate.text_edits import Splice, UneditableError, apply_splices
from policies.analyses.migrate.text_nodes import read_text
from policies.devices.deviceclasses import GPU_CLASS, MIG_CLASS
from policies.kubernetes.names import PREFIX
from policies.kubernetes.objects import generate_name_of, lookup, name_of, namespace_of
from policies.rules.decision import TEMPLATE

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from policies.analyses.migrate.text_nodes import Entry, TextNode
    from policies.kubernetes.objects import Object
    from policies.kubernetes.yaml import Limits

__all__ = [
    "ADDED",
    "LIST_BEGIN",
    "LIST_END",
    "RECORD_KEY",
    "gpu_templates",
    "has_marks",
    "identity_of",
    "marked_splices",
    "names_template",
    "record_of",
    "restored_json",
    "template_lines",
    "with_specs",
    "without_marks",
]


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


RECORD_KEY = f"{PREFIX}migrated"
"""The annotation with what has to be replaced in the text of the object that follows the template."""
LIST_BEGIN, LIST_END = '{"apiVersion": "v1", "kind": "List", "items": [', "]}"
"""What is written around a single object and its templates."""
_ADDED_LIST = f'{LIST_BEGIN}{{"apiVersion": "resource.k8s.io/v1"'
"""The text at which a List that migration added is recognized."""


def record_of(text: str, splices: Sequence[Splice], start: int, templates: int) -> str:
    """The record that undoes replacements in the text of an object that begins at `start`."""
    moved = [Splice(each.start - start, each.end - start, each.text) for each in splices]
    was, shift = [], 0
    for begin, end, new in moved:
        was.append([begin + shift, len(new), text[begin:end]])
        shift += len(new) - (end - begin)
    record = {"text": _digest(apply_splices(text, moved)), "templates": templates, "was": was}
    return json.dumps(record, separators=(",", ":"))


def restored_json(text: str, limits: Limits) -> str:
    """The text in which every migrated object is as before.

    Raises:
        UneditableError: An object was edited since, or a record is invalid.
    """
    documents = read_text(text, limits)
    items = documents[0].root.child("items") if documents else None
    if items is None or not items.entries:
        return text
    root, value = documents[0].root, json.loads(text)
    splices = list(_splices(text, value["items"], items))
    if len(items.entries) == 2 and text.startswith(_ADDED_LIST, root.start):
        object_node = items.entries[1].value
        own = [each for each in splices if each.start >= object_node.start]
        first, last = root.start, root.end
        splices = [Splice(first, object_node.start, ""), *own, Splice(object_node.end, last, "")]
    return apply_splices(text, splices)


def _splices(text: str, items: list[Any], node: TextNode) -> Iterator[Splice]:
    entries: list[Entry] = node.entries or []
    for index, item in enumerate(items):
        written = lookup(item, ("metadata", "annotations", RECORD_KEY))
        if not isinstance(written, str):
            continue
        try:
            record = json.loads(written)
            digest, templates, was = record["text"], record["templates"], record["was"]
            target = entries[index + templates].value
            found = [
                Splice(target.start + int(begin), target.start + int(begin + size), str(old))
                for begin, size, old in was
            ]
        except (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError):
            raise UneditableError(f"the annotation {RECORD_KEY} of its template is invalid") from None
        if _digest(text[target.start : target.end]) != digest:
            raise UneditableError("it was edited after its migration; take its former text from version control")
        yield Splice(entries[index].start, entries[index + templates].start, "")
        yield from found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


_REFERENCE = "resourceClaimTemplateName"


def identity_of(document: Object) -> tuple[str, ...]:
    """What names an object in a file: kind, namespace and name."""
    return str(document.get("kind")), namespace_of(document), name_of(document) or generate_name_of(document)


def gpu_templates(documents: Iterable[Object]) -> dict[str, str]:
    """The specs of the ResourceClaimTemplates of NVIDIA's classes as text, by name."""
    return {
        name_of(document): json.dumps(lookup(document, ("spec", "spec")), sort_keys=True)
        for document in documents
        if document.get("kind") == TEMPLATE and any(each in str(document) for each in (GPU_CLASS, MIG_CLASS))
    }


def names_template(document: Any, templates: Mapping[str, str]) -> bool:
    """True if an object refers to one of the templates."""
    return any(name in templates for name in _references(document))


def with_specs(document: Any, templates: Mapping[str, str]) -> Any:
    """An object in which the names of templates are replaced by their specs, so that names do not matter."""
    if isinstance(document, list):
        return [with_specs(each, templates) for each in document]
    if not isinstance(document, dict):
        return document
    return {
        key: templates.get(value, value)
        if key == _REFERENCE and isinstance(value, str)
        else with_specs(value, templates)
        for key, value in document.items()
    }


def _references(document: Any) -> Iterator[str]:
    """The names of templates in an object of any shape."""
    waiting = [document]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            name = part.get(_REFERENCE)
            if isinstance(name, str):
                yield name
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
