"""Lists, maps and sets: what cel-go's own extensions add to them, and what Kubernetes adds."""

from __future__ import annotations

from functools import cmp_to_key, partial
from typing import TYPE_CHECKING

from policies.cel.declarations import Overload, function, member
from policies.cel.errors import NO_OVERLOAD, CelRuntimeError, spend_steps
from policies.cel.kinds import printed_text, runtime_type
from policies.cel.libraries.operators import add, compare, equal
from policies.cel.libraries.times import Duration, Timestamp
from policies.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    list_of,
    map_of,
    result_name,
    runtime_name,
    type_parameter,
)
from policies.cel.values import Concatenation, Growing, UInt, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.cel.types import Type
    from policies.cel.values import List, Map, Value


ORDERED_TYPES = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)
"""In the order in which both libraries of lists declare them."""

_ORDERED = frozenset({int, UInt, float, bool, Duration, Timestamp, str, bytes})


def is_ordered(value: Value) -> bool:
    """True if a value is of a type that has an order."""
    return value.__class__ in _ORDERED


def order(left: Value, right: Value) -> int:
    """-1, 0 or 1 as the left value is less than, equal to or greater than the right one, or 0.

    Functions on lists do not fail on values that do not compare, such as 1 and "a", or NaN and anything: 0 for these.
    """
    try:
        return compare(left, right)
    except CelRuntimeError:
        return 0


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
        raise CelRuntimeError(f"no such overload: {result_name(runtime_type(elements))}.flatten()")
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


def int_range(count: int) -> List:
    """The numbers from 0, so many of them."""
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


_A = type_parameter("A")
_SUMMABLE: tuple[tuple[Type, Value], ...] = ((INT, 0), (UINT, UInt(0)), (DOUBLE, 0.0), (DURATION, Duration(0)))


def _is_sorted(elements: List) -> bool:
    """True if no element is before one that is less; what has no order among itself does not count."""
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


LIBRARY: tuple[Overload, ...] = (
    *(
        member("isSorted", f"list_{element}_is_sorted_bool", (list_of(element),), BOOL, _is_sorted)
        for element in ORDERED_TYPES
    ),
    *(
        member("sum", f"list_{element}_sum_{element}", (list_of(element),), element, partial(_sum, zero))
        for element, zero in _SUMMABLE
    ),
    *(
        member(
            name, f"list_{element}_{name}_{element}", (list_of(element),), element, partial(_extreme, name, direction)
        )
        for name, direction in (("max", 1), ("min", -1))
        for element in ORDERED_TYPES
    ),
    member("indexOf", "list_a_index_of_int", (list_of(_A), _A), INT, _index_of),
    member("lastIndexOf", "list_a_last_index_of_int", (list_of(_A), _A), INT, _last_index_of),
    member("slice", "list_slice", (_LIST, INT, INT), _LIST, _slice),
    member("flatten", "list_flatten", (list_of(_LIST),), _LIST, _flatten),
    member("flatten", "list_flatten_int", (list_of(DYN), INT), list_of(DYN), _flatten),
    *(
        member(
            "sort",
            f"list_{runtime_name(key)}_sort",
            (list_of(key),),
            list_of(key),
            lambda elements: _sort_by_keys(elements, elements),
        )
        for key in ORDERED_TYPES
    ),
    *(
        member(
            "@sortByAssociatedKeys",
            f"list_{runtime_name(key)}_sortByAssociatedKeys",
            (_LIST, list_of(key)),
            _LIST,
            _sort_by_keys,
        )
        for key in ORDERED_TYPES
    ),
    function("lists.range", "lists_range", (INT,), list_of(INT), int_range),
    member("reverse", "list_reverse", (_LIST,), _LIST, _reverse),
    member("distinct", "list_distinct", (_LIST,), _LIST, _distinct),
)


_K = type_parameter("K")
_V = type_parameter("V")
_MAP = map_of(_K, _V)


def _insert(entries: Map, key: Value, value: Value) -> Map:
    """The map with one more entry; one that grows is changed in place."""
    if key in entries:
        raise CelRuntimeError(f"insert failed: key {printed_text(key)} already exists")
    grown = _growing_copy(entries)
    grown.insert(key, value)
    return grown


def _insert_all(entries: Map, others: Map) -> Map:
    spend_steps(len(others))
    grown = entries
    for key, value in others.items():
        grown = _insert(grown, key, value)
    return grown


def _growing_copy(entries: Map) -> Growing:
    if isinstance(entries, Growing):
        return entries
    spend_steps(len(entries))
    grown = Growing({})
    for key, value in entries.items():
        grown.insert(key, value)
    return grown


MAP_LIBRARY: tuple[Overload, ...] = (
    function("cel.@mapInsert", "@mapInsert_map_key_value", (_MAP, _K, _V), _MAP, _insert),
    function("cel.@mapInsert", "@mapInsert_map_map", (_MAP, _MAP), _MAP, _insert_all),
)


def _has(elements: List, item: Value) -> bool:
    return any(equal(item, element) for element in elements)


def _contains(elements: List, others: List) -> bool:
    spend_steps(size(elements) * size(others))
    return all(_has(elements, other) for other in others)


def _intersects(elements: List, others: List) -> bool:
    spend_steps(size(elements) * size(others))
    return any(_has(others, element) for element in elements)


SET_LIBRARY: tuple[Overload, ...] = (
    function("sets.contains", "list_sets_contains_list", (_LIST, _LIST), BOOL, _contains),
    function(
        "sets.equivalent",
        "list_sets_equivalent_list",
        (_LIST, _LIST),
        BOOL,
        lambda elements, others: _contains(elements, others) and _contains(others, elements),
    ),
    function("sets.intersects", "list_sets_intersects_list", (_LIST, _LIST), BOOL, _intersects),
)
