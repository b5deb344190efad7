"""What run-time messages call values and their types."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING

from policies.dra.cel.spelling import runtime_name
from policies.dra.cel.values import Absent, Accumulation, Concatenation, Map, Optional, UInt, runtime_type

if TYPE_CHECKING:
    from policies.dra.cel.values import Value

__all__ = ["go_type", "kind", "shown"]

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
    """What Go's `%T` prints, which some of cel-go's messages let through: `types.String`."""
    if isinstance(value, Map):
        return value.go_type
    if isinstance(value, Accumulation):
        return "*types.mutableList"
    if isinstance(value, Concatenation):
        return "*types.concatList"
    return _GO_TYPES.get(kind(value), kind(value))


def shown(value: Value) -> str:
    """What Go's `%v` prints, for the plain values that keys and indices are."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, UInt):
        return str(int(value))
    if isinstance(value, float):
        return _double(value)
    if isinstance(value, Optional):
        return "optional.none()" if isinstance(value.value, Absent) else f"optional({shown(value.value)})"
    return str(value)


def _double(value: float) -> str:
    """As Go's `%g`: the fewest digits that tell it, with an exponent below -4 and from 6 on."""
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
