"""Costs of calls at run time: those of cel-go and Kubernetes for given values."""

from __future__ import annotations

import pytest

from policies.cel import errors, types
from policies.cel.errors import CelRuntimeError, EvaluationAborted
from policies.cel.libraries.formats import LIBRARY as FORMATS_LIBRARY
from policies.cel.libraries.ips import CIDR, IP
from policies.cel.libraries.quantities import Quantity
from policies.cel.runtime_cost import (
    ATTRIBUTE,
    QUALIFIER,
    call_charge,
    stops_early,
)
from policies.cel.sizes import LIST_COST, MAP_COST, STRUCT_COST
from policies.cel.values import Concatenation, Map, Optional, UInt

TEXT = "abcdefghijkl"
"""12 characters."""
FAILED = CelRuntimeError("no such key: x")
V6 = IP.read("2001:db8::1")
V4 = IP.read("10.0.0.1")
FORMATS = {
    made.name: made for made in (overload.implementation() for overload in FORMATS_LIBRARY if overload.parameters == ())
}
BLOCK = CIDR.read("fd00::/64")


@pytest.fixture(autouse=True)
def _own_evaluation():
    errors.begin_evaluation()
    yield
    errors.begin_evaluation()


def test_constants_are_cel_gos():
    assert (ATTRIBUTE, QUALIFIER, LIST_COST, MAP_COST, STRUCT_COST) == (1, 1, 10, 30, 40)


@pytest.mark.parametrize(
    ("function", "overload", "arguments", "expected"),
    [
        ("startsWith", "starts_with_string", (TEXT, "a"), 2),
        ("endsWith", "ends_with_string", ("abc", TEXT), 1),
        ("contains", "contains_string", (TEXT * 2, TEXT), 6),
        ("contains", "contains_string", ("", "a"), 0),
        ("matches", "matches_string", ("", "abcdefgh"), 2),
        ("matches", "matches_string", (TEXT, "abcdefghi"), 6),
        ("matches", "matches", (TEXT, "abcdefghi"), 1),
        ("_+_", "add_string", (TEXT, TEXT), 3),
        ("_+_", "add_bytes", (b"a", b""), 1),
        ("_+_", "add_list", ((1, 2), (3,)), 1),
        ("_+_", "", (TEXT, TEXT), 1),
        ("_+_", "add_int64", (1, 2), 1),
        ("_==_", "equals", (TEXT, TEXT + "m"), 2),
        ("_==_", "equals", (TEXT, "m"), 1),
        ("_==_", "equals", ((), (1, 2)), 0),
        ("_==_", "equals", (Map({}), Map({})), 0),
        ("_==_", "equals", (1, 2.0), 1),
        ("_==_", "equals", (FAILED, TEXT), 1),
        ("_==_", "equals", (Optional(TEXT), TEXT), 2),
        ("_==_", "equals", (Optional(Optional(TEXT)), TEXT), 2),
        ("_==_", "equals", (Optional(), TEXT), 1),
        ("_!=_", "not_equals", (TEXT, TEXT), 2),
        ("_<_", "less_string", (TEXT, TEXT), 2),
        ("_>=_", "greater_equals_bytes", (b"a", b""), 0),
        ("_<_", "less_int64", (1, 2), 1),
        ("_<_", "", (TEXT, TEXT), 1),
        ("@in", "in_list", (1, (1, 2, 3)), 3),
        ("@in", "in_list", (1, Concatenation((1, 2), (3,))), 3),
        ("@in", "in_map", ("a", Map({"a": 1})), 1),
        ("@in", "", (1, (1, 2, 3)), 1),
        ("size", "size_string", (TEXT,), 1),
        ("bytes", "string_to_bytes", (TEXT,), 2),
        ("string", "bytes_to_string", (b"0123456789",), 1),
        ("strings.quote", "strings_quote", (TEXT,), 2),
        ("format", "string_format", (TEXT, (1,)), 2),
        ("!_", "logical_not", (True,), 1),
        ("optional.none", "optional_none", (), 1),
    ],
)
def test_standard_function_costs(function, overload, arguments, expected):
    assert call_charge(function, overload)(arguments, True) == expected


@pytest.mark.parametrize(
    ("function", "overload", "arguments", "result", "expected"),
    [
        ("slice", "list_slice", ((1, 2, 3), 0, 2), (1, 2), 13),
        ("lists.range", "lists_range", (5,), (0, 1, 2, 3, 4), 16),
        ("reverse", "list_reverse", ((1, 2),), (2, 1), 13),
        ("reverse", "list_reverse", (FAILED,), FAILED, 12),
        ("flatten", "list_flatten", (((1,), (2,)),), (1, 2), 13),
        ("flatten", "list_flatten_int", (((1,), (2,)), 3), (1, 2), 17),
        ("flatten", "list_flatten_int", ((1,), -1), FAILED, 10),
        ("flatten", "list_flatten_int", ((1, 2), -10), FAILED, 2**64 - 9),
        ("distinct", "list_distinct", ((1, 2, 3),), (1, 2, 3), 29),
        ("distinct", "list_distinct", (("a", "b", "c", "d"),), (), 44),
        ("distinct", "list_distinct", ((),), (), 11),
        ("sort", "list_int_sort", ((2, 1),), (1, 2), 19),
        ("sort", "list_google.protobuf.Timestamp_sort", ((),), (), 11),
        ("sort", "", ((2, 1),), (1, 2), 1),
        ("@sortByAssociatedKeys", "list_string_sortByAssociatedKeys", ((3, 2), ("b", "a", "c", "d")), (), 44),
        ("sets.contains", "list_sets_contains_list", ((1, 2), (3, 4, 5)), False, 7),
        ("sets.equivalent", "list_sets_equivalent_list", ((1, 2), (3, 4, 5)), False, 13),
    ],
)
def test_list_extension_costs(function, overload, arguments, result, expected):
    assert call_charge(function, overload)(arguments, result) == expected


@pytest.mark.parametrize(
    ("function", "overload", "arguments", "result", "expected"),
    [
        ("isSorted", "list_int_is_sorted_bool", ((3, 1, 2),), False, 3),
        ("min", "list_string_min_string", (("a" * 23, "a", "\u00fc" * 10),), "a", 4),
        ("sum", "list_double_sum_double", (Concatenation((1.0,), (2.0,)),), 3.0, 2),
        ("indexOf", "string_index_of_string", ("\u00fc" * 11, "a"), -1, 2),
        ("indexOf", "list_a_index_of_int", (((1, ("a" * 10,)), Map({"a" * 20: None})), 1), -1, 5),
        ("max", "list_int_max_int", (FAILED,), FAILED, 1),
        ("lowerAscii", "string_lower_ascii", (TEXT,), TEXT, 2),
        ("substring", "string_substring_int", (TEXT, 2), TEXT, 2),
        ("trim", "string_trim", ("",), "", 0),
        ("replace", "string_replace_string_string", (TEXT, "a", ""), TEXT, 3),
        ("split", "string_split_string", (TEXT, "a"), (), 3),
        ("join", "list_join", ((TEXT, "m"),), TEXT + "m", 3),
        ("find", "string_find_string", (TEXT, "abcdefghi"), "", 6),
        ("findAll", "string_find_all_string_int", ("", "a", 1), (), 1),
        ("url", "string_to_url", ("https://abcdefghijkl.mn/",), FAILED, 3),
        ("isURL", "is_url_string", (TEXT,), False, 1),
        ("quantity", "string_to_quantity", (TEXT,), FAILED, 2),
        ("isSemver", "is_semver_string_bool", (TEXT, True), False, 2),
        ("isGreaterThan", "semver_is_greater_than", (FAILED, FAILED), FAILED, 1),
        ("isIP", "is_ip", (TEXT,), False, 2),
        ("ip", "string_to_ip", ("2001:db8::1",), V6, 2),
        ("ip", "cidr_ip", (BLOCK,), V6, 1),
        ("ip.isCanonical", "ip_is_canonical", ("2001:db8::1",), True, 3),
        ("family", "ip_family", (V6,), 6, 1),
        ("string", "ip_to_string", (V6,), "2001:db8::1", 1),
        ("containsIP", "cidr_contains_ip_ip", (BLOCK, V6), False, 2),
        ("containsIP", "cidr_contains_ip_string", (BLOCK, "fd00::1"), True, 3),
        ("containsIP", "", (BLOCK, "fd00::1"), True, 2),
        ("containsIP", "cidr_contains_ip_ip", (CIDR.read("10.0.0.0/0"), V4), True, 0),
        ("containsCIDR", "cidr_contains_cidr", (BLOCK, BLOCK), True, 4),
        ("containsCIDR", "cidr_contains_cidr_string", (BLOCK, "fd00::/65"), True, 5),
        ("_==_", "equals", (V6, V6), True, 1),
        ("_!=_", "not_equals", (V6, V6), False, 2),
        ("_!=_", "not_equals", (V4, V6), True, 1),
        ("_==_", "equals", (Quantity.read("1"), ()), False, 1),
        ("includes", "dra_includes_dyn_dyn", ((1, 2, 3), 4), False, 1),
        ("format.named", "format-named", (TEXT,), Optional(), 1),
        ("check", "resourcecheck_check", (1, "get"), FAILED, 350_000),
        ("allowed", "decision_allowed", (FAILED,), FAILED, 1),
        ("labelSelector", "authorizer_label_selector", (FAILED, TEXT), FAILED, 312),
    ],
)
def test_kubernetes_function_costs(function, overload, arguments, result, expected):
    assert call_charge(function, overload)(arguments, result) == expected


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("DNS1123Label", TEXT, 16),
        ("QualifiedName", "", 15),
        ("LabelValue", TEXT, 20),
        ("uuid", TEXT, 36),
        ("date", TEXT, 36),
        ("byte", TEXT, 42),
        ("URI", TEXT, 552),
    ],
)
def test_validation_costs_by_the_pattern_of_its_format(name, text, expected):
    assert call_charge("validate", "format-validate")((FORMATS[name], text), Optional()) == expected


def test_every_format_has_a_validation_cost():
    assert len(FORMATS) == 13
    assert all(call_charge("validate", "format-validate")((named, ""), Optional()) > 1 for named in FORMATS.values())


def test_validation_by_what_is_no_format_costs_one():
    assert call_charge("validate", "format-validate")((FAILED, TEXT), FAILED) == 1


@pytest.mark.parametrize(
    ("value", "found", "missing"),
    [
        (FAILED, "*types.Err", "Add"),
        (1, "types.Int", "Contains"),
        (UInt(1), "types.Uint", "Contains"),
        (1.5, "types.Double", "Contains"),
        ("a", "types.String", "Contains"),
        (b"a", "types.Bytes", "Contains"),
        (True, "types.Bool", "Add"),
        (None, "types.Null", "Add"),
        (Map({}), "*types.baseMap", "Add"),
        (Optional(), "*types.Optional", "Add"),
        (types.INT, "*types.Type", "Add"),
        (Quantity.read("1"), "cel.Quantity", "Add"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_removing_duplicates_from_what_is_no_list_aborts(value, found, missing):
    with pytest.raises(EvaluationAborted) as caught:
        call_charge("distinct", "list_distinct")((value,), FAILED)
    assert caught.value.message == (
        f"internal error: interface conversion: {found} is not traits.Lister: missing method {missing}"
    )


@pytest.mark.parametrize(
    ("level", "found"),
    [("1", "types.String"), (UInt(1), "types.Uint"), (True, "types.Bool"), (FAILED, "*types.Err")],
    ids=["string", "uint", "bool", "failure"],
)
def test_flattening_by_what_is_no_int_aborts(level, found):
    with pytest.raises(EvaluationAborted) as caught:
        call_charge("flatten", "list_flatten_int")(((1,), level), FAILED)
    assert caught.value.message == f"internal error: interface conversion: ref.Val is {found}, not types.Int"


@pytest.mark.parametrize(
    ("function", "overload", "count", "constant_pattern", "expected"),
    [
        ("!_", "logical_not", 1, False, False),
        ("_>_", "", 2, False, False),
        ("@in", "", 2, False, False),
        ("contains", "contains_string", 2, False, False),
        ("isGreaterThan", "semver_is_greater_than", 2, False, False),
        ("isGreaterThan", "", 2, False, True),
        ("indexOf", "", 2, False, True),
        ("format", "string_format", 2, False, True),
        ("matches", "matches_string", 2, False, False),
        ("matches", "matches_string", 2, True, True),
        ("find", "string_find_string", 2, True, True),
        ("replace", "string_replace_string_string", 3, False, True),
    ],
)
def test_call_stops_at_a_failed_argument_as_it_is_planned(function, overload, count, constant_pattern, expected):
    assert stops_early(function, overload, count, constant_pattern=constant_pattern) is expected


def test_walk_through_shared_lists_is_bounded():
    shared = (1,)
    for _ in range(60):
        shared = (shared, shared)
    with pytest.raises(EvaluationAborted):
        call_charge("isSorted", "list_int_is_sorted_bool")((shared,), FAILED)
