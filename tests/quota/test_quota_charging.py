"""Charges of objects that are being created, to the quota of their namespace."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.fleet.pod_claims import MOST_CLAIMS
from policies.quota.charging import MOST_UNSEEN, charge_decision
from policies.quota.demands.bills import Uncountable, charge_under
from policies.rules.charges import OWN
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from policies.rules.settings.choices import GPUAdmissionPolicy, Quotas
from tests.quota.charge_requests import (
    CONTROLLER,
    OF_EXTENDED,
    OF_TEMPLATE,
    SCHEDULER,
    amounts,
    by_product,
    charge_request,
    decided,
    owned,
    quota,
)
from webhook.cluster.manifests import ManifestsView

H100 = "NVIDIA-H100-80GB-HBM3"
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
BATCH_ONLY = {"name": "batch", "selector": {"priorityClasses": ["batch"]}, "gpus": 8}


def test_pod_is_charged_by_its_uid_for_what_it_requests_itself(pod, cluster):
    found = charge_request(pod({"nvidia.com/gpu": 2}).document, cluster("f1"))
    assert (found.uid, found.kind, found.namespace, found.name) == ("1", "Pod", "team-a", "train")
    assert amounts(found, quota()) == {OWN: {"all": 2}}
    assert (found.of, found.unseen) == (None, ())


def test_pod_is_charged_for_its_claims_from_templates_by_their_names(pod, example, template, request_for):
    claims = [{"name": "a", "resourceClaimTemplateName": "gpus"}, {"name": "b", "resourceClaimTemplateName": "gpus"}]
    found = charge_request(pod(resourceClaims=claims).document, example(template(request_for(count=2))))
    assert amounts(found, quota()) == {"a": {"all": 2}, "b": {"all": 2}}
    assert found.unseen == ()


def test_claim_that_exists_costs_the_pod_nothing(pod, example):
    claims = [{"name": "a", "resourceClaimName": "shared"}]
    assert charge_request(pod(resourceClaims=claims).document, example()) is None


def test_pod_without_gpus_is_charged_nothing(pod, example):
    assert charge_request(pod({"cpu": 1, "example.com/nic": 1}).document, example()) is None


def test_pod_that_has_a_node_is_charged_what_that_hands_out(pod, cluster, node):
    view = cluster(node("f1", name="big"), node("f4", name="small"))
    limits = quota(by_product("a100"), by_product("h100"))
    assert amounts(charge_request(pod({"nvidia.com/gpu": 1}).document, view), limits)[OWN].keys() == {
        "all",
        "a100",
        "h100",
    }
    found = charge_request(pod({"nvidia.com/gpu": 1}, nodeName="big").document, view)
    assert amounts(found, limits)[OWN].keys() == {"all", "a100"}


@pytest.mark.parametrize(
    "fields",
    [{"operation": "UPDATE"}, {"operation": "DELETE"}, {"subresource": "binding"}, {"kind": "Deployment"}],
    ids=["update", "delete", "subresource", "another-kind"],
)
def test_only_what_is_created_is_charged(pod, example, fields):
    assert charge_request(pod({"nvidia.com/gpu": 2}).document, example(), **fields) is None


def test_object_without_uid_is_charged_by_that_of_the_question(pod, example):
    document = pod({"nvidia.com/gpu": 2}).document
    found = charge_request({**document, "metadata": {"generateName": "train-"}}, example())
    assert (found.uid, found.name) == ("review", "train-")


def test_missing_template_is_reported_and_to_be_looked_for(pod, example):
    claims = [{"name": "a", "resourceClaimTemplateName": "gpus"}]
    decision = decided(
        pod(resourceClaims=claims).document,
        example({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplateList", "items": []}),
    )
    (found,) = decision.charges
    assert found.unseen == (("ResourceClaimTemplate", "team-a", "gpus"),)
    assert amounts(found, quota()) == {}
    (problem,) = decision.findings
    assert (problem.message, problem.remedy) == (
        'no ResourceClaimTemplate "gpus" exists in team-a, so nothing is charged for it now',
        "create the template first; its claim is charged when it is made",
    )


def test_template_that_several_claims_name_is_looked_for_once(pod, example):
    claims = [{"name": name, "resourceClaimTemplateName": "gpus"} for name in "ab"]
    assert len(charge_request(pod(resourceClaims=claims).document, example()).unseen) == 1


def test_claim_of_any_user_is_charged_in_full(claim, example, request_for):
    found = charge_request(owned(claim(request_for(count=2)), OF_TEMPLATE), example())
    assert (found.kind, found.uid, found.name, found.of, found.owner) == ("ResourceClaim", "c", "gpus", None, "")
    assert amounts(found, quota()) == {OWN: {"all": 2}}


def test_claim_without_gpus_is_charged_nothing(claim, example):
    assert (
        charge_request(claim({"name": "nic", "exactly": {"deviceClassName": "nic.example.com"}}), example()) is not None
    )
    other = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "nic.example.com"}}
    other["spec"] = {"selectors": [{"cel": {"expression": 'device.driver == "nic.example.com"'}}]}
    view = example(other)
    assert charge_request(claim({"name": "nic", "exactly": {"deviceClassName": "nic.example.com"}}), view) is None


@pytest.mark.parametrize(
    ("user", "annotations", "piece"),
    [(CONTROLLER, OF_TEMPLATE, "gpus"), (SCHEDULER, OF_EXTENDED, OWN)],
    ids=["from-a-template", "for-extended-resources"],
)
def test_claim_of_a_trusted_creator_is_compared_with_the_pods_piece(
    claim, example, request_for, pod, user, annotations, piece
):
    view = example(pod({"nvidia.com/gpu": 1}, priorityClassName="batch").document)
    found = charge_request(owned(claim(request_for()), annotations), view, user)
    assert (found.of, found.owner, found.unseen) == (("1", piece), "train", ())
    assert amounts(found, quota(BATCH_ONLY)) == {OWN: {"all": 1, "batch": 1}}


@pytest.mark.parametrize(
    "owner",
    [{"controller": False}, {"kind": "Job"}, {"apiVersion": "apps/v1"}, {"uid": ""}, {"name": ""}, {"uid": 5}],
    ids=["no-controller", "no-pod", "another-version", "no-uid", "no-name", "malformed"],
)
def test_claim_that_belongs_to_no_pod_is_charged_in_full(claim, example, request_for, owner):
    assert charge_request(owned(claim(request_for()), OF_TEMPLATE, **owner), example(), CONTROLLER).of is None


@pytest.mark.parametrize(
    "annotations",
    [{}, {"resource.kubernetes.io/extended-resource-claim": "false"}, {"resource.kubernetes.io/pod-claim-name": ""}],
    ids=["none", "false", "empty"],
)
def test_claim_without_the_annotation_is_charged_in_full(claim, example, request_for, annotations):
    assert charge_request(owned(claim(request_for()), annotations), example(), CONTROLLER).of is None


def test_administrator_says_who_makes_claims(claim, example, request_for):
    settings = GPUAdmissionPolicy(quota=Quotas(trusted_creators=("gke-claims",)))
    document = owned(claim(request_for()), OF_TEMPLATE)
    assert charge_request(document, example(), "gke-claims", settings).of == ("1", "gpus")
    assert charge_request(document, example(), CONTROLLER, settings).of is None


@pytest.mark.parametrize("uid", ["2", None], ids=["another-uid", "not-shown"])
def test_pod_that_the_view_does_not_show_is_to_be_looked_for(claim, example, request_for, pod, uid):
    shown = pod({"nvidia.com/gpu": 1}).document
    others = [] if uid is None else [{**shown, "metadata": {**shown["metadata"], "uid": uid}}]
    found = charge_request(owned(claim(request_for()), OF_TEMPLATE), example(*others), CONTROLLER)
    assert found.unseen == (("Pod", "team-a", "train"),)
    # Of an unknown PriorityClass it could be any.
    assert amounts(found, quota(BATCH_ONLY)) == {OWN: {"all": 1, "batch": 1}}


def test_claim_for_extended_resources_is_charged_for_no_device_that_its_pod_cannot_get(
    claim, example, request_for, pod
):
    view = example(pod({"nvidia.com/gpu": 1}, nodeSelector={"nvidia.com/gpu.product": H100}).document)
    limits = quota(by_product("h100"), by_product("t4"))
    document = owned(claim(request_for()), OF_EXTENDED)
    assert amounts(charge_request(document, view, SCHEDULER), limits)[OWN].keys() == {"all", "h100"}
    assert amounts(charge_request(document, example(), SCHEDULER), limits)[OWN].keys() == {"all", "h100", "t4"}


def test_claim_for_extended_resources_keeps_its_counts(claim, example, request_for, pod):
    view = example(pod({"nvidia.com/gpu": 1}).document)
    found = charge_request(owned(claim(request_for(count=3)), OF_EXTENDED), view, SCHEDULER)
    assert amounts(found, quota()) == {OWN: {"all": 3}}


def test_claim_whose_pod_requests_other_devices_is_charged_in_full(claim, example, request_for, pod):
    found = charge_request(owned(claim(request_for()), OF_EXTENDED), example(pod({"cpu": 1}).document), SCHEDULER)
    assert amounts(found, quota()) == {OWN: {"all": 1}}


def test_uncountable_request_is_reported_with_the_mode_of_the_quota(pod, cluster):
    found = charge_request(pod({"nvidia.com/gpu": 1}).document, cluster("f1"))
    with pytest.raises(Uncountable, match='"h100" counts by product') as raised:
        charge_under(
            found, quota({"name": "h100", "selector": {"products": ["H100*"]}, "gpus": 1}, unknownProducts="Deny")
        )
    assert raised.value.mode == "Enforce"


@pytest.mark.parametrize(
    ("entry", "label", "enforced"),
    [
        ("enforce-quota", None, True),
        ("check-pods", "enforced", False),
        ("", "enforced", True),
        ("", "Enforced", False),
        ("", None, False),
    ],
)
def test_called_entry_decides_whether_the_quota_is_enforced(pod, example, entry, label, enforced):
    labels = {} if label is None else {"gpu-admission.io/quota": label}
    namespace = {**NAMESPACE, "metadata": {"name": "team-a", "labels": labels}}
    assert charge_request(pod({"nvidia.com/gpu": 1}).document, example(namespace), entry=entry).enforced is enforced


def test_unknown_namespace_enforces_nothing(pod):
    assert charge_request(pod({"nvidia.com/gpu": 1}).document, ManifestsView()).enforced is False


@pytest.mark.parametrize("document", [{}, {"spec": 5}, {"spec": {"containers": [{"name": 5}]}}, None, [], 5])
@pytest.mark.parametrize("kind", ["Pod", "ResourceClaim"])
def test_malformed_objects_are_charged_nothing(document, kind):
    group = "" if kind == "Pod" else "resource.k8s.io"
    assert charge_decision(Request(document, group=group, kind=kind), ManifestsView(), DEFAULTS).charges == ()


KEYS = [
    "annotations",
    "apiVersion",
    "controller",
    "count",
    "deviceClassName",
    "devices",
    "exactly",
    "kind",
    "metadata",
    "name",
    "ownerReferences",
    "requests",
    "resource.kubernetes.io/pod-claim-name",
    "spec",
    "uid",
]
json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just("gpu.nvidia.com"),
    lambda values: (
        st.lists(values, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            values,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(metadata=json, requests=json)
def test_claim_of_any_shape_is_charged_or_not_and_never_raises(metadata, requests):
    document = {"kind": "ResourceClaim", "metadata": metadata, "spec": {"devices": {"requests": requests}}}
    found = charge_request(document, ManifestsView(), CONTROLLER)
    if found is not None:
        assert all(isinstance(amount, Fraction) for amount in amounts(found, quota())[OWN].values())


def test_charging_holds_what_a_charge_needs(pod, cluster):
    found = charge_request(pod({"nvidia.com/gpu": 2}).document, cluster("f1"))
    charge = charge_under(replace(found, of=("p", "train")), quota())
    assert (charge.uid, charge.kind, charge.namespace, charge.name, charge.of) == (
        "1",
        "Pod",
        "team-a",
        "train",
        ("p", "train"),
    )


def from_templates(count, template_name="gpus".format):
    return [{"name": f"c-{index}", "resourceClaimTemplateName": template_name(index)} for index in range(count)]


def test_pod_with_more_claims_than_are_charged_is_refused_for_good(pod, example, template, request_for):
    view = example(template(request_for()))
    crowd = pod(resourceClaims=from_templates(MOST_CLAIMS + 1)).document
    assert charge_request(crowd, view).excess.is_lasting
    most = charge_request(pod(resourceClaims=from_templates(MOST_CLAIMS)).document, view)
    assert (most.excess, len(most.pieces)) == (None, MOST_CLAIMS)


def test_pod_with_more_unknown_templates_than_are_read_may_come_again(pod, example):
    crowd = pod(resourceClaims=from_templates(MOST_UNSEEN + 1, "gpus-{}".format)).document
    assert not charge_request(crowd, example()).excess.is_lasting


@pytest.mark.parametrize(
    ("entry", "is_refused"), [("enforce-quota", True), ("check-pods", False)], ids=["enforced", "not-enforced"]
)
def test_too_many_claims_are_refused_where_the_quota_is_enforced_and_else_reported(
    pod, example, template, request_for, entry, is_refused
):
    crowd = pod(resourceClaims=from_templates(MOST_CLAIMS + 1)).document
    decision = decided(crowd, example(template(request_for())), entry=entry)
    (found,) = decision.charges
    assert (found.refusal is not None, len(decision.findings)) == (is_refused, 0 if is_refused else 1)


def test_claim_that_is_stored_is_not_charged_again_for_an_unknown_caller(claim, example, request_for):
    document = owned(claim(request_for()), OF_TEMPLATE)
    assert charge_request(document, example(document), CONTROLLER, caller_is_known=False) is None
    assert charge_request(document, example(document), CONTROLLER) is not None


def test_claim_of_an_unknown_caller_is_to_be_looked_for(claim, example, request_for, pod):
    view = example(pod({"nvidia.com/gpu": 1}).document)
    found = charge_request(owned(claim(request_for()), OF_TEMPLATE), view, CONTROLLER, caller_is_known=False)
    assert (found.of, found.unseen) == (("1", "gpus"), (("ResourceClaim", "team-a", "gpus"),))


def test_claim_without_an_origin_is_charged_to_an_unknown_caller_at_once(claim, example, request_for):
    found = charge_request(claim(request_for()), example(), CONTROLLER, caller_is_known=False)
    assert (found.of, found.unseen) == (None, ())
