"""Parser events put together to values, with the place of each.

PyYAML's own composer recurses, silently keeps the last of duplicate keys and follows aliases without counting. This one
walks over the events with a stack of its own and refuses a document at the first event that breaks a rule or a limit, so
that a hostile text costs no more than the part of it that was looked at.

Merge keys (``<<``) work as in go-yaml v2: keys are set in the order in which they stand, so a merge overrides what was
written before it and is overridden by what follows. (``mapping`` and ``merge`` in decode.go of go.yaml.in/yaml/v2.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar, cast

import yaml

from policies.kubernetes import yaml_events as scalars

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policies.kubernetes.yaml_events import Mark, Piece


Duplicates = dict[tuple[str | int, ...], list[int]]
"""The lines of each key that a document has more than once, by the path of its value; lines are counted from 1."""

_MOST_DUPLICATES = 50
"""Duplicate keys that are recorded of a document; beyond, it cannot be read."""

P = ParamSpec("P")
T = TypeVar("T")


class Node:
    """A value, where it stands, and the nodes inside it.

    Attributes:
        value: The value; an alias shares it with its anchor.
        mark: Where the value begins; for an alias, where the alias stands.
        key_mark: Where the key of the value begins, if the value belongs to a mapping.
        children: The nodes of a mapping by key, those of a list by index; None for a scalar.
    """

    __slots__ = ("children", "key_mark", "mark", "value")

    def __init__(self, value: Any, mark: Mark, children: dict[str, Node] | list[Node] | None = None) -> None:
        self.value = value
        self.mark = mark
        self.key_mark: Mark | None = None
        self.children = children

    def child(self, step: str | int) -> Node | None:
        """The node under a key of a mapping or at an index of a list, if there is one."""
        if isinstance(self.children, dict):
            return self.children.get(step) if isinstance(step, str) else None
        if isinstance(self.children, list) and isinstance(step, int) and 0 <= step < len(self.children):
            return self.children[step]
        return None


class Budget:
    """The number of documents, keys and values that a text and its aliases may still hold."""

    __slots__ = ("aliased", "aliased_limit", "left", "limit")

    def __init__(self, limit: int, aliased_limit: int) -> None:
        self.limit = limit
        self.left = limit
        self.aliased_limit = aliased_limit
        self.aliased = 0

    @property
    def is_spent(self) -> bool:
        """True if the text has passed a limit, so that the rest of it is not read."""
        return self.left < 0 or self.aliased > self.aliased_limit

    def spend(self, nodes: int, piece: Piece, mark: Mark) -> None:
        """Count what stands at a mark.

        Raises:
            YAMLError: if it is more than is left.
        """
        self.left -= nodes
        if self.left < 0:
            what = f"more than {self.limit} documents, keys and values, aliases counted as often as they are used"
            piece.fail(f"{what}; the rest is not read", mark, is_limit=True)

    def spend_alias(self, nodes: int, piece: Piece, mark: Mark) -> None:
        """Count what the alias at a mark stands for.

        Raises:
            YAMLError: if it is more than is left.
        """
        self.spend(nodes, piece, mark)
        self.aliased += nodes
        if self.aliased > self.aliased_limit:
            what = f"the aliases up to here stand for more than {self.aliased_limit} keys and values"
            piece.fail(f"{what}; write out what is meant; the rest is not read", mark, is_limit=True)


@dataclass(slots=True)
class _Anchor:
    scalar: scalars.Scalar = None
    node: Node | None = None
    size: int = 1
    height: int = 0
    is_open: bool = False


class _Collection:
    """A mapping or a list whose end has not been read yet."""

    __slots__ = ("anchor", "expects_key", "given", "height", "key", "key_mark", "left_before", "merges", "node")

    def __init__(self, node: Node, anchor: _Anchor | None, left_before: int) -> None:
        self.node = node
        self.anchor = anchor
        self.left_before = left_before
        self.height = 1
        self.expects_key = isinstance(node.children, dict)
        self.given: dict[str, Mark] = {}
        self.key = ""
        self.key_mark: Mark | None = None
        self.merges = False


class Composition:
    """One document while it is read; a subclass records more of each node."""

    node_type = Node

    def __init__(self, piece: Piece, budget: Budget, depth: int, *, keeps_duplicates: bool) -> None:
        self.duplicates: Duplicates = {}
        self._piece = piece
        self._budget = budget
        self._depth = depth
        self._keeps_duplicates = keeps_duplicates
        self._open: list[_Collection] = []
        self._anchors: dict[str, _Anchor] = {}
        self._root: Node | None = None

    def read(self, events: Iterator[yaml.Event]) -> Node | None:
        """The root of the document, whose events are read up to its end; None for a document of comments only."""
        for event in events:
            mark = cast("Mark", event.start_mark)  # optional only in PyYAML's types
            if isinstance(event, yaml.ScalarEvent):
                self._read_scalar(event, mark)
            elif isinstance(event, yaml.CollectionStartEvent):
                self._begin(event, mark)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._end(mark)
            elif isinstance(event, yaml.AliasEvent):
                self._read_alias(event, mark)
            else:
                break
        return self._root

    def _read_scalar(self, event: yaml.ScalarEvent, mark: Mark) -> None:
        self._budget.spend(1, self._piece, mark)
        is_plain = event.tag is None and event.implicit[0]
        if not self._open and is_plain and not event.value and event.anchor is None:
            return  # a document of comments only
        if is_plain and event.value == "<<" and self._open and self._open[-1].expects_key:
            self._open[-1].merges = True
            self._open[-1].expects_key = False
            self._open[-1].key_mark = mark
            return
        scalar: scalars.Scalar = event.value
        if event.tag is not None:
            scalar = self._convert(mark, scalars.tagged_scalar, event.tag, event.value)
        elif is_plain:
            scalar = scalars.plain(event.value)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchor(scalar)
        self._add_scalar(scalar, mark)

    def _read_alias(self, event: yaml.AliasEvent, mark: Mark) -> None:
        name = cast("str", event.anchor)
        anchor = self._anchors.get(name)
        if anchor is None:
            self._piece.fail(f"the alias {scalars.quote_text(name)} has no anchor of that name before it", mark)
        if anchor.is_open:
            self._piece.fail(f"the alias {scalars.quote_text(name)} stands inside its own anchor", mark)
        self._budget.spend_alias(anchor.size, self._piece, mark)
        if anchor.node is None:
            self._add_scalar(anchor.scalar, mark)
            return
        self._check_place(anchor.node.children, anchor.height, mark)
        if self._open and self._open[-1].merges and isinstance(anchor.node.children, list):
            self._refuse_merge(mark)
        self._add(self.node_type(anchor.node.value, mark, anchor.node.children), anchor.height)

    def _begin(self, event: yaml.CollectionStartEvent, mark: Mark) -> None:
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        node = self.node_type({}, mark, {}) if is_mapping else self.node_type([], mark, [])
        left_before = self._budget.left
        self._budget.spend(1, self._piece, mark)
        self._check_place(node.children, 1, mark)
        if event.tag not in (None, "!"):
            self._check_tag(str(event.tag), "a mapping" if is_mapping else "a list", mark)
        anchor = None
        if event.anchor is not None:
            anchor = self._anchors[event.anchor] = _Anchor(node=node, is_open=True)
        self._open.append(_Collection(node, anchor, left_before))

    def _end(self, _: Mark) -> None:
        ended = self._open.pop()
        if ended.anchor is not None:
            ended.anchor.is_open = False
            ended.anchor.size = ended.left_before - self._budget.left
            ended.anchor.height = ended.height
        self._add(ended.node, ended.height)

    def _add_scalar(self, scalar: scalars.Scalar, mark: Mark) -> None:
        # Most scalars are strings, which need no conversion.
        if self._open and self._open[-1].expects_key:
            self._add_key(scalar if isinstance(scalar, str) else self._convert(mark, scalars.key, scalar), mark)
        else:
            value = scalar if isinstance(scalar, str) else self._convert(mark, scalars.value, scalar)
            self._add(self.node_type(value, mark), 0)

    def _add_key(self, key: str, mark: Mark) -> None:
        mapping = self._open[-1]
        first = mapping.given.setdefault(key, mark)
        if first is not mark:
            self._add_duplicate(key, first, mark)
        mapping.key = key
        mapping.key_mark = mark
        mapping.expects_key = False

    def _add_duplicate(self, key: str, first: Mark, mark: Mark) -> None:
        first_line, line = (self._piece.line + each.line + 1 for each in (first, mark))
        if not self._keeps_duplicates:
            self._piece.fail(f"duplicate key {scalars.quote_text(key)}: first given at line {first_line}", mark)
        parents = (
            parent.key if isinstance(parent.node.value, dict) else len(parent.node.value) for parent in self._open[:-1]
        )
        lines = self.duplicates.setdefault((*parents, key), [first_line])
        lines.append(line)
        if sum(map(len, self.duplicates.values())) > _MOST_DUPLICATES:
            self._piece.fail(f"more than {_MOST_DUPLICATES} keys of this document are duplicate", mark)

    def _add(self, node: Node, height: int) -> None:
        if not self._open:
            self._root = node
            return
        parent = self._open[-1]
        children = parent.node.children
        if parent.merges:
            self._merge(parent, node)
            parent.height = max(parent.height, height)
            return
        if isinstance(children, dict):
            node.key_mark = parent.key_mark
            children[parent.key] = node
            parent.node.value[parent.key] = node.value
            parent.expects_key = True
        elif children is not None:
            children.append(node)
            parent.node.value.append(node.value)
        parent.height = max(parent.height, height + 1)

    def _merge(self, mapping: _Collection, node: Node) -> None:
        sources = node.children if isinstance(node.children, list) else [node]
        # The first of several mappings wins.
        for source in reversed(sources):
            if not isinstance(source.children, dict):
                self._refuse_merge(source.mark)
            cast("dict[str, Node]", mapping.node.children).update(source.children)
            mapping.node.value.update(source.value)
        mapping.merges = False
        mapping.expects_key = True

    def _check_place(self, children: dict[str, Node] | list[Node] | None, height: int, mark: Mark) -> None:
        """A collection may stand here: not as a key, and not too deep."""
        if len(self._open) + height > self._depth:
            self._piece.fail(f"nested deeper than {self._depth} levels", mark, is_limit=True)
        if self._open and self._open[-1].expects_key:
            if isinstance(children, dict):
                self._piece.fail(
                    'a mapping cannot be a key; a template such as "{{ .Values.name }}" must be rendered first, or quoted',
                    mark,
                )
            self._piece.fail("a list cannot be a key", mark)

    def _check_tag(self, tag: str, kind: str, mark: Mark) -> None:
        expected = self._convert(mark, scalars.kind_of_tag, tag)
        if expected != kind:
            self._piece.fail(f"{kind} stands here, but its tag requires {expected}", mark)

    def _refuse_merge(self, mark: Mark) -> NoReturn:
        self._piece.fail('the merge key "<<" takes a mapping or a list of mappings', mark)

    def _convert(self, mark: Mark, convert: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return convert(*args, **kwargs)
        except ValueError as error:
            self._piece.fail(str(error), mark)


def compose(
    piece: Piece,
    budget: Budget,
    depth: int,
    *,
    keeps_duplicates: bool = False,
    composition: type[Composition] = Composition,
) -> Iterator[tuple[Node, Duplicates]]:
    """The documents of a piece that hold anything, and their duplicate keys.

    Args:
        piece: The text.
        budget: What the whole text may still hold.
        depth: Mappings and lists inside each other.
        keeps_duplicates: Whether the last of duplicate keys counts, as for Kubernetes' own reader; if not, the document
            is refused.
        composition: The class that reads a document.

    Raises:
        YAMLError: at the first problem; what follows in this piece is not read.
    """
    events = piece.events()
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            budget.spend(1, piece, cast("Mark", event.start_mark))
            reading = composition(piece, budget, depth, keeps_duplicates=keeps_duplicates)
            root = reading.read(events)
            if root is not None:
                yield root, reading.duplicates
