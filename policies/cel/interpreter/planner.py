"""Plans a checked expression: constant parts are computed at once, and may be wrong.

Source: cel-go interpreter/decorators.go and planner.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.cel import types
from policies.cel.errors import CelCompileError, CelRuntimeError, EvaluationAborted, Issue, begin_evaluation
from policies.cel.interpreter import plan
from policies.cel.interpreter.closures import constant, list_code, map_code
from policies.cel.interpreter.dispatch import Dispatcher, members
from policies.cel.interpreter.stack import METER
from policies.cel.kinds import go_type
from policies.cel.libraries import strings
from policies.cel.runtime_cost import stops_early
from policies.cel.syntax import (
    Call,
    Comprehension,
    Identifier,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    StructLiteral,
    function_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from policies.cel.declarations import Function
    from policies.cel.syntax import CallReference, Checked, Entry, Expression
    from policies.cel.values import Value


_KEYS = (bool, int, float, str)


class InstantiationError(Exception):
    """The expression compiles but cannot become a program."""


def look_up(operand: plan.Step, key: plan.Step, *, is_optional: bool = False, is_test: bool = False) -> plan.Attribute:
    """A look-up in an attribute, or in any other value.

    Raises:
        InstantiationError: the key is a constant of a kind that no look-up takes.
    """
    if isinstance(key, plan.Constant) and not isinstance(key.value, _KEYS):
        if isinstance(key.value, CelRuntimeError):
            raise InstantiationError("invalid qualifier type: *types.Err")
        raise InstantiationError(f"invalid qualifier type: {go_type(key.value)}")
    qualifier = plan.Qualifier(key, is_optional)
    if isinstance(operand, plan.Attribute) and not operand.is_test:
        return plan.Attribute(operand.root, (*operand.qualifiers, qualifier), is_test)
    return plan.Attribute(operand, (qualifier,), is_test)


def plan_list(elements: tuple[plan.Step, ...], optional: frozenset[int]) -> plan.Step:
    """A list; a constant if all of it is."""
    constants = tuple(constant(element.value) for element in elements if isinstance(element, plan.Constant))
    if len(constants) == len(elements):
        return plan.Constant(_value_or_error(list_code(constants, optional)))
    return plan.ListOf(elements, optional)


def plan_logic(terms: tuple[plan.Step, ...], *, decider: bool) -> plan.Logic:
    """Terms of the same operator within are taken out of it: that changes neither result nor cost."""
    flat: list[plan.Step] = []
    for term in terms:
        if isinstance(term, plan.Logic) and term.decider is decider:
            flat += term.terms
        else:
            flat.append(term)
    return plan.Logic(tuple(flat), decider)


def has_constant_regex(arguments: tuple[plan.Step, ...]) -> bool:
    """True if the pattern is a constant.

    Raises:
        InstantiationError: it is, but not a regular expression.
    """
    pattern = arguments[1]
    if not (isinstance(pattern, plan.Constant) and isinstance(pattern.value, str)):
        return False
    try:
        strings.compile_pattern(pattern.value)
    except CelRuntimeError as error:
        raise InstantiationError(error.message) from error
    return True


def convert_constant(dispatcher: Dispatcher, value: Value | CelRuntimeError) -> plan.Constant:
    """A conversion of a constant; raises InstantiationError if it fails."""
    try:
        if isinstance(value, CelRuntimeError):
            raise value
        return plan.Constant(dispatcher.call(value))
    except CelRuntimeError as error:
        raise InstantiationError(error.message) from error


def _value_or_error(code: Callable[[list[object]], Value]) -> Value | CelRuntimeError:
    try:
        return code([])
    except CelRuntimeError as error:
        return error


def plan_map(entries: tuple[tuple[plan.Step, plan.Step], ...], optional: frozenset[int]) -> plan.Step:
    """A map; a constant if all of it is."""
    pairs = tuple(
        (constant(key.value), constant(value.value))
        for key, value in entries
        if isinstance(key, plan.Constant) and isinstance(value, plan.Constant)
    )
    if len(pairs) == len(entries):
        return plan.Constant(_value_or_error(map_code(pairs, optional)))
    return plan.MapOf(entries, optional)


_CONVERSIONS = frozenset({"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"})
_REGEX_FUNCTIONS = frozenset({"matches", "find", "findAll"})
_COSTS_CAN_PANIC = frozenset({"distinct", "flatten", "sort", "@sortByAssociatedKeys"})
"""Functions whose cost cel-go cannot compute when they are called on something else than a list.

The other oddity of costs is `has` on a ternary, which gives one back: if nothing was charged before, the sum wraps.
"""

_INDEX = {"_[_]": False, "_[?_]": True, "_?._": True}
_OPTIONAL_OR = {"or": False, "orValue": True}
_KEY_TYPES = frozenset({types.BOOL, types.INT, types.UINT, types.DOUBLE, types.STRING})
"""Other keys may make cel-go panic, even where evaluation without a meter stops at an earlier failure."""

_PRIMITIVES = (bool, int, float, str)
_PAIR = 2
_FIRST_SLOT = METER + 1
"""The first place of a frame for variables."""


class _Scope(NamedTuple):
    """A variable that an expression sees, and those around it."""

    name: str
    variable: plan.Variable
    outer: _Scope | None


def plan_expression(
    checked: Checked, text: str, functions: Mapping[str, Function], *, strict_optionals: bool = False
) -> plan.Program:
    """The program of a checked expression.

    Args:
        checked: the expression.
        text: its text, for errors.
        functions: those that it can call.
        strict_optionals: True for cel-go v0.29, where `or` and `orValue` fail on what is not an optional; before, that is
            the result.

    Raises:
        CelCompileError: a constant part of it fails.
    """
    begin_evaluation()
    try:
        return _Planner(checked, functions, strict_optionals=strict_optionals).program()
    except (InstantiationError, EvaluationAborted) as error:
        issue = Issue(f"program instantiation failed: {error}", 1, 1)
        raise CelCompileError((issue,), text, located=False) from None


class _Planner:
    """One expression's planning; `_planned` has the steps of the parts that are done."""

    def __init__(self, checked: Checked, functions: Mapping[str, Function], *, strict_optionals: bool) -> None:
        self._checked = checked
        self._functions = functions
        self._strict_optionals = strict_optionals
        self._planned: dict[Expression, plan.Step] = {}
        self._folds: dict[Expression, plan.Fold] = {}
        self._slots = _FIRST_SLOT
        self._must_count = False

    def program(self) -> plan.Program:
        root = self._checked.root
        pending: list[tuple[Expression, _Scope | None, bool]] = [(root, None, False)]
        while pending:
            node, scope, is_ready = pending.pop()
            if node in self._planned:
                continue
            children = self._children(node, scope)
            if is_ready:
                self._planned[node] = self._step(node, scope)
                continue
            pending.append((node, scope, True))
            pending += [(child, inner, False) for child, inner in reversed(children)]
        return plan.Program(self._planned[root], self._slots - _FIRST_SLOT, self._must_count)

    def _children(self, node: Expression, scope: _Scope | None) -> list[tuple[Expression, _Scope | None]]:
        """The parts that are planned before a node, in cel-go's order."""
        parts: Sequence[Expression] = ()
        if isinstance(node, Comprehension):
            return self._parts_of_fold(node, scope)
        if isinstance(node, Select):
            parts = () if node in self._checked.names else (node.operand,)
        elif isinstance(node, Call):
            parts = self._arguments(node)
        elif isinstance(node, ListLiteral):
            parts = node.elements
        elif isinstance(node, MapLiteral):
            parts = [part for entry in node.entries for part in (_key(entry), entry.value)]
        elif isinstance(node, StructLiteral):
            parts = [entry.value for entry in node.fields]
        return [(part, scope) for part in parts]

    def _arguments(self, call: Call) -> tuple[Expression, ...]:
        if call.target is None or self._checked.calls[call].is_namespaced:
            return call.arguments
        return (call.target, *call.arguments)

    def _parts_of_fold(self, node: Comprehension, scope: _Scope | None) -> list[tuple[Expression, _Scope | None]]:
        """Parts and scopes: the beginning sees nothing of the loop, the result only the accumulator."""
        fold = self._folds.get(node)
        if fold is None:
            has_second = bool(node.second_variable)
            fold = self._folds[node] = plan.Fold(self._slots, self._slots + 1, self._slots + 2 if has_second else -1)
            self._slots += 3 if has_second else 2
        inner = scope
        if node.second_variable:
            inner = _Scope(node.second_variable, plan.Variable(fold.second), inner)
        inner = _Scope(node.variable, plan.Variable(fold.variable), inner)
        accumulator = plan.Variable(fold.accumulator, fold)
        inner = _Scope(node.accumulator, accumulator, inner)
        return [
            (node.initial, scope),
            (node.range, scope),
            (node.condition, inner),
            (node.step, inner),
            (node.result, _Scope(node.accumulator, accumulator, scope)),
        ]

    def _step(self, node: Expression, scope: _Scope | None) -> plan.Step:
        name = self._checked.names.get(node)
        if name is not None and name.type_value is not None:
            return plan.Constant(name.type_value)
        if isinstance(node, Literal):
            return plan.Constant(node.value)
        if isinstance(node, Identifier) or name is not None:
            return plan.Attribute(_variable(name.name if name else node.name, scope))  # type: ignore[union-attr]
        if isinstance(node, Select):
            attribute = look_up(self._planned[node.operand], plan.Constant(node.field), is_test=node.test_only)
            self._must_count = self._must_count or (node.test_only and isinstance(attribute.root, plan.Choice))
            return attribute
        if isinstance(node, Call):
            return self._call(node)
        if isinstance(node, ListLiteral):
            return plan_list(tuple(self._planned[element] for element in node.elements), node.optional)
        if isinstance(node, MapLiteral):
            return self._map(node)
        if isinstance(node, StructLiteral):
            values = tuple(self._planned[entry.value] for entry in node.fields)
            return plan.Message(
                node.type_name.removeprefix("."), tuple(str(entry.key) for entry in node.fields), values
            )
        return self._fold(node)

    def _fold(self, node: Comprehension) -> plan.Fold:
        fold = self._folds[node]
        fold.range = self._planned[node.range]
        fold.initial = self._planned[node.initial]
        fold.condition = self._planned[node.condition]
        fold.step = self._planned[node.step]
        fold.result = self._planned[node.result]
        return fold

    def _map(self, node: MapLiteral) -> plan.Step:
        entries = tuple((self._planned[_key(entry)], self._planned[entry.value]) for entry in node.entries)
        optional = frozenset(index for index, entry in enumerate(node.entries) if entry.optional)
        self._must_count = self._must_count or any(
            self._checked.types[_key(entry)] not in _KEY_TYPES for entry in node.entries
        )
        return plan_map(entries, optional)

    def _call(self, node: Call) -> plan.Step:
        reference = self._checked.calls[node]
        function = function_name(node, reference)
        arguments = tuple(self._planned[argument] for argument in self._arguments(node))
        if function in ("_&&_", "_||_"):
            return plan_logic(arguments, decider=function == "_||_")
        if function in ("_==_", "_!=_"):
            return plan.Equality(arguments[0], arguments[1], is_negated=function == "_!=_")
        if function == "_?_:_":
            return plan.Attribute(plan.Choice(arguments[0], arguments[1], arguments[2]))
        if function in _INDEX:
            return look_up(arguments[0], arguments[1], is_optional=_INDEX[function])
        if function in _OPTIONAL_OR and len(arguments) == _PAIR:
            return plan.OptionalOr(
                arguments[0], arguments[1], unwraps=_OPTIONAL_OR[function], is_strict=self._strict_optionals
            )
        if function == "@in":
            return self._membership(reference, arguments)
        return self._other_call(function, reference, arguments)

    def _membership(self, reference: CallReference, arguments: tuple[plan.Step, ...]) -> plan.Step:
        """`in` a list of constants is a look-up in a set, which costs nothing."""
        value, container = arguments
        is_in_list = len(reference.overloads) == 1 and reference.overloads[0].id == "in_list"
        if is_in_list and isinstance(container, plan.Constant) and isinstance(container.value, tuple):
            if not container.value:
                return plan.Constant(value=False)
            if all(isinstance(element, _PRIMITIVES) for element in container.value):
                return plan.Membership(value, members(container.value))
        return self._other_call("@in", reference, arguments)

    def _other_call(self, function: str, reference: CallReference, arguments: tuple[plan.Step, ...]) -> plan.Step:
        self._must_count = self._must_count or function in _COSTS_CAN_PANIC
        constants = [argument.value for argument in arguments if isinstance(argument, plan.Constant)]
        takes_regex = function in _REGEX_FUNCTIONS and has_constant_regex(arguments)
        dispatcher = Dispatcher(
            function, reference.overloads, self._functions[function].overloads, takes_constant_regex=takes_regex
        )
        if function in _CONVERSIONS and len(arguments) == len(constants) == 1:
            return convert_constant(dispatcher, constants[0])
        return plan.Call(
            function,
            dispatcher,
            arguments,
            takes_errors=function == "@not_strictly_false",
            stops_early=stops_early(function, dispatcher.overload_id, len(arguments), constant_pattern=takes_regex),
        )


def _key(entry: Entry) -> Expression:
    """A map's key; only messages have names for keys."""
    return entry.key  # type: ignore[return-value]  # of a map


def _variable(name: str, scope: _Scope | None) -> plan.Variable:
    """The innermost variable of a name, as cel-go finds it; the outermost, with a leading dot."""
    while scope is not None:
        if scope.name == name:
            return scope.variable
        scope = scope.outer
    return plan.Variable(0)
