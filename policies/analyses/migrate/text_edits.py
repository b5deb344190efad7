"""Edits of YAML and JSON texts: the values with their places, and the splices that change them.

The composer in `policies.kubernetes.yaml_nodes` reads the text; here it also records what is needed to edit it. Libraries
that write a whole document back (ruamel.yaml) change line widths, indentation or quotes.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import yaml

from policies.kubernetes.yaml_events import YAMLError, pieces, plain
from policies.kubernetes.yaml_nodes import Budget, Composition, Node, compose

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.kubernetes.yaml import Limits
    from policies.kubernetes.yaml_events import Mark, Piece


_JSON_SCALAR = re.compile(r'"(?:[^"\\]++|\\.)*+"|[^ \t\r\n\[\]{},:"]+')


class TextNode(Node):
    """A value in a text.

    Attributes:
        start: Where it begins, in characters of the whole text.
        end: Where it ends, without what a block scalar leaves empty at its end.
        is_flow: True for scalars, and for collections in brackets.
        entries: The entries of a mapping or list as they are written; None for scalars and aliases.
        target: The value with the anchor, if this is an alias of a value.
        anchor: The name of its anchor.
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


_PLAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?")
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")


class BlockStyle(NamedTuple):
    """The indentation of a document in block style."""

    width: int = 2
    """Blanks before the keys of a nested mapping."""
    lists: int = 0
    """Blanks before the items of a list in a mapping."""


def flow_text(value: Any, *, is_json: bool = False) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        items = (
            f"{flow_text(key, is_json=is_json)}: {flow_text(each, is_json=is_json)}" for key, each in value.items()
        )
        return f"{{{', '.join(items)}}}"
    if isinstance(value, list):
        return f"[{', '.join(flow_text(each, is_json=is_json) for each in value)}]"
    if isinstance(value, str) and not is_json:
        return _string(value)
    return json.dumps(value, ensure_ascii=False)


def block_lines(value: dict[str, Any], style: BlockStyle, indentation: int = 0) -> Iterator[str]:
    """The lines of a mapping in block style, without line breaks."""
    for key, item in value.items():
        begin = f"{' ' * indentation}{_string(key)}:"
        if isinstance(item, dict) and item:
            yield begin
            yield from block_lines(item, style, indentation + style.width)
        elif isinstance(item, list) and item:
            yield begin
            for each in item:
                yield from _item_lines(each, style, indentation + style.lists)
        else:
            yield f"{begin} {flow_text(item)}"


def _item_lines(item: Any, style: BlockStyle, indentation: int) -> Iterator[str]:
    dash = f"{' ' * indentation}- "
    if not isinstance(item, dict) or not item:
        yield dash + flow_text(item)
        return
    first, *others = block_lines(item, style, indentation + 2)
    yield dash + first.lstrip(" ")
    yield from others


def _string(text: str) -> str:
    """A string as YAML 1.1 and 1.2 read it back."""
    if _PLAIN.fullmatch(text) and isinstance(plain(text), str):
        return text
    if not text or "\\" in text or _UNPRINTABLE.search(text):
        return json.dumps(text, ensure_ascii=False)
    return "'{}'".format(text.replace("'", "''")) if '"' in text else f'"{text}"'


_MISSING = object()


class UneditableError(ValueError):
    """A change cannot be made in the text; the message says why, as a clause."""


class Splice(NamedTuple):
    """A part of a text, and what replaces it."""

    start: int
    end: int
    text: str


class TextEditor:
    """Finds the replacements that change values of one text."""

    def __init__(self, text: str, *, is_json: bool) -> None:
        self._text = text
        self.is_json = is_json
        self.line_break = "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"

    def line_start(self, index: int) -> int:
        """Where the line of an index begins."""
        return self._text.rfind("\n", 0, index) + 1

    def next_line(self, index: int) -> int:
        """Where the line after that of an index begins."""
        return self._text.index("\n", index) + 1

    def changes(self, node: TextNode, before: Any, after: Any) -> Iterator[Splice]:
        """The replacements that turn one value into another.

        Raises:
            UneditableError: The text has no place for a change.
        """
        node = node.resolved
        if _equal(before, after):
            return
        if isinstance(before, dict) and isinstance(after, dict) and node.is_mapping:
            yield from self._change_mapping(node, before, after)
        elif isinstance(before, list) and isinstance(after, list) and node.entries is not None:
            kept = _matches(before, after)
            for index, match in kept.items():
                yield from self.changes(node.entries[index].value, before[index], after[match])
            unwanted = [index not in kept for index in range(len(before))]
            yield from self._edit_entries(node, unwanted, list(map(self._flow, after[len(kept) :])))
        elif node.is_flow:
            yield Splice(node.start, node.end, ("" if node.end > node.start else " ") + self._flow(after))
        else:
            raise UneditableError(f"line {self._line(node.start)} would have to be written anew")

    def item_before(self, node: TextNode, index: int, text: str) -> Splice:
        """The replacement that inserts an item, written in flow style, before another item of a list."""
        entry = (node.resolved.entries or [])[index]
        if node.resolved.is_flow:
            return Splice(entry.start, entry.start, f"{text}, ")
        dash = self._dash(entry)
        start = self.line_start(dash)
        if self._text[start:dash].strip():
            raise UneditableError(f"nothing can be added before the item at line {self._line(dash)}")
        return Splice(start, start, f"{self._text[start:dash]}- {text}{self.line_break}")

    def _change_mapping(self, node: TextNode, before: dict[str, Any], after: dict[str, Any]) -> Iterator[Splice]:
        removed = {key for key in before if key not in after}
        for key, value in before.items():
            child = node.child(key)
            if child is None:
                raise UneditableError(f"the key {key} has no place of its own")
            if key not in removed:
                yield from self.changes(child, value, after[key])
        # The mapping, and the mappings that it merges if keys are removed from them.
        merged = (each for entry in node.entries or [] for each in entry.merged)
        for owner in [node, *(each for each in merged if any(entry.key in removed for entry in each.entries or []))]:
            added = {key: value for key, value in after.items() if key not in before} if owner is node else {}
            unwanted = [entry.key in removed for entry in owner.entries or []]
            yield from self._edit_entries(
                owner, unwanted, [f"{self._flow(key)}: {self._flow(added[key])}" for key in added]
            )

    def _edit_entries(self, node: TextNode, removed: Sequence[bool], added: list[str]) -> Iterator[Splice]:
        """Remove entries of a mapping or list, and add others at its end."""
        if not added and not any(removed):
            return
        edit = self._edit_flow if node.is_flow else self._edit_block
        yield from edit(node, node.entries or [], removed, added)

    def _edit_flow(
        self, node: TextNode, entries: Sequence[Entry], removed: Sequence[bool], added: list[str]
    ) -> Iterator[Splice]:
        if all(removed):
            begin = self._text.index("{" if node.is_mapping else "[", node.start) + 1
            yield Splice(begin, node.end - 1, ", ".join(added))
            return
        for first, last in _runs(removed):
            if first:
                yield Splice(entries[first - 1].value.end, entries[last].value.end, "")
            else:
                yield Splice(entries[0].start, entries[last + 1].start, "")
        if added:
            end = entries[-1].value.end
            yield Splice(end, end, "".join(f", {each}" for each in added))

    def _edit_block(
        self, node: TextNode, entries: Sequence[Entry], removed: Sequence[bool], added: list[str]
    ) -> Iterator[Splice]:
        starts = [entry.start if node.is_mapping else self._dash(entry) for entry in entries]
        column = starts[0] - self.line_start(starts[0])
        written = [each if node.is_mapping else f"- {each}" for each in added]
        for first, last in _runs(removed):
            begin, end = self.line_start(starts[first]), self.next_line(entries[last].value.end)
            if not self._text[begin : starts[first]].strip():
                yield Splice(begin, end, "")
            elif last + 1 < len(entries):
                yield Splice(starts[first], starts[last + 1], "")
            elif written:
                yield Splice(starts[first], entries[last].value.end, written.pop(0))
            else:
                raise UneditableError(f"line {self._line(starts[first])} would be empty")
        end = self.next_line(entries[-1].value.end)
        lines = [f"{' ' * column}{each}{self.line_break}" for each in written]
        if lines:
            yield Splice(end, end, "".join(lines))

    def _dash(self, entry: Entry) -> int:
        """Where the dash of an item of a list in block style is."""
        return self._text.rindex("-", 0, entry.start)

    def _flow(self, value: Any) -> str:
        return flow_text(value, is_json=self.is_json)

    def _line(self, index: int) -> int:
        return self._text.count("\n", 0, index) + 1


def apply_splices(text: str, splices: Sequence[Splice]) -> str:
    """The text with replacements, which are sorted and do not overlap."""
    parts, position = [], 0
    for start, end, new in splices:
        parts += [text[position:start], new]
        position = end
    return "".join([*parts, text[position:]])


def _runs(flags: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """The first and last index of each run of true flags."""
    first = None
    for index, flag in enumerate([*flags, False]):
        if flag and first is None:
            first = index
        elif not flag and first is not None:
            yield first, index - 1
            first = None


def _matches(before: list[Any], after: list[Any]) -> dict[int, int]:
    """The later index of each item of a list that remains; the other items were removed."""
    matches: dict[int, int] = {}
    for index, item in enumerate(before):
        if len(matches) < len(after) and (
            _is_rest(item, after[len(matches)]) or len(before) - index == len(after) - len(matches)
        ):
            matches[index] = len(matches)
    return matches


def _is_rest(before: Any, after: Any) -> bool:
    """True if a value is another one from which something was removed, or to which keys were added."""
    if isinstance(before, dict) and isinstance(after, dict):
        return any(key in before for key in after) and all(
            _is_rest(before[key], value) for key, value in after.items() if key in before
        )
    if isinstance(before, list) and isinstance(after, list):
        rest = iter(before)
        return all(any(_is_rest(item, each) for item in rest) for each in after)
    return _equal(before, after)


def _equal(left: Any, right: Any) -> bool:
    return type(left) is type(right) and bool(left == right)
