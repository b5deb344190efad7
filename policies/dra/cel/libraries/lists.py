"""Lists: what Kubernetes adds to them; what cel-go's own extension adds is in `list_extensions`.

Of a list whose element type is unknown, cel-go asks the first element which overload to run. Here each overload does
that itself, so that whichever is called answers the same. Kubernetes charges 1 for each element even if it stops early;
so lists that are far too long are refused before anybody looks at them.

Source: k8s.io/apiserver/pkg/cel/library/lists.go.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from policies.dra.cel.declarations import Function, Library, Overload, member
from policies.dra.cel.equality import equal
from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.libraries.arithmetic import NO_OVERLOAD, add
from policies.dra.cel.libraries.list_extensions import FUNCTIONS
from policies.dra.cel.libraries.list_orders import ORDERED_TYPES, is_ordered, order
from policies.dra.cel.libraries.times import Duration
from policies.dra.cel.steps import spend_steps
from policies.dra.cel.types import BOOL, DOUBLE, DURATION, INT, UINT, list_of, type_parameter
from policies.dra.cel.values import UInt, size

if TYPE_CHECKING:
    from policies.dra.cel.types import Type
    from policies.dra.cel.values import List, Value

__all__ = ["LIBRARY"]

_A = type_parameter("A")
_SUMMABLE: tuple[tuple[Type, Value], ...] = ((INT, 0), (UINT, UInt(0)), (DOUBLE, 0.0), (DURATION, Duration(0)))


def _is_sorted(elements: List) -> bool:
    """Whether no element is before one that is less; what has no order among itself does not count."""
    _check_first(elements, "isSorted")
    spend_steps(size(elements))
    previous: Value = None
    for index, element in enumerate(elements):
        if not is_ordered(element):
            raise CelRuntimeError(NO_OVERLOAD)
        if index and order(previous, element) > 0:
            return False
        previous = element
    return True


def _extreme(name: str, direction: int, elements: List) -> Value:
    """The first of the elements beyond which, in a direction, there is none."""
    if not size(elements):
        raise CelRuntimeError(f"{name} called on empty list")
    _check_first(elements, name)
    spend_steps(size(elements))
    extreme = elements[0]
    for element in elements:
        if not is_ordered(element):
            raise CelRuntimeError(NO_OVERLOAD)
        if order(extreme, element) == -direction:
            extreme = element
    return extreme


def _check_first(elements: List, name: str) -> None:
    if size(elements) and not is_ordered(elements[0]):
        raise CelRuntimeError(f"{NO_OVERLOAD}: {name}(list)")


def _sum(zero: Value, elements: List) -> Value:
    """All elements added up; `zero` if there are none."""
    if not size(elements):
        return zero
    total = next((known for _, known in _SUMMABLE if known.__class__ is elements[0].__class__), None)
    if total is None:
        raise CelRuntimeError(f"{NO_OVERLOAD}: sum(list)")
    spend_steps(size(elements))
    for element in elements:
        total = add(total, element)
    return total


def _index_of(elements: List, item: Value) -> int:
    spend_steps(size(elements))
    return next((index for index, element in enumerate(elements) if equal(element, item)), -1)


def _last_index_of(elements: List, item: Value) -> int:
    spend_steps(size(elements))
    last = -1
    for index, element in enumerate(elements):
        if equal(element, item):
            last = index
    return last


def _sum_overload(element: Type, zero: Value) -> Overload:
    return member(f"list_{element}_sum_{element}", (list_of(element),), element, partial(_sum, zero))


def _extreme_overload(name: str, direction: int, element: Type) -> Overload:
    run = partial(_extreme, name, direction)
    return member(f"list_{element}_{name}_{element}", (list_of(element),), element, run)


LIBRARY = Library(
    functions=(
        Function(
            "isSorted",
            tuple(
                member(f"list_{element}_is_sorted_bool", (list_of(element),), BOOL, _is_sorted)
                for element in ORDERED_TYPES
            ),
        ),
        Function("sum", tuple(_sum_overload(element, zero) for element, zero in _SUMMABLE)),
        Function("max", tuple(_extreme_overload("max", 1, element) for element in ORDERED_TYPES)),
        Function("min", tuple(_extreme_overload("min", -1, element) for element in ORDERED_TYPES)),
        Function("indexOf", (member("list_a_index_of_int", (list_of(_A), _A), INT, _index_of),)),
        Function("lastIndexOf", (member("list_a_last_index_of_int", (list_of(_A), _A), INT, _last_index_of),)),
        *FUNCTIONS,
    )
)
