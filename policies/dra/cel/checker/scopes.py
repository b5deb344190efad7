"""Which declaration a name in an expression stands for."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from policies.dra.cel.syntax import Identifier, Select
from policies.dra.cel.types import Type, list_of, map_of, opaque, type_of, type_parameter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.dra.cel.declarations import Function
    from policies.dra.cel.environment import Environment
    from policies.dra.cel.syntax import Expression

__all__ = ["Scopes", "unqualified"]

_DECLARED = {
    "list": list_of(type_parameter("A")),
    "map": map_of(type_parameter("A"), type_parameter("B")),
    "optional_type": opaque("optional_type"),
    "type": Type("type", kind="type"),
}
"""What these names are declared to name, while values of them have dyn inside."""


def unqualified(name: str) -> str:
    """A name without the leading dot, which says that it is no part of a container; Kubernetes has no containers."""
    return name.removeprefix(".")


class Scopes:
    """The names of an environment, and those of the comprehensions around an expression."""

    def __init__(self, environment: Environment) -> None:
        """Args: what the whole expression can name."""
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
        name = unqualified(name)
        if local := self._local.get(name):
            return local[-1]
        if (variable := self._environment.variables.get(name)) is not None:
            return variable
        described = self._environment.type_names.get(name)
        return None if described is None else type_of(_DECLARED.get(name, described))

    def function(self, name: str) -> Function | None:
        """The function of a name, or None."""
        return self._environment.functions.get(unqualified(name))

    def qualified_name(self, expression: Expression) -> str | None:
        """`a.b.c` if the expression is a chain of names that is not longer than any that is declared."""
        fields: list[str] = []
        while isinstance(expression, Select) and not expression.test_only and len(fields) < self._most_dots:
            fields.append(expression.field)
            expression = expression.operand
        return ".".join((expression.name, *reversed(fields))) if isinstance(expression, Identifier) else None
