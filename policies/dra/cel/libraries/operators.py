"""The operators, under the names and overload ids that cel-go gives them, and `includes` of DRA.

`&&`, `||`, `?:`, `==` and indexing are declared here for the checker and evaluated by the compiler itself.
Source: cel-go common/stdlib/standard.go; k8s.io/dynamic-resource-allocation/cel/compile.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel import types
from policies.dra.cel.declarations import Function, Library, Overload, function, member, no_overload
from policies.dra.cel.equality import compare, equal, equals
from policies.dra.cel.errors import NO_OVERLOAD, CelRuntimeError
from policies.dra.cel.libraries import arithmetic
from policies.dra.cel.steps import spend_steps
from policies.dra.cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, UINT
from policies.dra.cel.values import Concatenation, Map, size

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.dra.cel.types import Type
    from policies.dra.cel.values import Value

__all__ = ["LIBRARY", "includes", "is_not_strictly_false", "logical_not"]

_A = types.type_parameter("A")
_B = types.type_parameter("B")
_LIST = types.list_of(_A)
_MAP = types.map_of(_A, _B)

_STEPS_PER_COMPARISON = 5

_MOST_INCLUDED = 48
"""Kubernetes' ResourceSliceMaxAttributeValuesPerDevice."""


def logical_not(value: Value) -> bool:
    """`!value`; raises CelRuntimeError if the value is not a bool."""
    if isinstance(value, bool):
        return not value
    raise CelRuntimeError(NO_OVERLOAD)


def is_not_strictly_false(value: Value) -> bool:
    """True if a loop over `&&` or `||` goes on; true for errors too."""
    return value if isinstance(value, bool) else True


def is_in(value: Value, container: Value) -> bool:
    """`value in container`, of lists and of the keys of maps; raises CelRuntimeError for anything else."""
    if isinstance(container, Map):
        return value in container
    if isinstance(container, tuple | Concatenation):
        spend_steps(_STEPS_PER_COMPARISON * size(container))
        return any(equal(value, element) for element in container)
    raise CelRuntimeError(NO_OVERLOAD)


def includes(target: Value, value: Value) -> bool:
    """True if a list attribute has a value, or a single attribute is that value.

    Raises:
        CelRuntimeError: the list has more values than an attribute may have and the value is not among the first.
    """
    if not isinstance(target, tuple | Concatenation):
        return equal(target, value)
    for position, element in enumerate(target):
        if position >= _MOST_INCLUDED:
            message = f"'includes' function cannot be applied to lists longer than {_MOST_INCLUDED} values"
            raise CelRuntimeError(message)
        if equal(element, value):
            return True
    return False


def _less(left: Value, right: Value) -> bool:
    return compare(left, right) < 0


def _less_or_equal(left: Value, right: Value) -> bool:
    return compare(left, right) <= 0


def _greater(left: Value, right: Value) -> bool:
    return compare(left, right) > 0


def _greater_or_equal(left: Value, right: Value) -> bool:
    return compare(left, right) >= 0


def _not_equal(left: Value, right: Value) -> bool:
    return not equal(left, right)


_ORDERED = (
    ("bool", BOOL, BOOL),
    ("int64", INT, INT),
    ("int64_double", INT, DOUBLE),
    ("int64_uint64", INT, UINT),
    ("uint64", UINT, UINT),
    ("uint64_double", UINT, DOUBLE),
    ("uint64_int64", UINT, INT),
    ("double", DOUBLE, DOUBLE),
    ("double_int64", DOUBLE, INT),
    ("double_uint64", DOUBLE, UINT),
    ("string", STRING, STRING),
    ("bytes", BYTES, BYTES),
    ("timestamp", TIMESTAMP, TIMESTAMP),
    ("duration", DURATION, DURATION),
)


def _comparison(name: str, id_: str, run: Callable[[Value, Value], bool]) -> Function:
    return Function(name, tuple(function(f"{id_}_{kinds}", (a, b), BOOL, run) for kinds, a, b in _ORDERED))


def _arithmetic(name: str, run: Callable[..., Value], *signatures: tuple[str, tuple[Type, ...], Type]) -> Function:
    return Function(name, tuple(Overload(id_, parameters, result, run) for id_, parameters, result in signatures))


LIBRARY = Library(
    functions=(
        Function("_?_:_", (function("conditional", (BOOL, _A, _A), _A, no_overload),)),
        Function("_&&_", (function("logical_and", (BOOL, BOOL), BOOL, no_overload),)),
        Function("_||_", (function("logical_or", (BOOL, BOOL), BOOL, no_overload),)),
        Function("!_", (function("logical_not", (BOOL,), BOOL, logical_not),)),
        Function("@not_strictly_false", (function("not_strictly_false", (BOOL,), BOOL, is_not_strictly_false),)),
        Function("_==_", (function("equals", (_A, _A), BOOL, equals),)),
        Function("_!=_", (function("not_equals", (_A, _A), BOOL, _not_equal),)),
        _arithmetic(
            "_+_",
            arithmetic.add,
            ("add_bytes", (BYTES, BYTES), BYTES),
            ("add_double", (DOUBLE, DOUBLE), DOUBLE),
            ("add_duration_duration", (DURATION, DURATION), DURATION),
            ("add_duration_timestamp", (DURATION, TIMESTAMP), TIMESTAMP),
            ("add_timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP),
            ("add_int64", (INT, INT), INT),
            ("add_list", (_LIST, _LIST), _LIST),
            ("add_string", (STRING, STRING), STRING),
            ("add_uint64", (UINT, UINT), UINT),
        ),
        _arithmetic(
            "_/_",
            arithmetic.divide,
            ("divide_double", (DOUBLE, DOUBLE), DOUBLE),
            ("divide_int64", (INT, INT), INT),
            ("divide_uint64", (UINT, UINT), UINT),
        ),
        _arithmetic(
            "_%_",
            arithmetic.modulo,
            ("modulo_int64", (INT, INT), INT),
            ("modulo_uint64", (UINT, UINT), UINT),
        ),
        _arithmetic(
            "_*_",
            arithmetic.multiply,
            ("multiply_double", (DOUBLE, DOUBLE), DOUBLE),
            ("multiply_int64", (INT, INT), INT),
            ("multiply_uint64", (UINT, UINT), UINT),
        ),
        _arithmetic(
            "-_",
            arithmetic.negate,
            ("negate_double", (DOUBLE,), DOUBLE),
            ("negate_int64", (INT,), INT),
        ),
        _arithmetic(
            "_-_",
            arithmetic.subtract,
            ("subtract_double", (DOUBLE, DOUBLE), DOUBLE),
            ("subtract_duration_duration", (DURATION, DURATION), DURATION),
            ("subtract_int64", (INT, INT), INT),
            ("subtract_timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP),
            ("subtract_timestamp_timestamp", (TIMESTAMP, TIMESTAMP), DURATION),
            ("subtract_uint64", (UINT, UINT), UINT),
        ),
        _comparison("_<_", "less", _less),
        _comparison("_<=_", "less_equals", _less_or_equal),
        _comparison("_>_", "greater", _greater),
        _comparison("_>=_", "greater_equals", _greater_or_equal),
        Function(
            "_[_]",
            (
                function("index_list", (_LIST, INT), _A, no_overload),
                function("index_map", (_MAP, _A), _B, no_overload),
            ),
        ),
        Function(
            "@in",
            (
                function("in_list", (_A, _LIST), BOOL, is_in),
                function("in_map", (_A, _MAP), BOOL, is_in),
            ),
        ),
        Function("includes", (member("dra_includes_dyn_dyn", (DYN, DYN), BOOL, includes),)),
    )
)
