"""Tolerations of a key with any value, as in k8s.io/api/core/v1/toleration.go."""

import pytest

from policies.kubernetes.nodes import tolerates_key

KEY = "nvidia.com/gpu"


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": KEY, "operator": "Exists", "effect": "NoSchedule"},
        {"key": KEY, "operator": "Exists"},
        {"key": KEY, "operator": "Exists", "effect": ""},
        {"key": KEY, "operator": "Exists", "effect": None},
        {"operator": "Exists"},
        {"key": "", "operator": "Exists", "effect": "NoSchedule"},
        {"key": None, "operator": "Exists"},
    ],
)
def test_key_is_tolerated_whatever_its_value(toleration):
    assert tolerates_key([{"key": "other", "operator": "Exists"}, toleration], KEY, "NoSchedule")


@pytest.mark.parametrize(
    "tolerations",
    [
        [],
        [{}],
        [{"key": KEY, "operator": "Equal", "value": "present", "effect": "NoSchedule"}],
        [{"key": KEY, "value": "", "effect": "NoSchedule"}],
        [{"key": KEY}],
        [{"key": KEY, "operator": "Exists", "effect": "NoExecute"}],
        [{"key": KEY, "operator": "Exists", "effect": "PreferNoSchedule"}],
        [{"key": "nvidia.com/mig-1g.5gb", "operator": "Exists"}],
        [{"operator": "Equal"}],
    ],
)
def test_taint_of_some_value_is_not_tolerated(tolerations):
    assert not tolerates_key(tolerations, KEY, "NoSchedule")
