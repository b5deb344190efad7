"""Wishes that no GPU can ever meet."""

import pytest

from policies.nvidia.wishes import Wish


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            {"min-memory": "80Gi", "max-memory": "40Gi"},
            [(("min-memory", "max-memory"), "min-memory is 81920Mi and max-memory only 40960Mi")],
        ),
        (
            {"family": "turing", "min-compute-capability": "8.0"},
            [
                (
                    ("family", "min-compute-capability"),
                    "no GPU of the family turing has compute capability 8.0 or newer",
                )
            ],
        ),
        (
            {"family": "volta,ampere", "min-compute-capability": "9"},
            [
                (
                    ("family", "min-compute-capability"),
                    "no GPU of the families volta or ampere has compute capability 9.0 or newer",
                )
            ],
        ),
        (
            {"product": "H100*,A100-SXM4-40GB,!H*,!*40GB"},
            [(("product",), "product excludes all that it names: H100* by !H*, A100-SXM4-40GB by !*40GB")],
        ),
        ({"product": "!*MIG*,!*"}, [(("product",), "product excludes every GPU by !*")]),
        (
            {"product": "!*", "min-memory": "2Gi", "max-memory": "1Gi"},
            [
                (("product",), "product excludes every GPU by !*"),
                (("min-memory", "max-memory"), "min-memory is 2048Mi and max-memory only 1024Mi"),
            ],
        ),
    ],
)
def test_contradiction_is_reported_with_its_words(words, expected):
    assert Wish.of(words).contradictions() == expected


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"min-memory": "40Gi", "max-memory": "40Gi"},
        {"min-memory": "40Gi"},
        {"family": "ampere", "min-compute-capability": "8.6"},
        {"family": "turing,hopper", "min-compute-capability": "9.0"},
        {"family": "hopper", "min-compute-capability": "9.9"},
        {"family": "rubin", "min-compute-capability": "20"},
        {"min-compute-capability": "20"},
        {"product": "H100*,!*MIG*"},
        {"product": "!*MIG*"},
        {"sharing": "exclusive"},
    ],
    ids=str,
)
def test_wish_that_can_be_met_is_no_contradiction(words):
    assert Wish.of(words).contradictions() == []
