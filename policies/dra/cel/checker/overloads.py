"""Which overloads of a function the arguments of a call fit, and what the call gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel import types
from policies.dra.cel.checker.unification import is_dynamic
from policies.dra.cel.spelling import declared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.dra.cel.checker.unification import Substitution
    from policies.dra.cel.declarations import Function, Overload
    from policies.dra.cel.types import Type

__all__ = ["resolve_overloads", "signature"]


def resolve_overloads(
    function: Function, given: Sequence[Type], substitution: Substitution, *, is_method: bool
) -> tuple[tuple[Overload, ...], Type | None]:
    """Every overload that could run, and the type of the result: dyn if it depends on which one does.

    Nothing and None if the arguments fit no overload. Source: cel-go v0.26 `checker/checker.go`, resolveOverload.
    """
    matching: list[Overload] = []
    result: Type | None = None
    for overload in function.overloads:
        if overload.is_member != is_method:
            continue
        returned, *wanted = substitution.instantiate((overload.result, *overload.parameters))
        if not substitution.assign(given, wanted):
            continue
        matching.append(overload)
        returned = substitution.resolve(returned)
        if result is None:
            result = returned
        elif not is_dynamic(result) and not substitution.same(returned, result):
            result = types.DYN
    return tuple(matching), result


def signature(given: Sequence[Type], substitution: Substitution, *, is_method: bool) -> str:
    """The types of a call's arguments as messages show them: `(int, string)`, or `string.(int)` of a method."""
    spelled = [declared(substitution.resolve(type_, unknown=types.DYN)) for type_ in given]
    target = f"{spelled.pop(0)}." if is_method else ""
    return f"{target}({', '.join(spelled)})"
