"""The policy that guards the namespace label of admin access, inside the API server."""

import pytest

from policies.rules.settings import DEFAULTS
from policies.rules.settings.exemptions import exempt_names
from tests.deploy.match_conditions import holds, namespace

NAME = "admin-access.gpu-admission.io"
LABEL = "resource.kubernetes.io/admin-access"
RIGHT = "authorizer.group('gpu-admission.io').resource('namespaceadminaccess').name(object.metadata.name) .check('set').allowed()"


@pytest.fixture(scope="module")
def policy(one):
    return one("ValidatingAdmissionPolicy", NAME)["spec"]


def is_guarded(policy, new, old):
    return all(holds(each["expression"], new, old) for each in policy["matchConditions"])


def test_every_way_to_write_a_label_is_guarded(policy):
    (rule,) = policy["matchConstraints"]["resourceRules"]
    assert rule["resources"] == ["namespaces", "namespaces/status", "namespaces/finalize"]
    assert (rule["operations"], policy["failurePolicy"]) == (["CREATE", "UPDATE"], "Fail")


CHANGES = {
    "created with it": (namespace({LABEL: "true"}), None, True),
    "set": (namespace({LABEL: "true"}), namespace(), True),
    "set beside others": (namespace({LABEL: "true", "a": "b"}), namespace({"a": "b"}), True),
    "changed": (namespace({LABEL: "true"}), namespace({LABEL: "false"}), True),
    "set to another value": (namespace({LABEL: "false"}), namespace(), True),
    "removed": (namespace({}), namespace({LABEL: "true"}), False),
    "removed with all labels": (namespace(), namespace({LABEL: "true"}), False),
    "applied again": (namespace({LABEL: "true", "a": "c"}), namespace({LABEL: "true", "a": "b"}), False),
    "never there": (namespace({"a": "b"}), namespace(), False),
    "created without it": (namespace(), None, False),
}


@pytest.mark.parametrize(("new", "old", "guarded"), CHANGES.values(), ids=CHANGES)
def test_setting_and_changing_the_label_is_guarded(policy, new, old, guarded):
    assert is_guarded(policy, new, old) is guarded


@pytest.mark.parametrize("name", sorted(exempt_names("quota", DEFAULTS)))
def test_namespaces_that_hand_out_gpus_are_left_alone(policy, name):
    hands_out = name not in ("kube-system", "gpu-admission")
    assert is_guarded(policy, namespace({LABEL: "true"}, name), namespace(name=name)) is not hands_out


def test_right_is_for_the_cluster_and_by_name(policy):
    """Not in a namespace: a RoleBinding of its own must not give a namespace the right."""
    (validation,) = policy["validations"]
    assert validation["expression"] == RIGHT


def test_message_names_the_namespace_the_right_and_the_role(policy, one):
    (validation,) = policy["validations"]
    message = (
        'metadata.labels[resource.kubernetes.io/admin-access]: setting or changing this label on namespace "team-a" '
        'requires the verb "set" on namespaceadminaccess.gpu-admission.io, because it lets everyone who creates claims in '
        "the namespace use devices that other pods hold; ask an administrator to set the label, or to bind the ClusterRole "
        "gpu-admission-admin-access to you"
    )
    assert holds(f"({validation['messageExpression']}) == {message!r}", namespace(), None)
    assert validation["message"] == message.replace(' on namespace "team-a"', "")
    assert one("ClusterRole", "gpu-admission-admin-access")["rules"] == [
        {"apiGroups": ["gpu-admission.io"], "resources": ["namespaceadminaccess"], "verbs": ["set"]}
    ]


def test_policy_is_bound_and_denies(one):
    binding = one("ValidatingAdmissionPolicyBinding", NAME)["spec"]
    assert binding == {"policyName": NAME, "validationActions": ["Deny"]}


def test_role_for_the_label_has_no_binding(installed, one):
    """And no role of Kubernetes takes it up."""
    labels = one("ClusterRole", "gpu-admission-admin-access")["metadata"]["labels"]
    assert not any("aggregate-to" in label for label in labels)
    bindings = [each["roleRef"]["name"] for each in installed if each["kind"] in ("ClusterRoleBinding", "RoleBinding")]
    assert "gpu-admission-admin-access" not in bindings
