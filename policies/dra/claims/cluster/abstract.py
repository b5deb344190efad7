"""Abstract values: all that a part of a selector can be, while only some of a device is known."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from policies.dra.cel import Constant

__all__ = ["ANYTHING", "ITEM", "MAPS", "Place", "Presence", "Unset", "Value", "constant", "join", "truth"]

Place = tuple[str, ...]
"""A place in a device: () is the device, ("attributes",) all domains, ("attributes", domain, name) one attribute."""

ITEM = 3
"""How many steps lead to an attribute or a capacity."""


class Presence(Enum):
    """Whether a value is an optional, and whether that has a value."""

    PLAIN = "no optional as far as is known"
    PRESENT = "an optional with a value"
    ABSENT = "an optional without one"
    EITHER = "an optional, with a value or without"


class Unset(Enum):
    """The type of the constant that is not known; None is a constant."""

    UNSET = "unset"


class Value(NamedTuple):
    """What a part of a selector can be. For an optional, most fields describe its content."""

    can_be_true: bool = True
    can_be_false: bool = True
    """What is neither counts as both, so that nothing is overlooked."""
    error: int | None = None
    """Where in the text the read is that can fail here; None if none can."""
    place: Place | None = None
    """The place of the device that it certainly is, if any."""
    holds_maps: bool = False
    """True if maps of the device may be in it, so that reading it is perhaps reading them."""
    constant: Constant | Unset = Unset.UNSET
    presence: Presence = Presence.PLAIN
    key_of: Place | None = None
    """The map that it is certainly a key of, if any."""

    @property
    def only_fails(self) -> bool:
        """True if it is nothing but an error."""
        return not self.can_be_true and not self.can_be_false

    def with_error(self, *errors: int | None) -> Value:
        """The same, which can fail, too, where any of these does."""
        first = next((error for error in (self.error, *errors) if error is not None), None)
        return self if first == self.error else self._replace(error=first)


ANYTHING = Value()
"""A value that is not known, but cannot lead to the maps of the device."""
MAPS = Value(holds_maps=True)
"""A value that is not known, and may lead to them."""


def constant(value: Constant) -> Value:
    """A value that is known."""
    if isinstance(value, bool):
        return Value(can_be_true=value, can_be_false=not value, constant=value)
    return Value(constant=value)


def truth(*, true: bool, false: bool) -> Value:
    """A bool; known if it can be only one of the two."""
    return constant(true) if true != false else Value(can_be_true=true, can_be_false=false)


def join(one: Value, other: Value) -> Value:
    """One of the two."""
    if one.only_fails:
        return other.with_error(one.error)
    if other.only_fails:
        return one.with_error(other.error)
    same = one.place == other.place
    same_constant = type(one.constant) is type(other.constant) and one.constant == other.constant
    return Value(
        can_be_true=one.can_be_true or other.can_be_true,
        can_be_false=one.can_be_false or other.can_be_false,
        error=one.error if one.error is not None else other.error,
        place=one.place if same else None,
        holds_maps=one.holds_maps or other.holds_maps,
        constant=one.constant if same_constant else Unset.UNSET,
        presence=_common_presence(one.presence, other.presence),
        key_of=one.key_of if one.key_of == other.key_of else None,
    )


def _common_presence(one: Presence, other: Presence) -> Presence:
    if one is other:
        return one
    return Presence.PLAIN if Presence.PLAIN in (one, other) else Presence.EITHER
