"""The values of a YAML or JSON text with the places where each begins and ends.

The composer in `policies.kubernetes.yaml_nodes` reads the text; here it also records what is needed to edit it. Libraries
that write a whole document back (ruamel.yaml) change line widths, indentation or quotes.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import yaml

from policies.kubernetes.yaml_events import YAMLError, pieces
from policies.kubernetes.yaml_nodes import Budget, Composition, Node, compose

if TYPE_CHECKING:
    from policies.kubernetes.yaml import Limits
    from policies.kubernetes.yaml_events import Mark, Piece

__all__ = ["Entry", "TextDocument", "TextNode", "read_text"]

_JSON_SCALAR = re.compile(r'"(?:[^"\\]++|\\.)*+"|[^ \t\r\n\[\]{},:"]+')


class TextNode(Node):
    """A value in a text.

    Attributes:
        start: Where it begins, in characters of the whole text.
        end: Where it ends, without what a block scalar leaves empty at its end.
        is_flow: True for scalars, and for collections in brackets.
        entries: The entries of a mapping or list as they are written; None for scalars and aliases.
        target: The value with the anchor, if this is an alias of a value.
        anchor: The name of its own anchor.
    """

    __slots__ = ("anchor", "end", "entries", "is_flow", "start", "target")

    def __init__(self, value: Any, mark: Mark, children: dict[str, Node] | list[Node] | None = None) -> None:
        super().__init__(value, mark, children)
        self.start = self.end = 0
        self.is_flow = True
        self.entries: list[Entry] | None = None
        self.target: TextNode | None = None
        self.anchor = ""

    @property
    def resolved(self) -> TextNode:
        """The value itself, where the text has it."""
        return self.target or self

    @property
    def is_mapping(self) -> bool:
        """True for mappings."""
        return isinstance(self.value, dict)

    def child(self, step: str | int) -> TextNode | None:
        """The value under a key or index, also one that a merge key (`<<`) brings."""
        return cast("TextNode | None", super().child(step))


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


def read_text(text: str, limits: Limits) -> list[TextDocument]:
    """The documents of a text that can be read; the text has no byte order mark."""
    documents: list[TextDocument] = []
    budget = Budget(limits.nodes, limits.aliased)
    for piece in pieces(text):
        with suppress(YAMLError):  # the reader of manifests reports it
            found = compose(piece, budget, limits.depth, keeps_duplicates=True, composition=_TextComposition)
            documents += [_document(piece, cast("TextNode", root)) for root, _ in found]
    return documents


def _document(piece: Piece, root: TextNode) -> TextDocument:
    line, column = piece.line + root.mark.line + 1, root.mark.column + 1
    return TextDocument(root, piece.begin, piece.begin + len(piece.text), line, column)


class _TextComposition(Composition):
    """Records where each node begins and ends, and the entries of collections."""

    node_type = TextNode

    def __init__(self, piece: Piece, budget: Budget, depth: int, *, keeps_duplicates: bool) -> None:
        super().__init__(piece, budget, depth, keeps_duplicates=keeps_duplicates)
        self._event: yaml.NodeEvent | None = None
        """The scalar or alias that is read."""
        self._targets: dict[str, TextNode] = {}
        """The values with anchors."""

    def _read_scalar(self, event: yaml.ScalarEvent, mark: Mark) -> None:
        self._event = event
        if event.anchor is not None:
            self._targets.pop(event.anchor, None)  # that of a key is the target of no alias
        super()._read_scalar(event, mark)

    def _read_alias(self, event: yaml.AliasEvent, mark: Mark) -> None:
        self._event = event
        super()._read_alias(event, mark)

    def _begin(self, event: yaml.CollectionStartEvent, mark: Mark) -> None:
        super()._begin(event, mark)
        node = cast("TextNode", self._open[-1].node)
        node.start = self._index(mark)
        node.is_flow = event.flow_style is not False
        node.entries = []
        self._name(node, event)

    def _end(self, mark: Mark) -> None:
        node = cast("TextNode", self._open[-1].node)
        if node.is_flow:
            node.end = self._index(mark) + 1
        else:
            node.end = max(node.start, node.entries[-1].value.end) if node.entries else node.start
        super()._end(mark)

    def _add(self, node: Node, height: int) -> None:
        added = cast("TextNode", node)
        if added.entries is None:
            self._add_places(added, cast("yaml.NodeEvent", self._event))
        if self._open:
            parent = self._open[-1]
            entries = cast("list[Entry]", cast("TextNode", parent.node).entries)
            if isinstance(parent.node.children, dict):
                key = "<<" if parent.merges else parent.key
                entries.append(Entry(key, self._index(cast("Mark", parent.key_mark)), added, parent.merges))
            else:
                entries.append(Entry(len(entries), added.start, added))
        super()._add(node, height)

    def _add_places(self, node: TextNode, event: yaml.NodeEvent) -> None:
        """Add the places of a scalar or an alias, and what it refers to."""
        text, index = self._piece.text, cast("yaml.Mark", event.start_mark).index
        if event.end_mark is not None:
            end = index + len(text[index : cast("yaml.Mark", event.end_mark).index].rstrip())
        else:
            scalar = _JSON_SCALAR.match(text, index)
            end = scalar.end() if scalar is not None else index
        node.start, node.end = self._piece.begin + index, self._piece.begin + end
        if isinstance(event, yaml.AliasEvent):
            node.target = self._targets.get(str(event.anchor))
        else:
            self._name(node, event)

    def _name(self, node: TextNode, event: yaml.NodeEvent) -> None:
        if event.anchor is not None:
            node.anchor = event.anchor
            self._targets[event.anchor] = node

    def _index(self, mark: Mark) -> int:
        """A mark as a place in the whole text."""
        return self._piece.begin + cast("yaml.Mark", mark).index
