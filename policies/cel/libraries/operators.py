"""The operators, under the names and overload ids that cel-go gives them, and `includes` of DRA."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING

from policies.cel import types
from policies.cel.declarations import Function, Library, Overload, function, member, no_overload
from policies.cel.equality import compare, equal, equals
from policies.cel.errors import NO_OVERLOAD, CelRuntimeError, spend_steps
from policies.cel.libraries import times
from policies.cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, UINT
from policies.cel.values import UINT64_MAX, Accumulation, Concatenation, Map, UInt, size
from policies.kubernetes.quantities import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from policies.cel.types import Type
    from policies.cel.values import List, Value

__all__ = [
    "LIBRARY",
    "add",
    "divide",
    "includes",
    "is_not_strictly_false",
    "logical_not",
    "modulo",
    "multiply",
    "negate",
    "subtract",
]


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
    """What integer division leaves, with the sign of the dividend.

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


def _less(left: Value, right: Value) -> bool:
    return compare(left, right) < 0


def _less_or_equal(left: Value, right: Value) -> bool:
    return compare(left, right) <= 0


def _greater(left: Value, right: Value) -> bool:
    return compare(left, right) > 0


def _greater_or_equal(left: Value, right: Value) -> bool:
    return compare(left, right) >= 0


def _not_equal(left: Value, right: Value) -> bool:
    return not equal(left, right)


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


def _comparison(name: str, id_: str, run: Callable[[Value, Value], bool]) -> Function:
    return Function(name, tuple(function(f"{id_}_{kinds}", (a, b), BOOL, run) for kinds, a, b in _ORDERED))


def _arithmetic(name: str, run: Callable[..., Value], *signatures: tuple[str, tuple[Type, ...], Type]) -> Function:
    return Function(name, tuple(Overload(id_, parameters, result, run) for id_, parameters, result in signatures))


LIBRARY = Library(
    functions=(
        Function("_?_:_", (function("conditional", (BOOL, _A, _A), _A, no_overload),)),
        Function("_&&_", (function("logical_and", (BOOL, BOOL), BOOL, no_overload),)),
        Function("_||_", (function("logical_or", (BOOL, BOOL), BOOL, no_overload),)),
        Function("!_", (function("logical_not", (BOOL,), BOOL, logical_not),)),
        Function("@not_strictly_false", (function("not_strictly_false", (BOOL,), BOOL, is_not_strictly_false),)),
        Function("_==_", (function("equals", (_A, _A), BOOL, equals),)),
        Function("_!=_", (function("not_equals", (_A, _A), BOOL, _not_equal),)),
        _arithmetic(
            "_+_",
            add,
            ("add_bytes", (BYTES, BYTES), BYTES),
            ("add_double", (DOUBLE, DOUBLE), DOUBLE),
            ("add_duration_duration", (DURATION, DURATION), DURATION),
            ("add_duration_timestamp", (DURATION, TIMESTAMP), TIMESTAMP),
            ("add_timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP),
            ("add_int64", (INT, INT), INT),
            ("add_list", (_LIST, _LIST), _LIST),
            ("add_string", (STRING, STRING), STRING),
            ("add_uint64", (UINT, UINT), UINT),
        ),
        _arithmetic(
            "_/_",
            divide,
            ("divide_double", (DOUBLE, DOUBLE), DOUBLE),
            ("divide_int64", (INT, INT), INT),
            ("divide_uint64", (UINT, UINT), UINT),
        ),
        _arithmetic(
            "_%_",
            modulo,
            ("modulo_int64", (INT, INT), INT),
            ("modulo_uint64", (UINT, UINT), UINT),
        ),
        _arithmetic(
            "_*_",
            multiply,
            ("multiply_double", (DOUBLE, DOUBLE), DOUBLE),
            ("multiply_int64", (INT, INT), INT),
            ("multiply_uint64", (UINT, UINT), UINT),
        ),
        _arithmetic(
            "-_",
            negate,
            ("negate_double", (DOUBLE,), DOUBLE),
            ("negate_int64", (INT,), INT),
        ),
        _arithmetic(
            "_-_",
            subtract,
            ("subtract_double", (DOUBLE, DOUBLE), DOUBLE),
            ("subtract_duration_duration", (DURATION, DURATION), DURATION),
            ("subtract_int64", (INT, INT), INT),
            ("subtract_timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP),
            ("subtract_timestamp_timestamp", (TIMESTAMP, TIMESTAMP), DURATION),
            ("subtract_uint64", (UINT, UINT), UINT),
        ),
        _comparison("_<_", "less", _less),
        _comparison("_<=_", "less_equals", _less_or_equal),
        _comparison("_>_", "greater", _greater),
        _comparison("_>=_", "greater_equals", _greater_or_equal),
        Function(
            "_[_]",
            (
                function("index_list", (_LIST, INT), _A, no_overload),
                function("index_map", (_MAP, _A), _B, no_overload),
            ),
        ),
        Function(
            "@in",
            (
                function("in_list", (_A, _LIST), BOOL, is_in),
                function("in_map", (_A, _MAP), BOOL, is_in),
            ),
        ),
        Function("includes", (member("dra_includes_dyn_dyn", (DYN, DYN), BOOL, includes),)),
    )
)
