"""Folding over lists and maps, in the fast way of evaluating.

Source: cel-go interpreter/interpretable.go, evalFold and folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.interpreter.access import UNSET
from policies.dra.cel.kinds import go_type
from policies.dra.cel.values import Accumulation, Concatenation, Growing, Map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policies.dra.cel.interpreter import plan
    from policies.dra.cel.values import Value

    Frame = list[object]
    Code = Callable[[Frame], Value]

__all__ = ["LoopParts", "entries", "finished", "fold"]


@dataclass(frozen=True, slots=True)
class LoopParts:
    """The parts of a comprehension, ready to run."""

    range: Code
    condition: Code
    step: Code
    result: Code


def entries(over: Value, *, are_pairs: bool) -> Iterator[tuple[Value, Value]]:
    """What a loop's variables become: elements or keys; with two variables indices or keys, and what is there.

    Raises:
        CelRuntimeError: the value is neither list nor map.
    """
    if isinstance(over, Map):
        return iter(over.items()) if are_pairs else ((key, None) for key in over)
    if isinstance(over, tuple | Concatenation):
        return iter(enumerate(over)) if are_pairs else ((element, None) for element in over)
    if are_pairs:
        raise CelRuntimeError(f"unsupported comprehension range type: {go_type(over)}")
    raise CelRuntimeError(f"got '{go_type(over)}', expected iterable type")


def finished(value: Value) -> Value:
    """What grew while it was folded, as it is now."""
    if isinstance(value, Accumulation):
        return tuple(value)
    if isinstance(value, Growing):
        return Map(dict(zip(map(Map.key, value), (found for _, found in value.items()), strict=True)))
    return value


def fold(step: plan.Fold, parts: LoopParts) -> Code:
    """A comprehension."""
    accumulator, first, second = step.accumulator, step.variable, step.second
    are_pairs = second >= 0
    over, condition, advance, result = parts.range, parts.condition, parts.step, parts.result

    def run(frame: Frame) -> Value:
        items = entries(over(frame), are_pairs=are_pairs)
        frame[accumulator] = UNSET
        for frame[first], value in items:
            if are_pairs:
                frame[second] = value
            if not _goes_on(condition, frame):
                break
            try:
                frame[accumulator] = advance(frame)
            except CelRuntimeError as error:
                frame[accumulator] = error
        return finished(result(frame))

    return run


def _goes_on(condition: Code, frame: Frame) -> bool:
    """Whether the loop is not told to stop; errors do not stop it."""
    try:
        return condition(frame) is not False
    except CelRuntimeError:
        return True
