"""Tolerations of a taint with its value, as in k8s.io/api/core/v1/toleration.go."""

import pytest

from policies.kubernetes.nodes import tolerates_taint

TAINT = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"key": "sku", "operator": "Exists"},
        {"key": "sku", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "sku", "value": "gpu"},
        {"key": "sku", "operator": "Equal", "value": "gpu", "effect": ""},
    ],
)
def test_taint_is_tolerated(toleration):
    assert tolerates_taint([{}, toleration], TAINT)


@pytest.mark.parametrize(
    "tolerations",
    [
        [],
        [{}],
        [{"key": "other", "operator": "Exists"}],
        [{"key": "sku", "operator": "Exists", "effect": "NoExecute"}],
        [{"key": "sku", "operator": "Equal", "value": "other"}],
        [{"key": "sku"}],
    ],
)
def test_taint_is_not_tolerated(tolerations):
    assert not tolerates_taint(tolerations, TAINT)


def test_taint_without_value_is_equal_to_no_value():
    assert tolerates_taint([{"key": "sku"}], {"key": "sku", "effect": "NoSchedule"})


def test_toleration_with_a_comparison_is_accepted():
    assert tolerates_taint([{"key": "sku", "operator": "Gt", "value": "5"}], {**TAINT, "value": "9"})
