"""What Kubernetes loses inside of an optional: the optional still has a value, but using the value fails.

See `interpreter.unwrapping` for when that happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from policies.dra.cel import types
from policies.dra.cel.errors import CelRuntimeError

if TYPE_CHECKING:
    from policies.dra.cel.types import Type
    from policies.dra.cel.values import Value

__all__ = ["Unconvertible", "usable"]


@dataclass(frozen=True, slots=True)
class Unconvertible:
    """Stands for the lost value."""

    cel_type: ClassVar[Type] = types.ERROR

    message: str
    """What using it fails with."""

    @property
    def error(self) -> CelRuntimeError:
        """The failure."""
        return CelRuntimeError(self.message)


def usable(value: Value) -> Value:
    """A value that was in an optional; raises CelRuntimeError if it is lost."""
    if isinstance(value, Unconvertible):
        raise value.error
    return value
