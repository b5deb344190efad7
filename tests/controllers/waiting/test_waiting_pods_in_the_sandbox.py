"""Pods that wait for GPUs get the scheduler's verdict with the reasons, and lose it when it is no longer true."""

import pytest

from policies.analyses.waiting import pod_state
from policies.kubernetes.bounds import Work, bounded_by
from testbed import deploy
from tests.controllers.waiting.conftest import ON
from tests.deploy.grants import grants_of
from webhook.cluster.answers import APIError
from webhook.cluster.resources import NEW_EVENT
from webhook.controllers.metrics import IncompleteRound

TEXT = (
    "Fits none of 1 node, even if nothing were in use. Smallest change that helps: request 4 nvidia.com/gpu instead of 8; "
    "then it fits on 1 node. 1 node: 8 nvidia.com/gpu requested, and the node has 4 in all."
)
FULL = ("False", "NoNodeFits", TEXT)

MISSING = (
    "It fits no node: something that it refers to does not exist. ResourceClaimTemplate team-a/missing, from which claim "
    "gpu of the pod is to be made, does not exist; create it, or correct resourceClaimTemplateName."
)


async def test_pod_that_fits_no_node_gets_a_condition_and_an_event(team, leader, events):
    team.node("node-1", gpus=4)
    team.pod("train", gpus=8)
    await leader.round()
    assert team.condition("train") == FULL
    (event,) = await events("train")
    assert {key: event[key] for key in ("reason", "action", "type", "note", "reportingController")} == {
        "reason": "GPUWaiting",
        "action": "Explain",
        "type": "Warning",
        "note": FULL[2],
        "reportingController": "gpu-admission.io",
    }
    assert event["regarding"]["uid"] == "uid-train"


async def test_conditions_of_others_stay(team, leader):
    team.node("node-1", gpus=4)
    team.pod("train", gpus=8)
    before = team.stored("train")["status"]["conditions"]
    await leader.round()
    assert team.stored("train")["status"]["conditions"][: len(before)] == before


async def test_pod_that_fits_gets_no_condition(team, leader, events):
    team.node("node-1", gpus=8)
    team.pod("train", gpus=8)
    await leader.round()
    assert team.condition("train") is None
    assert await events("train") == []
    assert leader.sample("gpu_admission_waiting_pods", reason="fits") == 1


async def test_condition_is_removed_when_the_pod_fits(team, leader):
    team.node("node-1", gpus=4)
    team.pod("train", gpus=8)
    await leader.round()
    team.node("node-2", gpus=8)
    await leader.round()
    assert team.condition("train") is None


async def test_condition_is_removed_when_the_pod_is_bound(team, leader):
    team.node("node-1", gpus=4)
    team.pod("train", gpus=8)
    await leader.round()
    team.bind("train", "node-1")
    await leader.round()
    assert [each["type"] for each in team.stored("train")["status"]["conditions"]] == ["PodScheduled"]


async def test_condition_is_removed_from_a_pod_that_has_ended_meanwhile(team, leader):
    team.node("node-1", gpus=4)
    team.pod("train", gpus=8)
    await leader.round()
    team.bind("train", "node-1")
    team.change("train", phase="Succeeded")
    await leader.round()
    assert team.condition("train") is None


async def test_nothing_is_written_twice(team, leader, events):
    team.node("node-1", gpus=4)
    team.pod("train", gpus=8)
    for _ in range(3):
        await leader.round()
        team.seconds += 100
    assert team.writes == ["train"]
    assert len(await events("train")) == 1


async def test_changed_text_is_written_at_most_once_a_minute(team, leader):
    team.node("node-1", gpus=4)
    team.pod("train", gpus=8)
    await leader.round()
    team.node("node-2", gpus=5)
    await leader.round()
    assert team.condition("train") == FULL
    team.seconds += 60
    await leader.round()
    assert "request 5 nvidia.com/gpu instead of 8" in team.condition("train")[2]


async def test_event_is_renewed_as_a_series(team, leader, events):
    team.node("node-1", gpus=4)
    team.pod("train", gpus=8)
    await leader.round()
    for _ in range(2):
        team.seconds += 1800
        await leader.round()
    (event,) = await events("train")
    assert event["series"]["count"] == 3


async def test_event_that_has_expired_is_written_again(team, leader, events):
    team.node("node-1", gpus=4)
    team.pod("train", gpus=8)
    await leader.round()
    (event,) = await events("train")
    await leader.client.delete(NEW_EVENT.path("team-a", event["metadata"]["name"]))
    team.seconds += 1800
    await leader.round()
    (again,) = await events("train")
    assert again["note"] == event["note"]


async def test_writes_need_the_rights_of_the_component_and_no_others(team, leader):
    team.node("node-1", gpus=4)
    team.pod("train", gpus=8)
    for _ in range(2):
        await leader.round()
        team.seconds += 1800
    team.bind("train", "node-1")
    await leader.round()
    granted = grants_of(deploy.explain_on_pods())
    sent = [each for each in team.sandbox.requests if each.verb not in ("list", "get")]
    assert all(any(grant.covers(each) for grant in granted) for each in sent), sent
    assert all(any(grant.covers(each) for each in sent) for grant in granted)


async def test_new_leader_writes_nothing_that_is_there(team, leader, make_leader, events):
    team.node("node-1", gpus=4)
    team.pod("train", gpus=8)
    await leader.round()
    other = await make_leader()
    await other.round()
    assert team.writes == ["train"]
    assert len(await events("train")) == 1


async def test_young_pods_wait_for_thirty_seconds(team, leader):
    team.node("node-1", gpus=4)
    team.pod("train", gpus=8)
    team.seconds -= 40
    await leader.round()
    assert team.condition("train") is None
    team.seconds += 40
    await leader.round()
    assert team.condition("train") == FULL


async def test_pod_that_the_scheduler_has_not_tried_gets_no_condition(team, leader):
    team.node("node-1", gpus=4)
    team.pod("train", gpus=8)
    team.change("train", conditions=[])
    await leader.round()
    assert team.condition("train") is None


async def test_pod_of_a_missing_template_gets_a_condition_although_the_scheduler_does_not_try_it(team, leader):
    team.node("node-1", devices=4)
    team.pod("train", claim="missing")
    team.change("train", conditions=[])
    await leader.round()
    assert team.condition("train") == (
        "False",
        "NotFound",
        MISSING,
    )


@pytest.mark.parametrize(
    "spec",
    [{"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}, {"nodeName": "node-1"}],
    ids=["gated", "bound"],
)
async def test_other_pods_are_left_alone(team, leader, spec):
    team.node("node-1", gpus=4)
    team.pod("train", gpus=8, **spec)
    team.pod("web", gpus=0)
    await leader.round()
    assert team.writes == []


async def test_text_names_neither_nodes_nor_objects_of_other_namespaces(team, leader):
    team.node("secret-node", devices=2)
    team.template("four", 4)
    team.pod("train", claim="four")
    await leader.round()
    status, reason, message = team.condition("train")
    assert (status, reason) == ("False", "NoNodeFits")
    assert "secret-node" not in message


async def test_nothing_is_said_while_devices_are_unknown(team, leader):
    team.node("node-1", gpus=4)
    team.pod("train", gpus=8)
    await leader.round()
    await leader.see()
    leader.stores["ResourceSlice"].mark("forbidden", "no")
    await leader.task.round()
    assert team.condition("train") is None
    assert leader.sample("gpu_admission_waiting_pods", reason="unknown") == 1


async def test_nothing_is_removed_while_pods_are_unknown(team, leader):
    team.node("node-1", gpus=4)
    team.pod("train", gpus=8)
    await leader.round()
    leader.stores["Pod"].mark("forbidden", "no")
    await leader.task.round()
    assert team.condition("train") == FULL


async def test_pods_of_one_template_share_an_explanation(team, leader, monkeypatch):
    from webhook.controllers import waiting_round

    explained = []
    explain = waiting_round.explain
    monkeypatch.setattr(
        waiting_round, "explain", lambda *args, **options: explained.append(1) or explain(*args, **options)
    )
    team.node("node-1", gpus=4)
    for number in range(20):
        team.pod(f"train-{number}", gpus=8, hostname=f"train-{number}")
    team.pod("other", gpus=5)
    await leader.round()
    assert len(explained) == 2
    assert {team.condition(f"train-{number}") for number in range(20)} == {FULL}


async def test_defect_that_one_pod_meets_is_logged_once_and_leaves_the_others(team, leader, monkeypatch, caplog):
    from webhook.controllers import waiting_round

    explain = waiting_round.explain

    def defective(question, *args, **options):
        if question.resources["nvidia.com/gpu"] == 5 * 10**9:
            raise RuntimeError("defect")
        return explain(question, *args, **options)

    monkeypatch.setattr(waiting_round, "explain", defective)
    team.node("node-1", gpus=4)
    team.pod("other", gpus=5)
    team.pod("train", gpus=8)
    await leader.round()
    await leader.round()
    assert (team.condition("other"), team.condition("train")) == (None, FULL)
    assert [each.getMessage() for each in caplog.records] == ["the explanation of pod team-a/other failed"]


async def test_work_ends_when_the_leader_no_longer_leads(team, leader):
    team.node("node-1", gpus=4)
    for number in range(5):
        team.pod(f"train-{number}", gpus=8)
    await leader.see()
    steps = []

    def cancelled():
        steps.append(1)
        if len(steps) == 3:
            raise TimeoutError

    states = leader.view.derive_each("Pod", pod_state)
    with pytest.raises(TimeoutError), bounded_by(Work(check=cancelled)):
        leader.explainer.answers(states, ON, team.now)
    assert len(steps) == 3


async def test_pods_that_the_time_does_not_suffice_for_are_first_in_the_next_round(team, leader):
    team.node("node-1", gpus=4)
    team.pod("train", gpus=8)
    leader.explainer.round_seconds = 0
    await leader.round()
    assert leader.sample("gpu_admission_waiting_pods", reason="unknown") == 1
    leader.explainer.round_seconds = 20
    await leader.round()
    assert team.condition("train") == FULL


async def test_pods_that_the_time_does_not_suffice_for_keep_their_reason(team, leader):
    team.node("node-1", gpus=4)
    team.pod("train", gpus=8)
    await leader.round()
    leader.explainer.round_seconds = 0
    await leader.round()
    assert leader.sample("gpu_admission_waiting_pods", reason="noNode") == 1


async def test_pods_with_gates_and_pods_that_do_not_start_are_counted(team, leader):
    team.node("node-1", gpus=4)
    team.pod("held", gpus=1, schedulingGates=[{"name": "example.com/later"}])
    team.pod("stuck", gpus=1, nodeName="node-1")
    team.seconds += 3600
    await leader.round()
    assert leader.sample("gpu_admission_waiting_pods", reason="gated") == 1
    assert leader.sample("gpu_admission_waiting_pods", reason="notStarted") == 1
    assert leader.sample("gpu_admission_waiting_pods", reason="fits") == 0


async def test_pods_are_counted_once_a_minute_while_nothing_is_written(team, leader):
    leader.switch_off()
    team.node("node-1", gpus=4)
    team.pod("train", gpus=8)
    await leader.round()
    assert leader.sample("gpu_admission_waiting_pods", reason="noNode") == 1
    team.pod("more", gpus=8)
    team.seconds += 30
    await leader.round()
    assert leader.sample("gpu_admission_waiting_pods", reason="noNode") == 1
    team.seconds += 31
    await leader.round()
    assert leader.sample("gpu_admission_waiting_pods", reason="noNode") == 2
    assert team.condition("train") is None


async def test_conditions_are_removed_when_the_setting_is_off(team, leader):
    team.node("node-1", gpus=4)
    for number in range(3):
        team.pod(f"train-{number}", gpus=8)
    await leader.round()
    assert leader.sample("gpu_admission_waiting_conditions") == 0
    await leader.see()
    leader.switch_off()
    await leader.task.round()
    assert [team.condition(f"train-{number}") for number in range(3)] == [None] * 3
    assert leader.sample("gpu_admission_waiting_conditions") == 3
    await leader.round()
    assert leader.sample("gpu_admission_waiting_conditions") == 0


async def test_writes_of_a_round_are_bounded_and_the_rest_follows(team, leader):
    team.node("node-1", gpus=4)
    for number in range(400):
        team.pod(f"train-{number}", gpus=8)
    began = team.seconds
    await leader.round()
    seconds = team.seconds - began
    assert seconds < 16
    assert len(team.writes) * 2 <= 25 * seconds + 2
    await leader.round()
    await leader.round()
    assert {team.condition(f"train-{number}") for number in range(400)} == {FULL}


@pytest.mark.parametrize(
    ("verb", "path", "right"),
    [("PATCH", "*/pods/*", "patch pods/status"), ("POST", "*/events", "create events.events.k8s.io")],
)
async def test_missing_right_is_a_note_that_names_the_component(team, leader, verb, path, right):
    team.node("node-1", gpus=4)
    team.pod("train", gpus=8)
    message = 'pods "train" is forbidden: User "gpu-admission" cannot patch resource "pods/status" in API group ""'
    from tests.sandbox.faults import failing

    team.sandbox.faults.add(failing(403, message), verb=verb, path=path)
    with pytest.raises(IncompleteRound) as raised:
        await leader.round()
    assert leader.task.notes() == [str(raised.value)]
    assert str(raised.value) == (
        f"the reasons why pods wait for GPUs cannot be written to them: the ServiceAccount may not {right}; apply the "
        "component deploy/components/explain-on-pods, or set explainOnPods.enabled of the Helm chart"
    )
    team.sandbox.faults.clear()
    team.seconds += 60
    await leader.round()
    assert leader.task.notes() == []


async def test_pod_that_was_created_again_is_left_alone(team, leader):
    team.node("node-1", gpus=4)
    team.pod("train", gpus=8)
    await leader.see()
    stored = team.stored("train")
    team.sandbox.remove("Pod", "train", "team-a")
    team.sandbox.create({**stored, "metadata": {"name": "train", "namespace": "team-a", "uid": "another"}})
    await leader.task.round()
    assert team.condition("train") is None


async def test_pod_whose_writes_fail_does_not_keep_the_reasons_from_others(team, leader):
    """A webhook that is called for the status of pods of one namespace may not answer."""
    from tests.sandbox.faults import failing

    team.node("node-1", gpus=4)
    for name in ("broken", "train"):
        team.pod(name, gpus=8)
    team.sandbox.faults.add(failing(500, "failed calling webhook"), verb="PATCH", path="*/pods/broken/status")
    with pytest.raises(APIError, match="failed calling webhook"):
        await leader.round()
    assert (team.condition("broken"), team.condition("train")) == (None, FULL)
    calls = len(team.writes)
    await leader.round()
    assert len(team.writes) == calls
    team.sandbox.faults.clear()
    team.seconds += 60
    await leader.round()
    assert team.condition("broken") == FULL


async def test_many_failed_writes_end_a_round_and_the_next_ones_reach_the_others(team, leader):
    from tests.sandbox.faults import failing

    team.node("node-1", gpus=4)
    for number in range(12):
        team.pod(f"broken-{number}", gpus=8)
    team.pod("train", gpus=8)
    team.sandbox.faults.add(failing(422, "denied by a policy"), verb="PATCH", path="*/pods/broken-*")
    for _ in range(2):
        with pytest.raises(APIError, match="denied by a policy"):
            await leader.round()
    assert team.condition("train") == FULL


async def test_refusal_of_a_webhook_is_no_missing_right(team, leader):
    from tests.sandbox.faults import failing

    team.node("node-1", gpus=4)
    team.pod("train", gpus=8)
    message = 'admission webhook "x" denied the request: "train" cannot be changed'
    team.sandbox.faults.add(failing(403, message), verb="PATCH", path="*/status")
    await leader.round()
    assert leader.task.notes() == []
