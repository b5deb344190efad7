"""What names, fields and calls refer to: declarations, fields of types, and matching overloads."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from policies.dra.cel import types
from policies.dra.cel.checker.unification import is_dynamic, is_dynamic_or_error
from policies.dra.cel.syntax import Identifier, Select
from policies.dra.cel.types import Type, declared_name, list_of, map_of, opaque, runtime_name, type_of, type_parameter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.dra.cel.checker.unification import Substitution
    from policies.dra.cel.declarations import Function, Overload
    from policies.dra.cel.environment import Environment
    from policies.dra.cel.errors import IssueList
    from policies.dra.cel.syntax import Expression

__all__ = ["Fields", "Scopes", "resolve_overloads", "signature", "unqualified_name"]

_DECLARED = {
    "list": list_of(type_parameter("A")),
    "map": map_of(type_parameter("A"), type_parameter("B")),
    "optional_type": opaque("optional_type"),
    "type": Type("type", kind="type"),
}
"""What these names are declared to name, while values of them have dyn inside."""


def unqualified_name(name: str) -> str:
    """A name without its leading dot, which only matters where names have containers."""
    return name.removeprefix(".")


class Scopes:
    """The names of an environment, and those of the comprehensions around an expression."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._local: defaultdict[str, list[Type]] = defaultdict(list)
        known = (*environment.type_names, *environment.variables, *environment.functions)
        self._most_dots = max(name.count(".") for name in known)

    def enter(self, variables: Iterable[tuple[str, Type]]) -> None:
        """Begin a scope with variables, which hide what has their names."""
        for name, type_ in variables:
            self._local[name].append(type_)

    def leave(self, variables: Iterable[tuple[str, Type]]) -> None:
        """End the scope that began with these variables."""
        for name, _ in variables:
            self._local[name].pop()

    def variable_or_type(self, name: str) -> Type | None:
        """The type of what a name stands for, or None."""
        name = unqualified_name(name)
        if local := self._local.get(name):
            return local[-1]
        if (variable := self._environment.variables.get(name)) is not None:
            return variable
        described = self._environment.type_names.get(name)
        return None if described is None else type_of(_DECLARED.get(name, described))

    def function(self, name: str) -> Function | None:
        """The function of a name, or None."""
        return self._environment.functions.get(unqualified_name(name))

    def qualified_name(self, expression: Expression) -> str | None:
        """`a.b.c` if the expression is a chain of names that is not longer than any that is declared."""
        fields: list[str] = []
        while isinstance(expression, Select) and not expression.test_only and len(fields) < self._most_dots:
            fields.append(expression.field)
            expression = expression.operand
        return ".".join((expression.name, *reversed(fields))) if isinstance(expression, Identifier) else None


_MESSAGES = {
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
    "null": "google.protobuf.NullValue",
}
"""Types that are written like messages but are not, with the names of the types that have their fields."""


class Fields:
    """Finds the types of fields, and reports those that do not exist."""

    def __init__(self, environment: Environment, substitution: Substitution, issues: IssueList) -> None:
        self._declared = environment.fields
        self._substitution = substitution
        self._report = issues.report

    def selected_type(self, offset: int, operand: Type, field: str, *, optional: bool) -> Type:
        """The type of `operand.field` or `operand.?field`; a field of an optional is optional."""
        target = self._substitution.resolve(operand)
        is_optional = target.name == "optional_type"
        selected = self._field_of(offset, target.parameters[0] if is_optional else target, field)
        return types.optional_of(selected) if optional or is_optional else selected

    def described_type(self, offset: int, named: Type) -> Type:
        """The type that stands before the brace of a message; it is reported if messages cannot have it."""
        if named.kind == "error":
            return named
        if named.kind != "type":
            self._report(offset, f"'{runtime_name(named)}' is not a type")
            return types.ERROR
        described = named.parameters[0]
        if self.message(described) is types.ERROR:
            self._report(offset, f"'{runtime_name(described)}' is not a message type")
        return described

    def message(self, described: Type) -> Type:
        """The type of a message; an error if messages cannot have it."""
        return described if described.kind == "object" or described.name in _MESSAGES else types.ERROR

    def written_type(self, offset: int, described: Type, name: str, field: str) -> Type:
        """The type that a field of a message has to have; `name` is what stands before the brace."""
        if described.kind == "map":
            return described.parameters[1]
        name = described.name if described.kind == "object" else name
        return self._declared_field(offset, _MESSAGES.get(described.name, name), field)

    def _field_of(self, offset: int, target: Type, field: str) -> Type:
        if target.kind == "map":
            return target.parameters[1]
        if target.kind == "object":
            return self._declared_field(offset, target.name, field)
        if target.kind == "parameter":
            self._substitution.assign((types.DYN,), (target,))
        elif not is_dynamic_or_error(target):
            self._report(offset, f"type '{declared_name(target)}' does not support field selection")
        return types.DYN

    def _declared_field(self, offset: int, type_name: str, field: str) -> Type:
        fields = self._declared.get(type_name)
        if fields is None:
            self._report(offset, f"unexpected failed resolution of '{type_name}'")
        elif field not in fields:
            self._report(offset, f"undefined field '{field}'")
        else:
            return fields[field]
        return types.ERROR


def resolve_overloads(
    function: Function, given: Sequence[Type], substitution: Substitution, *, is_method: bool
) -> tuple[tuple[Overload, ...], Type | None]:
    """Every overload that could run, and the type of the result: dyn if it depends on which one does.

    Nothing and None if the arguments fit no overload. Source: cel-go v0.26 `checker/checker.go`, resolveOverload.
    """
    matching: list[Overload] = []
    result: Type | None = None
    for overload in function.overloads:
        if overload.is_member != is_method:
            continue
        returned, *wanted = substitution.instantiate((overload.result, *overload.parameters))
        if not substitution.assign(given, wanted):
            continue
        matching.append(overload)
        returned = substitution.resolve(returned)
        if result is None:
            result = returned
        elif not is_dynamic(result) and not substitution.same(returned, result):
            result = types.DYN
    return tuple(matching), result


def signature(given: Sequence[Type], substitution: Substitution, *, is_method: bool) -> str:
    """The types of a call's arguments as messages show them: `(int, string)`, or `string.(int)`."""
    spelled = [declared_name(substitution.resolve(type_, unknown=types.DYN)) for type_ in given]
    target = f"{spelled.pop(0)}." if is_method else ""
    return f"{target}({', '.join(spelled)})"
