"""Plans: the steps that cel-go's planner makes of an expression, and what they read of a device.

Costs follow these steps, and so do the oddities of look-ups. Devices that agree in what is read have the same verdict.
Source: cel-go interpreter/planner.go, decorators.go, attributes.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from policies.kubernetes.resourceslices import Read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.cel.errors import CelRuntimeError
    from policies.cel.interpreter.dispatch import Dispatcher
    from policies.cel.values import Value


@dataclass(slots=True, eq=False)
class Constant:
    """A value, or an error that every evaluation makes."""

    value: Value | CelRuntimeError


@dataclass(slots=True, eq=False)
class Variable:
    """Where an attribute begins: `device`, or a variable of a comprehension."""

    slot: int
    """Its place in the frame; 0 is `device`."""
    fold: Fold | None = None
    """The comprehension whose accumulator it is; it is made when it is first read."""


@dataclass(slots=True, eq=False)
class Choice:
    """Where an attribute begins: one of two steps, by a condition."""

    condition: Step
    yes: Step
    no: Step


@dataclass(slots=True, eq=False)
class Qualifier:
    """One look-up of an attribute: a field, a key or an index."""

    key: Step
    is_optional: bool = False


@dataclass(slots=True, eq=False)
class Attribute:
    """A variable, a choice or any value, and look-ups in it."""

    root: Variable | Choice | Step
    qualifiers: tuple[Qualifier, ...] = ()
    is_test: bool = False
    """True if the last look-up only tests for presence, as `has` does."""


@dataclass(slots=True, eq=False)
class Logic:
    """`&&` or `||` of several terms; errors of some do not matter if another decides."""

    terms: tuple[Step, ...]
    decider: bool
    """The value that decides: false for `&&`."""


@dataclass(slots=True, eq=False)
class Equality:
    """`==` or `!=`."""

    left: Step
    right: Step
    is_negated: bool


@dataclass(slots=True, eq=False)
class Membership:
    """`x in [constants]`."""

    value: Step
    members: frozenset[object]
    """The keys of the elements, see `dispatch.members`."""


@dataclass(slots=True, eq=False)
class Call:
    """Any other function."""

    function: str
    dispatcher: Dispatcher
    arguments: tuple[Step, ...]
    takes_errors: bool = False
    """For `@not_strictly_false`."""
    stops_early: bool = False
    """True if arguments after one that fails are not evaluated."""


@dataclass(slots=True, eq=False)
class OptionalOr:
    """`a.or(b)` or `a.orValue(b)`; the second is only evaluated if the first has no value."""

    left: Step
    right: Step
    unwraps: bool
    """True if it is `orValue`."""
    is_strict: bool
    """True if the first must be an optional; else anything else is the result."""


@dataclass(slots=True, eq=False)
class ListOf:
    """A list of steps."""

    elements: tuple[Step, ...]
    optional: frozenset[int]


@dataclass(slots=True, eq=False)
class MapOf:
    """A map of steps; the keys that are only put in if their value is present."""

    entries: tuple[tuple[Step, Step], ...]
    optional: frozenset[int]


@dataclass(slots=True, eq=False)
class Message:
    """`google.protobuf.Duration{seconds: 1}`; other types have no values."""

    type_name: str
    fields: tuple[str, ...]
    values: tuple[Step, ...]


@dataclass(slots=True, eq=False)
class Fold:
    """A comprehension; its variables have places in the frame, -1 for one that it lacks."""

    accumulator: int
    variable: int
    second: int
    range: Step = field(init=False)
    initial: Step = field(init=False)
    condition: Step = field(init=False)
    step: Step = field(init=False)
    result: Step = field(init=False)


Step = Constant | Attribute | Logic | Equality | Membership | Call | OptionalOr | ListOf | MapOf | Message | Fold


@dataclass(frozen=True, slots=True)
class Program:
    """A planned expression."""

    root: Step
    variables: int
    """The number of places in a frame for variables of comprehensions, behind the device and the meter."""
    must_count: bool = False
    """True if the cost has to be computed for the result to be right."""


_MAPS = ("attributes", "capacity")
_SCALARS = ("driver", "allowMultipleAllocations")


def reads(program: Program) -> frozenset[Read] | None:
    """All parts that an expression can look at, or None if it may look at anything."""
    found: set[Read] = set()
    for step in _steps(program.root):
        read = _read(step)
        if read is None:
            return None
        found.update(read)
    return frozenset(found)


def _read(step: Step) -> tuple[Read, ...] | None:
    """The parts that a step itself reads: an attribute of the device, or the presence of a name."""
    if isinstance(step, Call) and step.function == "@in":
        key, container = step.arguments
        path = _path(container)
        if path is not None and isinstance(key, Constant) and isinstance(key.value, str):
            return _presence(path, key.value)
        return ()
    if isinstance(step, Attribute):
        path = _path(step)
        return () if path is None else _place(path)
    return ()


def _presence(path: tuple[str, ...], name: str) -> tuple[Read, ...] | None:
    if not path or path[0] not in _MAPS:
        return _place(path)
    if len(path) == 1:
        return (Read(path[0], name, ""),)
    return (Read(path[0], path[1], name),) if len(path) == len(_MAPS) else (Read(*path[:3]),)


def _place(path: tuple[str, ...]) -> tuple[Read, ...] | None:
    if not path or path[0] not in (*_MAPS, *_SCALARS):
        return None
    return (Read(path[0]),) if path[0] in _SCALARS else (Read(*path[:3]),)


def _path(step: Step) -> tuple[str, ...] | None:
    """The constant look-ups in the device that an attribute begins with; None if it reads another value.

    What `cel.bind` names is followed to what it stands for.
    """
    keys: tuple[str, ...] = ()
    while isinstance(step, Attribute) and isinstance(step.root, Variable):
        constant = _constant_keys(step)
        keys = (*constant, *keys) if len(constant) == len(step.qualifiers) else constant
        if step.root.slot == 0:
            return keys
        if step.root.fold is None or not _is_binding(step.root.fold):
            return None
        step = step.root.fold.initial
    return None


def _constant_keys(step: Attribute) -> tuple[str, ...]:
    keys = []
    for qualifier in step.qualifiers:
        if not (isinstance(qualifier.key, Constant) and isinstance(qualifier.key.value, str)):
            break
        keys.append(qualifier.key.value)
    return tuple(keys)


def _is_binding(fold: Fold) -> bool:
    """True if it is `cel.bind`: a fold over nothing."""
    return isinstance(fold.range, Constant) and fold.range.value == ()


def _is_path(step: Step) -> bool:
    """True if a step is nothing but constant look-ups in the device."""
    return isinstance(step, Attribute) and len(_constant_keys(step)) == len(step.qualifiers) and _path(step) is not None


def _steps(root: Step) -> Iterator[Step]:
    """All steps that may be evaluated and are not already covered by what uses them."""
    pending, seen = [root], set()
    while pending:
        step = pending.pop()
        if id(step) in seen:
            continue
        seen.add(id(step))
        yield step
        pending += _parts(step)


def _parts(step: Step) -> list[Step]:
    if isinstance(step, Attribute):
        keys = [qualifier.key for qualifier in step.qualifiers]
        if isinstance(step.root, Choice):
            return [*keys, step.root.condition, step.root.yes, step.root.no]
        return keys if isinstance(step.root, Variable) else [*keys, step.root]
    if isinstance(step, Call):
        return list(step.arguments[:1] if _read(step) else step.arguments)
    if isinstance(step, Fold):
        if not _is_binding(step):
            return [step.range, step.initial, step.condition, step.step, step.result]
        return [step.result] if _is_path(step.initial) else [step.result, step.initial]
    if isinstance(step, Logic):
        return list(step.terms)
    if isinstance(step, Equality | OptionalOr):
        return [step.left, step.right]
    if isinstance(step, Membership):
        return [step.value]
    return _constructed_parts(step)


def _constructed_parts(step: Step) -> list[Step]:
    if isinstance(step, ListOf):
        return list(step.elements)
    if isinstance(step, MapOf):
        return [part for entry in step.entries for part in entry]
    return list(step.values) if isinstance(step, Message) else []
