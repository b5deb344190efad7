"""Finds the type of every part of an expression, and what its names and calls stand for.

What is allowed, what is reported, in which words and in which order: cel-go v0.26 `checker/checker.go` and `errors.go`.
Expressions can be nested deeper than Python's stack, so each kind of node has a generator here that yields the nodes
which have to be looked at before it goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from policies.cel import types
from policies.cel.kinds import runtime_type
from policies.cel.resolution import (
    Fields,
    Scopes,
    Substitution,
    is_dynamic,
    resolve_overloads,
    signature,
    unqualified_name,
)
from policies.cel.syntax import Call, CallReference, Comprehension, Identifier, ListLiteral, Literal, MapLiteral, Select
from policies.cel.types import declared_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.cel.declarations import Function
    from policies.cel.environment import Environment
    from policies.cel.errors import IssueList
    from policies.cel.syntax import Expression, StructLiteral
    from policies.cel.types import Type


_OPTIONAL_SELECT = "_?._"
_LOGICAL = frozenset({"_&&_", "_||_"})


@dataclass(frozen=True, slots=True)
class Inference:
    """The types, names and calls of an expression; complete only if no issue was reported."""

    types: Mapping[Expression, Type]
    """Every node that is evaluated; free type parameters have become dyn."""
    names: Mapping[Expression, str]
    calls: Mapping[Expression, CallReference]


def infer(root: Expression, environment: Environment, issues: IssueList) -> Inference:
    """Find the types of an expression, and report what is wrong with them.

    Raises:
        TypesTooLargeError: the types are of a size that only an attack has.
    """
    walk = _Walk(environment, issues)
    pending = [walk.visit(root)]
    while pending:
        for part in pending[-1]:
            pending.append(walk.visit(part))
            break
        else:
            pending.pop()
    return walk.finish()


class _Walk:
    def __init__(self, environment: Environment, issues: IssueList) -> None:
        self._report = issues.report
        self._scopes = Scopes(environment)
        self._substitution = Substitution()
        self._fields = Fields(environment, self._substitution, issues)
        self._types: dict[Expression, Type] = {}
        self._names: dict[Expression, str] = {}
        self._calls: dict[Expression, CallReference] = {}

    def finish(self) -> Inference:
        final = self._substitution.resolve_all(self._types.values(), unknown=types.DYN)
        return Inference(dict(zip(self._types, final, strict=True)), self._names, self._calls)

    def visit(self, node: Expression) -> Iterator[Expression]:
        """Yields the parts of a node that have to be visited next, each before it goes on."""
        match node:
            case Literal():
                self._types[node] = runtime_type(node.value)
                return iter(())
            case Identifier():
                self._identifier(node)
                return iter(())
            case Select():
                return self._select(node)
            case Call():
                return self._optional_select(node) if node.function == _OPTIONAL_SELECT else self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case Comprehension():
                return self._comprehension(node)
            case _:
                return self._struct(node)

    # Names and fields

    def _identifier(self, node: Identifier) -> None:
        found = self._scopes.variable_or_type(node.name)
        if found is None:
            self._report_undeclared(node, node.name)
        else:
            self._names[node] = self._scopes.reference_name(node.name)
        self._types[node] = found or types.ERROR

    def _select(self, node: Select) -> Iterator[Expression]:
        name = self._scopes.qualified_name(node)
        found = None if name is None else self._scopes.variable_or_type(name)
        if name is not None and found is not None:
            self._names[node] = self._scopes.reference_name(name)
            self._types[node] = found
            return
        yield node.operand
        selected = self._fields.selected_type(node.offset, self._types[node.operand], node.field, optional=False)
        self._types[node] = types.BOOL if node.test_only else self._substitution.resolve(selected)

    def _optional_select(self, node: Call) -> Iterator[Expression]:
        operand, field = node.arguments
        yield operand
        name = str(cast("Literal", field).value)
        selected = self._fields.selected_type(node.offset, self._types[operand], name, optional=True)
        self._types[node] = self._substitution.resolve(selected)
        function = cast("Function", self._scopes.function(node.function))
        self._calls[node] = CallReference(function.overloads)

    # Calls

    def _call(self, node: Call) -> Iterator[Expression]:
        yield from node.arguments
        if node.target is None:
            self._function_call(node, node.function)
            return
        prefix = self._scopes.qualified_name(node.target)
        if prefix is not None and self._scopes.function(f"{prefix}.{node.function}") is not None:
            self._function_call(node, f"{prefix}.{node.function}")
            return
        yield node.target
        self._method_call(node, node.target)

    def _function_call(self, node: Call, name: str) -> None:
        function = self._scopes.function(name)
        if function is None:
            self._report_undeclared(node, name)
            self._types[node] = types.ERROR
        elif function.name in _LOGICAL:
            self._logical_call(node, function)
        else:
            given = [self._types[argument] for argument in node.arguments]
            self._resolve_call(node, function, given, is_namespaced=node.target is not None)

    def _method_call(self, node: Call, target: Expression) -> None:
        function = self._scopes.function(node.function)
        if function is None:
            self._types[node] = types.ERROR
            self._report_undeclared(node, node.function)
            return
        given = [self._types[argument] for argument in (target, *node.arguments)]
        self._resolve_call(node, function, given, is_method=True)

    def _logical_call(self, node: Call, function: Function) -> None:
        result = types.BOOL
        for argument in node.arguments:
            given = self._types[argument]
            if not self._substitution.assign((given,), (types.BOOL,)):
                self._report_mismatch(argument, types.BOOL, given)
                result = types.ERROR
        self._types[node] = result
        self._calls[node] = CallReference(function.overloads)

    def _resolve_call(
        self, node: Call, function: Function, given: list[Type], *, is_method: bool = False, is_namespaced: bool = False
    ) -> None:
        matching, result = resolve_overloads(function, given, self._substitution, is_method=is_method)
        if result is None:
            applied = signature(given, self._substitution, is_method=is_method)
            self._report(node.offset, f"found no matching overload for '{function.name}' applied to '{applied}'")
        self._types[node] = result or types.ERROR
        self._calls[node] = CallReference(matching, is_namespaced)

    # Literals of lists, maps and messages

    def _list(self, node: ListLiteral) -> Iterator[Expression]:
        joined: Type | None = None
        for index, element in enumerate(node.elements):
            yield element
            joined = self._join(joined, self._given(element, optional=index in node.optional))
        self._types[node] = types.list_of(joined or self._substitution.fresh())

    def _map(self, node: MapLiteral) -> Iterator[Expression]:
        keys: Type | None = None
        values: Type | None = None
        for entry in node.entries:
            key = cast("Expression", entry.key)
            yield key
            keys = self._join(keys, self._types[key])
            yield entry.value
            values = self._join(values, self._given(entry.value, optional=entry.optional))
        self._types[node] = types.map_of(keys or self._substitution.fresh(), values or self._substitution.fresh())

    def _join(self, previous: Type | None, current: Type) -> Type:
        return current if previous is None else self._substitution.join(previous, current)

    def _given(self, node: Expression, *, optional: bool) -> Type:
        """The type of an element; of one that is written with `?`, the type of what may be there."""
        given = self._types[node]
        if not optional:
            return given
        if given.name == "optional_type":
            return given.parameters[0]
        if not is_dynamic(given):
            self._report_mismatch(node, types.optional_of(given), given)
        return given

    def _struct(self, node: StructLiteral) -> Iterator[Expression]:
        named = self._scopes.variable_or_type(node.type_name)
        if named is None:
            self._report_undeclared(node, node.type_name)
            self._types[node] = types.ERROR
            return
        described = self._fields.described_type(node.offset, named)
        self._types[node] = self._fields.message(described)
        for field in node.fields:
            yield field.value
            wanted = self._fields.written_type(
                field.offset, described, unqualified_name(node.type_name), str(field.key)
            )
            given = self._given(field.value, optional=field.optional)
            if not self._substitution.assign((wanted,), (given,)):
                types_ = f"type of field '{field.key}' is '{declared_name(wanted)}' but provided type is '{declared_name(given)}'"
                self._report(field.offset, f"expected {types_}")

    # Comprehensions

    def _comprehension(self, node: Comprehension) -> Iterator[Expression]:
        yield node.range
        yield node.initial
        accumulated = self._types[node.initial]
        outer = [(node.accumulator, accumulated)]
        inner = self._loop_variables(node)
        self._scopes.enter(outer)
        self._scopes.enter(inner)
        yield node.condition
        self._expect(node.condition, types.BOOL)
        yield node.step
        self._expect(node.step, accumulated)
        self._scopes.leave(inner)
        yield node.result
        self._scopes.leave(outer)
        self._types[node] = self._substitution.resolve(self._types[node.result])

    def _loop_variables(self, node: Comprehension) -> list[tuple[str, Type]]:
        first, second = self._items(node.range)
        if not node.second_variable:
            return [(node.variable, second if first is None else first)]
        return [(node.variable, types.INT if first is None else first), (node.second_variable, second)]

    def _items(self, over: Expression) -> tuple[Type | None, Type]:
        """The types of keys, if there are any besides indices, and of values."""
        range_ = self._substitution.resolve(self._types[over])
        if range_.kind == "list":
            return None, range_.parameters[0]
        if range_.kind == "map":
            return range_.parameters[0], range_.parameters[1]
        if range_.kind in {"dyn", "error", "parameter"}:
            self._substitution.assign((types.DYN,), (range_,))
            return types.DYN, types.DYN
        self._report(
            over.offset,
            f"expression of type '{declared_name(range_)}' cannot be range of a comprehension "
            "(must be list, map, or dynamic)",
        )
        return types.ERROR, types.ERROR

    def _expect(self, node: Expression, wanted: Type) -> None:
        given = self._types[node]
        if not self._substitution.assign((wanted,), (given,)):
            self._report_mismatch(node, wanted, given)

    # Reports

    def _report_undeclared(self, node: Expression, name: str) -> None:
        self._report(node.offset, f"undeclared reference to '{name}' (in container '')")

    def _report_mismatch(self, node: Expression, wanted: Type, given: Type) -> None:
        self._report(node.offset, f"expected type '{declared_name(wanted)}' but found '{declared_name(given)}'")
