"""The policy that guards the labels by which ClusterGPUQuotas choose and group namespaces."""

import copy

import pytest

from policies.quota.limits.cluster_quota import GUARD, is_guard


@pytest.fixture(scope="module")
def policy(one):
    return one("ValidatingAdmissionPolicy", GUARD)


@pytest.fixture(scope="module")
def binding(one):
    return one("ValidatingAdmissionPolicyBinding", GUARD)


def test_what_is_shipped_is_the_guard_that_the_leader_looks_for(policy, binding):
    assert is_guard(policy, binding)


def without(found, *path):
    changed = copy.deepcopy(found)
    *above, last = path
    at = changed
    for step in above:
        at = at[step]
    del at[last]
    return changed


@pytest.mark.parametrize(
    "path",
    [
        ("spec", "failurePolicy"),
        ("spec", "paramKind"),
        ("spec", "validations", 0),
        ("spec", "variables"),
        ("spec", "matchConditions", 0),
        ("spec", "matchConstraints", "resourceRules", 0, "operations", 1),
    ],
)
def test_changed_policy_is_no_guard(policy, binding, path):
    assert not is_guard(without(policy, *path), binding)


def test_changed_binding_is_no_guard(policy, binding):
    for path in (("spec", "validationActions", 0), ("spec", "policyName")):
        assert not is_guard(policy, without(binding, *path))
    for reference in ({"selector": {"matchLabels": {"a": "b"}}}, {"name": "research"}):
        some = copy.deepcopy(binding)
        some["spec"]["paramRef"] = {**reference, "parameterNotFoundAction": "Allow"}
        assert not is_guard(policy, some)
    assert not is_guard(None, binding)
    assert not is_guard(policy, None)


def test_guard_of_some_namespaces_only_is_no_guard(policy, binding):
    some = {"matchLabels": {"a": "b"}}
    bound = copy.deepcopy(binding)
    bound["spec"]["matchResources"] = {"namespaceSelector": some}
    for field, value in {"namespaceSelector": some, "objectSelector": some, "excludeResourceRules": [{}]}.items():
        narrowed = copy.deepcopy(policy)
        narrowed["spec"]["matchConstraints"][field] = value
        assert not is_guard(narrowed, binding)
    assert not is_guard(policy, bound)
