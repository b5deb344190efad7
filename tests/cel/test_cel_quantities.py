"""Quantities, with the results of Kubernetes 1.36.2."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.cel.environment import CelFeatures, selector_environment
from policies.cel.errors import CelRuntimeError
from policies.cel.libraries.quantities import LIBRARY, QUANTITY, Quantity

OVERLOADS = {overload.id: overload for overload in LIBRARY}

WRONG_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
WRONG_NUMBER = "unable to parse numeric part of quantity"
WRONG_SUFFIX = "unable to parse quantity's suffix"
LARGEST_INT = 2**63 - 1
SMALLEST_INT = -(2**63)


def run(overload_id, *arguments):
    return OVERLOADS[overload_id].implementation(*arguments)


def value(text):
    return Fraction(Quantity.read(text).nanos, 10**9)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("-1", -1),
        ("+1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("00012", 12),
        ("80Gi", 80 * 2**30),
        ("1.5Gi", 3 * 2**29),
        ("0.1Ki", Fraction(1024, 10)),
        ("500m", Fraction(1, 2)),
        ("1n", Fraction(1, 10**9)),
        ("1k", 1000),
        ("1E", 10**18),
        ("1e3", 1000),
        ("1E3", 1000),
        ("15e-1", Fraction(3, 2)),
        ("1e30", 10**30),
        ("1234567890123456789012", 1234567890123456789012),
    ],
)
def test_quantity_is_read_exactly(text, expected):
    assert value(text) == expected


@pytest.mark.parametrize("text", [".", "+", "-", "Ki", ".Ki", "-000", "0.0"])
def test_quantity_without_a_digit_is_zero(text):
    assert value(text) == 0


@pytest.mark.parametrize(
    ("text", "nanos"),
    [("0.1n", 1), ("-0.1n", -1), ("1e-20", 1), ("1.0000000001", 10**9 + 1), ("0.0000000001Ki", 103)],
)
def test_quantity_is_rounded_away_from_zero_beyond_the_ninth_decimal(text, nanos):
    assert Quantity.read(text).nanos == nanos


@pytest.mark.parametrize(("text", "expected"), [("8Ei", LARGEST_INT), ("-9Ei", -LARGEST_INT), ("9E", 9 * 10**18)])
def test_only_a_binary_suffix_is_capped_at_64_bits(text, expected):
    assert value(text) == expected


def test_an_exponent_wraps_at_32_bits():
    assert value("1e4294967297") == 10


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", WRONG_FORMAT),
        (" 1", WRONG_FORMAT),
        ("1,5", WRONG_FORMAT),
        ("1.5.5", WRONG_FORMAT),
        ("1é", WRONG_FORMAT),
        ("\u0661", WRONG_FORMAT),
        ("1\n", WRONG_FORMAT),
        ("1K", WRONG_SUFFIX),
        ("1e", WRONG_SUFFIX),
        ("1ee5", WRONG_SUFFIX),
        ("1m5", WRONG_SUFFIX),
        ("1e99999999999999999999", WRONG_SUFFIX),
        ("1e9999999999999999999", WRONG_SUFFIX),
        ("Pi", WRONG_NUMBER),
        ("-Ei", WRONG_NUMBER),
        ("e-10", WRONG_NUMBER),
    ],
)
def test_text_that_is_no_quantity_fails_in_kubernetes_words(text, message):
    with pytest.raises(CelRuntimeError) as failed:
        run("string_to_quantity", text)
    assert failed.value.message == message
    assert not run("is_quantity_string", text)


@pytest.mark.parametrize("text", ["1e2000", "1e-2000", "9" * 1025, "0." + "1" * 1025, "1e2000000000"])
def test_quantity_with_too_many_digits_is_refused(text):
    with pytest.raises(CelRuntimeError) as failed:
        Quantity.read(text)
    assert failed.value.message == "quantity has more than the 1024 digits that are computed here"
    assert run("is_quantity_string", text)


@pytest.mark.parametrize(
    ("text", "integer"),
    [("80Gi", 80 * 2**30), ("99Ti", 99 * 2**40), ("1k", 1000), ("0", 0), ("9E", 9 * 10**18), ("-1", -1)],
)
def test_integer_is_what_kubernetes_keeps_in_64_bits(text, integer):
    assert run("quantity_is_integer", Quantity.read(text))
    assert run("quantity_get_int", Quantity.read(text)) == integer


@pytest.mark.parametrize("text", ["1.5Gi", "100Ti", "1000m", "1.0", "10E", "1234567890123456789", "0m", "1Ei"])
def test_quantity_that_kubernetes_keeps_otherwise_is_no_integer(text):
    assert not run("quantity_is_integer", Quantity.read(text))
    with pytest.raises(CelRuntimeError) as failed:
        run("quantity_get_int", Quantity.read(text))
    assert failed.value.message == "cannot convert value to integer"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("80Gi", float(80 * 2**30)), ("500m", 0.5), ("1.1", 1.1), ("1e400", math.inf), ("-1e400", -math.inf)],
)
def test_approximate_float_is_the_nearest_double(text, expected):
    assert run("quantity_get_float", Quantity.read(text)) == expected


def test_approximate_float_is_rounded_twice_as_in_kubernetes():
    assert run("quantity_get_float", Quantity.read("123456789e-3")) == 123456789 * 0.001


def test_approximate_float_of_zero_with_a_huge_exponent_is_no_number():
    assert math.isnan(run("quantity_get_float", Quantity.read("0e400")))


def test_approximate_float_of_a_huge_sum_is_infinite():
    total = run("quantity_add", Quantity.read("-1e500"), Quantity.read("1.5Gi"))
    assert run("quantity_get_float", total) == -math.inf


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [("1Gi", "1G", 1), ("1G", "1000M", 0), ("1n", "1u", -1), ("-1", "1", -1), ("1.5Gi", "1536Mi", 0)],
)
def test_comparison_is_by_value(left, right, expected):
    pair = Quantity.read(left), Quantity.read(right)
    assert run("quantity_compare_to", *pair) == expected
    assert run("quantity_is_greater_than", *pair) is (expected > 0)
    assert run("quantity_is_less_than", *pair) is (expected < 0)


def test_equal_values_are_equal_however_they_are_written():
    assert Quantity.read("1.5Gi") == Quantity.read("1536Mi")
    assert hash(Quantity.read("1.5Gi")) == hash(Quantity.read("1536Mi"))
    assert Quantity.read("1") != Quantity.read("2")


def test_quantity_is_not_equal_to_its_number():
    assert Quantity.read("1") != 1


@pytest.mark.parametrize(("text", "expected"), [("1n", 1), ("0", 0), ("-1Gi", -1)])
def test_sign_is_that_of_the_value(text, expected):
    assert run("quantity_sign", Quantity.read(text)) == expected


def test_sum_of_two_quantities_is_exact():
    assert run("quantity_add", Quantity.read("1Gi"), Quantity.read("1n")).nanos == 2**30 * 10**9 + 1


def test_difference_of_two_quantities_is_exact():
    assert run("quantity_sub", Quantity.read("1"), Quantity.read("1.5Gi")) == Quantity.read("-1610612735")


def test_sum_with_an_int_is_an_integer():
    assert run("quantity_get_int", run("quantity_add_int", Quantity.read("50k"), 20)) == 50020


def test_sum_beyond_64_bits_is_no_integer_any_more():
    total = run("quantity_add_int", Quantity.read("9223372036854775"), LARGEST_INT)
    assert total.nanos == (9223372036854775 + LARGEST_INT) * 10**9
    assert not run("quantity_is_integer", total)


def test_difference_with_the_smallest_int_wraps_as_in_kubernetes():
    assert run("quantity_get_int", run("quantity_sub_int", Quantity.read("0"), SMALLEST_INT)) == SMALLEST_INT


def test_sum_does_not_change_what_was_added_to():
    quantity = Quantity.read("1.5Gi")
    run("quantity_add_int", quantity, 1)
    assert quantity == Quantity.read("1.5Gi")


def test_what_was_computed_is_known_as_such():
    assert run("quantity_sub_int", Quantity.read("1"), 0).is_computed
    assert not Quantity.read("1").is_computed


def test_no_name_stands_for_the_type():
    assert QUANTITY.name not in selector_environment(CelFeatures()).type_names
    assert QUANTITY.kind == "object"


texts = st.from_regex(r"[+-]?[0-9]{1,22}(\.[0-9]{0,12})?(n|u|m|k|M|G|T|P|E|e-?[0-9])?", fullmatch=True)


@given(texts, texts)
def test_sums_and_differences_undo_each_other(left, right):
    total = run("quantity_add", Quantity.read(left), Quantity.read(right))
    assert run("quantity_sub", total, Quantity.read(right)) == Quantity.read(left)


@given(st.integers(SMALLEST_INT, LARGEST_INT))
def test_every_int_of_up_to_18_digits_is_read_back(number):
    quantity = Quantity.read(str(number))
    assert quantity.nanos == number * 10**9
    assert quantity.integer() == (number if abs(number) < 10**18 else None)
