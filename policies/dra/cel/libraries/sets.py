"""Lists taken as sets: `sets.contains([1, 2], [1])`.

Source: cel-go ext/sets.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel.declarations import Function, Library, function
from policies.dra.cel.equality import equal
from policies.dra.cel.steps import spend_steps
from policies.dra.cel.types import BOOL, list_of, type_parameter
from policies.dra.cel.values import size

if TYPE_CHECKING:
    from policies.dra.cel.values import List, Value

__all__ = ["LIBRARY"]

_LIST = list_of(type_parameter("T"))


def _has(elements: List, item: Value) -> bool:
    return any(equal(item, element) for element in elements)


def _contains(elements: List, others: List) -> bool:
    spend_steps(size(elements) * size(others))
    return all(_has(elements, other) for other in others)


def _equivalent(elements: List, others: List) -> bool:
    return _contains(elements, others) and _contains(others, elements)


def _intersects(elements: List, others: List) -> bool:
    spend_steps(size(elements) * size(others))
    return any(_has(others, element) for element in elements)


LIBRARY = Library(
    functions=(
        Function("sets.contains", (function("list_sets_contains_list", (_LIST, _LIST), BOOL, _contains),)),
        Function("sets.equivalent", (function("list_sets_equivalent_list", (_LIST, _LIST), BOOL, _equivalent),)),
        Function("sets.intersects", (function("list_sets_intersects_list", (_LIST, _LIST), BOOL, _intersects),)),
    )
)
