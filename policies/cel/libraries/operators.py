"""The operators, under the names and overload ids that cel-go gives them, and `includes` of DRA.

For `==` and `<`, numbers compare across types; values of other types do not.
Source: cel-go common/types, `Equal` and `Compare` of each type.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from policies.cel import types
from policies.cel.declarations import Overload, function, member, no_overload
from policies.cel.errors import NO_OVERLOAD, CelRuntimeError, spend_steps
from policies.cel.kinds import Unconvertible
from policies.cel.libraries import times
from policies.cel.libraries.formats import Format
from policies.cel.libraries.ips import CIDR, IP
from policies.cel.libraries.quantities import Quantity
from policies.cel.libraries.semvers import Semver
from policies.cel.libraries.urls import URL
from policies.cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, UINT, Type, runtime_name
from policies.cel.values import UINT64_MAX, Absent, Accumulation, Concatenation, Map, Optional, UInt, size
from policies.kubernetes.quantities import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.cel.values import List, Value


_NUMBERS = frozenset({int, UInt, float})
_CONTAINERS = (tuple, Concatenation, Map, Optional)
_OF_KUBERNETES = frozenset({Quantity, Semver, URL, IP, CIDR, Format})


def equal(left: Value, right: Value) -> bool:
    """True if two values are certainly equal, as `in`, `includes` and `!=` require; see `equals`."""
    return _outcome(left, right) is True


def equals(left: Value, right: Value) -> bool:
    """True if `left == right`; values of different kinds are not equal, but for numbers.

    Containers within containers are compared without recursion, and no pair of them twice.

    Raises:
        CelRuntimeError: Kubernetes' own values only compare with their own type: `quantity("1") == dyn("1")` is no such overload.
            Lists and maps take that for equal, unless they are concatenated.
        EvaluationAborted: there is more to compare than the cost limit could pay for.
    """
    outcome = _outcome(left, right)
    if isinstance(outcome, CelRuntimeError):
        raise outcome
    return outcome


def _outcome(left: Value, right: Value) -> bool | CelRuntimeError:
    """True if they are equal, or the error of comparing them."""
    if not (isinstance(left, _CONTAINERS) and isinstance(right, _CONTAINERS)):
        return _compare_simple(left, right)
    outcome: bool | CelRuntimeError = True
    pending: list[tuple[Value, Value, bool]] = [(left, right, True)]
    seen: dict[tuple[int, int, bool], tuple[Value, Value]] = {}
    while pending:
        one, other, is_exposed = pending.pop()
        pair = (id(one), id(other), is_exposed)
        if pair in seen:
            continue
        seen[pair] = (one, other)
        inner = _inner_pairs(one, other)
        if inner is None:
            return False
        is_exposed = is_exposed and isinstance(one, Concatenation | Optional) and not isinstance(one, Accumulation)
        for a, b in inner:
            if isinstance(a, _CONTAINERS) and isinstance(b, _CONTAINERS):
                pending.append((a, b, is_exposed))
                continue
            found = _compare_simple(a, b)
            if found is False:
                return False
            if found is not True and is_exposed:
                outcome = found
    return outcome


def _inner_pairs(one: Value, other: Value) -> Iterable[tuple[Value, Value]] | None:
    """The pairs that must be equal for two containers to be; None if they differ at once."""
    if isinstance(one, Map) and isinstance(other, Map):
        return _entry_pairs(one, other)
    if isinstance(one, Optional) and isinstance(other, Optional):
        if isinstance(one.value, Absent) or isinstance(other.value, Absent):
            return () if one.value is other.value else None
        return [(one.value, other.value)]
    if isinstance(one, tuple | Concatenation) and isinstance(other, tuple | Concatenation):
        if size(one) != size(other):
            return None
        spend_steps(size(one))
        return zip(one, other, strict=False)
    return None


def _entry_pairs(one: Map, other: Map) -> list[tuple[Value, Value]] | None:
    if len(one) != len(other):
        return None
    spend_steps(len(one))
    inner = []
    for key, value in one.items():
        found = other.find(key)
        if isinstance(found, Absent):
            return None
        inner.append((value, found))
    return inner


def _compare_simple(left: Value, right: Value) -> bool | CelRuntimeError:
    """The outcome for anything but two containers."""
    kind = left.__class__
    if kind is str or kind is bool or left is None or right is None:
        return kind is right.__class__ and left == right
    if kind in _NUMBERS:
        return right.__class__ in _NUMBERS and _equal_numbers(left, right)  # type: ignore[arg-type]  # numbers both
    if isinstance(left, Type):
        return isinstance(right, Type) and runtime_name(left) == runtime_name(right)
    if isinstance(left, Unconvertible):
        return left.error
    if kind in _OF_KUBERNETES:
        if isinstance(right, Unconvertible):
            return right.error
        is_known = kind is right.__class__ and not (isinstance(right, Quantity) and right.is_computed)
        return left == right if is_known else CelRuntimeError(NO_OVERLOAD)
    return kind is right.__class__ and left == right


def _equal_numbers(left: float, right: float) -> bool:
    if float in (left.__class__, right.__class__):
        return not (math.isnan(left) or math.isnan(right)) and float(left) == float(right)
    return left == right


def compare(left: Value, right: Value) -> int:
    """-1, 0 or 1 as the left value is less than, equal to or greater than the right one.

    Raises:
        CelRuntimeError: the values have no order, `no such overload`; or one is NaN.
    """
    kind = left.__class__
    if kind in _NUMBERS and right.__class__ in _NUMBERS:
        return _compare_numbers(left, right)  # type: ignore[arg-type]  # numbers both
    if kind is float and math.isnan(left):  # type: ignore[arg-type]  # a float
        raise CelRuntimeError(_UNORDERED)
    if kind is not right.__class__:
        raise CelRuntimeError(NO_OVERLOAD)
    return (left > right) - (left < right)  # type: ignore[operator]  # of one kind that has an order


_UNORDERED = "NaN values cannot be ordered"


def _compare_numbers(left: float, right: float) -> int:
    """As in cel-go: compared with a double, an integer is rounded to one."""
    if float in (left.__class__, right.__class__):
        if math.isnan(left) or math.isnan(right):
            raise CelRuntimeError(_UNORDERED)
        left, right = float(left), float(right)
    return (left > right) - (left < right)


_INT_OVERFLOW = "integer overflow"
_CHARACTERS_PER_STEP = 4


def add(left: Value, right: Value) -> Value:
    """The sum of two numbers, or two strings or lists one after the other, or a later time.

    Raises:
        CelRuntimeError: an overflow, or operands that do not add.
        EvaluationAborted: a string so long that the cost limit could not pay for it.
    """
    if left.__class__ is right.__class__ and left.__class__ in _ADD:
        return _ADD[left.__class__](left, right)
    if isinstance(left, tuple | Concatenation) and isinstance(right, tuple | Concatenation):
        return _concatenate(left, right)
    if isinstance(left, times.Timestamp | times.Duration) and isinstance(right, times.Timestamp | times.Duration):
        return times.add(left, right)
    raise CelRuntimeError(NO_OVERLOAD)


def subtract(left: Value, right: Value) -> Value:
    """The difference of two numbers or times; raises CelRuntimeError on overflow and wrong operands."""
    if isinstance(left, times.Timestamp | times.Duration) and isinstance(right, times.Timestamp | times.Duration):
        return times.subtract(left, right)
    return _of_one_kind(_SUBTRACT, left, right)


def multiply(left: Value, right: Value) -> Value:
    """The product of two numbers of one type; raises CelRuntimeError for an overflow or other operands."""
    return _of_one_kind(_MULTIPLY, left, right)


def divide(left: Value, right: Value) -> Value:
    """The quotient of two numbers of one type, of integers cut towards zero.

    Raises:
        CelRuntimeError: an integer divided by zero, an overflow, or other operands.
    """
    return _of_one_kind(_DIVIDE, left, right)


def modulo(left: Value, right: Value) -> Value:
    """The remainder of an integer division, with the sign of the dividend.

    Raises:
        CelRuntimeError: a division by zero, an overflow, or other operands.
    """
    return _of_one_kind(_MODULO, left, right)


def negate(value: Value) -> Value:
    """The negated number; raises CelRuntimeError for the smallest int and anything but signed numbers."""
    if isinstance(value, times.Duration):
        return times.subtract(times.Duration(0), value)
    if isinstance(value, float):
        return -value
    if isinstance(value, int) and not isinstance(value, bool | UInt):
        return _int(-value)
    raise CelRuntimeError(NO_OVERLOAD)


def _of_one_kind(operations: dict[type, _Operation], left: Value, right: Value) -> Value:
    if left.__class__ is right.__class__ and left.__class__ in operations:
        return operations[left.__class__](left, right)
    raise CelRuntimeError(NO_OVERLOAD)


def _concatenate(left: List, right: List) -> List:
    if isinstance(left, Accumulation):
        spend_steps(size(right))
        left.extend(right)
        return left
    if not size(left):
        return right
    return Concatenation(left, right) if size(right) else left


def _add_texts(left: str, right: str) -> str:
    spend_steps((len(left) + len(right)) // _CHARACTERS_PER_STEP)
    return left + right


def _divide_doubles(left: float, right: float) -> float:
    if right:
        return left / right
    if not left or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def _quotient(left: int, right: int) -> int:
    if not right:
        raise CelRuntimeError("division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: int, right: int) -> int:
    if not right:
        raise CelRuntimeError("modulus by zero")
    if left == INT64_MIN and right == -1:
        raise CelRuntimeError(_INT_OVERFLOW)
    return -(abs(left) % abs(right)) if left < 0 else abs(left) % abs(right)


def _int(value: int) -> int:
    if INT64_MIN <= value <= INT64_MAX:
        return value
    raise CelRuntimeError(_INT_OVERFLOW)


def _uint(value: int) -> UInt:
    if 0 <= value <= UINT64_MAX:
        return UInt(value)
    raise CelRuntimeError("unsigned integer overflow")


def _integers(compute: Callable[[int, int], int], kind: Callable[[int], Value]) -> _Operation:
    """An operation on two integers whose result has to fit."""
    return lambda left, right: kind(compute(int(left), int(right)))


_Operation = Callable[..., "Value"]

_ADD: dict[type, _Operation] = {
    int: _integers(operator.add, _int),
    UInt: _integers(operator.add, _uint),
    float: operator.add,
    str: _add_texts,
    bytes: _add_texts,
}
_SUBTRACT: dict[type, _Operation] = {
    int: _integers(operator.sub, _int),
    UInt: _integers(operator.sub, _uint),
    float: operator.sub,
}
_MULTIPLY: dict[type, _Operation] = {
    int: _integers(operator.mul, _int),
    UInt: _integers(operator.mul, _uint),
    float: operator.mul,
}
_DIVIDE: dict[type, _Operation] = {
    int: _integers(_quotient, _int),
    UInt: _integers(_quotient, _uint),
    float: _divide_doubles,
}
_MODULO: dict[type, _Operation] = {int: _integers(_remainder, _int), UInt: _integers(_remainder, _uint)}


_A = types.type_parameter("A")
_B = types.type_parameter("B")
_LIST = types.list_of(_A)
_MAP = types.map_of(_A, _B)

_STEPS_PER_COMPARISON = 5

_MOST_INCLUDED = 48
"""Kubernetes' ResourceSliceMaxAttributeValuesPerDevice."""


def logical_not(value: Value) -> bool:
    """`!value`; raises CelRuntimeError if the value is not a bool."""
    if isinstance(value, bool):
        return not value
    raise CelRuntimeError(NO_OVERLOAD)


def is_not_strictly_false(value: Value) -> bool:
    """True if a loop over `&&` or `||` goes on; true for errors too."""
    return value if isinstance(value, bool) else True


def is_in(value: Value, container: Value) -> bool:
    """`value in container`, of lists and of the keys of maps; raises CelRuntimeError for anything else."""
    if isinstance(container, Map):
        return value in container
    if isinstance(container, tuple | Concatenation):
        spend_steps(_STEPS_PER_COMPARISON * size(container))
        return any(equal(value, element) for element in container)
    raise CelRuntimeError(NO_OVERLOAD)


def includes(target: Value, value: Value) -> bool:
    """True if a list attribute has a value, or a single attribute is that value.

    Raises:
        CelRuntimeError: the list has more values than an attribute may have and the value is not among the first.
    """
    if not isinstance(target, tuple | Concatenation):
        return equal(target, value)
    for position, element in enumerate(target):
        if position >= _MOST_INCLUDED:
            message = f"'includes' function cannot be applied to lists longer than {_MOST_INCLUDED} values"
            raise CelRuntimeError(message)
        if equal(element, value):
            return True
    return False


_ORDERED = (
    ("bool", BOOL, BOOL),
    ("int64", INT, INT),
    ("int64_double", INT, DOUBLE),
    ("int64_uint64", INT, UINT),
    ("uint64", UINT, UINT),
    ("uint64_double", UINT, DOUBLE),
    ("uint64_int64", UINT, INT),
    ("double", DOUBLE, DOUBLE),
    ("double_int64", DOUBLE, INT),
    ("double_uint64", DOUBLE, UINT),
    ("string", STRING, STRING),
    ("bytes", BYTES, BYTES),
    ("timestamp", TIMESTAMP, TIMESTAMP),
    ("duration", DURATION, DURATION),
)


def _comparison(name: str, id_: str, run: Callable[[Value, Value], bool]) -> Iterator[Overload]:
    return (function(name, f"{id_}_{kinds}", (left, right), BOOL, run) for kinds, left, right in _ORDERED)


LIBRARY: tuple[Overload, ...] = (
    function("_?_:_", "conditional", (BOOL, _A, _A), _A, no_overload),
    function("_&&_", "logical_and", (BOOL, BOOL), BOOL, no_overload),
    function("_||_", "logical_or", (BOOL, BOOL), BOOL, no_overload),
    function("!_", "logical_not", (BOOL,), BOOL, logical_not),
    function("@not_strictly_false", "not_strictly_false", (BOOL,), BOOL, is_not_strictly_false),
    function("_==_", "equals", (_A, _A), BOOL, equals),
    function("_!=_", "not_equals", (_A, _A), BOOL, lambda left, right: not equal(left, right)),
    function("_+_", "add_bytes", (BYTES, BYTES), BYTES, add),
    function("_+_", "add_double", (DOUBLE, DOUBLE), DOUBLE, add),
    function("_+_", "add_duration_duration", (DURATION, DURATION), DURATION, add),
    function("_+_", "add_duration_timestamp", (DURATION, TIMESTAMP), TIMESTAMP, add),
    function("_+_", "add_timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP, add),
    function("_+_", "add_int64", (INT, INT), INT, add),
    function("_+_", "add_list", (_LIST, _LIST), _LIST, add),
    function("_+_", "add_string", (STRING, STRING), STRING, add),
    function("_+_", "add_uint64", (UINT, UINT), UINT, add),
    function("_/_", "divide_double", (DOUBLE, DOUBLE), DOUBLE, divide),
    function("_/_", "divide_int64", (INT, INT), INT, divide),
    function("_/_", "divide_uint64", (UINT, UINT), UINT, divide),
    function("_%_", "modulo_int64", (INT, INT), INT, modulo),
    function("_%_", "modulo_uint64", (UINT, UINT), UINT, modulo),
    function("_*_", "multiply_double", (DOUBLE, DOUBLE), DOUBLE, multiply),
    function("_*_", "multiply_int64", (INT, INT), INT, multiply),
    function("_*_", "multiply_uint64", (UINT, UINT), UINT, multiply),
    function("-_", "negate_double", (DOUBLE,), DOUBLE, negate),
    function("-_", "negate_int64", (INT,), INT, negate),
    function("_-_", "subtract_double", (DOUBLE, DOUBLE), DOUBLE, subtract),
    function("_-_", "subtract_duration_duration", (DURATION, DURATION), DURATION, subtract),
    function("_-_", "subtract_int64", (INT, INT), INT, subtract),
    function("_-_", "subtract_timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP, subtract),
    function("_-_", "subtract_timestamp_timestamp", (TIMESTAMP, TIMESTAMP), DURATION, subtract),
    function("_-_", "subtract_uint64", (UINT, UINT), UINT, subtract),
    *_comparison("_<_", "less", lambda left, right: compare(left, right) < 0),
    *_comparison("_<=_", "less_equals", lambda left, right: compare(left, right) <= 0),
    *_comparison("_>_", "greater", lambda left, right: compare(left, right) > 0),
    *_comparison("_>=_", "greater_equals", lambda left, right: compare(left, right) >= 0),
    function("_[_]", "index_list", (_LIST, INT), _A, no_overload),
    function("_[_]", "index_map", (_MAP, _A), _B, no_overload),
    function("@in", "in_list", (_A, _LIST), BOOL, is_in),
    function("@in", "in_map", (_A, _MAP), BOOL, is_in),
    member("includes", "dra_includes_dyn_dyn", (DYN, DYN), BOOL, includes),
)
