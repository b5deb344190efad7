"""Maps: the hidden function by which `transformMap` and `transformMapEntry` insert entries.

Source: cel-go ext/comprehensions.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel.declarations import Function, Library, function
from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.libraries.printing import printed_text
from policies.dra.cel.steps import spend_steps
from policies.dra.cel.types import map_of, type_parameter
from policies.dra.cel.values import Growing

if TYPE_CHECKING:
    from policies.dra.cel.values import Map, Value

__all__ = ["LIBRARY"]

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


LIBRARY = Library(
    functions=(
        Function(
            "cel.@mapInsert",
            (
                function("@mapInsert_map_key_value", (_MAP, _K, _V), _MAP, _insert),
                function("@mapInsert_map_map", (_MAP, _MAP), _MAP, _insert_all),
            ),
        ),
    )
)
