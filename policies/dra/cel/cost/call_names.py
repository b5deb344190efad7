"""The names by which cel-go knows functions once an expression is checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel.syntax import Identifier, Select

if TYPE_CHECKING:
    from policies.dra.cel.checked import CallReference
    from policies.dra.cel.syntax import Call, Expression

__all__ = ["function_name", "overload_id"]

_ALWAYS_ONE_OVERLOAD = {"_==_": "equals", "_!=_": "not_equals"}
"""These are planned without regard to their reference (cel-go interpreter/planner.go)."""


def function_name(call: Call, reference: CallReference | None) -> str:
    """The full name of what a call calls: `size`, `sets.contains`, `_+_`; without a leading dot."""
    if reference is not None and reference.is_namespaced and call.target is not None:
        return f"{_qualified(call.target)}.{call.function}".removeprefix(".")
    return call.function.removeprefix(".")


def overload_id(function: str, reference: CallReference) -> str:
    """The overload that a call runs, or empty where only the values decide it, which the costs of calls go by."""
    if function in _ALWAYS_ONE_OVERLOAD:
        return _ALWAYS_ONE_OVERLOAD[function]
    return reference.overloads[0].id if len(reference.overloads) == 1 else ""


def _qualified(name: Expression) -> str:
    fields: list[str] = []
    while isinstance(name, Select):
        fields.append(name.field)
        name = name.operand
    if isinstance(name, Identifier):
        fields.append(name.name)
    return ".".join(reversed(fields))
