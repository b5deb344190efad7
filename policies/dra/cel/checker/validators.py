"""What Kubernetes looks for in an expression whose types are right: literals that can never work.

The validators of k8s.io/apiserver/pkg/cel/environment/base.go, in the order in which they run there. Source of each:
cel-go v0.26 `cel/validator.go` and, for `format`, `ext/formatting.go`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from policies.dra.cel import types
from policies.dra.cel.checker.format_validator import validate_format
from policies.dra.cel.checker.unification import Substitution
from policies.dra.cel.cost.call_names import function_name
from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.libraries import regexes
from policies.dra.cel.spelling import declared
from policies.dra.cel.syntax import Call, Comprehension, ListLiteral, Literal, MapLiteral, Select, StructLiteral
from policies.dra.cel.values import runtime_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from policies.dra.cel.checker.inference import Inference
    from policies.dra.cel.environment import Environment
    from policies.dra.cel.issues import IssueList
    from policies.dra.cel.syntax import Constant, Expression
    from policies.dra.cel.types import Type

    NamedCall = tuple[str, Call]

__all__ = ["validate"]


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
    """Every node after its parts, and whether it is part of a call of `format`, to which lists may be mixed."""
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
    """Whether a conversion such as `duration` takes a literal."""
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
        regexes.compiled(str(pattern))
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
        """Of `matches` this is the pattern when it is a method, but the text when it is none, as in cel-go."""
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
        self._report(node.offset, f"expected type '{declared(expected)}' but found '{declared(found)}'")
