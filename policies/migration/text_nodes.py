"""The values of a YAML or JSON text with the places where each begins and ends.

PyYAML's events carry the positions that are needed to edit a text, and `policies.kubernetes.yaml_events` reads them as
Kubernetes does. Libraries that write a whole document back (ruamel.yaml) change line widths, indentation or quotes.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import yaml

from policies.kubernetes.yaml_events import YAMLError, pieces
from policies.kubernetes.yaml_scalars import key as key_of
from policies.kubernetes.yaml_scalars import plain, tagged_scalar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.yaml_events import Piece

__all__ = ["Entry", "TextDocument", "TextNode", "read_text"]

_JSON_SCALAR = re.compile(r'"(?:[^"\\]++|\\.)*+"|[^ \t\r\n\[\]{},:"]+')


@dataclass(slots=True, eq=False)
class TextNode:
    """A value in a text; offsets are characters of the whole text."""

    start: int
    end: int
    column: int
    is_flow: bool = True
    """True for scalars, and for collections in brackets."""
    entries: list[Entry] | None = None
    """The entries of a mapping or list; None for scalars."""
    is_mapping: bool = False
    target: TextNode | None = None
    """The value with the anchor, if this is an alias."""
    anchor: str = ""

    @property
    def resolved(self) -> TextNode:
        """The value itself, where the text has it."""
        return self.target or self

    def child(self, step: str | int) -> TextNode | None:
        """The value under a key or index, also one that a merge key (`<<`) brings."""
        entries = self.resolved.entries or []
        if isinstance(step, int):
            return entries[step].value if step < len(entries) else None
        found = None
        for entry in entries:
            if entry.key == step:
                found = entry.value
            for merged in entry.merged:
                found = merged.child(step) or found
        return found


@dataclass(slots=True, eq=False)
class Entry:
    """An entry of a mapping or list."""

    key: str | int
    start: int
    """Where its key begins, or its value in a list."""
    value: TextNode
    is_merge: bool = False

    @property
    def merged(self) -> list[TextNode]:
        """The mappings that a merge key (`<<`) brings; empty for other entries."""
        value = self.value.resolved
        if not self.is_merge:
            return []
        return [value] if value.is_mapping else [each.value.resolved for each in value.entries or []]


@dataclass(frozen=True, slots=True)
class TextDocument:
    """A document of a text."""

    root: TextNode
    start: int
    """Where the part of the text begins that the document is in: at its `---`, or at the end of the one before."""
    end: int
    line: int
    """The line at which its value begins, counted from 1."""
    column: int


@dataclass(slots=True)
class _Open:
    """A collection whose end is not read yet, with the key that waits for its value."""

    node: TextNode
    key: str | int | None = None
    key_start: int = 0
    is_merge: bool = False


def read_text(text: str) -> list[TextDocument]:
    """The documents of a text that can be parsed; the text has no byte order mark."""
    documents: list[TextDocument] = []
    offset = 0
    for piece in pieces(text):
        with suppress(YAMLError, ValueError):  # the reader of manifests reports it
            documents += [
                TextDocument(root, offset, offset + len(piece.text), line, column)
                for root, line, column in _roots(piece, offset)
            ]
        offset += len(piece.text)
    return documents


def _roots(piece: Piece, offset: int) -> Iterator[tuple[TextNode, int, int]]:
    composition = _Composition(piece.text, offset)
    for event in piece.events():
        if isinstance(event, yaml.DocumentStartEvent):
            composition = _Composition(piece.text, offset)
        elif isinstance(event, yaml.DocumentEndEvent) and composition.root is not None:
            yield composition.root, piece.line + composition.line + 1, composition.column + 1
        else:
            composition.add(event)


class _Composition:
    """One document while it is read."""

    def __init__(self, text: str, offset: int) -> None:
        self.root: TextNode | None = None
        self.line = self.column = 0
        self._text = text
        self._offset = offset
        self._open: list[_Open] = []
        self._anchors: dict[str, TextNode] = {}

    def add(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.CollectionEndEvent):
            self._end(event)
            return
        if not isinstance(event, yaml.NodeEvent):
            return
        mark = cast("yaml.Mark", event.start_mark)
        if self.root is None and not self._open:
            self.line, self.column = mark.line, mark.column
        start = mark.index + self._offset
        node = TextNode(start, self._end_of(event, mark.index) + self._offset, mark.column)
        if isinstance(event, yaml.AliasEvent):
            node.target = self._anchors[str(event.anchor)].resolved
        elif event.anchor is not None:
            node.anchor = event.anchor
            self._anchors[event.anchor] = node
        if isinstance(event, yaml.CollectionStartEvent):
            node.is_mapping = isinstance(event, yaml.MappingStartEvent)
            node.is_flow = event.flow_style is not False
            node.entries = []
            self._open.append(_Open(node))
        elif self._expects_key() and not isinstance(event, yaml.AliasEvent):
            self._add_key(cast("yaml.ScalarEvent", event), start)
        else:
            self._add_value(node)

    def _expects_key(self) -> bool:
        return bool(self._open) and self._open[-1].node.is_mapping and self._open[-1].key is None

    def _add_key(self, event: yaml.ScalarEvent, start: int) -> None:
        is_plain = event.tag is None and event.implicit[0]
        parent = self._open[-1]
        scalar = (
            plain(event.value)
            if is_plain
            else event.value
            if event.tag is None
            else tagged_scalar(event.tag, event.value)
        )
        parent.is_merge = is_plain and event.value == "<<"
        parent.key, parent.key_start = key_of(scalar), start

    def _add_value(self, node: TextNode) -> None:
        if not self._open:
            self.root = node
            return
        parent = self._open[-1]
        entries = parent.node.entries
        if entries is None or (parent.node.is_mapping and parent.key is None):
            raise ValueError("an alias cannot be a key")
        key, start = (parent.key, parent.key_start) if parent.key is not None else (len(entries), node.start)
        entries.append(Entry(key, start, node, parent.is_merge))
        parent.key, parent.is_merge = None, False

    def _end(self, event: yaml.CollectionEndEvent) -> None:
        node = self._open.pop().node
        mark = cast("yaml.Mark", event.start_mark)
        if node.is_flow:
            node.end = mark.index + 1 + self._offset
        elif node.entries:
            node.end = max(node.start, node.entries[-1].value.end)
        self._add_value(node)

    def _end_of(self, event: yaml.NodeEvent, index: int) -> int:
        """The index behind a scalar or an alias, without what a block scalar leaves empty at its end."""
        if isinstance(event, yaml.CollectionStartEvent):
            return index
        if event.end_mark is not None:
            end = cast("yaml.Mark", event.end_mark).index
            return index + len(self._text[index:end].rstrip())
        found = _JSON_SCALAR.match(self._text, index)
        return found.end() if found is not None else index
