"""The condition of pods that wait for GPUs, compared with what Kubernetes' scheduler says of the same pods."""

import pytest

from testbed import deploy, manifests
from testbed.api import STRATEGIC_PATCH
from testbed.waiting import until
from webhook.cluster.resources import RESOURCES

TYPE = "gpu-admission.io/Schedulable"
SECONDS = 300
"""For 1,000 pods: 2,000 writes, 25 per second."""
WAITING = {
    "resource": (640, {"gpus": 3}),
    "claim": (160, {"gpus": 0, "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "four"}]}),
    "selector": (100, {"gpus": 1, "nodeSelector": {"zone": "nowhere"}}),
    "full": (90, {"gpus": 0, "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "two"}]}),
    "missing": (10, {"gpus": 0, "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "missing"}]}),
}
"""1,000 pods by name: how many, and what they request. Two of those that request two GPUs fit, one on each node."""


@pytest.fixture
def configured(real):
    """A cluster whose settings have the service write to pods, without the rights."""
    if not real.schedules:
        pytest.skip("no kube-scheduler runs here")
    assert real.configure(explain={"onPods": True}).accepted
    yield real
    real.delete("GPUAdmissionPolicy", "default")


@pytest.fixture
def explaining(configured):
    """A cluster whose service writes to pods."""
    component = deploy.explain_on_pods()
    for document in component:
        assert configured.create(document).accepted
    yield configured
    for document in component:
        configured.delete(document["kind"], document["metadata"]["name"])


@pytest.mark.timeout(2 * SECONDS)
def test_condition_agrees_with_the_scheduler_for_a_thousand_pods(explaining):
    team = explaining.namespace()
    for name, gpus in (("two", 2), ("four", 4)):
        assert explaining.create(manifests.template(team, name, gpus)).accepted
    for kind, (count, request) in WAITING.items():
        for number in range(count):
            assert explaining.create(manifests.pod(team, f"{kind}-{number}", **request)).accepted

    def settled():
        pods = explaining.list("Pod", team)
        bound = [pod for pod in pods if pod["spec"].get("nodeName")]
        assert len(bound) == len(explaining.nodes)
        left = [pod for pod in pods if not pod["spec"].get("nodeName") and condition(pod, TYPE) is None]
        assert not left, f"{len(left)} pods have no condition yet"
        return pods

    pods = until(settled, "all pods that wait have the condition", SECONDS, pause=3)
    for pod in pods:
        scheduled, ours = condition(pod, "PodScheduled"), condition(pod, TYPE)
        if pod["metadata"]["name"].startswith("missing"):
            assert (scheduled is None, ours["reason"]) == (True, "NotFound"), pod["status"]
        else:
            assert (ours is not None) is (scheduled["status"] == "False"), pod["status"]
    reasons = {condition(pod, TYPE)["reason"] for pod in pods if condition(pod, TYPE)}
    assert reasons == {"NoNodeFits", "NoNodeFitsNow", "NotFound"}

    for pod in pods:
        if pod["spec"].get("nodeName"):
            explaining.delete("Pod", pod["metadata"]["name"], team, gracePeriodSeconds=0)

    def bound_without_a_condition():
        bound = [pod for pod in explaining.list("Pod", team) if pod["spec"].get("nodeName")]
        assert len(bound) == len(explaining.nodes)
        return not any(condition(pod, TYPE) for pod in bound)

    until(bound_without_a_condition, "pods that are bound lose the condition", 120, pause=3)
    assert explaining.configure(explain={"onPods": False}).accepted
    until(
        lambda: not any(condition(pod, TYPE) for pod in explaining.list("Pod", team)),
        "all conditions are removed",
        SECONDS,
        pause=3,
    )


def test_event_names_the_reason_and_the_pod(explaining):
    team = explaining.namespace()
    assert explaining.create(manifests.pod(team, gpus=3)).accepted

    def found():
        events = explaining.list("Event", team, fieldSelector="reason=GPUWaiting")
        return [each for each in events if each["involvedObject"]["name"] == "train"]

    (event,) = until(found, "the pod has an event", 90)
    pod = explaining.get("Pod", "train", team).object
    assert event["involvedObject"]["uid"] == pod["metadata"]["uid"]
    assert event["message"] == condition(pod, TYPE)["message"]


def test_missing_rights_are_a_note_that_goes_when_they_are_there(configured, request):
    team = configured.namespace()
    assert configured.create(manifests.pod(team, gpus=3)).accepted
    note = "may not patch pods/status; apply the component deploy/components/explain-on-pods"
    until(lambda: note in str(configured.service.probe()["notes"]), "the note names the component", 90)
    request.getfixturevalue("explaining")
    until(lambda: condition(configured.get("Pod", "train", team).object, TYPE), "the pod has the condition", 60)
    until(lambda: note not in str(configured.service.probe()["notes"]), "the note is gone")


def test_policy_names_every_field_of_the_status(explaining):
    schemas = explaining.api.request("GET", "/openapi/v3/api/v1").object["components"]["schemas"]
    fields = {*schemas["io.k8s.api.core.v1.PodStatus"]["properties"]} - {"conditions", "observedGeneration"}
    policy = explaining.get("ValidatingAdmissionPolicy", "explain-on-pods.gpu-admission.io").object
    expressions = " ".join(each["expression"] for each in policy["spec"]["validations"])
    assert {
        field for field in fields if f"object.?status.?{field} == oldObject.?status.?{field}" not in expressions
    } == set()


def condition(pod, kind):
    return next((each for each in pod["status"].get("conditions", ()) if each["type"] == kind), None)


@pytest.mark.parametrize(
    ("status", "is_allowed"),
    [
        ({"conditions": [{"type": TYPE, "status": "False"}]}, True),
        ({"conditions": [{"type": "Ready", "status": "True"}]}, False),
        ({"podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}]}, False),
        ({"phase": "Running"}, False),
    ],
    ids=["ours", "Ready", "address", "phase"],
)
def test_stolen_token_changes_nothing_but_our_condition(explaining, status, is_allowed):
    team = explaining.namespace()
    assert explaining.create(manifests.pod(team, gpus=0, nodeSelector={"zone": "nowhere"})).accepted
    ours, path = explaining.by(deploy.USER), RESOURCES["Pod"].path(team, "train", "status")

    def answer():
        # Dry runs, because a change that passed before the policy was there is no change the second time.
        found = ours.request("PATCH", path, {"dryRun": "All"}, {"status": status}, STRATEGIC_PATCH)
        assert found.accepted is is_allowed, found
        assert is_allowed or "gpu-admission may change the condition gpu-admission.io/Schedulable only" in found.message
        return True

    until(answer, "the policy holds", 30)
