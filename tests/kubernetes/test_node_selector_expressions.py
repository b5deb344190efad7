"""Expressions of node selector terms, as k8s.io/apimachinery/pkg/labels and nodeaffinity read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.nodes import REQUIRED, NodeIndex

LABELS = {
    "product": "NVIDIA-L40S",
    "empty": "",
    "memory": "81559",
    "zero-padded": "05",
    "version": "580.95.05",
    "most": "9223372036854775807",
    "beyond": "9223372036854775808",
    "long": "0" * 60 + "12",
}


def expression_matches(expression, labels):
    affinity = {"nodeAffinity": {REQUIRED[-1]: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}
    return NodeIndex([{"metadata": {"labels": labels}}]).select({"affinity": affinity}) == 1


def matches(key, operator, *values):
    return expression_matches({"key": key, "operator": operator, "values": list(values)}, LABELS)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (("product", "In", "NVIDIA-L40S"), True),
        (("product", "In", "Tesla-T4", "NVIDIA-L40S"), True),
        (("product", "In", "nvidia-l40s"), False),
        (("product", "In", ""), False),
        (("empty", "In", ""), True),
        (("missing", "In", ""), False),
        (("product", "In"), False),
        (("product", "NotIn", "NVIDIA-L40S"), False),
        (("product", "NotIn", "Tesla-T4"), True),
        (("missing", "NotIn", "Tesla-T4"), True),
        (("missing", "NotIn", ""), True),
        (("empty", "NotIn", ""), False),
        (("product", "Exists"), True),
        (("empty", "Exists"), True),
        (("missing", "Exists"), False),
        (("product", "DoesNotExist"), False),
        (("missing", "DoesNotExist"), True),
        (("memory", "Gt", "81558"), True),
        (("memory", "Gt", "81559"), False),
        (("memory", "Lt", "81560"), True),
        (("memory", "Lt", "81559"), False),
        (("zero-padded", "Gt", "4"), True),
        (("zero-padded", "Lt", "06"), True),
        (("missing", "Gt", "0"), False),
        (("missing", "Lt", "0"), False),
        (("empty", "Lt", "5"), False),
        (("version", "Gt", "1"), False),
        (("product", "Lt", "1"), False),
        (("most", "Gt", "9223372036854775806"), True),
        (("beyond", "Gt", "1"), False),
        (("memory", "Lt", "9223372036854775807"), True),
        (("memory", "Lt", "9223372036854775808"), False),
        (("long", "Gt", "11"), True),
    ],
)
def test_operator_means_what_it_means_to_kubernetes(expression, expected):
    assert matches(*expression) is expected


@pytest.mark.parametrize(
    "expression",
    [
        ("missing", "NotIn"),
        ("product", "Exists", "x"),
        ("missing", "DoesNotExist", "x"),
        ("memory", "Gt"),
        ("memory", "Gt", "1", "2"),
        ("memory", "Gt", ""),
        ("memory", "Gt", "1.5"),
        ("memory", "Gt", "1e3"),
        ("memory", "Gt", " 1"),
        ("memory", "Gt", "0x1"),
        ("memory", "Gt", "\u0661"),
        ("memory", "Lt", "9" * 5000),
        ("product", "in", "NVIDIA-L40S"),
        ("product", "=", "NVIDIA-L40S"),
        ("product", ""),
    ],
)
def test_expression_that_kubernetes_cannot_parse_matches_nothing(expression):
    assert matches(*expression) is False


@pytest.mark.parametrize(
    "expression",
    [{}, {"key": "product"}, {"key": None, "operator": None, "values": None}, {"operator": "Exists"}],
)
def test_expression_without_its_parts_matches_nothing(expression):
    assert expression_matches(expression, LABELS) is False


def test_null_values_count_as_absent():
    assert expression_matches({"key": "product", "operator": "Exists", "values": None}, LABELS) is True


texts = st.sampled_from(["", "0", "5", "05", "10", "x", "NVIDIA-L40S"])
labels = st.dictionaries(st.sampled_from(["a", "b"]), texts)


@given(st.sampled_from(["a", "b", "c"]), st.lists(texts, min_size=1, max_size=3), labels)
def test_in_and_not_in_are_opposites(key, values, labels):
    positive = expression_matches({"key": key, "operator": "In", "values": values}, labels)
    negative = expression_matches({"key": key, "operator": "NotIn", "values": values}, labels)
    assert positive is not negative


@given(st.sampled_from(["a", "b", "c"]), texts, labels)
def test_numbers_compare_in_at_most_one_direction(key, bound, labels):
    greater = expression_matches({"key": key, "operator": "Gt", "values": [bound]}, labels)
    less = expression_matches({"key": key, "operator": "Lt", "values": [bound]}, labels)
    assert not (greater and less)
    both_numbers = bound.isdigit() and labels.get(key, "").isdigit()
    assert (greater or less) is (both_numbers and int(labels[key]) != int(bound))
