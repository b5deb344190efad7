"""Type checks an expression as the API server does before it stores a selector."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, cast

from policies.cel import types
from policies.cel.errors import CelRuntimeError, IssueList
from policies.cel.inference import infer
from policies.cel.kinds import runtime_type
from policies.cel.libraries import strings as regexes
from policies.cel.libraries.string_format import REFUSALS, ClauseError, read_precision
from policies.cel.resolution import Substitution, TypesTooLargeError
from policies.cel.syntax import (
    Call,
    Checked,
    Comprehension,
    ListLiteral,
    Literal,
    MapLiteral,
    NameReference,
    Select,
    StructLiteral,
    function_name,
)
from policies.cel.types import declared_name, result_name, runtime_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from policies.cel.environment import Environment
    from policies.cel.inference import Inference
    from policies.cel.syntax import Constant, Expression
    from policies.cel.types import Type

    NamedCall = tuple[str, Call]


def validate(root: Expression, inferred: Inference, environment: Environment, issues: IssueList) -> None:
    """Report the literals of an expression that cannot be meant, or that fail whenever they are evaluated."""
    nodes = _nodes(root, inferred)
    literals = _Literals(inferred, issues)
    unexempted = [node for node, is_exempt in nodes if not is_exempt]
    for node in unexempted:
        if isinstance(node, ListLiteral):
            literals.validate_list(node)
    for node in unexempted:
        if isinstance(node, MapLiteral):
            literals.validate_map(node)
    calls = [(function_name(node, inferred.calls[node]), node) for node, _ in nodes if isinstance(node, Call)]
    for name in ("duration", "timestamp"):
        literals.validate_argument(name, calls, partial(_is_convertible, name, environment))
    literals.validate_argument("matches", calls, _is_regex)
    for name, call in calls:
        if name == "format":
            validate_format(call, inferred.types, issues)


def _nodes(root: Expression, inferred: Inference) -> list[tuple[Expression, bool]]:
    """Every node after its parts, and whether it is inside a call of `format`, which takes mixed lists."""
    found: list[tuple[Expression, bool]] = []
    pending = [(root, False)]
    while pending:
        node, is_exempt = pending.pop()
        found.append((node, is_exempt))
        is_exempt = is_exempt or (isinstance(node, Call) and node.function == "format")
        pending += [(part, is_exempt) for part in _parts(node, inferred)]
    return found[::-1]


def _parts(node: Expression, inferred: Inference) -> tuple[Expression, ...]:
    match node:
        case Call():
            is_function = node.target is None or inferred.calls[node].is_namespaced
            return node.arguments if is_function else (cast("Expression", node.target), *node.arguments)
        case Comprehension():
            return (node.range, node.initial, node.condition, node.step, node.result)
        case ListLiteral():
            return node.elements
        case MapLiteral():
            return tuple(part for entry in node.entries for part in (cast("Expression", entry.key), entry.value))
        case StructLiteral():
            return tuple(field.value for field in node.fields)
        case Select() if node not in inferred.names:
            return (node.operand,)
        case _:
            return ()


def _is_convertible(function: str, environment: Environment, literal: Constant) -> bool:
    """True if a conversion such as `duration` takes a literal."""
    given = runtime_type(literal)
    for overload in environment.functions[function].overloads:
        if overload.parameters == (given,):
            try:
                overload.implementation(literal)
            except CelRuntimeError:
                return False
            return True
    return False


def _is_regex(pattern: Constant) -> bool:
    try:
        regexes.compile_pattern(str(pattern))
    except CelRuntimeError:
        return False
    return True


class _Literals:
    """Reports literals of calls, lists and maps."""

    def __init__(self, inferred: Inference, issues: IssueList) -> None:
        self._types = inferred.types
        self._same = Substitution().same
        self._report = issues.report

    def validate_argument(self, function: str, calls: Iterable[NamedCall], accepts: Callable[[Constant], bool]) -> None:
        """For `matches` as a method this is the pattern; as a function, the text, as in cel-go."""
        for name, call in calls:
            argument = call.arguments[0] if name == function else None
            if isinstance(argument, Literal) and not accepts(argument.value):
                self._report(argument.offset, f"invalid {function} argument")

    def validate_list(self, node: ListLiteral) -> None:
        """Only the first element that differs is reported."""
        first: Type | None = None
        for index, element in enumerate(node.elements):
            type_ = self._element_type(element, optional=index in node.optional)
            first = first or type_
            if not self._same(first, type_):
                self._mismatch(element, first, type_)
                break

    def validate_map(self, node: MapLiteral) -> None:
        """Every key and value that differs from the first is reported."""
        keys: Type | None = None
        values: Type | None = None
        for entry in node.entries:
            key = cast("Expression", entry.key)
            key_type = self._types[key]
            value_type = self._element_type(entry.value, optional=entry.optional)
            keys, values = keys or key_type, values or value_type
            if not self._same(keys, key_type):
                self._mismatch(key, keys, key_type)
            if not self._same(values, value_type):
                self._mismatch(entry.value, values, value_type)

    def _element_type(self, element: Expression, *, optional: bool) -> Type:
        """The type of an element that is there; where cel-go panics for want of an optional, that is reported."""
        type_ = self._types[element]
        if not optional:
            return type_
        if not type_.parameters:
            self._mismatch(element, types.optional_of(type_), type_)
            return type_
        return type_.parameters[0]

    def _mismatch(self, node: Expression, expected: Type, found: Type) -> None:
        self._report(node.offset, f"expected type '{declared_name(expected)}' but found '{declared_name(found)}'")


_PRECISION = re.compile(rb"\.([0-9]*)")

_STRING_TYPES = frozenset(
    {"list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration", "type", "null"}
)
_NUMBER_OR_NAME = frozenset({"double", "string"})
_VERBS = {
    "d": frozenset({"int", "uint"}),
    "f": _NUMBER_OR_NAME,
    "e": _NUMBER_OR_NAME,
    "b": frozenset({"int", "uint", "bool"}),
    "x": frozenset({"int", "uint", "string", "bytes"}),
    "o": frozenset({"int", "uint"}),
    "s": _STRING_TYPES,
}
_VERBS["X"] = _VERBS["x"]
"""The types that each clause takes; `s` looks inside of lists and maps too."""


class _FormatError(Exception):
    """The first thing that is wrong, and what it is wrong with if that is not the call."""

    def __init__(self, message: str, culprit: Expression | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.culprit = culprit


def validate_format(call: Call, types: Mapping[Expression, Type], issues: IssueList) -> None:
    """Report a format that cannot be read, that its arguments do not fit, or that leaves some over."""
    if not isinstance(call.target, Literal) or not isinstance(call.target.value, str) or len(call.arguments) != 1:
        return
    given = call.arguments[0]
    if not isinstance(given, ListLiteral):
        return
    try:
        used = _check_clauses(call.target.value, given.elements, types)
    except _FormatError as error:
        issues.report((error.culprit or call).offset, error.message)
        return
    if len(given.elements) > used:
        issues.report(
            call.offset, f"too many arguments supplied to string.format (expected {used}, got {len(given.elements)})"
        )


def _check_clauses(format_: str, given: tuple[Expression, ...], types: Mapping[Expression, Type]) -> int:
    """The number of arguments that the format uses."""
    text = format_.encode(errors="surrogatepass")
    used = 0
    position = text.find(b"%")
    while position >= 0:
        position += 1
        if text[position : position + 1] == b"%":
            position += 1
        else:
            if position >= len(text):
                raise _FormatError("unexpected end of string")
            if used >= len(given):
                raise _FormatError(f"index {used} out of range")
            position, verb = _read_clause(text, position)
            _check_argument(verb, given[used], types)
            used += 1
        position = text.find(b"%", position)
    return used


def _read_clause(text: bytes, position: int) -> tuple[int, str]:
    """Where a clause that begins behind its percent sign ends, and its letter."""
    if precision := _PRECISION.match(text, position):
        position = precision.end()
        try:
            read_precision(precision[1].decode(), is_last=position == len(text))
        except ClauseError as error:
            raise _FormatError(str(error)) from error
    verb = chr(text[position])
    if verb not in _VERBS:
        raise _FormatError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')
    return position + 1, verb


def _check_argument(verb: str, argument: Expression, types: Mapping[Expression, Type]) -> None:
    checked = _with_elements(argument) if verb == "s" else iter((argument,))
    for part in checked:
        type_ = types[part]
        if type_.kind != "dyn" and type_.name not in _VERBS[verb]:
            refusal = REFUSALS[verb.lower()]
            raise _FormatError(f"error during formatting: {refusal}, was given {runtime_name(type_)}", part)


def _with_elements(argument: Expression) -> Iterator[Expression]:
    """An argument, and what is written inside it if it is a list or map."""
    pending = [argument]
    while pending:
        part = pending.pop()
        yield part
        match part:
            case ListLiteral():
                pending += reversed(part.elements)
            case MapLiteral():
                for entry in reversed(part.entries):
                    pending += (entry.value, cast("Expression", entry.key))


def check(root: Expression, text: str, env: Environment, *, any_result: bool = False) -> Checked:
    """Find the type of every part of an expression.

    Args:
        root: the expression.
        text: what it was parsed from; places in issues refer to it.
        env: what it can name.
        any_result: True if the result may have any type; otherwise it must be that of a selector.

    Raises:
        CelCompileError: Kubernetes refuses the expression; the error has all issues.
    """
    issues = IssueList(text)
    try:
        inferred = infer(root, env, issues)
        issues.raise_if_any()
        validate(root, inferred, env, issues)
        issues.raise_if_any()
    except TypesTooLargeError:
        too_large = "the types of lists, maps or optionals within each other grow too large to be checked"
        raise issues.refuse(root.offset, too_large) from None
    if not any_result:
        _check_result(root, inferred.types[root], env, issues)
    names = {node: _reference(node, name, inferred, env, issues) for node, name in inferred.names.items()}
    return Checked(root, inferred.types, names, inferred.calls)


def _check_result(root: Expression, result: Type, env: Environment, issues: IssueList) -> None:
    """Refuse results that are neither a bool nor an attribute that may be one."""
    if result in (types.BOOL, types.ANY) or (env.features.attributes_are_dyn and result == types.DYN):
        return
    raise issues.refuse(root.offset, f"must evaluate to bool or the unknown type, not {result_name(result)}")


def _reference(node: Expression, name: str, inferred: Inference, env: Environment, issues: IssueList) -> NameReference:
    """The meaning of a name; a name whose value is a type is the name of that type, as in cel-go."""
    if inferred.types[node].kind != "type":
        return NameReference(name)
    named = env.type_names.get(name)
    if named is None or named.kind == "object" or runtime_name(named) != name:
        raise issues.refuse(node.offset, f"program instantiation failed: reference to undefined type: {name}")
    return NameReference(name, named)
