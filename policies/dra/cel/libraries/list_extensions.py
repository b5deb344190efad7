"""What cel-go's own extension adds to lists, in its third version: parts of them, other orders, ranges of numbers.

Source: cel-go ext/lists.go.
"""

from __future__ import annotations

from functools import cmp_to_key
from typing import TYPE_CHECKING

from policies.dra.cel.declarations import Function, function, member
from policies.dra.cel.equality import equal
from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.libraries.list_orders import ORDERED_TYPES, is_ordered, order
from policies.dra.cel.steps import spend_steps
from policies.dra.cel.types import DYN, INT, list_of, runtime, runtime_name, type_parameter
from policies.dra.cel.values import Concatenation, runtime_type, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.cel.values import List, Value

__all__ = ["FUNCTIONS"]

_T = type_parameter("T")
_LIST = list_of(_T)
_LISTS = (tuple, Concatenation)

_WORK_OF_ELEMENT = 8
"""Bytes that a new list has for each element; work is counted in characters."""


def _slice(elements: List, start: int, end: int) -> List:
    if start < 0 or end < 0:
        raise CelRuntimeError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        message = f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        raise CelRuntimeError(message)
    if end > size(elements):
        raise CelRuntimeError(f"cannot slice({start}, {end}), list is length {size(elements)}")
    spend_steps(_WORK_OF_ELEMENT * (end - start))
    return elements[start:end]


def _flatten(elements: Value, depth: int = 1) -> List:
    """The elements, and in the place of lists, up to a depth, theirs.

    cel-go lets anything come here, also where the types say otherwise.
    """
    if not isinstance(elements, _LISTS):
        raise CelRuntimeError(f"no such overload: {runtime(runtime_type(elements))}.flatten()")
    if depth < 0:
        raise CelRuntimeError("level must be non-negative")
    flat: list[Value] = []
    pending = [(iter(elements), depth)]
    while pending:
        iterator, level = pending[-1]
        inner = _take(iterator, flat, until_list=level > 0)
        if inner is None:
            pending.pop()
        else:
            spend_steps(1)
            pending.append((iter(inner), level - 1))
    return tuple(flat)


def _take(iterator: Iterator[Value], flat: list[Value], *, until_list: bool) -> List | None:
    """Move elements over; the first list is answered instead if lists end it."""
    for element in iterator:
        if until_list and isinstance(element, _LISTS):
            return element
        spend_steps(_WORK_OF_ELEMENT)
        flat.append(element)
    return None


def _sort(elements: List) -> List:
    return _sort_by_keys(elements, elements)


def _sort_by_keys(elements: List, keys: List) -> List:
    """The elements in the order of their keys; those of equal keys stay as they were.

    In cel-go they do so only up to twelve elements, and beyond that come in an order that only its sorting knows.
    """
    if size(elements) != size(keys):
        raise CelRuntimeError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, "
            f"but got {size(elements)} and {size(keys)} elements respectively"
        )
    if not size(elements):
        return elements
    spend_steps(size(elements) ** 2)
    known = tuple(keys)
    if not is_ordered(known[0]):
        raise CelRuntimeError("list elements must be comparable")
    if any(key.__class__ is not known[0].__class__ for key in known):
        raise CelRuntimeError("list elements must have the same type")
    rank = cmp_to_key(order)
    indices = sorted(range(len(known)), key=lambda index: rank(known[index]))
    taken = tuple(elements)
    return tuple(taken[index] for index in indices)


def _range(count: int) -> List:
    spend_steps(_WORK_OF_ELEMENT * max(0, count))
    return tuple(range(count))


def _reverse(elements: List) -> List:
    spend_steps(_WORK_OF_ELEMENT * size(elements))
    return tuple(elements)[::-1]


def _distinct(elements: List) -> List:
    """The elements without those that equal an earlier one."""
    spend_steps(size(elements) ** 2)
    distinct: list[Value] = []
    for element in elements:
        if not any(equal(element, other) for other in distinct):
            distinct.append(element)
    return tuple(distinct)


FUNCTIONS = (
    Function("slice", (member("list_slice", (_LIST, INT, INT), _LIST, _slice),)),
    Function(
        "flatten",
        (
            member("list_flatten", (list_of(_LIST),), _LIST, _flatten),
            member("list_flatten_int", (list_of(DYN), INT), list_of(DYN), _flatten),
        ),
    ),
    Function(
        "sort",
        tuple(member(f"list_{runtime_name(key)}_sort", (list_of(key),), list_of(key), _sort) for key in ORDERED_TYPES),
    ),
    Function(
        "@sortByAssociatedKeys",
        tuple(
            member(f"list_{runtime_name(key)}_sortByAssociatedKeys", (_LIST, list_of(key)), _LIST, _sort_by_keys)
            for key in ORDERED_TYPES
        ),
    ),
    Function("lists.range", (function("lists_range", (INT,), list_of(INT), _range),)),
    Function("reverse", (member("list_reverse", (_LIST,), _LIST, _reverse),)),
    Function("distinct", (member("list_distinct", (_LIST,), _LIST, _distinct),)),
)
"""What `lists.LIBRARY` has beside Kubernetes' own functions."""
