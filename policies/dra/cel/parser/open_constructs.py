"""What is open at a place in an expression, and how deep ANTLR's rules nest there."""

from __future__ import annotations

from dataclasses import dataclass

from policies.dra.cel.parser.tokens import END

__all__ = ["MAX_NESTING", "OPERATORS", "Stack"]

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
    """How many of ANTLR's `expr` rules it is in, itself included; likewise `relation` and `calc`, itself excluded."""
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
        """How many `relation` rules are within one another while the current operand is read."""
        return self.relations + 1 + self.right_of_comparison

    @property
    def active_calculations(self) -> int:
        """How many `calc` rules are within one another while the current operand is read."""
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
        """What was opened last."""
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
