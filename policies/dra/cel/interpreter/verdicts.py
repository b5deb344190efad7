"""From the value of a selector to its verdict.

Source: k8s.io/dynamic-resource-allocation/cel/compile.go, DeviceMatches; `ConvertToNative` of cel-go's types and of
k8s.io/apiserver/pkg/cel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.kinds import kind
from policies.dra.cel.unconvertible import Unconvertible
from policies.dra.cel.values import Absent, Optional

if TYPE_CHECKING:
    from policies.dra.cel.values import Value

__all__ = ["verdict"]

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
"""Of other kinds the last part of the name is told: `type conversion error from 'Quantity' to 'bool'`."""


def verdict(value: Value) -> bool:
    """Whether the device matches; a bool in an optional counts.

    Raises:
        CelRuntimeError: the value is no bool.
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
