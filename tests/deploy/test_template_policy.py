"""The policy that binds our account to its own ResourceClaimTemplates, inside the API server."""

import pytest

from policies.conversion.templates import ExactRequest, claim_template
from policies.nvidia.predicates import Present
from tests.deploy.grants import USER, grants_of
from tests.deploy.match_conditions import Question, called, holds

NAME = "templates.gpu-admission.io"
MANAGED = {"gpu-admission.io/managed": "true"}
OURS = "gpu-0123456789abcdef"
SINCE = {"gpu-admission.io/unused-since": "2027-01-01T00:00:00Z"}


@pytest.fixture(scope="module")
def policy(one):
    return one("ValidatingAdmissionPolicy", NAME)["spec"]


def template(name=OURS, labels=MANAGED, **metadata):
    metadata = {"name": name, "namespace": "team-a", **({"labels": dict(labels)} if labels else {}), **metadata}
    return {"kind": "ResourceClaimTemplate", "metadata": metadata, "spec": {}}


EXACT = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 1}
ENTRY = {"name": "share", **EXACT}


def created(metadata=None, claim_labels=MANAGED, devices=None, exact=EXACT, **claim_metadata):
    """A template of our form but for some fields."""
    spec = {"devices": {"requests": [{"name": "main", "exactly": dict(exact)}], **(devices or {})}}
    written = template(**(metadata or {}))
    return {**written, "spec": {"metadata": {"labels": claim_labels, **claim_metadata}, "spec": spec}}


def is_allowed(policy, new, old):
    return all(holds(each["expression"], new, old) for each in policy["validations"])


def test_policy_is_bound_denies_and_fails_closed(policy, one):
    binding = one("ValidatingAdmissionPolicyBinding", NAME)["spec"]
    assert binding == {"policyName": NAME, "validationActions": ["Deny"]}
    assert policy["failurePolicy"] == "Fail"


@pytest.mark.parametrize(("user", "is_ours"), [(USER, True), ("system:node:node-1", False), ("alice", False)])
def test_policy_concerns_our_account_only(policy, user, is_ours):
    assert called(policy, Question(template(), user=user)) is is_ours


def test_policy_covers_every_write_that_we_may_do(policy, installed):
    (rule,) = policy["matchConstraints"]["resourceRules"]
    operations = {"create": "CREATE", "patch": "UPDATE", "update": "UPDATE", "delete": "DELETE"}
    granted = {each.verb for each in grants_of(installed) if each.resource == "resourceclaimtemplates"}
    assert {operations[verb] for verb in granted - {"get", "list", "watch"}} == {*rule["operations"]}
    assert (rule["apiGroups"], rule["resources"]) == (["resource.k8s.io"], ["resourceclaimtemplates"])


def marked(**annotations):
    return template(annotations=annotations)


ALLOWED = {
    "created": (claim_template("team-a", [ExactRequest("main", "gpu.nvidia.com", 1)]).manifest(), None),
    "created with selectors and shares": (
        claim_template("team-a", [ExactRequest("a", "b", 2, Present("uuid"), 4), ExactRequest("c", "d", 1)]).manifest(),
        None,
    ),
    "created with alternatives": (
        created(devices={"requests": [{"name": "a", "firstAvailable": [ENTRY, ENTRY]}]}),
        None,
    ),
    "created with devices that differ": (
        created(devices={"constraints": [{"requests": ["a"], "distinctAttribute": "gpu.nvidia.com/uuid"}]}),
        None,
    ),
    "created with a pair": (
        created(devices={"constraints": [{"requests": ["a", "b"], "matchAttribute": "c/d"}]}),
        None,
    ),
    "marked": (marked(**SINCE), template()),
    "marked beside another annotation": (marked(a="b", **SINCE), marked(a="b")),
    "unmarked": (template(annotations={}), marked(**SINCE)),
    "deleted": (None, marked(**SINCE)),
}


@pytest.mark.parametrize(("new", "old"), ALLOWED.values(), ids=ALLOWED)
def test_our_templates_may_be_written(policy, new, old):
    assert is_allowed(policy, new, old)


REFUSED = {
    "created by another name": (template("train"), None),
    "created by a longer name": (template(f"{OURS}0"), None),
    "created by a generated name": (template("gpu-x7k2p"), None),
    "created without the label": (template(labels={}), None),
    "created with another value": (template(labels={"gpu-admission.io/managed": "false"}), None),
    "created with another label": (created({"labels": {**MANAGED, "a": "b"}}), None),
    "created with an annotation": (created({"annotations": {"a": "b"}}), None),
    "created with a finalizer": (created({"finalizers": ["a/b"]}), None),
    "created with an owner": (created({"ownerReferences": [{"name": "a"}]}), None),
    "created with another label of claims": (created(claim_labels={**MANAGED, "a": "b"}), None),
    "created with an annotation of claims": (created(annotations={"a": "b"}), None),
    "created with a configuration": (created(devices={"config": [{"opaque": {}}]}), None),
    "created with a constraint on all requests": (created(devices={"constraints": [{"matchAttribute": "a/b"}]}), None),
    "created with a constraint on three requests": (
        created(devices={"constraints": [{"requests": ["a", "b", "c"], "matchAttribute": "a/b"}]}),
        None,
    ),
    "created with devices that differ otherwise": (
        created(devices={"constraints": [{"requests": ["a", "b"], "distinctAttribute": "a/b"}]}),
        None,
    ),
    "created with a request for nothing": (created(devices={"requests": [{"name": "a", "firstAvailable": []}]}), None),
    "created with an alternative of all devices": (
        created(devices={"requests": [{"name": "a", "firstAvailable": [ENTRY, {**ENTRY, "allocationMode": "All"}]}]}),
        None,
    ),
    "created with an alternative with tolerations": (
        created(devices={"requests": [{"name": "a", "firstAvailable": [{**ENTRY, "tolerations": [{}]}]}]}),
        None,
    ),
    "created with admin access": (created(exact={**EXACT, "adminAccess": True}), None),
    "created with tolerations": (created(exact={**EXACT, "tolerations": [{"operator": "Exists"}]}), None),
    "created for all devices": (created(exact={**EXACT, "allocationMode": "All"}), None),
    "deleted by another name": (None, template("train")),
    "deleted without the label": (None, template(labels={})),
    "adopted": (template(), template(labels={})),
    "released": (template(labels={}), template()),
    "another label": (template(labels={**MANAGED, "a": "b"}), template()),
    "another annotation": (marked(a="b"), template()),
    "another value of an annotation": (marked(a="c"), marked(a="b")),
    "an annotation less": (template(annotations={}), marked(a="b")),
    "a finalizer": (template(finalizers=["a/b"]), template()),
    "an owner": (template(ownerReferences=[{"name": "a"}]), template()),
}


def test_template_of_our_form_may_be_created(policy):
    assert is_allowed(policy, created(), None)


@pytest.mark.parametrize(("new", "old"), REFUSED.values(), ids=REFUSED)
def test_nothing_else_of_templates_may_be_written(policy, new, old):
    assert not is_allowed(policy, new, old)
