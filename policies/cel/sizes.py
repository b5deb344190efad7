"""Sizes of the parts of an expression before it runs, in cel-go's unsigned 64-bit arithmetic."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from policies.cel.syntax import Identifier, ListLiteral, Literal, MapLiteral
from policies.cel.types import DYN
from policies.cel.values import UINT64_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from policies.cel.syntax import Checked, Expression
    from policies.cel.types import Type


LIST_COST = 10
"""The cost of a list of any length; this and the next from cel-go common/cost.go."""
MAP_COST = 30
STRUCT_COST = 40
STRING_FACTOR = 0.1
"""Cost units per character of a string that is read once."""
REGEX_FACTOR = 0.25
"""Cost units per character of a pattern, for each unit that reading the subject costs."""

_TWO_TO_63 = 2.0**63
_TWO_TO_64 = 2.0**64


def saturate(number: int) -> int:
    """The number, or the greatest that 64 bits hold."""
    return min(number, UINT64_MAX)


def wrap_uint64(number: int) -> int:
    """The number as Go's unchecked 64-bit arithmetic leaves it."""
    return number & UINT64_MAX


def uint64(number: float) -> int:
    """The result of Go's `uint64(number)` on amd64, also where the language does not define it.

    Negative numbers wrap around, and what does not fit becomes 2^63.
    """
    if 0.0 <= number < _TWO_TO_64:
        return int(number)
    if -_TWO_TO_63 < number < 0.0:
        return wrap_uint64(int(number))
    return 2**63


def scaled_cost(size: int, factor: float) -> int:
    """A size times a cost factor, rounded up; saturated."""
    size_as_float = float(size)
    if size_as_float > 0 and factor > 0 and size_as_float > _TWO_TO_64 / factor:
        return UINT64_MAX
    product = size_as_float * factor
    return UINT64_MAX if product >= _TWO_TO_64 else wrap_uint64(math.ceil(product))


class Estimate(NamedTuple):
    """A range in which a size or a cost lies; every operation saturates at 2^64 - 1."""

    minimum: int
    maximum: int

    def plus(self, other: Estimate) -> Estimate:
        """Both, one after the other."""
        return Estimate(saturate(self.minimum + other.minimum), saturate(self.maximum + other.maximum))

    def times(self, other: Estimate) -> Estimate:
        """One for each unit of the other."""
        return Estimate(saturate(self.minimum * other.minimum), saturate(self.maximum * other.maximum))

    def times_factor(self, factor: float) -> Estimate:
        """The cost of a size at a cost per unit, rounded up."""
        return Estimate(scaled_cost(self.minimum, factor), scaled_cost(self.maximum, factor))

    def union(self, other: Estimate) -> Estimate:
        """The range that holds both."""
        return Estimate(min(self.minimum, other.minimum), max(self.maximum, other.maximum))


UNKNOWN = Estimate(0, UINT64_MAX)
"""The size of a value of which nothing is known."""


def exactly(number: int) -> Estimate:
    """The range of one number."""
    return Estimate(number, number)


INCLUDES_MAX = 48
"""The longest list that `includes` takes: ResourceSliceMaxAttributeValuesPerDevice."""

_DOMAIN_MAX = 63
_ID_MAX = 32
_DRIVER_MAX = 63
_ENTRIES_MAX = 32
"""Attributes and capacities of one device."""
_VALUE_MAX = 64
"""The longest string or version of an attribute; lists are shorter."""


@dataclass(frozen=True, slots=True)
class _Declared:
    """A declared type: its greatest size, and what lies below it."""

    size: int
    fields: Mapping[str, _Declared] = field(default_factory=dict)
    """By name; `@keys` and `@values` are a map's."""
    other_fields: _Declared | None = None
    """The type that every other name leads to."""


def _map(key: _Declared, value: _Declared, other_fields: _Declared | None = None) -> _Declared:
    return _Declared(_ENTRIES_MAX, {"@keys": key, "@values": value, "@items": value}, other_fields)


_DOMAIN = _Declared(_DOMAIN_MAX)
_ID = _Declared(_ID_MAX)
_ATTRIBUTE = _Declared(_VALUE_MAX)
_QUANTITY = _Declared(0)
"""Kubernetes declares no size for quantities, and 0 is what the estimator then reads."""

_DEVICE = _Declared(
    0,
    {
        "driver": _Declared(_DRIVER_MAX),
        "allowMultipleAllocations": _Declared(1),
        "attributes": _map(_DOMAIN, _map(_ID, _ATTRIBUTE, other_fields=_ATTRIBUTE)),
        "capacity": _map(_DOMAIN, _map(_ID, _QUANTITY)),
    },
)


def maximum_size(path: Iterable[str]) -> int | None:
    """The largest size that is declared for a path, or None.

    Args:
        path: a variable, then names of fields and `@keys`, `@values`, `@items`, `@indices`.
    """
    declared: _Declared | None = None
    for position, name in enumerate(path):
        if position == 0:
            declared = _DEVICE if name == "device" else None
        elif declared is not None:
            declared = declared.fields.get(name, declared.other_fields)
        if declared is None:
            return None
    return None if declared is None else declared.size


class FieldPath:
    """Names from a variable down to a value; empty for what no variable leads to.

    cel-go keeps these in Go slices that share memory: of two paths that extend the same one, the later may overwrite
    the last name of the earlier. Over `device.capacity["d"].all(key, value, ...)` the keys are thereby taken for
    values, of size 0, and the estimate is lower. What the API server accepts depends on it, so it is done here too.
    """

    __slots__ = ("_length", "_storage")

    def __init__(self, *names: str) -> None:
        self._storage = list(names)
        self._length = len(names)

    def __bool__(self) -> bool:
        """True if it leads anywhere."""
        return self._length > 0

    def __iter__(self) -> Iterator[str]:
        """The names in order, as they read now."""
        return islice(self._storage, self._length)

    def child(self, name: str) -> FieldPath:
        """The path one name further; within the same memory where Go's `append` would find room."""
        longer = FieldPath()
        longer._length = self._length + 1
        if self._length & (self._length - 1) == 0:
            longer._storage = [*self._storage[: self._length], name]
            return longer
        longer._storage = self._storage
        if len(self._storage) > self._length:
            self._storage[self._length] = name
        else:
            self._storage.append(name)
        return longer

    def copied_with(self, name: str) -> FieldPath:
        """The path one name further, in memory of its own."""
        longer = FieldPath()
        longer._storage = [*self, name]
        longer._length = self._length + 1
        return longer


def declared_size(path: FieldPath) -> Estimate | None:
    """The size that Kubernetes declares for a part of `device`, or None."""
    maximum = maximum_size(path)
    return None if maximum is None else Estimate(0, maximum)


_NOWHERE = FieldPath()
_SCALARS = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})


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
        """The size of a value, or None if unknown."""
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
        """The size of a value; any size from 0 if unknown."""
        return self.size(expression) or UNKNOWN

    def set_size(self, expression: Expression, size: Estimate | None) -> None:
        """Remember a size; None changes nothing."""
        if size is not None:
            self._sizes[expression] = size

    def entries(self, expression: Expression) -> EntrySizes | None:
        """The sizes of what a list or map holds, or None if unknown."""
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
    """True if values of a type, or of what it optionally holds, all have one size."""
    while type_.name == "optional_type":
        type_ = type_.parameters[0]
    return type_.name in _SCALARS
