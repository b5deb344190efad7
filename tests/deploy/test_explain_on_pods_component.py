"""The component that lets gpu-admission write to pods: its rights, and the policy that limits them to one condition."""

import copy

import pytest

from testbed import libyaml
from tests.deploy.grants import USER, grants_of
from tests.deploy.match_conditions import Question, called, holds

NAME = "explain-on-pods.gpu-admission.io"


@pytest.fixture(scope="module")
def component(deploy):
    return list(libyaml.load_all((deploy / "components" / "explain-on-pods" / "rbac.yaml").read_text()))


@pytest.fixture(scope="module")
def policy(component):
    (found,) = (each["spec"] for each in component if each["kind"] == "ValidatingAdmissionPolicy")
    return found


def test_rights_are_these_and_no_others(component):
    assert {(each.verb, each.group, each.resource) for each in grants_of(component)} == {
        ("patch", "", "pods/status"),
        ("create", "events.k8s.io", "events"),
        ("patch", "events.k8s.io", "events"),
    }


def test_rights_are_not_part_of_the_installation(installed):
    resources = {each.resource for each in grants_of(installed)}
    assert not resources & {"pods/status", "events"}


def test_policy_is_bound_and_denies(component):
    (binding,) = (each["spec"] for each in component if each["kind"] == "ValidatingAdmissionPolicyBinding")
    assert binding == {"policyName": NAME, "validationActions": ["Deny"]}


@pytest.mark.parametrize(("user", "is_ours"), [(USER, True), ("system:node:node-1", False), ("alice", False)])
def test_policy_concerns_our_account_only(policy, user, is_ours):
    assert called(policy, Question(pod(), pod(), user=user)) is is_ours


OURS = {"type": "gpu-admission.io/Schedulable", "status": "False", "reason": "NoNodeFits", "message": "m"}
SCHEDULED = {"type": "PodScheduled", "status": "False"}


def pod(*conditions, metadata=(), **status):
    metadata = {"name": "train", "namespace": "team-a", "labels": {"app": "train"}, **dict(metadata)}
    return {"kind": "Pod", "metadata": metadata, "spec": {}, "status": {"conditions": [*conditions], **status}}


def is_allowed(policy, new, old):
    return all(holds(each["expression"], new, old) for each in policy["validations"])


ALLOWED = {
    "set": (pod(SCHEDULED, OURS), pod(SCHEDULED)),
    "changed": (pod({**OURS, "message": "n"}), pod(OURS)),
    "removed": (pod(SCHEDULED), pod(SCHEDULED, OURS)),
    "the first condition": (pod(OURS), {key: part for key, part in pod().items() if key != "status"}),
    "beside an address": (pod(OURS, podIP="10.0.0.1"), pod(podIP="10.0.0.1")),
}


@pytest.mark.parametrize(("new", "old"), ALLOWED.values(), ids=ALLOWED)
def test_our_condition_may_change(policy, new, old):
    assert is_allowed(policy, new, old)


REFUSED = {
    "another condition": (pod(SCHEDULED, {"type": "Ready", "status": "True"}), pod(SCHEDULED)),
    "the scheduler's condition": (pod({**SCHEDULED, "status": "True"}), pod(SCHEDULED)),
    "a condition that is true": (pod({**OURS, "status": "True"}), pod()),
    "a label": (pod(metadata={"labels": {"app": "web"}}), pod()),
    "an annotation": (pod(metadata={"annotations": {"a": "b"}}), pod()),
    "a finalizer": (pod(metadata={"finalizers": ["a/b"]}), pod()),
}


@pytest.mark.parametrize(("new", "old"), REFUSED.values(), ids=REFUSED)
def test_nothing_else_may_change(policy, new, old):
    assert not is_allowed(policy, new, old)


STATUS = {
    "phase": "Running",
    "message": "m",
    "reason": "Evicted",
    "nominatedNodeName": "node-1",
    "hostIP": "10.0.0.1",
    "hostIPs": [{"ip": "10.0.0.1"}],
    "podIP": "10.0.0.2",
    "podIPs": [{"ip": "10.0.0.2"}],
    "startTime": "2026-01-01T00:00:00Z",
    "qosClass": "Guaranteed",
    "resize": "Proposed",
    "initContainerStatuses": [{"name": "a"}],
    "containerStatuses": [{"name": "a"}],
    "ephemeralContainerStatuses": [{"name": "a"}],
    "allocatedResources": {"cpu": "1"},
    "resources": {"limits": {"cpu": "1"}},
    "resourceClaimStatuses": [{"name": "a"}],
    "extendedResourceClaimStatus": {"resourceClaimName": "a"},
    "nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "a"}],
}
"""Every field of a pod's status in Kubernetes 1.36, beside conditions and observedGeneration."""


@pytest.mark.parametrize("field", STATUS)
def test_no_other_field_of_the_status_may_change(policy, field):
    new, old = pod(OURS, **STATUS), pod(**STATUS)
    assert is_allowed(policy, new, old)
    without = copy.deepcopy(new)
    del without["status"][field]
    assert not is_allowed(policy, without, old)
    assert not is_allowed(policy, new, {**old, "status": without["status"]})
