"""What an environment offers: functions by overload, with what runs them, and named constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from policies.cel.errors import NO_OVERLOAD, CelRuntimeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.cel.types import Type
    from policies.cel.values import Value

__all__ = ["Function", "Library", "Overload", "function", "member", "no_overload"]


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function."""

    id: str
    """cel-go's overload id; costs are known by it and messages are not."""
    parameters: tuple[Type, ...]
    """For a method, the target comes first."""
    result: Type
    implementation: Callable[..., Value]
    """Takes the evaluated arguments in order, the target first; raises CelRuntimeError.

    Arguments are of the run-time kinds that `parameters` name: the caller has checked that.
    """
    is_member: bool = False


@dataclass(frozen=True, slots=True)
class Function:
    """A function with its overloads, in the order in which cel-go tries them."""

    name: str
    overloads: tuple[Overload, ...]


@dataclass(frozen=True, slots=True)
class Library:
    """Functions and type names that come together."""

    functions: tuple[Function, ...]
    type_names: tuple[Type, ...] = ()
    """Types that expressions can name as values, as in `type(x) == net.IP`."""


def function(id_: str, parameters: tuple[Type, ...], result: Type, run: Callable[..., Value]) -> Overload:
    """An overload called as `name(arguments)`."""
    return Overload(id_, parameters, result, run)


def member(id_: str, parameters: tuple[Type, ...], result: Type, run: Callable[..., Value]) -> Overload:
    """An overload called as `target.name(arguments)`; the target's type is the first parameter."""
    return Overload(id_, parameters, result, run, is_member=True)


def no_overload(*_: Value) -> NoReturn:
    """Raise CelRuntimeError.

    Implements overloads that only the checker needs, or that the compiler evaluates itself.
    """
    raise CelRuntimeError(NO_OVERLOAD)
