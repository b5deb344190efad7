"""Lists as sets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.cel import errors
from policies.cel.errors import EvaluationAborted
from policies.cel.libraries.lists import SET_LIBRARY
from policies.cel.libraries.quantities import Quantity
from policies.cel.values import UInt

OVERLOADS = {overload.id: overload for overload in SET_LIBRARY}


def run(overload_id, *arguments):
    errors.begin_evaluation()
    return OVERLOADS[overload_id].implementation(*arguments)


@pytest.mark.parametrize(
    ("elements", "others", "contains", "equivalent", "intersects"),
    [
        pytest.param((), (), True, True, False, id="both empty"),
        pytest.param((1,), (), True, False, False, id="one empty"),
        pytest.param((), (1,), False, False, False, id="the other empty"),
        pytest.param((1, 2, 3), (3, 1), True, False, True, id="part"),
        pytest.param((1, 2), (2, 2, 1), True, True, True, id="repeated"),
        pytest.param((1, 2), (2, 3), False, False, True, id="overlapping"),
        pytest.param((1, 2), (3,), False, False, False, id="apart"),
        pytest.param((1, 2), (1.0, UInt(2)), True, True, True, id="numbers of several kinds"),
        pytest.param(((1,), (2,)), ((1.0,),), True, False, True, id="lists"),
        pytest.param((True,), (1,), False, False, False, id="bools are no numbers"),
    ],
)
def test_sets_compare_by_the_equality_of_elements(elements, others, contains, equivalent, intersects):
    assert run("list_sets_contains_list", elements, others) is contains
    assert run("list_sets_equivalent_list", elements, others) is equivalent
    assert run("list_sets_intersects_list", elements, others) is intersects


def test_computed_quantity_is_looked_for_but_not_found_by_others():
    plain = Quantity.read("1")
    computed = replace(plain, is_computed=True)
    assert run("list_sets_contains_list", (plain,), (computed,))
    assert not run("list_sets_contains_list", (computed,), (plain,))


@pytest.mark.parametrize("overload_id", sorted(OVERLOADS))
def test_more_comparisons_than_the_cost_limit_allows_are_not_begun(overload_id):
    with pytest.raises(EvaluationAborted) as aborted:
        run(overload_id, tuple(range(10_000)), tuple(range(10_000, 20_000)))
    assert aborted.value.message == "operation cancelled: actual cost limit exceeded"
