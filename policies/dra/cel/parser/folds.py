"""The comprehensions that macros expand to, with one iteration variable or two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.dra.cel.parser.parts import call, comprehension, identifier, list_literal, literal, map_literal
from policies.dra.cel.syntax import Identifier

if TYPE_CHECKING:
    from policies.dra.cel.parser.parts import Part

__all__ = ["Fold", "MacroError", "iteration_variables", "simple_name"]

ACCUMULATOR = "@result"
"""A name that no text can say; `cel.NewParser` has it on by default since v0.24."""

_VISIBLE_ACCUMULATOR = "__result__"
"""What it was called before; still refused as an iteration variable."""


class MacroError(Exception):
    """A macro whose arguments are of the wrong shape."""

    def __init__(self, culprit: Part, message: str) -> None:
        super().__init__(message)
        self.offset = culprit.node.offset
        self.message = message


def simple_name(argument: Part, otherwise: str) -> str:
    """The name that an argument consists of.

    Raises:
        MacroError: with the given message, if it is more than a name.
    """
    if isinstance(argument.node, Identifier):
        return argument.node.name
    raise MacroError(argument, otherwise)


def iteration_variables(*arguments: Part, otherwise: str) -> tuple[str, str]:
    """The names of one or two iteration variables, the second empty where there is one.

    Raises:
        MacroError: if an argument is not a name (with the given message), or a name that cannot be used.
    """
    names = [simple_name(argument, otherwise) for argument in arguments]
    if len(names) > 1 and names[0] == names[1]:
        raise MacroError(arguments[1], f"duplicate variable name: {names[0]}")
    for name, argument in zip(names, arguments, strict=True):
        if name in (ACCUMULATOR, _VISIBLE_ACCUMULATOR):
            raise MacroError(argument, "iteration variable overwrites accumulator variable")
    return names[0], names[1] if len(names) > 1 else ""


@dataclass(frozen=True, slots=True)
class Fold:
    """A fold over `over`, at the place of the macro's call."""

    offset: int
    over: Part
    variables: tuple[str, str]

    def all(self, predicate: Part) -> Part:
        """Whether the predicate holds for each; ends at the first for which it does not."""
        goes_on = self._call("@not_strictly_false", self._accumulator())
        return self._fold(literal(self.offset, value=True), goes_on, self._call("_&&_", self._accumulator(), predicate))

    def exists(self, predicate: Part) -> Part:
        """Whether the predicate holds for any; ends at the first for which it does."""
        goes_on = self._call("@not_strictly_false", self._call("!_", self._accumulator()))
        return self._fold(
            literal(self.offset, value=False), goes_on, self._call("_||_", self._accumulator(), predicate)
        )

    def exists_one(self, predicate: Part) -> Part:
        """Whether the predicate holds for exactly one."""
        one_more = self._call("_+_", self._accumulator(), literal(self.offset, 1))
        step = self._call("_?_:_", predicate, one_more, self._accumulator())
        result = self._call("_==_", self._accumulator(), literal(self.offset, 1))
        return self._fold(literal(self.offset, 0), self._always(), step, result)

    def list(self, element: Part, condition: Part | None = None) -> Part:
        """The list of what each becomes, where the condition holds."""
        step = self._call("_+_", self._accumulator(), list_literal(self.offset, (element,)))
        return self._fold(list_literal(self.offset, ()), self._always(), self._where(condition, step))

    def map(self, *insertion: Part, condition: Part | None = None) -> Part:
        """The map of what each inserts, a key with a value or a map, where the condition holds."""
        step = self._call("cel.@mapInsert", self._accumulator(), *insertion)
        return self._fold(map_literal(self.offset), self._always(), self._where(condition, step))

    def _where(self, condition: Part | None, step: Part) -> Part:
        return step if condition is None else self._call("_?_:_", condition, step, self._accumulator())

    def _fold(self, initial: Part, condition: Part, step: Part, result: Part | None = None) -> Part:
        return comprehension(
            self.offset,
            self.over,
            self.variables,
            (ACCUMULATOR, initial),
            condition,
            step,
            result or self._accumulator(),
        )

    def _always(self) -> Part:
        return literal(self.offset, value=True)

    def _accumulator(self) -> Part:
        return identifier(self.offset, ACCUMULATOR)

    def _call(self, function: str, *arguments: Part) -> Part:
        return call(self.offset, function, *arguments)
