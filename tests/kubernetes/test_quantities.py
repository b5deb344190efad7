"""Quantities: Kubernetes' own table, refusals, and bounded work for hostile literals."""

import contextlib
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.quantities import QuantityError, parse_quantity

# k8s.io/apimachinery/pkg/api/resource/quantity_test.go TestQuantityParse, as (digits, power of ten).
FROM_KUBERNETES = {
    **dict.fromkeys(["0", "0n", "0u", "0m", "0Ki", "0k", "0Mi", "0M", "0Gi", "0G", "0Ti", "0T"], (0, 0)),
    "1": (1, 0),
    "9": (9, 0),
    "1Ki": (1024, 0),
    "8Ki": (8 * 1024, 0),
    "7Mi": (7 * 1024**2, 0),
    "6Gi": (6 * 1024**3, 0),
    "5Ti": (5 * 1024**4, 0),
    "4Pi": (4 * 1024**5, 0),
    "3Ei": (3 * 1024**6, 0),
    "100Ti": (100 * 1024**4, 0),
    "5n": (5, -9),
    "4u": (4, -6),
    "3m": (3, -3),
    "8k": (8, 3),
    "50k": (5, 4),
    "7M": (7, 6),
    "6G": (6, 9),
    "5T": (5, 12),
    "2P": (2, 15),
    "1E": (1, 18),
    "1E-3": (1, -3),
    "1e3": (1, 3),
    "1E6": (1, 6),
    "1e9": (1, 9),
    "1E18": (1, 18),
    "1e14": (1, 14),
    "100.035k": (100035, 0),
    "0.001": (1, -3),
    "0.0005k": (5, -1),
    "0.00500": (5, -3),
    "0.5e0": (5, -1),
    "0.5e-2": (5, -3),
    "10.035M": (10035, 3),
    "1.3E+6": (13, 5),
    "1.53E12": (153, 10),
    "6.987654321G": (6987654321, 0),
    "2.5P": (25, 14),
    "1.01E": (101, 16),
    "3.001n": (4, -9),
    "1.1E-9": (2, -9),
    "0.0000000001": (1, -9),
    "0.00000000050": (1, -9),
    "0.9n": (1, -9),
    "0.00000012345": (124, -9),
    "0.00000012354": (124, -9),
    "9Ei": (2**63 - 1, 0),
    "9223372036854775807Ki": (2**63 - 1, 0),
    "12E": (12, 18),
    "100.035Ki": (10243584, -2),
    "0.5Mi": (524288, 0),
    "0.05Gi": (536870912, -1),
    "0.025Ti": (274877906944, -1),
    "0.000000000001Ki": (2, -9),
    ".001": (1, -3),
    ".0001k": (100, -3),
    "1.": (1, 0),
    "1.G": (1, 9),
}


@pytest.mark.parametrize(("text", "expected"), FROM_KUBERNETES.items())
def test_quantity_is_what_kubernetes_makes_of_it(text, expected):
    digits, power = expected
    assert parse_quantity(text) == Fraction(digits) * Fraction(10) ** power


@pytest.mark.parametrize(("text", "expected"), FROM_KUBERNETES.items())
@pytest.mark.parametrize(("sign", "factor"), [("+", 1), ("-", -1)])
def test_sign_stands_before_the_number(text, expected, sign, factor):
    digits, power = expected
    assert parse_quantity(sign + text) == factor * Fraction(digits) * Fraction(10) ** power


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1),
        (-3, -3),
        (2**63, 2**63),
        (0.5, Fraction(1, 2)),
        (0.1, Fraction(1, 10)),
        (1.0, 1),
        (-0.0, 0),
        (1e-7, Fraction(1, 10**7)),
        (1e22, 10**22),
    ],
)
def test_number_is_read_as_it_is_written(value, expected):
    assert parse_quantity(value) == expected


@pytest.mark.parametrize(
    "text",
    # quantity_test.go TestQuantityParse, "invalid".
    ["1.1.M", "1+1.0M", "0.1mi", "0.1am", "aoeu", ".5i", "1i", "-3.01i", "-3.01e-", " 1", "1 "],
)
def test_what_kubernetes_refuses_is_refused(text):
    with pytest.raises(QuantityError):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("", "is not a quantity"),
        (".", "is not a quantity"),
        ("+", "is not a quantity"),
        ("Ki", "is not a quantity"),
        ("--1", "is not a quantity"),
        ("1\n", "is not a quantity"),
        ("1_000", "is not a quantity"),
        ("0x10", "is not a quantity"),
        ("1/2", "is not a quantity"),
        ("1,5", "is not a quantity"),
        ("\uff11", "is not a quantity"),
        ("\u0663", "is not a quantity"),
        ("1\u212ai", "is not a quantity"),
        ("inf", "is not a quantity"),
        ("nan", "is not a quantity"),
        (float("nan"), "is not a quantity"),
        (float("inf"), "is not a quantity"),
        (None, "is not a quantity"),
        (True, "is not a quantity"),
        ([1], "is not a quantity"),
        ({}, "is not a quantity"),
        ("1K", 'has the unknown suffix "K"'),
        ("1ki", 'has the unknown suffix "ki"'),
        ("1mi", 'has the unknown suffix "mi"'),
        ("1gb", 'has the unknown suffix "gb"'),
        ("1e", 'has the unknown suffix "e"'),
        ("1GB", 'has the unknown suffix "GB"'),
        ("1e65", "has an exponent beyond 64"),
        ("1E-65", "has an exponent beyond 64"),
        ("1e999999999", "has an exponent beyond 64"),
        ("1" * 65, "is longer than the 64 characters a quantity can have"),
        (10**64, "is longer than the 64 characters a quantity can have"),
    ],
)
def test_refusal_says_why(value, problem):
    with pytest.raises(QuantityError) as refusal:
        parse_quantity(value)
    assert str(refusal.value) == problem


@pytest.mark.parametrize(
    "hostile",
    ["1e" + "9" * 62, "1" * 10_000_000, "0." + "0" * 10_000_000, "1E-" + "9" * 10_000, 10**200_000, -(10**200_000)],
    ids=["exponent", "digits", "decimals", "negative exponent", "integer", "negative integer"],
)
def test_hostile_literal_costs_nothing(hostile):
    began = time.process_time()
    with pytest.raises(QuantityError):
        parse_quantity(hostile)
    assert time.process_time() - began < 0.05


@given(st.integers(-(10**60), 10**60))
def test_integers_are_exact(number):
    assert parse_quantity(number) == parse_quantity(str(number)) == number


@given(st.integers(0, 10**15), st.integers(0, 10**9 - 1))
def test_nine_decimals_are_exact(whole, nanos):
    assert parse_quantity(f"{whole}.{nanos:09}") == whole + Fraction(nanos, 10**9)


@given(st.text(st.sampled_from("0123456789.+-eEKMGTPimnuk \u0660"), max_size=12))
def test_any_text_is_a_quantity_or_refused(text):
    with contextlib.suppress(QuantityError):
        assert isinstance(parse_quantity(text), Fraction)
