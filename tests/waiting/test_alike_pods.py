"""Pods of one template share an explanation, and pods that differ in what explanations read do not."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.analyses.explain import explain
from policies.analyses.waiting import alike_key, for_all_alike
from policies.outcome import Audience, questions
from policies.rules.settings import DEFAULTS
from tests.explain.conftest import BASE, claim, claiming, gpus, holding, node, pod, resource_slice, template
from webhook.cluster.manifests import ManifestsView

MEMBER = Audience("team-a", sees_nodes=False)
CLUSTER = (
    *BASE,
    node("node-1", {"zone": "a"}, allocatable={"nvidia.com/gpu": "4"}),
    node("node-2", {"zone": "b"}, taints=[{"key": "team", "value": "b", "effect": "NoSchedule"}]),
    resource_slice(gpus(4), "node-2"),
    template({"count": 8}),
    claim({"count": 2}, name="shared", stored=True),
)
PLUGIN = pod({"nvidia.com/gpu": "8"}, stored=True)
CLAIM = pod(stored=True, resourceClaims=claiming(resourceClaimTemplateName="gpus"))


def question_of(document, *objects):
    (question,) = questions(document, "team-a", ManifestsView([*CLUSTER, *objects]), DEFAULTS, found=True)
    return question


def explained(document, *objects):
    view = ManifestsView([*CLUSTER, *objects])
    (question,) = questions(document, "team-a", view, DEFAULTS, found=True)
    return explain(for_all_alike(question), view, DEFAULTS, audience=MEMBER)


def changed(document, change):
    document = copy.deepcopy(document)
    change(document)
    return document


def _name(document):
    document["metadata"] |= {"name": "other", "uid": "other", "labels": {"index": "1"}, "annotations": {"a": "node-1"}}


def _environment(document):
    document["spec"]["hostname"] = "node-1"
    document["spec"]["volumes"] = [{"name": "kube-api-access-x7b2p"}]
    document["spec"]["containers"][0] |= {"env": [{"name": "RANK", "value": "node-2"}], "image": "other"}


@pytest.mark.parametrize("change", [_name, _environment], ids=["name", "environment"])
@pytest.mark.parametrize("document", [PLUGIN, CLAIM], ids=["plugin", "claim"])
def test_pods_of_one_template_are_alike(document, change):
    other = changed(document, change)
    assert alike_key(question_of(other)) == alike_key(question_of(document))
    assert explained(other) == explained(document)


def test_generated_claims_of_one_template_are_alike():
    pods, claims = [], []
    for name in ("a", "b"):
        document = pod(name=name, stored=True, resourceClaims=claiming(resourceClaimTemplateName="gpus"))
        status = {"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": f"{name}-gpus-x7b2p"}]}
        pods.append({**document, "status": status})
        claims.append(claim({"count": 8}, name=f"{name}-gpus-x7b2p", stored=True))
    first, second = (question_of(each, *claims) for each in pods)
    assert alike_key(first) == alike_key(second)
    assert explained(pods[0], *claims) == explained(pods[1], *claims)


DIFFERENT = {
    "amount": lambda spec: spec["containers"][0].update(resources={"limits": {"nvidia.com/gpu": "2"}}),
    "node selector": lambda spec: spec.update(nodeSelector={"zone": "a"}),
    "node affinity": lambda spec: spec.update(affinity={"nodeAffinity": {"x": {}}}),
    "tolerations": lambda spec: spec.update(tolerations=[{"operator": "Exists"}]),
    "priority": lambda spec: spec.update(priority=7),
    "scheduler": lambda spec: spec.update(schedulerName="volcano"),
    "claim": lambda spec: spec.update(resourceClaims=claiming(resourceClaimName="shared")),
}


@pytest.mark.parametrize("change", DIFFERENT.values(), ids=DIFFERENT)
def test_pods_that_request_something_else_are_not_alike(change):
    other = changed(PLUGIN, lambda document: change(document["spec"]))
    assert alike_key(question_of(other)) != alike_key(question_of(PLUGIN))


def test_pods_of_two_namespaces_are_not_alike():
    other = changed(PLUGIN, lambda document: document["metadata"].update(namespace="team-b"))
    assert alike_key(question_of(other)) != alike_key(question_of(PLUGIN))


def test_pod_whose_claim_has_devices_is_not_alike():
    held = holding("train", [0, 1], "node-2", "team-a")
    status = {"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": held["metadata"]["name"]}]}
    assert alike_key(question_of({**CLAIM, "status": status}, held)) != alike_key(question_of(CLAIM))


_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "nodeSelector": st.sampled_from([{"zone": "a"}, {"zone": "b"}]),
        "tolerations": st.sampled_from([[{"operator": "Exists"}], [{"key": "team", "operator": "Exists"}]]),
        "priority": st.sampled_from([0, 1000]),
        "hostname": st.sampled_from(["node-1", "a"]),
        "schedulerName": st.sampled_from(["default-scheduler", "volcano"]),
        "resourceClaims": st.sampled_from(
            [claiming(resourceClaimTemplateName=name) for name in ("gpus", "missing")]
            + [claiming(resourceClaimName="shared")]
        ),
    },
)
_PODS = st.builds(
    lambda amount, name, spec: pod({"nvidia.com/gpu": amount} if amount else {}, name=name, stored=True, **spec),
    st.sampled_from(["", "1", "4", "8"]),
    st.sampled_from(["a", "node-1"]),
    _SPECS,
)


@given(first=_PODS, second=_PODS)
def test_equal_keys_mean_equal_explanations(first, second):
    if alike_key(question_of(first)) == alike_key(question_of(second)):
        assert explained(first) == explained(second)


@given(document=_PODS)
def test_explanation_for_all_has_the_verdict_of_the_pod(document):
    view = ManifestsView(CLUSTER)
    (question,) = questions(document, "team-a", view, DEFAULTS, found=True)
    own, for_all = explain(question, view, DEFAULTS), explained(document)
    assert (own.verdict, own.fit_now, own.fit_if_empty) == (for_all.verdict, for_all.fit_now, for_all.fit_if_empty)
    assert len(own.suggestions) == len(for_all.suggestions)
