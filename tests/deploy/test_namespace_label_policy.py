"""The policy that guards our labels on namespaces, inside the API server."""

import re

import pytest

from policies.cel import NO_AUTHORIZER, CelCompileError, compile_condition
from policies.kubernetes.names import DRA_LABEL, QUOTA_LABEL
from policies.rules.settings import DEFAULTS
from policies.rules.settings.exemptions import exempt_names
from tests.deploy.match_conditions import holds, namespace

STRATEGY = "gpu-admission.io/dra-strategy"
NAME = "namespace-labels.gpu-admission.io"


@pytest.fixture(scope="module")
def policy(one):
    return one("ValidatingAdmissionPolicy", NAME)["spec"]


def test_every_way_to_write_a_label_is_guarded(policy):
    (rule,) = policy["matchConstraints"]["resourceRules"]
    assert rule["resources"] == ["namespaces", "namespaces/status", "namespaces/finalize"]
    assert (rule["operations"], policy["failurePolicy"]) == (["CREATE", "UPDATE"], "Fail")


@pytest.mark.parametrize(
    ("new", "old", "asked"),
    [
        (namespace(), None, False),
        (namespace({"a": "b"}), None, False),
        (namespace({DRA_LABEL: "enabled"}), None, True),
        (namespace({DRA_LABEL: "enabled"}), namespace(), True),
        (namespace({DRA_LABEL: "enabled"}), namespace({DRA_LABEL: "preview"}), True),
        (namespace(), namespace({DRA_LABEL: "enabled"}), True),
        (namespace({STRATEGY: "auto"}), namespace({}), True),
        (namespace({QUOTA_LABEL: "enforced"}), namespace({}), True),
        (namespace({DRA_LABEL: "enabled", "a": "c"}), namespace({DRA_LABEL: "enabled", "a": "b"}), False),
    ],
    ids=["created", "other label", "created with it", "set", "changed", "taken away", "strategy", "quota", "beside it"],
)
def test_policy_applies_when_one_of_our_labels_changes(policy, new, old, asked):
    (condition,) = policy["matchConditions"]
    assert holds(condition["expression"], new, old) is asked


RIGHTS = {DRA_LABEL: "namespaceoptins", STRATEGY: "namespaceoptins", QUOTA_LABEL: "namespacequotas"}


def checks(policy):
    """The validations about who may, by the right that they ask for, with the authorizer replaced by a refusal."""
    asked = re.compile(
        r"authorizer\.group\('gpu-admission\.io'\)\.resource\('(\w+)'\)"
        r"\.name\(object\.metadata\.name\)\.check\('set'\)\.allowed\(\)"
    )
    return {
        asked.search(each["expression"])[1]: asked.sub("false", each["expression"])
        for each in policy["validations"]
        if "authorizer" in each["expression"]
    }


@pytest.mark.parametrize("label", RIGHTS)
def test_right_to_set_a_label_is_requested_where_it_changes(policy, label):
    old, new = namespace({"a": "b"}), namespace({"a": "b", label: "enforced"})
    for before, after in ((old, new), (new, old), (None, new)):
        refused = {right for right, expression in checks(policy).items() if not holds(expression, after, before)}
        assert refused == {RIGHTS[label]}
    assert all(holds(expression, new, new) for expression in checks(policy).values())


def test_who_opts_a_namespace_in_cannot_free_it_from_its_quota(policy, one):
    """These are two rights, in two roles."""
    roles = {
        resource: role
        for role in ("gpu-admission-namespace-opt-in", "gpu-admission-quota-edit")
        for rule in one("ClusterRole", role)["rules"]
        for resource in rule["resources"]
        if rule["verbs"] == ["set"]
    }
    assert roles == {
        "namespaceoptins": "gpu-admission-namespace-opt-in",
        "namespacequotas": "gpu-admission-quota-edit",
    }
    assert checks(policy).keys() == roles.keys()


def test_sandbox_has_no_authorizer_to_ask(policy):
    with pytest.raises(CelCompileError, match=NO_AUTHORIZER):  # it compiles, and the sandbox has nobody to ask
        compile_condition(policy["validations"][0]["expression"])


VALUES = {
    DRA_LABEL: ("enabled", "preview", "disabled"),
    STRATEGY: ("template", "rename", "leave", "auto"),
    QUOTA_LABEL: ("enforced",),
}


@pytest.mark.parametrize("label", VALUES)
def test_labels_have_values_that_mean_something(policy, label):
    expressions = [
        validation["expression"] for validation in policy["validations"] if "authorizer" not in validation["expression"]
    ]
    for value in (*VALUES[label], None):
        labels = {} if value is None else {label: value}
        assert all(holds(each, namespace(labels), namespace()) for each in expressions)
    assert not all(holds(each, namespace({label: "yes"}), namespace()) for each in expressions)
    assert not all(holds(each, namespace({label: "yes"}), None) for each in expressions)


@pytest.mark.parametrize("label", VALUES)
def test_value_that_is_there_already_does_not_block_other_labels(policy, label):
    other = STRATEGY if label == DRA_LABEL else DRA_LABEL
    old, new = namespace({label: "yes"}), namespace({label: "yes", other: VALUES[other][0]})
    known = [each["expression"] for each in policy["validations"] if "authorizer" not in each["expression"]]
    assert all(holds(each, new, old) for each in known)


EXEMPT = {
    (DRA_LABEL, "enabled"): False,
    (DRA_LABEL, "preview"): False,
    (DRA_LABEL, "disabled"): True,
    (QUOTA_LABEL, "enforced"): False,
}


@pytest.mark.parametrize(("label", "value"), EXEMPT)
@pytest.mark.parametrize("name", sorted(exempt_names("quota", DEFAULTS)))
def test_exempt_namespace_takes_no_label_that_its_webhooks_would_not_honour(policy, name, label, value):
    known = [each["expression"] for each in policy["validations"] if "authorizer" not in each["expression"]]
    labelled, before = namespace({label: value}, name), namespace(name=name)
    for old in (before, None):
        assert all(holds(each, labelled, old) for each in known) is EXEMPT[label, value]
    assert all(holds(each, labelled, labelled) for each in known)
    assert all(holds(each, before, labelled) for each in known)


def test_messages_name_the_namespace_and_the_role_that_grants_it(policy):
    opt_in, quota, *_ = (each["messageExpression"] for each in policy["validations"] if "messageExpression" in each)
    for message, role in ((opt_in, "gpu-admission-namespace-opt-in"), (quota, "gpu-admission-quota-edit")):
        assert holds(f"({message}).contains('team-a')", namespace(), None)
        assert role in message


def test_policy_is_bound_and_denies(one):
    binding = one("ValidatingAdmissionPolicyBinding", NAME)["spec"]
    assert binding == {"policyName": NAME, "validationActions": ["Deny"]}
