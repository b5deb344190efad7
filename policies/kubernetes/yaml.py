"""The loader of YAML and JSON that people wrote: manifests on disk, and configuration in ConfigMaps.

It reads what Kubernetes would read, and beyond that it

- knows the line and the column of every key and every value, so that a finding can point at its cause;
- refuses or records duplicate keys, where Kubernetes' own reader silently takes the last one;
- bounds size, depth and the number of values before they cost anything;
- goes on with the next document after a broken one, so that all problems of a file can be shown at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from policies.kubernetes.yaml_events import Mark, Piece, YAMLError, pieces
from policies.kubernetes.yaml_nodes import Budget, Duplicates, Node, compose

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "DEFAULT_LIMITS",
    "Document",
    "Limits",
    "Position",
    "YAMLError",
    "first_document",
    "load_document",
    "scan_documents",
]

_BYTE_ORDER_MARK = "\ufeff"
_BREAK = re.compile(r"\r\n?|\n")
_YAML_BREAK = re.compile("[\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a text: its size, depth and number of values.

    Attributes:
        size: Bytes of the whole text, in UTF-8.
        depth: Mappings and lists inside each other.
        nodes: Documents, keys and values of the whole text, aliases counted as often as they are used.
        aliased: Keys and values that the aliases of the whole text stand for. Reading shares them, but code that walks
            over the value or writes it out meets each as often as it is used: few bytes can become very many.
    """

    size: int = 8 * 1024 * 1024
    depth: int = 100
    nodes: int = 1_000_000
    aliased: int = 1_000_000


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a text.

    Attributes:
        line: The line, counted from 1.
        column: The column in characters, counted from 1.
    """

    line: int
    column: int


class Document:
    """One document of a text.

    Values that come from an alias share one Python object with their anchor, so a document is for reading only.

    Attributes:
        value: The document as JSON would have it: a dict with string keys, a list, a string, an int, a float, a bool
            or None.
        text: The text of the document, beginning at the first column of a line.
        duplicates: The lines of each key that it has more than once; the last one counts.
    """

    __slots__ = ("_line", "_lines", "_root", "duplicates", "text", "value")

    def __init__(self, root: Node, line: int, text: str = "", duplicates: Duplicates | None = None) -> None:
        self.value: Any = root.value
        self.text = text
        self.duplicates = duplicates or {}
        self._root = root
        self._line = line
        self._lines: list[str] | None = None

    def source_line(self, line: int) -> str:
        """The text of a line of the file, without its end; empty if the document does not have the line.

        Also empty if the text has a character that ends a line in YAML, but not in JSON.
        """
        if self._lines is None:
            self._lines = [] if _YAML_BREAK.search(self.text) else _BREAK.split(self.text)
        index = line - self._line - 1
        return self._lines[index] if 0 <= index < len(self._lines) else ""

    def position(self, path: Sequence[str | int]) -> Position:
        """Where the value at a path begins.

        A path consists of the keys and indices that lead to the value. If it does not exist, this is the place of its
        nearest ancestor that does, as for a field that is missing.
        """
        return self._position(self._nearest(path)[0].mark)

    def key_position(self, path: Sequence[str | int]) -> Position:
        """Where the key of the value at a path begins; where there is no such key, the same as ``position``."""
        node, exists = self._nearest(path)
        return self._position(node.key_mark if exists and node.key_mark is not None else node.mark)

    def line_position(self, path: Sequence[str | int]) -> Position:
        """The mark of the value at a path, or of its key if the value begins on a later line."""
        value, key = self.position(path), self.key_position(path)
        return value if value.line == key.line else key

    def position_within(self, path: Sequence[str | int], line: int, column: int) -> Position:
        """Where a place in the text at a path is, counted from 1: a line of the file that a ConfigMap holds.

        A literal block (``|``) has its lines as they are, only indented, and so has a text on one line, in quotes or
        not, and a folded block (``>``) whose lines are joined by blanks. Elsewhere the lines of the text and those of
        the document need not match, and this is where the text begins.
        """
        node = self._nearest(path)[0]
        mark = node.mark
        lines = self.text.split("\n")[mark.line :]
        begin = lines[0][mark.column :] if lines else ""
        first = next((content for content in lines[1:] if content.strip()), "")
        indentation = len(first) - len(first.lstrip(" "))
        if begin.startswith("|"):
            return Position(self._line + mark.line + 1 + line, indentation + column)
        if not isinstance(node.value, str) or line != 1 or column < 1:
            return self._position(mark)
        before = node.value[: column - 1]
        if begin.startswith(">"):
            return self._within_folded(mark, lines[1:], indentation, before)
        quote = begin[:1] if begin.startswith(("'", '"')) else ""
        if begin.startswith(quote + before):
            return Position(self._line + mark.line + 1, mark.column + len(quote) + column)
        return self._position(mark)

    def _within_folded(self, mark: Mark, lines: list[str], indentation: int, before: str) -> Position:
        """The end of ``before`` in a folded block, as long as the block's lines are joined by single blanks."""
        joined = ""
        for number, content in enumerate(lines, start=1):
            joined += " " * (number > 1)
            begins = len(joined)
            joined += content[indentation:]
            if len(joined) > len(before):
                if not joined.startswith(before):
                    break
                return Position(self._line + mark.line + 1 + number, indentation + len(before) - begins + 1)
        return self._position(mark)

    def _position(self, mark: Mark) -> Position:
        return Position(self._line + mark.line + 1, mark.column + 1)

    def _nearest(self, path: Sequence[str | int]) -> tuple[Node, bool]:
        node = self._root
        for step in path:
            child = node.child(step)
            if child is None:
                return node, False
            node = child
        return node, True


def load_document(text: str | bytes, *, limits: Limits = DEFAULT_LIMITS) -> Document:
    """The only document of a text; its value is None if the text holds nothing.

    Raises:
        YAMLError: for the first problem, and at a second document or a duplicate key.
    """
    documents: list[Document] = []
    for outcome in _documents_and_errors(text, limits, keeps_duplicates=False):
        if isinstance(outcome, YAMLError):
            raise outcome
        if documents:
            place = outcome.position(())
            raise YAMLError("a second document begins here; only one is expected", place.line, place.column)
        documents.append(outcome)
    return documents[0] if documents else Document(Node(None, yaml.Mark("", 0, 0, 0, None, 0)), 0)


def first_document(text: str | bytes, *, limits: Limits = DEFAULT_LIMITS) -> Document:
    """The first document of a text, as Go programs read a file: the last of duplicate keys counts.

    What follows the document is ignored. Its value is None if the text holds nothing.

    Raises:
        YAMLError: for the first problem in the document.
    """
    outcome = next(_documents_and_errors(text, limits, keeps_duplicates=True), None)
    if isinstance(outcome, YAMLError):
        raise outcome
    return outcome or Document(Node(None, yaml.Mark("", 0, 0, 0, None, 0)), 0)


def scan_documents(
    text: str | bytes, *, limits: Limits = DEFAULT_LIMITS, keeps_duplicates: bool = False
) -> tuple[list[Document], list[YAMLError]]:
    """The documents of a text that can be read, and a problem for each that cannot.

    Reading ends early only when the text as a whole passes the limit of its size, of its nodes or of what its aliases
    stand for.

    Args:
        text: YAML or JSON.
        limits: What it may cost.
        keeps_duplicates: Whether a document with duplicate keys is read, with the last value of each and a record of
            them; if not, it is a problem.
    """
    documents, errors = [], []
    for outcome in _documents_and_errors(text, limits, keeps_duplicates=keeps_duplicates):
        if isinstance(outcome, YAMLError):
            errors.append(outcome)
        else:
            documents.append(outcome)
    return documents, errors


def _documents_and_errors(
    text: str | bytes, limits: Limits, *, keeps_duplicates: bool
) -> Iterator[Document | YAMLError]:
    try:
        characters = _characters(text, limits.size)
    except YAMLError as error:
        yield error
        return
    budget = Budget(limits.nodes, limits.aliased)
    for piece in pieces(characters):
        try:
            for root, duplicates in compose(piece, budget, limits.depth, keeps_duplicates=keeps_duplicates):
                yield Document(root, piece.line, piece.text, duplicates)
        except YAMLError as error:
            # A new one, because the traceback of this one would keep the parser in memory.
            yield YAMLError(error.message, error.line, error.column, piece.text, is_limit=error.is_limit)
        if budget.is_spent:
            return


def _characters(text: str | bytes, limit: int) -> str:
    if len(text) > limit:
        raise YAMLError(f"the text is larger than {limit} bytes", 1, 1, is_limit=True)
    if isinstance(text, bytes):
        try:
            return text.decode().removeprefix(_BYTE_ORDER_MARK)
        except UnicodeDecodeError as error:
            message = f"the text is not UTF-8: the byte 0x{text[error.start]:02x} at offset {error.start} does not fit"
            raise YAMLError(message, 1, 1) from None
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        Piece(text, 0).fail_at(f"U+{code:04X} is half of a character and cannot stand alone", error.start)
    if size > limit:
        raise YAMLError(f"the text is larger than {limit} bytes", 1, 1, is_limit=True)
    return text.removeprefix(_BYTE_ORDER_MARK)
