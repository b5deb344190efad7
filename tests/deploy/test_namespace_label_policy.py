"""The policy that guards our labels on namespaces, inside the API server."""

import pytest

from policies.conversion.opt_in import OPT_IN
from policies.dra.cel.errors import CelCompileError
from webhook.sandbox.admission.expressions import NO_AUTHORIZER, compile_condition, value_of

STRATEGY = "gpu-admission.io/dra-strategy"
QUOTA = "gpu-admission.io/quota"


@pytest.fixture(scope="module")
def policy(one):
    return one("ValidatingAdmissionPolicy")["spec"]


def holds(expression, new, old):
    variables = {"object": new, "oldObject": old, "request": None, "namespaceObject": None}
    verdict, _ = compile_condition(expression).holds(value_of(variables))
    assert isinstance(verdict, bool), verdict
    return verdict


def namespace(labels=None):
    metadata = {"name": "team-a"} | ({} if labels is None else {"labels": labels})
    return {"metadata": metadata, "spec": {}, "status": {}}


def test_every_way_to_write_a_label_is_guarded(policy):
    (rule,) = policy["matchConstraints"]["resourceRules"]
    assert rule["resources"] == ["namespaces", "namespaces/status", "namespaces/finalize"]
    assert (rule["operations"], policy["failurePolicy"]) == (["CREATE", "UPDATE"], "Fail")


@pytest.mark.parametrize(
    ("new", "old", "asked"),
    [
        (namespace(), None, False),
        (namespace({"a": "b"}), None, False),
        (namespace({OPT_IN: "enabled"}), None, True),
        (namespace({OPT_IN: "enabled"}), namespace(), True),
        (namespace({OPT_IN: "enabled"}), namespace({OPT_IN: "preview"}), True),
        (namespace(), namespace({OPT_IN: "enabled"}), True),
        (namespace({STRATEGY: "auto"}), namespace({}), True),
        (namespace({QUOTA: "enforced"}), namespace({}), True),
        (namespace({OPT_IN: "enabled", "a": "c"}), namespace({OPT_IN: "enabled", "a": "b"}), False),
    ],
    ids=["created", "other label", "created with it", "set", "changed", "taken away", "strategy", "quota", "beside it"],
)
def test_policy_applies_when_one_of_our_labels_changes(policy, new, old, asked):
    (condition,) = policy["matchConditions"]
    assert holds(condition["expression"], new, old) is asked


def test_authorizer_is_asked_by_name(policy):
    expression = policy["validations"][0]["expression"]
    assert expression == (
        "authorizer.group('gpu-admission.io').resource('namespaceoptins').name(object.metadata.name).check('set').allowed()"
    )
    with pytest.raises(CelCompileError, match=NO_AUTHORIZER):  # it compiles, and the sandbox has nobody to ask
        compile_condition(expression)


VALUES = {
    OPT_IN: ("enabled", "preview", "disabled"),
    STRATEGY: ("template", "rename", "leave", "auto"),
    QUOTA: ("enforced",),
}


@pytest.mark.parametrize("label", VALUES)
def test_labels_have_values_that_mean_something(policy, label):
    expressions = [validation["expression"] for validation in policy["validations"][1:]]
    for value in (*VALUES[label], None):
        labels = {} if value is None else {label: value}
        assert all(holds(each, namespace(labels), namespace()) for each in expressions)
    assert not all(holds(each, namespace({label: "yes"}), namespace()) for each in expressions)
    assert not all(holds(each, namespace({label: "yes"}), None) for each in expressions)


@pytest.mark.parametrize("label", VALUES)
def test_value_that_is_there_already_does_not_block_other_labels(policy, label):
    other = STRATEGY if label == OPT_IN else OPT_IN
    old, new = namespace({label: "yes"}), namespace({label: "yes", other: VALUES[other][0]})
    assert all(holds(validation["expression"], new, old) for validation in policy["validations"][1:])


def test_message_names_the_namespace_and_the_role_that_grants_it(policy, one):
    message = policy["validations"][0]["messageExpression"]
    compile_condition(f"({message}).contains('team-a')")
    role = one("ClusterRole", "gpu-admission-namespace-opt-in")
    assert role["metadata"]["name"] in message
    assert role["rules"] == [{"apiGroups": ["gpu-admission.io"], "resources": ["namespaceoptins"], "verbs": ["set"]}]


def test_policy_is_bound_and_denies(one):
    binding = one("ValidatingAdmissionPolicyBinding")["spec"]
    assert binding == {
        "policyName": one("ValidatingAdmissionPolicy")["metadata"]["name"],
        "validationActions": ["Deny"],
    }
