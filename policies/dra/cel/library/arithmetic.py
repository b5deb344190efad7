"""What `+ - * / %` and the unary minus do, by the kinds of their operands.

Source: cel-go common/types, `Add`, `Subtract`, … of each type, and common/types/overflow.go.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.library import times
from policies.dra.cel.values import Accumulation, Concatenation, UInt, size
from policies.dra.cel.work import spend

if TYPE_CHECKING:
    from policies.dra.cel.values import List, Value

__all__ = ["NO_OVERLOAD", "add", "divide", "modulo", "multiply", "negate", "subtract"]

NO_OVERLOAD = "no such overload"
"""Of operands whose first one has the operator, but not with the second one."""

_INT_MINIMUM = -(2**63)
_INT_MAXIMUM = 2**63 - 1
_UINT_MAXIMUM = 2**64 - 1
_LISTS = (tuple, Concatenation)


def add(left: Value, right: Value) -> Value:
    """The sum of two numbers, or two strings or lists one after the other, or a later time.

    Raises:
        CelRuntimeError: an overflow, or operands that do not add.
        EvaluationAborted: a string so long that the cost limit could not pay for it.
    """
    kind = left.__class__
    if kind is right.__class__:
        if kind is int:
            return _int(left + right)  # type: ignore[operator]  # ints both
        if kind is str or kind is bytes:
            spend(len(left) + len(right))  # type: ignore[arg-type]  # texts both
            return left + right  # type: ignore[operator,no-any-return]  # texts both
        if kind is UInt:
            return _uint(int(left) + int(right))  # type: ignore[arg-type]  # numbers both
        if kind is float:
            return left + right  # type: ignore[operator,no-any-return]  # numbers both
    if isinstance(left, _LISTS) and isinstance(right, _LISTS):
        return _joined(left, right)
    if isinstance(left, times.Timestamp | times.Duration) and isinstance(right, times.Timestamp | times.Duration):
        return times.add(left, right)
    raise CelRuntimeError(NO_OVERLOAD)


def _joined(left: List, right: List) -> List:
    if isinstance(left, Accumulation):
        spend(size(right))
        left.extend(right)
        return left
    if not size(left):
        return right
    return Concatenation(left, right) if size(right) else left


def subtract(left: Value, right: Value) -> Value:
    """The difference of two numbers or times; raises CelRuntimeError for an overflow or operands without one."""
    kind = left.__class__
    if kind is right.__class__:
        if kind is int:
            return _int(left - right)  # type: ignore[operator]  # ints both
        if kind is UInt:
            return _uint(int(left) - int(right))  # type: ignore[arg-type]  # numbers both
        if kind is float:
            return left - right  # type: ignore[operator,no-any-return]  # numbers both
    if isinstance(left, times.Timestamp | times.Duration) and isinstance(right, times.Timestamp | times.Duration):
        return times.subtract(left, right)
    raise CelRuntimeError(NO_OVERLOAD)


def multiply(left: Value, right: Value) -> Value:
    """The product of two numbers of one type; raises CelRuntimeError for an overflow or other operands."""
    kind = left.__class__
    if kind is right.__class__:
        if kind is int:
            return _int(left * right)  # type: ignore[operator]  # ints both
        if kind is UInt:
            return _uint(int(left) * int(right))  # type: ignore[arg-type]  # numbers both
        if kind is float:
            return left * right  # type: ignore[operator,no-any-return]  # numbers both
    raise CelRuntimeError(NO_OVERLOAD)


def divide(left: Value, right: Value) -> Value:
    """The quotient of two numbers of one type, of integers cut towards zero.

    Raises:
        CelRuntimeError: an integer divided by zero, an overflow, or other operands.
    """
    kind = left.__class__
    if kind is right.__class__:
        if kind is float:
            return _divide_doubles(left, right)  # type: ignore[arg-type]  # numbers both
        if kind is int or kind is UInt:
            if not right:
                raise CelRuntimeError("division by zero")
            quotient = abs(left) // abs(right)  # type: ignore[arg-type]  # numbers both
            if kind is UInt:
                return UInt(quotient)
            return _int(quotient if (left < 0) == (right < 0) else -quotient)  # type: ignore[operator]  # numbers both
    raise CelRuntimeError(NO_OVERLOAD)


def _divide_doubles(left: float, right: float) -> float:
    if right:
        return left / right
    if not left or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def modulo(left: Value, right: Value) -> Value:
    """What integer division leaves, with the sign of the dividend.

    Raises:
        CelRuntimeError: a division by zero, an overflow, or other operands.
    """
    kind = left.__class__
    if kind is right.__class__ and (kind is int or kind is UInt):
        if not right:
            raise CelRuntimeError("modulus by zero")
        rest = abs(left) % abs(right)  # type: ignore[arg-type]  # numbers both
        if kind is UInt:
            return UInt(rest)
        if left == _INT_MINIMUM and right == -1:
            raise CelRuntimeError(_INT_OVERFLOW)
        return -rest if left < 0 else rest  # type: ignore[operator,no-any-return]  # numbers both
    raise CelRuntimeError(NO_OVERLOAD)


def negate(value: Value) -> Value:
    """The number of the opposite sign; raises CelRuntimeError for the smallest int and what is no signed number."""
    kind = value.__class__
    if kind is int:
        return _int(-value)  # type: ignore[operator]  # a number
    if kind is float:
        return -value  # type: ignore[operator,no-any-return]  # a number
    if isinstance(value, times.Duration):
        return times.subtract(times.Duration(0), value)
    raise CelRuntimeError(NO_OVERLOAD)


_INT_OVERFLOW = "integer overflow"


def _int(value: int) -> int:
    if _INT_MINIMUM <= value <= _INT_MAXIMUM:
        return value
    raise CelRuntimeError(_INT_OVERFLOW)


def _uint(value: int) -> UInt:
    if 0 <= value <= _UINT_MAXIMUM:
        return UInt(value)
    raise CelRuntimeError("unsigned integer overflow")
