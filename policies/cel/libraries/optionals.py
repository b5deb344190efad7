"""Optional values: `optional.of(x)`, `a.?b`, `list[?0]`, and the functions on them.

Looking up, `or` and `orValue` are declared here for the checker and evaluated by the evaluator itself.
Source: cel-go cel/library.go, optionalLib.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from policies.cel.declarations import Overload, function, member, no_overload
from policies.cel.errors import CelRuntimeError, spend_steps
from policies.cel.kinds import printed_text, usable
from policies.cel.libraries.times import Duration, Timestamp
from policies.cel.types import BOOL, DYN, INT, STRING, Type, list_of, map_of, optional_of, type_parameter
from policies.cel.values import Absent, Concatenation, Map, Optional, size

if TYPE_CHECKING:
    from policies.cel.values import List, Value


_K = type_parameter("K")
_V = type_parameter("V")
_LIST = list_of(_V)
_MAP = map_of(_K, _V)
_OPTIONAL = optional_of(_V)

_NONE = Optional()
_ZERO_TIME = -62_135_596_800 * 10**9
"""0001-01-01T00:00:00Z, which Go takes for no time; 1970 is a time like any other."""


def _is_zero(value: Value) -> bool:
    """True if a value is the zero value of its type; values of Kubernetes' own types never are."""
    if isinstance(value, tuple | Concatenation):
        return size(value) == 0
    if isinstance(value, Map):
        return len(value) == 0
    if isinstance(value, Timestamp):
        return value.nanoseconds == _ZERO_TIME
    if isinstance(value, Duration):
        return value.nanoseconds == 0
    return value is None or (isinstance(value, bool | int | float | str | bytes) and not value)


def _value(optional: Optional) -> Value:
    if isinstance(optional.value, Absent):
        raise CelRuntimeError("optional.none() dereference")
    return usable(optional.value)


def _unwrap(name: str, optionals: List) -> List:
    """The values of those that have one."""
    values: list[Value] = []
    for index, optional in enumerate(optionals):
        if not isinstance(optional, Optional):
            message = f"value {printed_text(optional)} is not optional" if index else f"no such overload: {name}(list)"
            raise CelRuntimeError(message)
        if not isinstance(optional.value, Absent):
            spend_steps(1)
            values.append(usable(optional.value))
    return tuple(values)


LIBRARY: tuple[Overload, ...] = (
    function("optional.of", "optional_of", (_V,), _OPTIONAL, Optional),
    function(
        "optional.ofNonZeroValue",
        "optional_ofNonZeroValue",
        (_V,),
        _OPTIONAL,
        lambda value: _NONE if _is_zero(value) else Optional(value),
    ),
    function("optional.none", "optional_none", (), _OPTIONAL, lambda: _NONE),
    member("value", "optional_value", (_OPTIONAL,), _V, _value),
    member(
        "hasValue", "optional_hasValue", (_OPTIONAL,), BOOL, lambda optional: not isinstance(optional.value, Absent)
    ),
    member("or", "optional_or_optional", (_OPTIONAL, _OPTIONAL), _OPTIONAL, no_overload),
    member("orValue", "optional_orValue_value", (_OPTIONAL, _V), _V, no_overload),
    function("_?._", "select_optional_field", (DYN, STRING), _OPTIONAL, no_overload),
    function("_[?_]", "list_optindex_optional_int", (_LIST, INT), _OPTIONAL, no_overload),
    function("_[?_]", "optional_list_optindex_optional_int", (optional_of(_LIST), INT), _OPTIONAL, no_overload),
    function("_[?_]", "map_optindex_optional_value", (_MAP, _K), _OPTIONAL, no_overload),
    function("_[?_]", "optional_map_optindex_optional_value", (optional_of(_MAP), _K), _OPTIONAL, no_overload),
    function("_[_]", "optional_list_index_int", (optional_of(_LIST), INT), _OPTIONAL, no_overload),
    function("_[_]", "optional_map_index_value", (optional_of(_MAP), _K), _OPTIONAL, no_overload),
    member(
        "last",
        "list_last",
        (_LIST,),
        _OPTIONAL,
        lambda elements: Optional(elements[size(elements) - 1]) if size(elements) else _NONE,
    ),
    member(
        "first", "list_first", (_LIST,), _OPTIONAL, lambda elements: Optional(elements[0]) if size(elements) else _NONE
    ),
    function("optional.unwrap", "optional_unwrap", (list_of(_OPTIONAL),), _LIST, partial(_unwrap, "optional.unwrap")),
    member("unwrapOpt", "optional_unwrapOpt", (list_of(_OPTIONAL),), _LIST, partial(_unwrap, "unwrapOpt")),
)


_AUTHORIZER = Type("kubernetes.authorization.Authorizer", kind="object")
_PATH_CHECK = Type("kubernetes.authorization.PathCheck", kind="object")
_GROUP_CHECK = Type("kubernetes.authorization.GroupCheck", kind="object")
_RESOURCE_CHECK = Type("kubernetes.authorization.ResourceCheck", kind="object")
_DECISION = Type("kubernetes.authorization.Decision", kind="object")


def _of(name: str, id_: str, target: Type, result: Type, *arguments: Type) -> Overload:
    return member(name, id_, (target, *arguments), result, no_overload)


AUTHORIZER_LIBRARY: tuple[Overload, ...] = (
    _of("path", "authorizer_path", _AUTHORIZER, _PATH_CHECK, STRING),
    _of("group", "authorizer_group", _AUTHORIZER, _GROUP_CHECK, STRING),
    _of("serviceAccount", "authorizer_serviceaccount", _AUTHORIZER, _AUTHORIZER, STRING, STRING),
    _of("resource", "groupcheck_resource", _GROUP_CHECK, _RESOURCE_CHECK, STRING),
    _of("subresource", "resourcecheck_subresource", _RESOURCE_CHECK, _RESOURCE_CHECK, STRING),
    _of("namespace", "resourcecheck_namespace", _RESOURCE_CHECK, _RESOURCE_CHECK, STRING),
    _of("name", "resourcecheck_name", _RESOURCE_CHECK, _RESOURCE_CHECK, STRING),
    _of("check", "pathcheck_check", _PATH_CHECK, _DECISION, STRING),
    _of("check", "resourcecheck_check", _RESOURCE_CHECK, _DECISION, STRING),
    _of("errored", "decision_errored", _DECISION, BOOL),
    _of("error", "decision_error", _DECISION, STRING),
    _of("allowed", "decision_allowed", _DECISION, BOOL),
    _of("reason", "decision_reason", _DECISION, STRING),
    _of("fieldSelector", "authorizer_fieldselector", _RESOURCE_CHECK, _RESOURCE_CHECK, STRING),
    _of("labelSelector", "authorizer_labelselector", _RESOURCE_CHECK, _RESOURCE_CHECK, STRING),
)
