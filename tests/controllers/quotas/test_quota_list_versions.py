"""Lists that are older than those of the ledger are not counted."""

import pytest

from tests.sandbox.faults import failing
from webhook.cluster.answers import APIError
from webhook.controllers.metrics import IncompleteRound

OWN = ""
ANEW = (
    "All pods and claims of the namespace were counted. The last count was made from newer lists than the API server has, "
    "as after etcd was restored from a backup, so counting began anew."
)


async def test_first_count_of_a_leader_is_by_quorum(team, leader):
    team.quota()
    await leader.see()
    team.pod("train", 2)
    await leader.count_what_was_seen()
    assert team.amounts == {"all": ("2", "0")}
    assert (team.requests("list", "pods"), team.requests("list", "resourceclaims")) == (2, 2)


async def test_lists_that_were_read_serve_until_the_caches_are_as_new(team, leader):
    team.quota()
    await leader.see()
    team.pod("train", 2)
    await leader.count_what_was_seen()
    asked = team.requests("list", "pods")
    await leader.see("GPUQuota")
    await leader.count_what_was_seen()
    await leader.count_what_was_seen()
    assert (team.requests("list", "pods"), team.amounts) == (asked, {"all": ("2", "0")})


async def test_counts_of_an_older_cache_are_replaced_by_lists_by_quorum(team, leader, replica):
    team.quota()
    team.pod("early", 1)
    lagging = await replica()
    await lagging.count()
    await leader.charge("train", {OWN: 2})
    team.pod("train", 2)
    await leader.count()
    assert (team.amounts, team.charged) == ({"all": ("3", "0")}, {})
    asked = team.requests("list", "pods")
    await lagging.see("GPUQuota")
    await lagging.count_what_was_seen()
    assert team.requests("list", "pods") == asked + 1
    assert (team.amounts, team.charged) == ({"all": ("3", "0")}, {})


async def test_older_cache_closes_no_charge_and_lowers_nothing_during_an_outage(team, leader, replica):
    team.quota()
    lagging = await replica()
    await lagging.count()
    await leader.charge("train", {OWN: 2})
    team.pod("train", 2)
    await leader.count()
    before = team.status
    await lagging.see("GPUQuota")
    team.sandbox.faults.add(failing(503), verb="GET", path="*/pods")
    with pytest.raises(IncompleteRound, match="namespace team-a"):
        await lagging.count_what_was_seen()
    assert team.status == before


async def test_ledger_of_another_history_is_counted_anew(team, leader, caplog):
    team.quota()
    team.pod("train", 2)
    await leader.count()
    await leader.charge("late", {OWN: 1})
    stored = team.stored
    counted = {"pods": "900000000", "claims": "900000000"}
    used = [{**stored["status"]["limits"][0], "used": "7"}]
    team.sandbox.replace({**stored, "status": {**stored["status"], "counted": counted, "limits": used}})
    team.seconds += 100
    await leader.count()
    assert (team.amounts, team.charged) == ({"all": ("2", "1")}, {"late": [OWN]})
    assert team.condition("Ready") == ("True", "Counted", ANEW)
    assert int(team.status["counted"]["pods"]) < 900000000
    reported = "the ledger was counted from newer lists than the API server has; the count started again"
    assert caplog.messages.count(reported) == 1
    await leader.count()
    written = team.stored["metadata"]["resourceVersion"]
    await leader.count()
    assert team.stored["metadata"]["resourceVersion"] == written


async def test_ledger_that_others_write_by_newer_lists_is_not_taken_for_another_history(team, leader, replica):
    team.quota()
    lagging, tries = await replica(), []
    await lagging.count()

    async def meanwhile(request, handler):
        """Whenever the one that lags has read its lists, the other one counts by newer ones."""
        answer = await handler(request)
        tries.append(1)
        team.pod(f"pod-{len(tries)}", 1)
        await leader.count()
        return answer

    await leader.count()
    team.pod("pod-0", 1)
    await leader.count()
    team.pod("pod-00", 1)
    team.sandbox.faults.add(meanwhile, verb="GET", path="*/team-a/pods", count=2)
    await lagging.see("GPUQuota")
    with pytest.raises(IncompleteRound, match="its status was counted from newer lists than the API server"):
        await lagging.count_what_was_seen()
    assert team.amounts == {"all": ("4", "0")}


async def test_ledger_that_rests_on_newer_lists_than_the_caches_is_not_taken_for_another_history(
    team, leader, replica, caplog
):
    team.quota()
    lagging = await replica()
    await lagging.count()
    await lagging.count()
    team.pod("train", 1)
    await leader.count()
    await lagging.see("GPUQuota")
    team.seconds += 100
    await lagging.count_what_was_seen()
    assert team.amounts == {"all": ("1", "0")}
    assert team.condition("Ready") == ("True", "Counted", "All pods and claims of the namespace were counted.")
    assert not [each for each in caplog.messages if "anew" in each]


async def test_two_leaders_at_once_do_no_harm(team, leader, replica):
    team.quota()
    other = await replica()
    await leader.count()
    await other.count()
    for number in range(4):
        await leader.charge(f"pod-{number}", {OWN: 1})
        await other.see()
        team.pod(f"pod-{number}", 1)
        team.seconds += 5
        await leader.count()
        await other.count_what_was_seen()
        assert (team.amounts, team.charged) == ({"all": (str(number + 1), "0")}, {})


async def test_claims_that_are_not_served_are_none(team, leader):
    team.quota()
    team.pod("train", 2)
    path = "/apis/resource.k8s.io/v1/*resourceclaims"
    team.sandbox.faults.add(failing(404), verb="GET", path=path)
    with pytest.raises(APIError):
        await leader.client.get("/apis/resource.k8s.io/v1/resourceclaims")
    await leader.count()
    assert (team.amounts, team.status["counted"]["claims"]) == ({"all": ("2", "0")}, "1")
    await leader.charge("late", {OWN: 1})
    team.pod("late", 1)
    await leader.count()
    assert (team.amounts, team.charged) == ({"all": ("3", "0")}, {})


async def test_lists_that_were_read_are_not_used_for_long(team, leader):
    team.quota()
    await leader.see()
    team.pod("train", 2)
    await leader.count_what_was_seen()
    await leader.see("GPUQuota")
    team.pod("more", 1)
    team.seconds += 90
    await leader.count_what_was_seen()
    assert team.amounts == {"all": ("3", "0")}


async def test_one_namespace_that_fails_does_not_stop_the_others(team, leader):
    team.sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-b"}})
    quota = team.quota()
    team.sandbox.create({**quota, "metadata": {"name": "gpu", "namespace": "team-b"}})
    team.sandbox.faults.add(failing(503), verb="GET", path="*/team-a/pods")
    with pytest.raises(IncompleteRound, match="some quotas could not be counted: GPUQuota gpu of namespace team-a: "):
        await leader.count()
    assert "status" not in team.stored
    assert team.sandbox.get("GPUQuota", "gpu", "team-b")["status"]["summary"] == "all 0 of 8"


async def test_mistake_of_ours_is_raised_when_all_others_had_their_turn(team, leader, monkeypatch):
    team.sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-b"}})
    quota = team.quota()
    team.sandbox.create({**quota, "metadata": {"name": "gpu", "namespace": "team-b"}})
    unknown = leader.round._lists.unknown
    monkeypatch.setattr(leader.round._lists, "unknown", lambda found: {"team-b": unknown}[found[0]](found))
    with pytest.raises(KeyError, match="team-a"):
        await leader.count()
    assert team.sandbox.get("GPUQuota", "gpu", "team-b")["status"]["summary"] == "all 0 of 8"


async def test_lists_of_a_quota_that_is_gone_are_not_held(team, leader):
    team.quota()
    await leader.see()
    team.pod("train", 2)
    await leader.count_what_was_seen()
    await leader.client.delete("/apis/gpu-admission.io/v1alpha1/namespaces/team-a/gpuquotas/gpu")
    await leader.see("GPUQuota")
    await leader.count_what_was_seen()
    assert not leader.round._lists._held
