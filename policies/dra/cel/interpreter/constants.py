"""What planning computes at once because it is constant, and what can be wrong with it.

Source: cel-go interpreter/decorators.go and planner.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.interpreter import plan
from policies.dra.cel.interpreter.closures import constant
from policies.dra.cel.interpreter.construction import list_code, map_code
from policies.dra.cel.kinds import go_type
from policies.dra.cel.libraries import regexes

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.dra.cel.interpreter.dispatch import Dispatcher
    from policies.dra.cel.values import Value

__all__ = [
    "InstantiationError",
    "convert_constant",
    "has_constant_regex",
    "look_up",
    "plan_list",
    "plan_logic",
    "plan_map",
]

_KEYS = (bool, int, float, str)


class InstantiationError(Exception):
    """What is wrong with an expression that compiles but cannot become a program."""


def look_up(operand: plan.Step, key: plan.Step, *, is_optional: bool = False, is_test: bool = False) -> plan.Attribute:
    """A look-up in an attribute, or in any other value.

    Raises:
        InstantiationError: the key is a constant of a kind that no look-up takes.
    """
    if isinstance(key, plan.Constant) and not isinstance(key.value, _KEYS):
        if isinstance(key.value, CelRuntimeError):
            raise InstantiationError("invalid qualifier type: *types.Err")
        raise InstantiationError(f"invalid qualifier type: {go_type(key.value)}")
    qualifier = plan.Qualifier(key, is_optional)
    if isinstance(operand, plan.Attribute) and not operand.is_test:
        return plan.Attribute(operand.root, (*operand.qualifiers, qualifier), is_test)
    return plan.Attribute(operand, (qualifier,), is_test)


def plan_list(elements: tuple[plan.Step, ...], optional: frozenset[int]) -> plan.Step:
    """A list; a constant if all of it is."""
    constants = tuple(constant(element.value) for element in elements if isinstance(element, plan.Constant))
    if len(constants) == len(elements):
        return plan.Constant(_value_or_error(list_code(constants, optional)))
    return plan.ListOf(elements, optional)


def plan_logic(terms: tuple[plan.Step, ...], *, decider: bool) -> plan.Logic:
    """Terms of the same operator within are taken out of it: that changes neither result nor cost."""
    flat: list[plan.Step] = []
    for term in terms:
        if isinstance(term, plan.Logic) and term.decider is decider:
            flat += term.terms
        else:
            flat.append(term)
    return plan.Logic(tuple(flat), decider)


def has_constant_regex(arguments: tuple[plan.Step, ...]) -> bool:
    """True if the pattern is a constant.

    Raises:
        InstantiationError: it is, but not a regular expression.
    """
    pattern = arguments[1]
    if not (isinstance(pattern, plan.Constant) and isinstance(pattern.value, str)):
        return False
    try:
        regexes.compile_pattern(pattern.value)
    except CelRuntimeError as error:
        raise InstantiationError(error.message) from error
    return True


def convert_constant(dispatcher: Dispatcher, value: Value | CelRuntimeError) -> plan.Constant:
    """A conversion of a constant; raises InstantiationError if it fails."""
    try:
        if isinstance(value, CelRuntimeError):
            raise value
        return plan.Constant(dispatcher.call(value))
    except CelRuntimeError as error:
        raise InstantiationError(error.message) from error


def _value_or_error(code: Callable[[list[object]], Value]) -> Value | CelRuntimeError:
    try:
        return code([])
    except CelRuntimeError as error:
        return error


def plan_map(entries: tuple[tuple[plan.Step, plan.Step], ...], optional: frozenset[int]) -> plan.Step:
    """A map; a constant if all of it is."""
    pairs = tuple(
        (constant(key.value), constant(value.value))
        for key, value in entries
        if isinstance(key, plan.Constant) and isinstance(value, plan.Constant)
    )
    if len(pairs) == len(entries):
        return plan.Constant(_value_or_error(map_code(pairs, optional)))
    return plan.MapOf(entries, optional)
