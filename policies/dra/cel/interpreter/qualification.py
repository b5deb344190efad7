"""Looking into values: `a.b`, `a[i]`, `a.?b`, `has(a.b)`.

Source: cel-go interpreter/attributes.go, refQualify.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.kinds import go_type, kind, shown
from policies.dra.cel.unconvertible import Unconvertible
from policies.dra.cel.values import ABSENT, Absent, Concatenation, Map, UInt, size

if TYPE_CHECKING:
    from policies.dra.cel.values import Value

__all__ = ["checked_key", "find", "get"]

_INT_LIMIT = 2**63


def checked_key(key: Value) -> Value:
    """A key that was computed; raises CelRuntimeError if it is of a kind that no look-up takes."""
    if isinstance(key, str | bool | int | float):
        return key
    raise CelRuntimeError(f"invalid qualifier type: {go_type(key)}")


def get(operand: Value, key: Value) -> Value:
    """What is under a key, field or index.

    Raises:
        CelRuntimeError: nothing is: `no such key: x`, `index out of bounds: 3`; or the index is of a wrong kind.
    """
    found = find(operand, key)
    if not isinstance(found, Absent):
        return found
    if isinstance(operand, tuple | Concatenation):
        raise CelRuntimeError(f"index out of bounds: {shown(key)}")
    raise CelRuntimeError(f"no such key: {shown(key)}")


def find(operand: Value, key: Value) -> Value | Absent:
    """What is under a key, field or index, or ABSENT; nothing is in what is neither map nor list.

    Raises:
        CelRuntimeError: the index of a list is no whole number; or the operand is lost.
    """
    if isinstance(operand, Map):
        return operand.find(key)
    if isinstance(operand, Unconvertible):
        raise operand.error
    if isinstance(operand, tuple | Concatenation):
        index = _index(key)
        return operand[index] if 0 <= index < size(operand) else ABSENT
    return ABSENT


def _index(key: Value) -> int:
    if isinstance(key, bool) or not isinstance(key, int | float):
        raise CelRuntimeError(f"unsupported index type '{kind(key)}' in list")
    if isinstance(key, float):
        if not (key.is_integer() and -_INT_LIMIT < key < _INT_LIMIT):
            raise CelRuntimeError(f"unsupported index value {shown(key)} in list")
        return int(key)
    if isinstance(key, UInt) and key >= _INT_LIMIT:
        raise CelRuntimeError(f"unsupported index value {shown(key)} in list")
    return key
