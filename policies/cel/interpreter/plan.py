"""Plans: the steps that cel-go's planner makes of an expression, with constant parts computed.

Costs follow these steps, and so do the oddities of look-ups.
Source: cel-go interpreter/planner.go, decorators.go, attributes.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.cel.errors import CelRuntimeError
    from policies.cel.interpreter.dispatch import Dispatcher
    from policies.cel.values import Value

__all__ = [
    "Attribute",
    "Call",
    "Choice",
    "Constant",
    "Equality",
    "Fold",
    "ListOf",
    "Logic",
    "MapOf",
    "Membership",
    "Message",
    "OptionalOr",
    "Program",
    "Qualifier",
    "Step",
    "Variable",
]


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
    """What `planner.member` makes of the elements."""


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
    """How many places a frame has for variables of comprehensions, behind the device and the meter."""
    must_count: bool = False
    """True if the cost has to be computed for the result to be right."""
