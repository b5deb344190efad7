"""Equality and order of run-time values."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.cel.errors import CelRuntimeError
from policies.cel.libraries.operators import compare, equal, equals
from policies.cel.libraries.quantities import Quantity
from policies.cel.libraries.semvers import Semver
from policies.cel.values import Concatenation, Map, Optional, UInt

SIMPLE = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.builds(UInt, st.integers(0, 5)), st.text(max_size=2), st.binary()
)
VALUES = st.recursive(SIMPLE, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=8)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, UInt(1)),
        (1, 1.0),
        (UInt(1), 1.0),
        (2**53 + 1, float(2**53)),
        ((1, 2), (1.0, UInt(2))),
        (Concatenation((1,), (2,)), (1, 2)),
        (Map({1: "a"}), Map({Map.key(UInt(1)): "a"})),
        (Optional(1), Optional(1.0)),
        (Optional(), Optional()),
        (None, None),
    ],
)
def test_values_are_equal_across_types_of_numbers(left, right):
    assert equal(left, right)
    assert equal(right, left)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (True, 1),
        (1, True),
        ("1", 1),
        (b"a", "a"),
        (None, False),
        (math.nan, math.nan),
        ((math.nan,), (math.nan,)),
        ((), Map({})),
        ((1,), (1, 1)),
        (Map({"a": 1}), Map({"b": 1})),
        (Optional(), Optional(1)),
        (Semver.read("1.0.0"), None),
        (2**63 - 1, UInt(2**63)),
    ],
)
def test_values_of_different_kinds_are_unequal(left, right):
    assert not equals(left, right)
    assert not equals(right, left)


def test_kubernetes_values_know_only_their_own_kind():
    with pytest.raises(CelRuntimeError, match=r"^no such overload$"):
        equals(Quantity.read("1"), "1")
    assert equals("1", Quantity.read("1")) is False


def test_error_within_a_list_counts_as_equal_to_double_equals_but_not_to_in():
    assert equals((Semver.read("1.0.0"),), ("1.0.0",)) is True
    assert equal(Semver.read("1.0.0"), "1.0.0") is False


def test_error_within_a_concatenation_is_raised():
    with pytest.raises(CelRuntimeError, match=r"^no such overload$"):
        equals(Concatenation((1,), (Semver.read("1.0.0"),)), (1, "1.0.0"))


@given(VALUES)
def test_value_without_nan_equals_itself(value):
    assert equal(value, value)


@given(VALUES, VALUES)
def test_equality_is_symmetric(left, right):
    assert equal(left, right) == equal(right, left)


@pytest.mark.parametrize(
    ("left", "right", "order"),
    [
        (1, 2.5, -1),
        (UInt(3), -1, 1),
        (2**63 - 1, float(2**63), 0),
        (-1, UInt(0), -1),
        ("a", "b", -1),
        ("\U0001f600", "\uffff", 1),
        (b"b", b"a", 1),
        (False, True, -1),
    ],
)
def test_compare_orders_numbers_and_texts(left, right, order):
    assert compare(left, right) == order
    assert compare(right, left) == -order


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        (1, "a", "no such overload"),
        (True, 1, "no such overload"),
        (math.nan, 1, "NaN values cannot be ordered"),
        (1, math.nan, "NaN values cannot be ordered"),
        (math.nan, "a", "NaN values cannot be ordered"),
    ],
)
def test_compare_refuses_what_has_no_order(left, right, message):
    with pytest.raises(CelRuntimeError) as refused:
        compare(left, right)

    assert refused.value.message == message
