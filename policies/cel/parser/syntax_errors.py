"""Syntax errors of a text that is not an expression, with the messages of cel-go's parser if possible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.cel.parser.tokens import (
    END,
    FIRST_EXTRAS,
    LITERALS,
    NAMES,
    OPERANDS,
    PRIMARIES,
    Mistake,
    TokenCursor,
    tokens_of,
)

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from policies.cel.parser.tokens import Token


MAX_NESTING = 250
"""cel-go's maxRecursionDepth: how often one rule of its grammar may be within itself."""

_COMPARISONS = frozenset({"==", "!=", "in", "<", "<=", ">=", ">"})
_SUMS = frozenset({"+", "-"})
_PRODUCTS = frozenset({"*", "/", "%"})
_LOGIC = frozenset({"&&", "||"})

OPERATORS = _COMPARISONS | _SUMS | _PRODUCTS | _LOGIC
"""All binary operators."""

_CLOSED_BY = {
    "text": frozenset({END}),
    "parentheses": frozenset({")"}),
    "call": frozenset({")"}),
    "index": frozenset({"]"}),
    "list": frozenset({"]", ","}),
    "list's end": frozenset({"]"}),
    "key": frozenset({":"}),
    "value": frozenset({"}", ","}),
    "map's end": frozenset({"}"}),
    "field": frozenset({":"}),
    "field's value": frozenset({"}", ","}),
    "then": frozenset({":"}),
    "else": frozenset[str](),
}


@dataclass(slots=True)
class Opened:
    """Something that has begun and has not ended."""

    kind: str
    """One of the keys of _CLOSED_BY."""
    expressions: int = 1
    """The number of ANTLR's `expr` rules around it, itself included; likewise `relation` and `calc`, itself excluded."""
    relations: int = 0
    calculations: int = 0
    reading: str = "first"
    """`first` before anything in it, `next` behind a comma, else `inside`."""
    right_of_comparison: bool = False
    right_of_sum: bool = False
    right_of_product: bool = False

    @property
    def closers(self) -> frozenset[str]:
        """The tokens that ANTLR expects behind a complete operand, apart from operators."""
        return _CLOSED_BY[self.kind]

    @property
    def stops(self) -> frozenset[str]:
        """The tokens that can follow a complete operand; ANTLR does not list a comma between arguments."""
        return self.closers | {","} if self.kind == "call" else self.closers

    @property
    def active_relations(self) -> int:
        """The number of nested `relation` rules while the current operand is read."""
        return self.relations + 1 + self.right_of_comparison

    @property
    def active_calculations(self) -> int:
        """The number of nested `calc` rules while the current operand is read."""
        return self.calculations + 1 + self.right_of_sum + self.right_of_product

    def apply(self, operator: str) -> None:
        """Go on to the right of a binary operator."""
        self.right_of_product = operator in _PRODUCTS
        self.right_of_sum = operator in _SUMS or (operator in _PRODUCTS and self.right_of_sum)
        self.right_of_comparison = operator in _COMPARISONS or (operator not in _LOGIC and self.right_of_comparison)

    def go_on(self, kind: str, reading: str) -> None:
        """Go on to another expression in the same construct."""
        self.kind = kind
        self.reading = reading
        self.right_of_comparison = self.right_of_sum = self.right_of_product = False


class Stack:
    """All that is open, the text itself first."""

    def __init__(self) -> None:
        self._opened = [Opened("text")]

    @property
    def top(self) -> Opened:
        """The construct that was opened last."""
        return self._opened[-1]

    def open(self, kind: str) -> None:
        """Begin something within the current operand."""
        top = self.top
        self._opened.append(Opened(kind, top.expressions + 1, top.active_relations, top.active_calculations))

    def open_then(self) -> None:
        """Begin what is between `?` and `:`."""
        top = self.top
        self._opened.append(Opened("then", top.expressions, top.relations, top.calculations, "inside"))

    def open_else(self) -> None:
        """Begin what is behind `:`, in place of what was before it."""
        then = self._opened.pop()
        self._opened.append(Opened("else", then.expressions + 1, then.relations, then.calculations, "inside"))

    def close(self) -> None:
        """End what was opened last; the text itself stays."""
        if len(self._opened) > 1:
            self._opened.pop()

    def end_conditionals(self) -> None:
        """End what only an operator could prolong."""
        while self.top.kind == "else":
            self.close()

    def all_stops(self) -> frozenset[str]:
        """The tokens that something open is waiting for."""
        return frozenset[str]().union(*(opened.stops for opened in self._opened))

    def stops_around(self) -> frozenset[str]:
        """The tokens that can follow what is open last, once it has ended."""
        around = [opened for opened in self._opened[:-1] if opened.kind != "else"]
        return around[-1].stops if around else frozenset()

    def is_too_deep(self) -> bool:
        """True if cel-go would refuse to read an operand here."""
        top = self.top
        return max(top.expressions, top.active_relations, top.active_calculations) > MAX_NESTING


_NUMBERS = frozenset({"NUM_INT", "NUM_FLOAT"})
_SUFFIXES = frozenset({".", "["})
_OPENING = {"(": "parentheses", "[": "list", "{": "key"}


def mistakes(text: str) -> list[Mistake]:
    """The syntax errors of an expression; empty if none is found."""
    split = tokens_of(text)
    reader = _Reader(text, split.tokens)
    reader.read()
    unrecognized = [
        Mistake(none.offset, f"token recognition error at: '{none.text}'")
        for none in split.unrecognized
        if none.offset < reader.cursor.token.offset
    ]
    found = sorted((*unrecognized, *reader.cursor.mistakes), key=lambda mistake: mistake.offset or 0)
    errors = [Mistake(offset, f"Syntax error: {message}") for offset, message in found]
    if reader.is_too_deep:
        errors.append(Mistake(None, f"expression recursion limit exceeded: {MAX_NESTING}"))
    return errors


_Step = Callable[[], "_Step"] | None
"""The step to read next; None at the end."""


class _Reader:
    """Reads tokens in steps, each of which returns the next step."""

    def __init__(self, text: str, tokens: tuple[Token, ...]) -> None:
        self.cursor = TokenCursor(text, tokens)
        self._stack = Stack()
        self.is_too_deep = False

    def read(self) -> None:
        """Read everything, or up to where the nesting is too deep."""
        step: _Step = self._operand
        while step is not None:
            step = step()

    def _operand(self) -> _Step:
        kind, top = self.cursor.token.kind, self._stack.top
        may_be_empty = top.reading == "first" and top.kind in FIRST_EXTRAS
        if self._stack.is_too_deep() and (kind in OPERANDS or not may_be_empty):
            self.is_too_deep = True
            return None
        if kind == "!":
            return self._nots()
        if kind == "-":
            return self._minuses()
        if kind in PRIMARIES:
            return self._primary()
        return self._begin_construct(kind)

    def _begin_construct(self, kind: str) -> _Step:
        """Handle a token that is not an operand: a mark, a comma or the end where something has just begun."""
        top = self._stack.top
        expected = OPERANDS
        if top.reading == "first":
            expected |= FIRST_EXTRAS.get(top.kind, frozenset())
        elif top.reading == "next" and top.kind in ("list", "key"):
            expected |= {"?"}
        if kind not in expected:
            return self._skip_unexpected(expected, self._operand, abandon=expected > OPERANDS)
        if kind == "?":
            return self._accept(self._operand)
        if kind == ",":
            return self._accept(self._end)
        return self._close()

    def _primary(self) -> _Step:
        kind = self.cursor.token.kind
        if kind in LITERALS:
            return self._accept(self._operator)
        if kind in _OPENING:
            return self._open(_OPENING[kind])
        if kind == ".":
            if self.cursor.ahead(1).kind != "IDENTIFIER":
                self.cursor.no_alternative(self.cursor.token, self.cursor.ahead(1))
                self.cursor.skip()
                return self._recover(_SUFFIXES)
            self._advance()
        return self._name()

    def _name(self) -> _Step:
        """A variable, a function's name, or a message type's with all its parts."""
        distance = 0
        while self.cursor.ahead(distance).kind == "IDENTIFIER" and self.cursor.ahead(distance + 1).kind == ".":
            distance += 2
        if self.cursor.ahead(distance).kind == "IDENTIFIER" and self.cursor.ahead(distance + 1).kind == "{":
            self.cursor.skip(distance + 1)
            self._open("field")
            return self._field
        self._advance()
        return self._open("call") if self.cursor.token.kind == "(" else self._operator

    def _nots(self) -> _Step:
        while self.cursor.token.kind == "!":
            self._advance()
        token = self.cursor.token
        if token.kind == "-":
            if self.cursor.ahead(1).kind in _NUMBERS:
                self._advance()
                return self._accept(self._operator)
            self.cursor.no_alternative(token, self.cursor.ahead(1))
            return self._recover()
        if token.kind not in PRIMARIES:
            self.cursor.extraneous(OPERANDS)
            return self._recover()
        return self._primary

    def _minuses(self) -> _Step:
        if self.cursor.ahead(1).kind in _NUMBERS:
            self._advance()
            return self._accept(self._operator)
        while self.cursor.ahead(1).kind == "-":
            self._advance()
        if self.cursor.ahead(1).kind in PRIMARIES:
            return self._accept(self._primary)
        self.cursor.no_alternative(self.cursor.token, self.cursor.ahead(1))
        return self._recover()

    def _operator(self) -> _Step:
        kind = self.cursor.token.kind
        if kind in OPERATORS:
            self._stack.top.apply(kind)
            return self._accept(self._operand)
        if kind == ".":
            return self._select()
        if kind == "[":
            return self._open("index")
        if kind == "?" and self._stack.top.kind != "then":
            self._stack.open_then()
            return self._accept(self._operand)
        self._stack.end_conditionals()
        if kind not in self._stack.top.stops:
            return self._skip_unclosed(self._operator)
        if kind == END:
            return None
        if kind == ",":
            return self._comma()
        return self._accept(self._colon) if kind == ":" else self._close()

    def _select(self) -> _Step:
        dot, name = self.cursor.token, self.cursor.ahead(1)
        if name.kind == "?":
            self._advance()
            self._advance()
            if self.cursor.token.kind in NAMES:
                return self._accept(self._operator)
            return self._skip_unexpected(NAMES, self._operator, abandon=False)
        if name.kind not in NAMES:
            self.cursor.no_alternative(dot, name)
            self.cursor.skip()
            return self._recover()
        self._advance()
        self._advance()
        is_call = name.kind == "IDENTIFIER" and self.cursor.token.kind == "("
        return self._open("call") if is_call else self._operator

    def _comma(self) -> _Step:
        """Go on to what is behind a comma, or to the end: lists, maps and messages may have one more comma."""
        top = self._stack.top
        self._advance()
        if top.kind == "call":
            top.go_on("call", "next")
            return self._operand
        is_message = top.kind == "field's value"
        if self.cursor.token.kind not in (NAMES if is_message else OPERANDS) | {"?"}:
            return self._end
        top.go_on("list" if top.kind == "list" else "field" if is_message else "key", "next")
        return self._field if is_message else self._operand

    def _colon(self) -> _Step:
        """Go on to what is behind a colon."""
        top = self._stack.top
        if top.kind == "then":
            self._stack.open_else()
        else:
            top.go_on("value" if top.kind == "key" else "field's value", "inside")
        return self._operand

    def _field(self) -> _Step:
        top = self._stack.top
        kind = self.cursor.token.kind
        if kind in NAMES:
            return self._accept(self._field_colon)
        expected = NAMES
        if top.reading != "inside":
            expected |= {"?"} | (FIRST_EXTRAS["field"] if top.reading == "first" else frozenset())
        if kind not in expected:
            return self._skip_unexpected(expected, self._field, abandon=True)
        if kind == "?":
            return self._accept(self._field)
        return self._accept(self._end) if kind == "," else self._close()

    def _field_colon(self) -> _Step:
        return self._accept(self._colon) if self.cursor.token.kind == ":" else self._skip_unclosed(self._field_colon)

    def _end(self) -> _Step:
        """The end of a list, map or message behind a last comma."""
        top = self._stack.top
        top.kind = "list's end" if top.kind == "list" else "map's end"
        return self._close() if self.cursor.token.kind in top.closers else self._skip_unclosed(self._end)

    def _open(self, kind: str) -> _Step:
        self._advance()
        self._stack.open(kind)
        return self._operand

    def _close(self) -> _Step:
        self._stack.close()
        return self._accept(self._operator)

    def _accept(self, step: _Step) -> _Step:
        self._advance()
        return step

    def _advance(self) -> None:
        self._stack.top.reading = "inside"
        self.cursor.accept()

    def _skip_unexpected(self, expected: AbstractSet[str], retry: _Step, *, abandon: bool) -> _Step:
        """Something other than an operand or a name, where it is clear what is to come."""
        if self.cursor.ahead(1).kind in expected:
            self.cursor.skip_extraneous(expected)
            return retry
        self.cursor.report_mismatch(expected)
        if not abandon:
            return self._recover()
        self._stack.close()
        return self._recover(_SUFFIXES)

    def _skip_unclosed(self, retry: _Step) -> _Step:
        """Something other than what can follow a complete operand."""
        kind, expected = self._stack.top.kind, self._stack.top.closers
        token = self.cursor.token
        if self.cursor.ahead(1).kind in expected:
            self.cursor.skip_extraneous(expected)
            return retry
        if len(expected) == 1 and token.kind in self._behind(kind):
            self.cursor.report_missing(expected)
            if ":" in expected:
                return self._colon()
            self._stack.close()
            return self._operator
        self.cursor.report_mismatch(expected)
        if kind == "text":
            self.cursor.skip_to({END})
            return None
        if kind in ("key", "field"):
            self._stack.top.go_on("value" if kind == "key" else "field's value", "inside")
            return self._recover()
        self._stack.close()
        if kind == "then" and self._stack.top.kind == "text":
            self.cursor.skip_to({END})  # nothing around the conditional could continue
        return self._recover(_SUFFIXES)

    def _behind(self, kind: str) -> AbstractSet[str]:
        """The tokens that could come next if the one that is missing were there."""
        if kind in ("key", "field", "then"):
            return OPERANDS
        return frozenset() if kind == "text" else OPERATORS | _SUFFIXES | {"?"} | self._stack.stops_around()

    def _recover(self, stops: AbstractSet[str] = frozenset()) -> _Step:
        """Skip to where an operator or the end of something open can be read."""
        self.cursor.skip_to(OPERATORS | {"?", END} | stops | self._stack.all_stops())
        return self._operator
