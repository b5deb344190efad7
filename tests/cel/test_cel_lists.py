"""Functions on lists, with the results of Kubernetes 1.36.2."""

from __future__ import annotations

import math

import pytest

from policies.cel import errors
from policies.cel.errors import CelRuntimeError, EvaluationAborted
from policies.cel.libraries.lists import LIBRARY
from policies.cel.libraries.quantities import Quantity
from policies.cel.libraries.times import Duration, Timestamp
from policies.cel.values import Concatenation, Map, UInt

OVERLOADS = {overload.id: overload for overload in LIBRARY}

LARGEST_INT = 2**63 - 1
NOTHING_COMPARABLE = "no such overload"


def run(overload_id, *arguments):
    errors.begin_evaluation()
    return OVERLOADS[overload_id].implementation(*arguments)


def failure(overload_id, *arguments):
    with pytest.raises(CelRuntimeError) as failed:
        run(overload_id, *arguments)
    return failed.value.message


def doubled(elements, times):
    for _ in range(times):
        elements = Concatenation(elements, elements)
    return elements


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        ((), True),
        ((1, 1, 2), True),
        ((2, 1), False),
        ((1, UInt(1), 1.5), True),
        (("a", "B"), False),
        ((False, True), True),
        ((b"a", b"ab"), True),
        ((Duration(-1), Duration(1)), True),
        ((Timestamp(1), Timestamp(0)), False),
        ((2.0, math.nan, 1.0), True),
        ((2, "a"), True),
    ],
)
def test_list_is_sorted_unless_an_element_is_greater_than_the_next(elements, expected):
    assert run("list_int_is_sorted_bool", elements) is expected


@pytest.mark.parametrize("name", ["min", "max", "isSorted"])
def test_list_that_begins_with_what_has_no_order_is_no_such_overload(name):
    overload_id = f"list_int_{name}_int" if name != "isSorted" else "list_int_is_sorted_bool"
    assert failure(overload_id, ((1,), 1)) == f"no such overload: {name}(list)"


@pytest.mark.parametrize("overload_id", ["list_int_min_int", "list_int_max_int", "list_int_is_sorted_bool"])
def test_later_element_without_an_order_is_no_such_overload(overload_id):
    assert failure(overload_id, (1, (1,))) == NOTHING_COMPARABLE


@pytest.mark.parametrize(
    ("elements", "least", "greatest"),
    [
        ((3, 1, 2), 1, 3),
        (("b", "", "é"), "", "é"),
        ((True, False), False, True),
        ((Duration(2),), Duration(2), Duration(2)),
    ],
)
def test_min_and_max_are_elements(elements, least, greatest):
    assert run("list_int_min_int", elements) == least
    assert run("list_int_max_int", elements) == greatest


def test_first_of_equal_extremes_is_answered():
    assert type(run("list_int_min_int", (1.0, 1))) is float
    assert type(run("list_int_max_int", (1, 1.0))) is int


@pytest.mark.parametrize("name", ["min", "max"])
def test_min_and_max_of_nothing_fail(name):
    assert failure(f"list_int_{name}_int", ()) == f"{name} called on empty list"


@pytest.mark.parametrize(
    ("type_name", "zero"), [("int", 0), ("uint", UInt(0)), ("double", 0.0), ("duration", Duration(0))]
)
def test_sum_of_nothing_is_the_zero_of_the_type(type_name, zero):
    total = run(f"list_{type_name}_sum_{type_name}", ())
    assert total == zero
    assert type(total) is type(zero)


@pytest.mark.parametrize(
    ("elements", "total"),
    [
        ((1, 2, 3), 6),
        ((UInt(1), UInt(2)), UInt(3)),
        ((0.5, 0.25), 0.75),
        ((Duration(1), Duration(2)), Duration(3)),
    ],
)
def test_sum_goes_by_the_first_element_whatever_the_overload(elements, total):
    assert run("list_int_sum_int", elements) == total
    assert type(run("list_int_sum_int", elements)) is type(total)


@pytest.mark.parametrize(
    ("elements", "message"),
    [
        ((LARGEST_INT, 1), "integer overflow"),
        ((UInt(2**64 - 1), UInt(1)), "unsigned integer overflow"),
        ((Duration(LARGEST_INT), Duration(1)), "integer overflow"),
        ((1, 1.0), "no such overload"),
        (("a",), "no such overload: sum(list)"),
        ((True,), "no such overload: sum(list)"),
    ],
)
def test_sum_fails_where_addition_does(elements, message):
    assert failure("list_int_sum_int", elements) == message


def test_index_of_is_by_equality():
    elements = (1, "a", 2, 1.0)
    assert run("list_a_index_of_int", elements, UInt(1)) == 0
    assert run("list_a_last_index_of_int", elements, 1) == 3
    assert run("list_a_index_of_int", elements, "b") == -1
    assert run("list_a_last_index_of_int", (), 1) == -1


def test_index_of_passes_over_what_cannot_be_compared():
    assert run("list_a_index_of_int", (Quantity.read("1"), 1), 1) == 1


def test_slice_is_from_start_up_to_end():
    assert run("list_slice", (1, 2, 3), 1, 2) == (2,)
    assert run("list_slice", Concatenation((1, 2), (3, 4)), 1, 3) == (2, 3)
    assert run("list_slice", (1,), 1, 1) == ()


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        (-1, 1, "cannot slice(-1, 1), negative indexes not supported"),
        (0, -1, "cannot slice(0, -1), negative indexes not supported"),
        (2, 1, "cannot slice(2, 1), start index must be less than or equal to end index"),
        (0, 3, "cannot slice(0, 3), list is length 2"),
    ],
)
def test_slice_outside_of_the_list_fails(start, end, message):
    assert failure("list_slice", (1, 2), start, end) == message


NESTED = (1, (2, (3, (4,))), Concatenation((5,), ((6,),)), ())


@pytest.mark.parametrize(
    ("depth", "flat"),
    [
        (0, NESTED),
        (1, (1, 2, (3, (4,)), 5, (6,))),
        (2, (1, 2, 3, (4,), 5, 6)),
        (LARGEST_INT, (1, 2, 3, 4, 5, 6)),
    ],
)
def test_flatten_takes_lists_apart_down_to_a_depth(depth, flat):
    assert run("list_flatten_int", NESTED, depth) == flat


def test_flatten_without_a_depth_goes_down_once():
    assert run("list_flatten", NESTED) == run("list_flatten_int", NESTED, 1)


def test_flatten_to_a_negative_depth_fails():
    assert failure("list_flatten_int", (), -1) == "level must be non-negative"


@pytest.mark.parametrize(("value", "type_name"), [(1, "int"), ("a", "string"), (Map({}), "map(dyn, dyn)")])
def test_flatten_of_no_list_is_no_such_overload(value, type_name):
    assert failure("list_flatten", value) == f"no such overload: {type_name}.flatten()"


def test_flatten_is_as_deep_as_lists_can_be():
    nested = (1,)
    for _ in range(5000):
        nested = (nested,)
    assert run("list_flatten_int", nested, LARGEST_INT) == (1,)


@pytest.mark.parametrize("elements", [(2, 1, 3), ("b", "a"), (True, False), (b"b", b"a"), (Duration(2), Duration(1))])
def test_sort_is_ascending(elements):
    assert run("list_int_sort", elements) == tuple(sorted(elements))


def test_sort_by_keys_keeps_the_order_of_equal_keys():
    assert run("list_int_sortByAssociatedKeys", ("a", "b", "c", "d"), (2, 1, 2, 1)) == ("b", "d", "a", "c")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ((1, "a"), "list elements must have the same type"),
        ((1, 1.0), "list elements must have the same type"),
        (((1,), (2,)), "list elements must be comparable"),
        (
            (1,),
            (
                "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, "
                "but got 2 and 1 elements respectively"
            ),
        ),
    ],
)
def test_sort_by_keys_without_an_order_fails(keys, message):
    assert failure("list_int_sortByAssociatedKeys", ("a", "b"), keys) == message


def test_overloads_of_sort_are_named_by_the_full_names_of_types():
    assert "list_google.protobuf.Duration_sort" in OVERLOADS
    assert "list_google.protobuf.Timestamp_sortByAssociatedKeys" in OVERLOADS


def test_range_counts_from_zero():
    assert run("lists_range", 3) == (0, 1, 2)
    assert run("lists_range", -1) == ()


def test_reverse_turns_the_list_around():
    assert run("list_reverse", Concatenation((1, 2), (3,))) == (3, 2, 1)


def test_distinct_keeps_the_first_of_equal_elements():
    first = 1.0
    assert run("list_distinct", (first, 1, UInt(1), "a", (1,), ("a",), (1.0,)))[0] is first
    assert run("list_distinct", (1, "a", 1.0, (1,), "a", (1.0,))) == (1, "a", (1,))


@pytest.mark.parametrize(
    ("overload_id", "arguments"),
    [
        ("lists_range", (LARGEST_INT,)),
        ("lists_range", (10_000_000,)),
        ("list_reverse", (doubled((1,), 60),)),
        ("list_distinct", (doubled((1,), 60),)),
        ("list_int_sort", (doubled((1,), 60),)),
        ("list_flatten_int", (doubled((1,), 60), 0)),
        ("list_flatten", ((doubled((1,), 60),),)),
        ("list_slice", (doubled((1,), 60), 0, 2**60)),
    ],
)
def test_more_elements_than_the_cost_limit_allows_are_not_made(overload_id, arguments):
    with pytest.raises(EvaluationAborted) as aborted:
        run(overload_id, *arguments)
    assert aborted.value.message == "operation cancelled: actual cost limit exceeded"
