"""The CEL environment of DRA selectors: all libraries, the types, and the variable `device`.

Where several libraries have overloads of one function, the order is that in which Kubernetes adds the libraries:
k8s.io/apiserver/pkg/cel/environment/base.go, then k8s.io/dynamic-resource-allocation/cel/compile.go. Newer versions of cel-go
and Kubernetes replace some overloads of Kubernetes 1.36.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from policies.cel import types
from policies.cel.declarations import Function, function, member
from policies.cel.errors import CelRuntimeError, spend_steps
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
from policies.cel.libraries.operators import equal
from policies.cel.libraries.quantities import QUANTITY
from policies.cel.types import BOOL, DYN, INT, STRING, Type, list_of, map_of, optional_of, type_of
from policies.cel.values import Concatenation, size
from policies.kubernetes.versions import Feature

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.cel.declarations import Overload
    from policies.cel.values import List, Value
    from policies.kubernetes.view import ClusterView


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
def _library_functions(*, cel_go_029: bool, standard_includes: bool) -> Mapping[str, Function]:
    """Every function by name, with the overloads of all libraries."""
    replaced = {
        **(CEL_GO_029 if cel_go_029 else {}),
        **(STANDARD_INCLUDES if standard_includes else {}),
    }
    overloads: dict[str, list[Overload]] = {}
    for library in _LIBRARIES:
        for overload in library:
            known = replaced.get(overload.id, overload)
            if known is not None:
                overloads.setdefault(known.name, []).append(known)
    return {name: Function(name, tuple(known)) for name, known in overloads.items()}


DEVICE = "kubernetes.DRADevice"
"""The type of the one variable, `device`."""


class CelFeatures(NamedTuple):
    """The features that a cluster offers to selectors.

    The defaults are those of 1.36, with attributes that are lists, which are alpha there.

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
    stored_lists: bool = False
    """Attributes may be lists, and are dyn to stored expressions, whatever the gate."""
    standard_includes: bool = False
    """`includes` is a function of Kubernetes' library of lists."""
    cel_go_029: bool = False
    """Expressions are compiled with cel-go v0.29, else v0.26."""

    @classmethod
    def of_cluster(cls, view: ClusterView, *, new_expressions: bool) -> CelFeatures:
        """The features of a cluster; those of 1.36 if the version is unknown."""
        return cls(
            consumable_capacity=Feature.DRAConsumableCapacity.is_on(view) is not False,
            list_type_attributes=Feature.DRAListTypeAttributes.is_on(view) is True,
            new_expressions=new_expressions,
            stored_lists=Feature.StoredListAttributes.is_on(view) is True,
            standard_includes=Feature.StandardIncludes.is_on(view) is True,
            cel_go_029=Feature.CelGo029.is_on(view) is True,
        )

    @property
    def reads_lists(self) -> bool:
        """True if a device may have attributes that are lists; else no selector can be evaluated on it."""
        return self.list_type_attributes or self.stored_lists

    @property
    def attributes_are_dyn(self) -> bool:
        """True if attributes are of the type dyn, which may be lists; else of any, which may not."""
        return self.list_type_attributes or (self.stored_lists and not self.new_expressions)


STORED = CelFeatures(stored_lists=True, standard_includes=True, cel_go_029=True)
"""The features with which stored selectors are read where no version is at hand: they take nothing away.

Attributes may be lists, because a device that has a list proves that the cluster knows them.
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
    `filterAndBuildOpts`.
    """
    attribute = types.DYN if features.attributes_are_dyn else types.ANY
    device = {
        "driver": types.STRING,
        "attributes": map_of(types.STRING, map_of(types.STRING, attribute)),
        "capacity": map_of(types.STRING, map_of(types.STRING, QUANTITY)),
    }
    lists = {f"{DEVICE}.{name}": type_ for name, type_ in device.items() if type_.kind == "map"}
    if features.consumable_capacity or not features.new_expressions:
        device["allowMultipleAllocations"] = types.BOOL
    functions = _library_functions(cel_go_029=features.cel_go_029, standard_includes=features.standard_includes)
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


_LONGEST_RANGE = 1_000_000


def _index_of(text: str, part: str, offset: int) -> int:
    if offset < 0:
        raise strings.out_of_range(offset)
    return text.find(part, min(offset, len(text)))


def _last_index_of(text: str, part: str, offset: int) -> int:
    if offset < 0:
        raise strings.out_of_range(offset)
    return strings.last_index_of_from(text, part, offset) if part else min(offset, len(text))


def _range(count: int) -> List:
    if count < 0:
        raise CelRuntimeError(f"lists.range: size must be non-negative, got {count}")
    if count > _LONGEST_RANGE:
        raise CelRuntimeError(f"lists.range: size {count} exceeds maximum allowed ({_LONGEST_RANGE})")
    return lists.int_range(count)


CEL_GO_029: Mapping[str, Overload | None] = {
    "starts_with_string": member("startsWith", "starts_with_read_string", (STRING, STRING), BOOL, str.startswith),
    "ends_with_string": member("endsWith", "ends_with_read_string", (STRING, STRING), BOOL, str.endswith),
    "matches": function("matches", "matches_string", (STRING, STRING), BOOL, strings.matches_regex),
    "string_index_of_string_int": member(
        "indexOf", "string_index_of_string_int", (STRING, STRING, INT), INT, _index_of
    ),
    "string_last_index_of_string_int": member(
        "lastIndexOf", "string_last_index_of_string_int", (STRING, STRING, INT), INT, _last_index_of
    ),
    "lists_range": function("lists.range", "lists_range", (INT,), list_of(INT), _range),
    "int64_to_duration": None,
}
"""By the id of the overload of cel-go v0.26; None for one that is gone.

`starts_with_read_string` and `ends_with_read_string` are ids of ours: the cost is that of reading the argument, no longer the
target. A call of `matches` as a function costs as much as one as a method, and has its id here.
Source: cel-go v0.29 interpreter/runtimecost.go, checker/cost.go, ext/strings.go, ext/lists.go and common/stdlib/standard.go.
"""


def _includes(target: Value, value: Value) -> bool:
    """True if a list has a value, or anything else is that value."""
    if not isinstance(target, tuple | Concatenation):
        return equal(target, value)
    spend_steps(size(target))
    return any(equal(element, value) for element in target)


STANDARD_INCLUDES: Mapping[str, Overload | None] = {
    "dra_includes_dyn_dyn": member("includes", "list_includes_dyn_dyn", (DYN, DYN), BOOL, _includes)
}
"""`includes` of Kubernetes' library of lists in place of that of DRA. Source: k8s.io/apiserver/pkg/cel/library/lists.go."""
