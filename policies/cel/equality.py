"""What `==` and `<` mean: numbers compare across types, values of other types do not.

Source: cel-go common/types, `Equal` and `Compare` of each type.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from policies.cel.errors import NO_OVERLOAD, CelRuntimeError, spend_steps
from policies.cel.kinds import Unconvertible
from policies.cel.libraries.formats import Format
from policies.cel.libraries.ips import CIDR, IP
from policies.cel.libraries.quantities import Quantity
from policies.cel.libraries.semvers import Semver
from policies.cel.libraries.urls import URL
from policies.cel.types import Type, runtime_name
from policies.cel.values import Absent, Accumulation, Concatenation, Map, Optional, UInt, size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.cel.values import Value

__all__ = ["compare", "equal", "equals"]

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
    """Whether they are equal, or the error of comparing them."""
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
    """What must be equal for two containers to be; None if they differ at once."""
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
