"""Fields around devices that an API server refuses; tests/cluster asks a real one about the same pods."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.pod_validation import refused_fields, refused_workload_fields
from tests.kubernetes.refused_pods import ACCEPTED, REFUSED, pod


@pytest.mark.parametrize("name", REFUSED)
def test_refused_field_is_named(name):
    refused, paths = REFUSED[name]
    assert [str(each.path) for each in refused_fields(refused)] == paths


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted_pod_has_no_problem(name):
    assert [*refused_fields(ACCEPTED[name])] == []


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("gpu", 'write "nvidia.com/gpu"'),
        ("NVIDIA.com/gpu", 'write "nvidia.com/gpu"'),
        ("mig-1g.5gb", 'write "nvidia.com/mig-1g.5gb"'),
        ("nvidia.com/mig-1g.10gb+me", 'write "nvidia.com/mig-1g.10gb.me"'),
        ("gpu.shared", 'write "nvidia.com/gpu.shared"'),
        ("amd-gpu", "write it as nodes have it in status.allocatable, such as nvidia.com/gpu"),
        ("AMD.com/gpu", "write it as nodes have it in status.allocatable, such as nvidia.com/gpu"),
        ("nvidia.com/gpu/h100", "write it as nodes have it in status.allocatable, such as nvidia.com/gpu"),
    ],
)
def test_name_is_proposed_only_if_it_is_certainly_meant(name, remedy):
    assert [each.remedy for each in refused_fields(pod({"limits": {name: "1"}}))] == [remedy]


def test_pod_with_thousands_of_wrong_claims_is_read_in_a_moment():
    claims = [{"name": f"claim-{number}"} for number in range(4000)]
    used = [{"name": f"{each['name']}x", "request": str(number)} for number, each in enumerate(claims)]
    requests = [{"name": "claim-0", "request": f"r{number}"} for number in range(20_000)]
    start = time.process_time()
    found = [*refused_fields(pod({"claims": [*used, *requests]}, resourceClaims=claims))]
    assert len(found) == 8000
    assert time.process_time() - start < 5


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "limits", "claims", "key", "operator", "values", "nodeAffinity"]), inner
        )
    ),
    max_leaves=12,
)
SPEC = st.dictionaries(
    st.sampled_from(["containers", "resources", "resourceClaims", "tolerations", "nodeSelector", "affinity"]), JSON
)


@given(SPEC)
def test_values_of_any_type_are_passed_over(spec):
    assert all(each.path[0] == "spec" for each in refused_fields({"spec": spec}))


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, ("spec.selector", "write selector: {matchLabels: ...} with labels of the pod template")),
        ({"matchLabels": {}}, ("spec.selector", "add labels of the pod template")),
        ({"app": "train"}, ("spec.selector", "write app below matchLabels")),
        ({"matchLabel": {"app": "train"}}, ("spec.selector", 'write "matchLabels"')),
        (
            {"matchLabels": {"app": "x"}},
            ("spec.selector.matchLabels.app", "write app: x in the labels of the template"),
        ),
    ],
)
def test_selector_that_finds_no_pod_of_its_workload_is_refused(selector, expected):
    workload = {"spec": {"selector": selector}}
    found = [*refused_workload_fields("apps", "Deployment", workload, "Always", {"app": "train"})]
    assert [(str(each.path), each.remedy) for each in found] == [expected]


@pytest.mark.parametrize(
    "selector", [{"matchLabels": {"app": "train"}}, {"matchExpressions": [{"key": "app", "operator": "Exists"}]}, "app"]
)
def test_selector_of_the_template_passes(selector):
    workload = {"spec": {"selector": selector}}
    assert [*refused_workload_fields("apps", "Deployment", workload, None, {"app": "train"})] == []


@pytest.mark.parametrize(("wanted", "label"), [(None, ""), ("", None), (None, None), ("", "")])
def test_null_in_a_selector_and_in_labels_is_empty_text(wanted, label):
    workload = {"spec": {"selector": {"matchLabels": {"app": wanted}}}}
    assert [*refused_workload_fields("apps", "Deployment", workload, None, {"app": label})] == []


@pytest.mark.parametrize(
    ("labels", "expected"), [({}, "no such label"), ({"app": "train"}, '"train"')], ids=["missing", "other"]
)
def test_null_in_a_selector_is_compared_with_the_label(labels, expected):
    workload = {"spec": {"selector": {"matchLabels": {"app": None}}}}
    (found,) = refused_workload_fields("apps", "Deployment", workload, None, labels)
    assert found.message == f'selects app: "", and the pod template has {expected}'
    assert found.remedy == 'write app: "" in the labels of the template'


@pytest.mark.parametrize("restart", [None, "", "Always"])
def test_restart_policy_that_defaults_to_always_passes(restart):
    workload = {"spec": {"selector": {"matchLabels": {"app": "train"}}}}
    assert [*refused_workload_fields("apps", "Deployment", workload, restart, {"app": "train"})] == []
