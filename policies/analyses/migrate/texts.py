"""The text of a file with migrated objects, and with the documents of their templates."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from policies.analyses.migrate.marks import (
    LIST_BEGIN,
    LIST_END,
    RECORD_KEY,
    has_marks,
    marked_splices,
    record_of,
    restored_json,
    template_lines,
    without_marks,
)
from policies.analyses.migrate.text_edits import (
    BlockStyle,
    Splice,
    TextEditor,
    UneditableError,
    apply_splices,
    block_lines,
    flow_text,
)
from policies.analyses.migrate.text_nodes import TextDocument, TextNode, read_text
from policies.kubernetes.yaml import scan_documents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.kubernetes.objects import FieldPath, Object
    from policies.kubernetes.yaml import Limits

__all__ = ["TextChange", "changed_text", "restored_text"]


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
    """What the templates are for, in a few words."""


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
