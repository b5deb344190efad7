"""The kinds that values have at run time, and values as Go prints them into messages."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, ClassVar, TypeGuard

from policies.cel import types
from policies.cel.errors import CelRuntimeError, spend_steps
from policies.cel.types import runtime_name
from policies.cel.values import Absent, Accumulation, Concatenation, Growing, Map, Optional, UInt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from policies.cel.types import Type
    from policies.cel.values import List, Value


_RUNTIME_TYPES: dict[type, Type] = {
    type(None): types.NULL,
    bool: types.BOOL,
    int: types.INT,
    UInt: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    tuple: types.list_of(types.DYN),
    Concatenation: types.list_of(types.DYN),
    Accumulation: types.list_of(types.DYN),
    Map: types.map_of(types.DYN, types.DYN),
    Growing: types.map_of(types.DYN, types.DYN),
    Optional: types.optional_of(types.DYN),
    types.Type: types.type_of(types.DYN),
}


def runtime_type(value: Value) -> Type:
    """The type that `type(value)` answers: element types are forgotten."""
    known = _RUNTIME_TYPES.get(type(value))
    if known is None and isinstance(value, Map):
        known = _RUNTIME_TYPES[Map]
    return value.cel_type if known is None else known  # type: ignore[union-attr]  # what is not listed is Opaque


_SMALLEST_POWER = -4
_EXPONENT_FROM = 6
"""Where Go's `%g` changes from 100000 to 1e+06."""

_GO_TYPES = {
    "null_type": "types.Null",
    "bool": "types.Bool",
    "int": "types.Int",
    "uint": "types.Uint",
    "double": "types.Double",
    "string": "types.String",
    "bytes": "types.Bytes",
    "list": "*types.baseList",
    "map": "*types.baseMap",
    "type": "*types.Type",
    "optional_type": "*types.Optional",
    "google.protobuf.Timestamp": "types.Timestamp",
    "google.protobuf.Duration": "types.Duration",
    "kubernetes.Quantity": "cel.Quantity",
    "kubernetes.Semver": "cel.Semver",
    "kubernetes.URL": "cel.URL",
    "kubernetes.NamedFormat": "cel.Format",
    "net.IP": "cel.IP",
    "net.CIDR": "cel.CIDR",
}


def kind(value: Value) -> str:
    """The name of a value's type at run time, without element types: `list`, `google.protobuf.Timestamp`."""
    return runtime_name(runtime_type(value))


def go_type(value: Value) -> str:
    """The Go type as `%T` prints it in some of cel-go's messages: `types.String`."""
    if isinstance(value, Map):
        return value.go_type
    if isinstance(value, Accumulation):
        return "*types.mutableList"
    if isinstance(value, Concatenation):
        return "*types.concatList"
    return _GO_TYPES.get(kind(value), kind(value))


def display_text(value: Value) -> str:
    """The text that Go's `%v` prints, for the plain values that keys and indices are."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, UInt):
        return str(int(value))
    if isinstance(value, float):
        return _double(value)
    if isinstance(value, Optional):
        return "optional.none()" if isinstance(value.value, Absent) else f"optional({display_text(value.value)})"
    return str(value)


def _double(value: float) -> str:
    """As Go's `%g`: the fewest digits that identify it, with an exponent below -4 and from 6 on."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    power = len(digits) - 1 + int(exponent)
    if value and not _SMALLEST_POWER <= power < _EXPONENT_FROM:
        first, rest = digits[0], "".join(map(str, digits[1:]))
        return f"{'-' * sign}{first}{'.' * bool(rest)}{rest}e{'-' if power < 0 else '+'}{abs(power):02d}"
    return f"{Decimal(repr(value)).normalize():f}"


@dataclass(frozen=True, slots=True)
class Unconvertible:
    """Stands for the lost value."""

    cel_type: ClassVar[Type] = types.ERROR

    message: str
    """The message of the error that its use raises."""

    @property
    def error(self) -> CelRuntimeError:
        """The failure."""
        return CelRuntimeError(self.message)


def usable(value: Value) -> Value:
    """A value that was in an optional; raises CelRuntimeError if it is lost."""
    if isinstance(value, Unconvertible):
        raise value.error
    return value


_REASONS = {
    "null_type": "type conversion error from 'null_type' to 'bool'",
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "double": "type conversion error from Double to 'bool'",
    "string": "unsupported native conversion from string to 'bool'",
    "bytes": "type conversion error from Bytes to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "map": "type conversion error from map to 'bool'",
    "type": "type conversion not supported for 'type'",
    "optional_type": "optional.none() dereference",
    "kubernetes.NamedFormat": "type conversion error from 'Format' to 'bool'",
}
"""For other kinds, the message has the last part of the name: `type conversion error from 'Quantity' to 'bool'`."""


def bool_result(value: Value) -> bool:
    """True if the device matches; a bool in an optional counts.

    Raises:
        CelRuntimeError: the value is not a bool.
    """
    if value is True or value is False:
        return value
    inner = value
    while isinstance(inner, Optional) and not isinstance(inner.value, Absent):
        inner = inner.value
    if isinstance(inner, bool):
        return inner
    if isinstance(inner, Unconvertible):
        raise CelRuntimeError(f"CEL result of type {kind(value)} could not be converted to bool: {inner.message}")
    name = kind(inner)
    reason = _REASONS.get(name) or f"type conversion error from '{name.rpartition('.')[2]}' to 'bool'"
    raise CelRuntimeError(f"CEL result of type {kind(value)} could not be converted to bool: {reason}")


_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}
_SURROGATES = 0xDC00
_FIRST_ESCAPED = 0xDC80
_LAST_ESCAPED = 0xDCFF
_WIDEST_BYTE = 0x80
_WIDEST_SHORT = 0x10000


def quoted_text(text: str) -> str:
    """The text as a Go string literal, with characters escaped that are not printable or not UTF-8.

    Args:
        text: Such bytes stand in it as Python's `surrogateescape` puts them there.

    Source: Go's strconv.Quote.
    """
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_ESCAPES.get(character) or _printable(character) for character in text) + '"'


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    if _FIRST_ESCAPED <= code <= _LAST_ESCAPED:
        return f"\\x{code - _SURROGATES:02x}"
    if code < _WIDEST_BYTE:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < _WIDEST_SHORT else f"\\U{code:08x}"


class Mark(str):
    """Brackets, commas and the like between values."""

    __slots__ = ()


def is_list(value: Value) -> TypeGuard[List]:
    """True if a value is a list."""
    return isinstance(value, tuple | Concatenation)


def nested_text(
    value: Value, piece: Callable[[Value | Mark], str], entries: Callable[[Map], Iterable[tuple[Value | Mark, ...]]]
) -> str:
    """A value with all that is inside it.

    Args:
        value: The value.
        piece: The text of a mark, or of a value that is neither list nor map; pays for its work.
        entries: The parts of each entry of a map, in order.
    """
    pieces: list[str] = []
    pending: list[Iterator[Value | Mark]] = [iter((value,))]
    while pending:
        for part in pending[-1]:
            if isinstance(part, Map):
                pending.append(_inside("{", entries(part), "}"))
                break
            if is_list(part):
                pending.append(_inside("[", ((element,) for element in part), "]"))
                break
            pieces.append(piece(part))
        else:
            pending.pop()
    return "".join(pieces)


def _inside(opening: str, members: Iterable[tuple[Value | Mark, ...]], closing: str) -> Iterator[Value | Mark]:
    yield Mark(opening)
    for index, parts in enumerate(members):
        spend_steps(1)
        yield from chain((Mark(", "),) if index else (), parts)
    yield Mark(closing)


def printed_text(value: Value) -> str:
    """A value as messages that Go composes show it: `[1, 2]`, `{a: 1}`, bytes by their numbers."""
    return nested_text(value, _printed_piece, _entries)


def _printed_piece(part: Value | Mark) -> str:
    if isinstance(part, Mark):
        return part
    if isinstance(part, bytes):
        spend_steps(len(part))
        text = f"[{' '.join(map(str, part))}]"
    else:
        text = "0" if part is None else display_text(part)
    spend_steps(len(text))
    return text


def _entries(entries: Map) -> Iterator[tuple[Value | Mark, ...]]:
    return ((key, Mark(": "), value) for key, value in entries.items())
