"""A token of our account reaches ResourceClaimTemplates of our own only, because a policy in the API server says so."""

import pytest

from policies.conversion.templates import ExactRequest, claim_template
from testbed import deploy, manifests
from testbed.waiting import until
from webhook.cluster.client import MERGE_PATCH
from webhook.cluster.resources import RESOURCES

RESOURCE = RESOURCES["ResourceClaimTemplate"]
NAME = "templates.gpu-admission.io"
SINCE = "gpu-admission.io/unused-since"


@pytest.fixture
def account(real):
    """Our account, once the policy holds."""
    ours = real.by(deploy.USER)

    def holds():
        answer = ours.create(manifests.template("default", "train"), dry_run=True)
        assert not answer.accepted
        return NAME in answer.message

    until(holds, "the policy holds", 30)
    return ours


@pytest.fixture
def team(real):
    return real.namespace()


def ours(team, count=1):
    """A template as conversion makes it."""
    return claim_template(team, [ExactRequest("main", "gpu.nvidia.com", count)]).manifest()


def refusal(answer):
    """The sentence of the policy."""
    assert (answer.accepted, answer.code) == (False, 403), answer
    before, _, sentence = answer.message.partition(
        f"ValidatingAdmissionPolicy '{NAME}' with binding '{NAME}' denied request: "
    )
    assert before
    return sentence


def test_our_templates_are_created_marked_unmarked_and_deleted(account, team):
    template = ours(team)
    assert account.create(template).accepted
    path = RESOURCE.path(team, template["metadata"]["name"])
    for value in ("2027-01-01T00:00:00Z", None):
        answer = account.request("PATCH", path, {}, {"metadata": {"annotations": {SINCE: value}}}, MERGE_PATCH)
        assert answer.accepted, answer
    assert account.delete("ResourceClaimTemplate", template["metadata"]["name"], team).accepted


CREATED = {
    "another name": (
        {"name": "train"},
        "metadata.name: gpu-admission may create templates named gpu- and 16 hexadecimal digits only",
    ),
    "a generated name": (
        {"name": "", "generateName": "gpu-"},
        "metadata.name: gpu-admission may create templates named gpu- and 16 hexadecimal digits only",
    ),
    "no label": (
        {"labels": {}},
        'metadata.labels: templates of gpu-admission must have the label gpu-admission.io/managed: "true"',
    ),
}


@pytest.mark.parametrize(("metadata", "sentence"), CREATED.values(), ids=CREATED)
def test_no_other_template_is_created(account, team, metadata, sentence):
    template = ours(team)
    template["metadata"] |= metadata
    assert refusal(account.request("POST", RESOURCE.path(team), {}, template)) == sentence


FORMS = {
    "a finalizer": lambda template: template["metadata"].update(finalizers=["a.example/b"]),
    "an annotation of claims": lambda template: template["spec"]["metadata"].update(annotations={"a": "b"}),
    "admin access": lambda template: main(template).update(adminAccess=True),
    "tolerations": lambda template: main(template).update(tolerations=[{"key": "a", "operator": "Exists"}]),
    "all devices": lambda template: (main(template).pop("count"), main(template).update(allocationMode="All")),
}


def main(template):
    return template["spec"]["spec"]["devices"]["requests"][0]["exactly"]


@pytest.mark.parametrize("change", FORMS.values(), ids=FORMS)
def test_no_template_of_another_form_is_created(real, account, team, change):
    labels = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    assert real.api.request("PATCH", f"/api/v1/namespaces/{team}", {}, labels, MERGE_PATCH).accepted
    template = ours(team)
    change(template)
    answer = account.request("POST", RESOURCE.path(team), {}, template)
    assert (
        refusal(answer) == "metadata, spec: gpu-admission may create templates of the form that conversion writes only"
    )


@pytest.mark.parametrize("field", ["labels", "annotations", "finalizers"])
def test_nothing_but_the_mark_of_our_templates_changes(real, account, team, field):
    template = ours(team)
    assert real.create(template).accepted
    change = ["a.example/b"] if field == "finalizers" else {"a": "b"}
    path = RESOURCE.path(team, template["metadata"]["name"])
    answer = account.request("PATCH", path, {}, {"metadata": {field: change}}, MERGE_PATCH)
    assert refusal(answer) == "metadata: gpu-admission may change the annotation gpu-admission.io/unused-since only"


@pytest.mark.parametrize("labels", [{}, {"gpu-admission.io/managed": "true"}], ids=["plain", "with our label"])
def test_templates_of_users_are_neither_changed_nor_deleted(real, account, team, labels):
    template = manifests.template(team, "train")
    template["metadata"]["labels"] = labels
    assert real.create(template).accepted
    sentence = "metadata: gpu-admission may change and delete its own templates only"
    assert refusal(account.delete("ResourceClaimTemplate", "train", team)) == sentence
    path = RESOURCE.path(team, "train")
    answer = account.request("PATCH", path, {}, {"metadata": {"annotations": {SINCE: "x"}}}, MERGE_PATCH)
    assert not answer.accepted
    assert NAME in answer.message


def test_users_are_not_concerned(real, account, team):
    assert real.create(manifests.template(team, "train")).accepted
    assert real.delete("ResourceClaimTemplate", "train", team).accepted
