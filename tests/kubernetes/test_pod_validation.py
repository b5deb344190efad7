"""Fields around devices that an API server refuses; tests/cluster asks a real one about the same pods."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.pod_validation import refused_fields
from tests.kubernetes.refused_pods import ACCEPTED, REFUSED


@pytest.mark.parametrize("name", REFUSED)
def test_refused_field_is_named(name):
    pod, paths = REFUSED[name]
    assert [str(each.path) for each in refused_fields(pod)] == paths


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted_pod_has_no_problem(name):
    assert [*refused_fields(ACCEPTED[name])] == []


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
