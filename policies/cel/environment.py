"""The CEL environment of DRA selectors: all libraries, the types, and the variable `device`.

Where several libraries have overloads of one function, the order is that in which Kubernetes adds the libraries:
k8s.io/apiserver/pkg/cel/environment/base.go, then k8s.io/dynamic-resource-allocation/cel/compile.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from policies.cel import types
from policies.cel.declarations import Function
from policies.cel.libraries import (
    conversions,
    formats,
    ips,
    lists,
    operators,
    optionals,
    quantities,
    semvers,
    string_format,
    strings,
    times,
    urls,
)
from policies.cel.libraries.ips import CIDR_TYPE, IP_TYPE
from policies.cel.libraries.quantities import QUANTITY
from policies.cel.types import Type, list_of, map_of, optional_of, type_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.cel.declarations import Overload


_LIBRARIES: tuple[tuple[Overload, ...], ...] = (
    operators.LIBRARY,
    conversions.LIBRARY,
    times.LIBRARY,
    urls.LIBRARY,
    strings.REGEX_LIBRARY,
    lists.LIBRARY,
    optionals.AUTHORIZER_LIBRARY,
    optionals.LIBRARY,
    quantities.LIBRARY,
    strings.LIBRARY,
    string_format.LIBRARY,
    lists.SET_LIBRARY,
    ips.LIBRARY,
    ips.CIDR_LIBRARY,
    formats.LIBRARY,
    lists.MAP_LIBRARY,
    semvers.LIBRARY,
)


@cache
def _library_functions() -> Mapping[str, Function]:
    """Every function by name, with the overloads of all libraries."""
    overloads: dict[str, list[Overload]] = {}
    for library in _LIBRARIES:
        for overload in library:
            overloads.setdefault(overload.name, []).append(overload)
    return {name: Function(name, tuple(known)) for name, known in overloads.items()}


DEVICE = "kubernetes.DRADevice"
"""The type of the one variable, `device`."""


class CelFeatures(NamedTuple):
    """The features that a cluster offers to selectors.

    Source: k8s.io/dynamic-resource-allocation/cel/compile.go, Features and the environment type.
    """

    consumable_capacity: bool = True
    """Feature gate DRAConsumableCapacity; `device.allowMultipleAllocations` exists."""
    list_type_attributes: bool = True
    """Feature gate DRAListTypeAttributes; attributes are dyn and may be lists, and `includes` exists."""
    new_expressions: bool = False
    """Compile as the API server does what is new or changed: only what the gates above offer is declared.

    What is stored already, and everything in the scheduler, may use every declaration.
    """


@dataclass(frozen=True, slots=True)
class Environment:
    """All that an expression can name."""

    features: CelFeatures
    functions: Mapping[str, Function]
    variables: Mapping[str, Type]
    """`device` only; comprehensions add theirs."""
    type_names: Mapping[str, Type]
    """Types that expressions can use as values, by name: `int`, `net.IP`; each as values have it at run time."""
    fields: Mapping[str, Mapping[str, Type]] = field(default_factory=dict)
    """The fields of object types, by type name: those of DEVICE."""


_TYPE_NAMES: Mapping[str, Type] = {
    "bool": types.BOOL,
    "bytes": types.BYTES,
    "double": types.DOUBLE,
    "int": types.INT,
    "list": list_of(types.DYN),
    "map": map_of(types.DYN, types.DYN),
    "null_type": types.NULL,
    "string": types.STRING,
    "type": type_of(types.DYN),
    "uint": types.UINT,
    "duration": types.DURATION,
    "timestamp": types.TIMESTAMP,
    "google.protobuf.Duration": types.DURATION,
    "google.protobuf.Timestamp": types.TIMESTAMP,
    "net.IP": IP_TYPE,
    "net.CIDR": CIDR_TYPE,
    "optional_type": optional_of(types.DYN),
}
"""cel-go common/stdlib; the two short names of times come from k8s.io/apiserver/pkg/cel/types.go.

Kubernetes knows the other messages of google.protobuf too, but no selector has a use for them; they are left out.
"""

_SECONDS_AND_NANOS = {"seconds": types.INT, "nanos": types.INT}
_NO_FIELDS: Mapping[str, Type] = {}
_SCALARS = ("bool", "bytes", "double", "int", "string", "uint", "list")


@cache
def selector_environment(features: CelFeatures) -> Environment:
    """The environment in which a selector is compiled.

    For what is stored already, gates do not take declarations away: k8s.io/apiserver/pkg/cel/environment/environment.go,
    `filterAndBuildOpts`. What type attributes have depends on the gate in either case.
    """
    attribute = types.DYN if features.list_type_attributes else types.ANY
    device = {
        "driver": types.STRING,
        "attributes": map_of(types.STRING, map_of(types.STRING, attribute)),
        "capacity": map_of(types.STRING, map_of(types.STRING, QUANTITY)),
    }
    lists = {f"{DEVICE}.{name}": type_ for name, type_ in device.items() if type_.kind == "map"}
    if features.consumable_capacity or not features.new_expressions:
        device["allowMultipleAllocations"] = types.BOOL
    functions = _library_functions()
    if features.new_expressions and not features.list_type_attributes:
        functions = {name: function for name, function in functions.items() if name != "includes"}
    object_type = Type(DEVICE, kind="object")
    return Environment(
        features,
        functions=functions,
        variables={"device": object_type},
        type_names={**_TYPE_NAMES, DEVICE: object_type, **lists},
        fields={
            DEVICE: device,
            "google.protobuf.Duration": _SECONDS_AND_NANOS,
            "google.protobuf.Timestamp": _SECONDS_AND_NANOS,
            **dict.fromkeys(_SCALARS, _NO_FIELDS),
        },
    )
