"""What `+ - * / %` and the unary minus do, by the kinds of their operands.

Source: cel-go common/types, `Add`, `Subtract`, … of each type, and common/types/overflow.go.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING

from policies.dra.cel.errors import NO_OVERLOAD, CelRuntimeError
from policies.dra.cel.libraries import times
from policies.dra.cel.steps import spend_steps
from policies.dra.cel.values import UINT64_MAX, Accumulation, Concatenation, UInt, size
from policies.kubernetes.quantities import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from policies.dra.cel.values import List, Value

__all__ = ["add", "divide", "modulo", "multiply", "negate", "subtract"]


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
