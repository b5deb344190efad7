"""The functions that an environment offers: by overload, with the code that runs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from policies.cel.errors import NO_OVERLOAD, CelRuntimeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.cel.types import Type
    from policies.cel.values import Value


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function."""

    name: str
    """The name of the function."""
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


def function(name: str, id_: str, parameters: tuple[Type, ...], result: Type, run: Callable[..., Value]) -> Overload:
    """An overload called as `name(arguments)`."""
    return Overload(name, id_, parameters, result, run)


def member(name: str, id_: str, parameters: tuple[Type, ...], result: Type, run: Callable[..., Value]) -> Overload:
    """An overload called as `target.name(arguments)`; the target's type is the first parameter."""
    return Overload(name, id_, parameters, result, run, is_member=True)


def no_overload(*_: Value) -> NoReturn:
    """Raise CelRuntimeError; for overloads that the compiler evaluates itself, or only the checker needs."""
    raise CelRuntimeError(NO_OVERLOAD)
