"""Overloads of newer versions of cel-go and Kubernetes in place of those of Kubernetes 1.36."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.cel.declarations import Overload, function, member
from policies.cel.errors import CelRuntimeError, spend_steps
from policies.cel.libraries import lists, strings
from policies.cel.libraries.operators import equal
from policies.cel.types import BOOL, DYN, INT, STRING, list_of
from policies.cel.values import Concatenation, size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.cel.values import List, Value


_LONGEST_RANGE = 1_000_000


def _index_of(text: str, part: str, offset: int) -> int:
    if offset < 0:
        raise strings.out_of_range(offset)
    return text.find(part, min(offset, len(text)))


def _last_index_of(text: str, part: str, offset: int) -> int:
    if offset < 0:
        raise strings.out_of_range(offset)
    return strings.last_index_of_from(text, part, offset) if part else min(offset, len(text))


def _range(count: int) -> List:
    if count < 0:
        raise CelRuntimeError(f"lists.range: size must be non-negative, got {count}")
    if count > _LONGEST_RANGE:
        raise CelRuntimeError(f"lists.range: size {count} exceeds maximum allowed ({_LONGEST_RANGE})")
    return lists.int_range(count)


CEL_GO_029: Mapping[str, Overload | None] = {
    "starts_with_string": member("startsWith", "starts_with_read_string", (STRING, STRING), BOOL, str.startswith),
    "ends_with_string": member("endsWith", "ends_with_read_string", (STRING, STRING), BOOL, str.endswith),
    "matches": function("matches", "matches_string", (STRING, STRING), BOOL, strings.matches_regex),
    "string_index_of_string_int": member(
        "indexOf", "string_index_of_string_int", (STRING, STRING, INT), INT, _index_of
    ),
    "string_last_index_of_string_int": member(
        "lastIndexOf", "string_last_index_of_string_int", (STRING, STRING, INT), INT, _last_index_of
    ),
    "lists_range": function("lists.range", "lists_range", (INT,), list_of(INT), _range),
    "int64_to_duration": None,
}
"""By the id of the overload of cel-go v0.26; None for one that is gone.

`starts_with_read_string` and `ends_with_read_string` are ids of ours: the cost is that of reading the argument, no longer the
target. A call of `matches` as a function costs as much as one as a method, and has its id here.
Source: cel-go v0.29 interpreter/runtimecost.go, checker/cost.go, ext/strings.go, ext/lists.go and common/stdlib/standard.go.
"""


def _includes(target: Value, value: Value) -> bool:
    """True if a list has a value, or anything else is that value."""
    if not isinstance(target, tuple | Concatenation):
        return equal(target, value)
    spend_steps(size(target))
    return any(equal(element, value) for element in target)


LIST_LIBRARY: Mapping[str, Overload | None] = {
    "dra_includes_dyn_dyn": member("includes", "list_includes_dyn_dyn", (DYN, DYN), BOOL, _includes)
}
"""`includes` of Kubernetes' library of lists in place of that of DRA. Source: k8s.io/apiserver/pkg/cel/library/lists.go."""
