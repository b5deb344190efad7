"""The types that expressions have before they are evaluated, spelled as Kubernetes' messages spell them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "ANY",
    "BOOL",
    "BYTES",
    "DOUBLE",
    "DURATION",
    "DYN",
    "ERROR",
    "INT",
    "NULL",
    "STRING",
    "TIMESTAMP",
    "UINT",
    "Type",
    "list_of",
    "map_of",
    "opaque",
    "optional_of",
    "type_of",
    "type_parameter",
]


@dataclass(frozen=True, slots=True)
class Type:
    """A type; two are the same when name, kind and parameters are."""

    name: str
    """`int`, `list`, `map`, `optional_type`, `kubernetes.Quantity`, `A` for a type parameter."""
    parameters: tuple[Type, ...] = ()
    kind: str = "primitive"
    """`primitive`, `dyn`, `any`, `error`, `null`, `list`, `map`, `opaque`, `object`, `type` or `parameter`."""

    def __str__(self) -> str:
        """As messages show it: `list(string)`, `map(string, dyn)`, `optional_type(int)`."""
        return f"{self.name}({', '.join(map(str, self.parameters))})" if self.parameters else self.name


DYN = Type("dyn", kind="dyn")
ANY = Type("any", kind="any")
"""A value of unknown type, as device attributes are while list-typed attributes are off."""
ERROR = Type("!error!", kind="error")
NULL = Type("null", kind="null")
BOOL = Type("bool")
INT = Type("int")
UINT = Type("uint")
DOUBLE = Type("double")
STRING = Type("string")
BYTES = Type("bytes")
TIMESTAMP = Type("timestamp")
DURATION = Type("duration")


def list_of(element: Type) -> Type:
    """The type of lists of one element type."""
    return Type("list", (element,), "list")


def map_of(key: Type, value: Type) -> Type:
    """The type of maps."""
    return Type("map", (key, value), "map")


def opaque(name: str, *parameters: Type) -> Type:
    """A type without fields, such as `kubernetes.Quantity`."""
    return Type(name, parameters, "opaque")


def optional_of(value: Type) -> Type:
    """The type of what `optional.of` makes."""
    return opaque("optional_type", value)


def type_of(described: Type) -> Type:
    """The type of a type."""
    return Type("type", (described,), "type")


def type_parameter(name: str) -> Type:
    """A type that is found by looking at the arguments."""
    return Type(name, kind="parameter")
