"""Texts of manifests, with the former lines and the added ones of a migration marked in comments.

With the marks a migrated text is turned back line by line, whatever else was edited meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_left
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.analyses.migrate.text_edits import (
    BlockStyle,
    Splice,
    TextDocument,
    TextEditor,
    TextNode,
    UneditableError,
    apply_splices,
    block_lines,
    flow_text,
    read_text,
)
from policies.devices.deviceclasses import GPU_CLASS, MIG_CLASS
from policies.kubernetes.names import PREFIX
from policies.kubernetes.objects import generate_name_of, lookup, name_of, namespace_of
from policies.kubernetes.yaml import scan_documents
from policies.rules.decision import TEMPLATE

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from policies.analyses.migrate.text_edits import Entry
    from policies.kubernetes.objects import FieldPath, Object
    from policies.kubernetes.yaml import Limits


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
"""The text around a single object and its templates."""
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
    """The reference to an object in a file: kind, namespace and name."""
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


@dataclass(frozen=True, slots=True)
class TextChange:
    """An object of a text that becomes another, with the templates that are written before it."""

    place: tuple[int, int]
    """Line and column of the document, counted from 1."""
    path: FieldPath
    """The path of the object in its document; empty unless it is an item of a list."""
    before: Object
    after: Object
    templates: tuple[Object, ...] = ()
    about: str = ""
    """The purpose of the templates, in a few words."""


def changed_text(text: str, changes: Sequence[TextChange], limits: Limits) -> str:
    """The text with changed objects; everything else is as it was.

    The result is read again: it has exactly the objects that it should have.

    Raises:
        UneditableError: The text cannot be edited without other changes.
    """
    whole = text if text.endswith("\n") else f"{text}\n"
    in_json = _is_json(text)
    documents = {(document.line, document.column): document for document in read_text(text, limits)}
    editor = TextEditor(whole, is_json=in_json)
    splices: list[Splice] = []
    written: list[TextChange] = []
    for change in changes:
        document = documents.get(change.place)
        if document is None:
            raise UneditableError("the text of its document cannot be edited")
        node = _node(document, change.path)
        own = _in_order(editor.changes(node, change.before, change.after))
        if in_json and change.templates:
            record = record_of(whole[node.start : node.end], own, node.start, len(change.templates))
            templates = (_with_record(change.templates[0], record), *change.templates[1:])
            written.append(replace(change, templates=templates))
        else:
            written.append(change)
        splices += own if in_json else marked_splices(whole, own)
        if change.templates:
            splices += _templates(whole, editor, document, documents.values(), written[-1])
    result = apply_splices(whole, _in_order(splices))
    result = result if text.endswith("\n") else result.removesuffix("\n")
    _check(text, result, written, limits, in_json=in_json)
    return result


def restored_text(text: str, limits: Limits) -> str:
    """The text before its migration, as far as it has marks; the text itself if it has none."""
    if _is_json(text):
        return restored_json(text, limits) if RECORD_KEY in text else text
    if not has_marks(text):
        return text
    scalars = [span for document in read_text(text, limits) for span in _scalars(document.root)]
    if text.endswith("\n"):
        return without_marks(text, scalars)
    return without_marks(f"{text}\n", scalars).removesuffix("\n")


def _scalars(root: TextNode) -> Iterator[tuple[int, int]]:
    """Where the scalars below a value begin and end."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.entries is None:
            yield node.start, node.end
        waiting += [entry.value for entry in node.entries or []]


def _is_json(text: str) -> bool:
    """True if a text is one value of JSON, which has no comments."""
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _node(document: TextDocument, path: FieldPath) -> TextNode:
    node = document.root
    for step in path:
        child = node.child(step)
        if child is None:
            raise UneditableError(f"the text has no place of its own for {path}")
        node = child
    return node


def _in_order(splices: Iterable[Splice]) -> list[Splice]:
    """The replacements in order, without repetitions, which edits through aliases make.

    Raises:
        UneditableError: Two of them overlap.
    """
    ordered = sorted(set(splices), key=lambda each: (each.start, each.end, each.text))
    for first, second in pairwise(ordered):
        if second.start < first.end:
            raise UneditableError("an anchor or a line is shared by parts that become different; write them out")
    return ordered


def _with_record(template: Object, record: str) -> Object:
    metadata = {**template["metadata"], "annotations": {RECORD_KEY: record}}
    return {**template, "metadata": metadata}


def _templates(
    text: str, editor: TextEditor, document: TextDocument, documents: Iterable[TextDocument], change: TextChange
) -> Iterator[Splice]:
    """The replacements that write templates before an object."""
    flows = [flow_text(template, is_json=editor.is_json) for template in change.templates]
    if change.path:
        parent = document
        container = _node(parent, type(change.path)(change.path[:-1]))
        items = [editor.item_before(container, int(change.path[-1]), flow) for flow in flows]
        joined = [Splice(items[0].start, items[0].end, "".join(item.text for item in items))]
        yield from joined if editor.is_json else marked_splices(text, joined)
        return
    if editor.is_json:
        yield Splice(document.root.start, document.root.start, f"{LIST_BEGIN}{', '.join(flows)}, ")
        yield Splice(document.root.end, document.root.end, LIST_END)
        return
    if sum(each.start == document.start for each in documents) > 1:
        raise UneditableError('another document is before it without a line "---"; add one')
    is_first = not text.startswith("---", document.start)
    start = _after_header(text, document) if is_first else document.start
    style = _style(document.root)
    lines = (
        template_lines(block_lines(template, style), editor.line_break, is_first=is_first, about=change.about)
        for template in change.templates
    )
    yield Splice(start, start, "".join(lines))


def _after_header(text: str, document: TextDocument) -> int:
    """Where the object begins, with the comments right above it; those above a blank line are a header."""
    begin = text.rfind("\n", 0, document.root.start) + 1
    above = text[document.start : begin]
    if above.startswith("%") or "\n%" in above:
        raise UneditableError("directives (%) are above it; write its template by hand")
    lines = above.splitlines(keepends=True)
    while lines and lines[-1].strip():
        begin -= len(lines.pop())
    return begin


def _style(root: TextNode) -> BlockStyle:
    """The indentation of a document; the default for what it does not show."""
    widths: list[int] = []
    lists: list[int] = []
    waiting = [(root, root.mark.column)]
    while waiting and not (widths and lists):
        node, column = waiting.pop(0)
        for entry in node.entries or []:
            child = entry.value
            if child.is_flow or child.target is not None or child.anchor or not child.entries:
                continue
            if node.is_mapping:
                (widths if child.is_mapping else lists).append(child.mark.column - column)
            waiting.append((child, child.mark.column))
    return BlockStyle(
        *(max(values[0], least) if values else default for values, least, default in ((widths, 1, 2), (lists, 0, 0)))
    )


def _check(text: str, result: str, changes: Sequence[TextChange], limits: Limits, *, in_json: bool) -> None:
    """Compare the objects in the new text with those that it should have."""
    before, _ = scan_documents(text, limits=limits, keeps_duplicates=True)
    after, errors = scan_documents(result, limits=limits, keeps_duplicates=True)
    expected: list[Any] = []
    for document in before:
        position = document.position(())
        own = [each for each in changes if each.place == (position.line, position.column)]
        expected += _values_after(document.value, own, in_json=in_json)
    if errors or _canonical([document.value for document in after]) != _canonical(expected):
        raise UneditableError(
            "its text cannot be edited safely: an anchor that is shared, or a layout that is not supported; write it out"
        )


def _values_after(value: Any, changes: Sequence[TextChange], *, in_json: bool) -> list[Any]:
    """The values that a document with changes becomes."""
    for change in changes:
        if not change.path:
            written = [*change.templates, change.after]
            return [{"apiVersion": "v1", "kind": "List", "items": written}] if in_json and change.templates else written
    # From the last item to the first, because templates move the items behind them.
    by_place = sorted(changes, key=lambda each: [int(step) for step in each.path[1::2]], reverse=True)
    for change in by_place:
        value = _with_change(value, change.path, change)
    return [value]


def _with_change(value: Any, path: Sequence[str | int], change: TextChange) -> Any:
    step, *rest = path
    if rest:
        return (
            {**value, step: _with_change(value[step], rest, change)}
            if isinstance(value, dict)
            else [_with_change(each, rest, change) if index == step else each for index, each in enumerate(value)]
        )
    index = int(step)
    return [*value[:index], *change.templates, change.after, *value[index + 1 :]]


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
