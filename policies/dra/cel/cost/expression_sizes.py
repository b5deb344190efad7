"""What an expression tells about the sizes of its parts, and where in `device` they come from.

Source: cel-go v0.26.0 checker/cost.go, the coster's paths, sizes and local variables.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.dra.cel.cost.device_sizes import FieldPath
from policies.dra.cel.cost.estimated_calls import declared_size
from policies.dra.cel.cost.size_estimates import UNKNOWN, Estimate, exactly
from policies.dra.cel.syntax import Identifier, ListLiteral, Literal, MapLiteral
from policies.dra.cel.types import DYN

if TYPE_CHECKING:
    from policies.dra.cel.checked import Checked
    from policies.dra.cel.syntax import Expression
    from policies.dra.cel.types import Type

__all__ = ["EntrySizes", "ExpressionSizes", "LocalVariable"]

_SCALARS = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})
_NOWHERE = FieldPath()


@dataclass(frozen=True, slots=True)
class EntrySizes:
    """The sizes of what a list or map holds."""

    container: str
    """`list` or `map`."""
    key: Estimate
    """For a list: of its indices."""
    value: Estimate

    def union(self, other: EntrySizes) -> EntrySizes:
        """The sizes of what either holds."""
        return EntrySizes(self.container, self.key.union(other.key), self.value.union(other.value))


@dataclass(frozen=True, slots=True)
class LocalVariable:
    """A variable of a comprehension."""

    path: FieldPath
    size: Estimate | None
    entries: EntrySizes | None = None


class ExpressionSizes:
    """Sizes and paths of the expressions met so far, and the variables of the comprehensions around."""

    def __init__(self, checked: Checked) -> None:
        """Args: the expression whose parts will be asked for."""
        self._checked = checked
        self._variables: defaultdict[str, list[LocalVariable]] = defaultdict(list)
        self._sizes: dict[Expression, Estimate] = {}
        self._entries: dict[Expression, EntrySizes] = {}
        self._paths: dict[Expression, FieldPath] = {}

    def type_of(self, expression: Expression) -> Type:
        """The type the checker found."""
        return self._checked.types.get(expression, DYN)

    def variable_name(self, expression: Expression) -> str | None:
        """The name an expression consists of, qualified names included, or None."""
        reference = self._checked.names.get(expression)
        if reference is not None:
            return reference.name
        return expression.name if isinstance(expression, Identifier) else None

    def enter(self, name: str, variable: LocalVariable) -> None:
        """Begin the scope of a variable; it hides others of its name."""
        self._variables[name].append(variable)

    def leave(self, name: str) -> None:
        """End the scope of the variable that began last."""
        self._variables[name].pop()

    def _variable(self, expression: Expression) -> LocalVariable | None:
        name = self.variable_name(expression)
        variables = self._variables.get(name) if name is not None else None
        return variables[-1] if variables else None

    def path(self, expression: Expression) -> FieldPath:
        """Where a value comes from; empty where no variable leads to it."""
        variable = self._variable(expression)
        return self._paths.get(expression, _NOWHERE) if variable is None else variable.path

    def set_path(self, expression: Expression, path: FieldPath) -> None:
        """Remember where a value comes from."""
        self._paths[expression] = path

    def set_variable_path(self, expression: Expression, name: str) -> None:
        """Remember that an expression is a variable."""
        variable = self._variable(expression)
        self._paths[expression] = FieldPath(name) if variable is None else variable.path

    def size(self, expression: Expression) -> Estimate | None:
        """The size of a value, or None where nothing tells it."""
        known = self._sizes.get(expression) or _literal_size(expression)
        if known is not None:
            return known
        declared = declared_size(self.path(expression))
        if declared is not None:
            self._sizes[expression] = declared
            return declared
        if _is_scalar(self.type_of(expression)):
            return exactly(1)
        variable = self._variable(expression)
        return None if variable is None else variable.size

    def size_or_unknown(self, expression: Expression) -> Estimate:
        """The size of a value; anything from 0 on where nothing tells it."""
        return self.size(expression) or UNKNOWN

    def set_size(self, expression: Expression, size: Estimate | None) -> None:
        """Remember a size; None changes nothing."""
        if size is not None:
            self._sizes[expression] = size

    def entries(self, expression: Expression) -> EntrySizes | None:
        """The sizes of what a list or map holds, or None where nothing tells them."""
        known = self._entries.get(expression)
        if known is not None:
            return known
        variable = self._variable(expression)
        return None if variable is None else variable.entries

    def set_entries(self, expression: Expression, entries: EntrySizes | None) -> None:
        """Remember the sizes of what a list or map holds; None changes nothing."""
        if entries is not None:
            self._entries[expression] = entries

    def copy(self, target: Expression, source: Expression) -> None:
        """Give an expression the sizes of another, whose value it has."""
        self.set_size(target, self.size(source))
        self.set_entries(target, self.entries(source))


def _literal_size(expression: Expression) -> Estimate | None:
    match expression:
        case Literal(value=str() | bytes() as value):
            return exactly(len(value))
        case Literal():
            return exactly(1)
        case ListLiteral(elements=parts) | MapLiteral(entries=parts):
            return exactly(len(parts))
    return None


def _is_scalar(type_: Type) -> bool:
    """Whether values of a type, or of what it optionally holds, all have one size."""
    while type_.name == "optional_type":
        type_ = type_.parameters[0]
    return type_.name in _SCALARS
