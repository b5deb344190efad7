"""Macros: calls that stand for larger expressions, expanded to the trees of cel-go v0.26.0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING

from policies.cel.parser.parts import (
    Part,
    call,
    comprehension,
    identifier,
    list_literal,
    literal,
    map_literal,
    presence_test,
)
from policies.cel.syntax import (
    Call,
    Comprehension,
    Entry,
    Identifier,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    StructLiteral,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.cel.syntax import Expression


ACCUMULATOR = "@result"
"""A name that no text can say; `cel.NewParser` has it on by default since v0.24."""

_VISIBLE_ACCUMULATOR = "__result__"
"""The former name; still refused as an iteration variable."""


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
        """True if the predicate holds for each; ends at the first for which it does not."""
        goes_on = self._call("@not_strictly_false", self._accumulator())
        return self._fold(literal(self.offset, value=True), goes_on, self._call("_&&_", self._accumulator(), predicate))

    def exists(self, predicate: Part) -> Part:
        """True if the predicate holds for any; ends at the first for which it does."""
        goes_on = self._call("@not_strictly_false", self._call("!_", self._accumulator()))
        return self._fold(
            literal(self.offset, value=False), goes_on, self._call("_||_", self._accumulator(), predicate)
        )

    def exists_one(self, predicate: Part) -> Part:
        """True if the predicate holds for exactly one."""
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


def copy(node: Expression, offset: int) -> Expression:
    """A copy at the same place; only the entries of maps and messages move to the offset, as in cel-go.

    Recurses as deep as the tree, which `parts.MAX_DEPTH` limits. `map` rather than a comprehension keeps it at one
    frame for a node.
    """
    match node:
        case Literal():
            return Literal(node.offset, node.value)
        case Identifier():
            return Identifier(node.offset, node.name)
        case Select():
            return Select(node.offset, copy(node.operand, offset), node.field, node.test_only)
        case Call():
            target = node.target and copy(node.target, offset)
            return Call(node.offset, node.function, target, tuple(map(copy, node.arguments, repeat(offset))))
        case ListLiteral():
            return ListLiteral(node.offset, tuple(map(copy, node.elements, repeat(offset))), node.optional)
        case MapLiteral():
            return MapLiteral(node.offset, tuple(map(_entry, node.entries, repeat(offset))))
        case StructLiteral():
            return StructLiteral(node.offset, node.type_name, tuple(map(_entry, node.fields, repeat(offset))))
        case Comprehension():
            parts = (node.initial, node.condition, node.step, node.result)
            names = node.variable, node.second_variable, node.accumulator
            return Comprehension(node.offset, copy(node.range, offset), *names, *map(copy, parts, repeat(offset)))


def _entry(entry: Entry, offset: int) -> Entry:
    key = entry.key if isinstance(entry.key, str) else copy(entry.key, offset)
    return Entry(offset, key, copy(entry.value, offset), entry.optional)


_NOT_A_SIMPLE_NAME = "argument must be a simple name"
_NOT_AN_IDENTIFIER = "argument is not an identifier"

_UNUSED = "#unused"
_SORTED_LIST = "@__sortBy_input__"

_SORTABLE = (ListLiteral, Select, Identifier, Comprehension, Call)

MethodMacro = Callable[[int, Part, tuple[Part, ...]], "Part | None"]


def expand(offset: int, function: str, target: Part | None, arguments: tuple[Part, ...]) -> Part | None:
    """The expansion of a call, or None if it is not a macro.

    Args:
        offset: of the call, as messages have it.
        function: its name.
        target: what the method is called on, if it is one.
        arguments: in order.

    Raises:
        MacroError: if it is a macro with arguments of the wrong shape.
    """
    if target is None:
        return _has(offset, arguments) if (function, len(arguments)) == ("has", 1) else None
    macro = _METHODS.get((function, len(arguments)))
    return macro(offset, target, arguments) if macro else None


def _has(offset: int, arguments: tuple[Part, ...]) -> Part:
    selection = arguments[0]
    if isinstance(selection.node, Select):
        return presence_test(offset, selection, selection.node)
    raise MacroError(selection, "invalid argument to has() macro")


def _quantifier(build: Callable[[Fold, Part], Part]) -> MethodMacro:
    """A macro all of whose arguments but the predicate are variables."""

    def macro(offset: int, target: Part, arguments: tuple[Part, ...]) -> Part:
        *variables, predicate = arguments
        fold = Fold(offset, target, iteration_variables(*variables, otherwise=_NOT_A_SIMPLE_NAME))
        return build(fold, predicate)

    return macro


def _map(offset: int, target: Part, arguments: tuple[Part, ...]) -> Part:
    """`map(x, element)` or `map(x, condition, element)`."""
    variables = iteration_variables(arguments[0], otherwise=_NOT_AN_IDENTIFIER)
    *condition, element = arguments[1:]
    return Fold(offset, target, variables).list(element, *condition)


def _filter(offset: int, target: Part, arguments: tuple[Part, ...]) -> Part:
    variable, condition = arguments
    variables = iteration_variables(variable, otherwise=_NOT_AN_IDENTIFIER)
    return Fold(offset, target, variables).list(variable, condition)


def _transform_list(offset: int, target: Part, arguments: tuple[Part, ...]) -> Part:
    *condition, element = arguments[2:]
    return _two_variables(offset, target, arguments).list(element, *condition)


def _transform_map(offset: int, target: Part, arguments: tuple[Part, ...]) -> Part:
    fold = _two_variables(offset, target, arguments)
    *condition, value = arguments[2:]
    return fold.map(identifier(offset, fold.variables[0]), value, condition=condition[0] if condition else None)


def _transform_map_entry(offset: int, target: Part, arguments: tuple[Part, ...]) -> Part:
    *condition, entry = arguments[2:]
    fold = _two_variables(offset, target, arguments)
    return fold.map(entry, condition=condition[0] if condition else None)


def _two_variables(offset: int, target: Part, arguments: tuple[Part, ...]) -> Fold:
    return Fold(offset, target, iteration_variables(*arguments[:2], otherwise=_NOT_A_SIMPLE_NAME))


def _bind(offset: int, target: Part, arguments: tuple[Part, ...]) -> Part | None:
    """`cel.bind(name, value, result)`."""
    if not (isinstance(target.node, Identifier) and target.node.name == "cel"):
        return None
    name, value, result = arguments
    variable = simple_name(name, "cel.bind() variable names must be simple identifiers")
    return _let(offset, variable, value, result)


def _opt_map(offset: int, target: Part, arguments: tuple[Part, ...]) -> Part:
    variable, result = arguments
    name = simple_name(variable, "optMap() variable name must be a simple identifier")
    return _if_present(offset, target, call(offset, "optional.of", _let_value(offset, name, target, result)))


def _opt_flat_map(offset: int, target: Part, arguments: tuple[Part, ...]) -> Part:
    variable, result = arguments
    name = simple_name(variable, "optFlatMap() variable name must be a simple identifier")
    return _if_present(offset, target, _let_value(offset, name, target, result))


def _if_present(offset: int, target: Part, result: Part) -> Part:
    is_present = call(offset, "hasValue", target=target)
    return call(offset, "_?_:_", is_present, result, call(offset, "optional.none"))


def _let_value(offset: int, name: str, target: Part, result: Part) -> Part:
    """The result, with a name for the value of an optional, which is copied as in cel-go."""
    copied = target.replace(copy(target.node, offset))
    return _let(offset, name, call(offset, "value", target=copied), result)


def _let(offset: int, name: str, value: Part, result: Part) -> Part:
    """The result, with a name for a value: a fold over nothing, whose accumulator is the name."""
    return comprehension(
        offset,
        list_literal(offset, ()),
        (_UNUSED, ""),
        (name, value),
        literal(offset, value=False),
        identifier(offset, name),
        result,
    )


def _sort_by(offset: int, target: Part, arguments: tuple[Part, ...]) -> Part:
    if not isinstance(target.node, _SORTABLE):
        raise MacroError(
            target, "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        )
    keys = _map(offset, identifier(offset, _SORTED_LIST), arguments)
    result = call(offset, "@sortByAssociatedKeys", keys, target=identifier(offset, _SORTED_LIST))
    return _let(offset, _SORTED_LIST, target, result)


_METHODS: Mapping[tuple[str, int], MethodMacro] = {
    **{("all", count): _quantifier(Fold.all) for count in (2, 3)},
    **{("exists", count): _quantifier(Fold.exists) for count in (2, 3)},
    **{("exists_one", count): _quantifier(Fold.exists_one) for count in (2, 3)},
    ("existsOne", 3): _quantifier(Fold.exists_one),
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
    ("optMap", 2): _opt_map,
    ("optFlatMap", 2): _opt_flat_map,
    ("bind", 3): _bind,
    ("sortBy", 2): _sort_by,
    **{("transformList", count): _transform_list for count in (3, 4)},
    **{("transformMap", count): _transform_map for count in (3, 4)},
    **{("transformMapEntry", count): _transform_map_entry for count in (3, 4)},
}
"""By name and number of arguments; what is called with another number is a plain call."""
