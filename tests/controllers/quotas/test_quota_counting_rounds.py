"""Rounds of counting: existing objects are used, seen charges are no longer reserved, new objects count at once."""

import pytest

from webhook.controllers.metrics import IncompleteRound

OWN = ""
COUNTED = ("True", "Counted", "All pods and claims of the namespace were counted.")


async def test_new_quota_is_primed_with_what_there_is(team, leader):
    team.pod("train", 2)
    team.claim("shared", 3)
    team.quota()
    await leader.count()
    assert team.amounts == {"all": ("5", "0")}
    assert team.status["summary"] == "all 5 of 8"
    assert team.condition("Ready") == COUNTED


async def test_charge_is_closed_when_its_pod_is_seen(team, leader):
    team.quota()
    await leader.count()
    await leader.charge("train", {OWN: 2})
    assert team.amounts == {"all": ("0", "2")}
    team.pod("train", 2)
    await leader.count()
    assert (team.amounts, team.charged) == ({"all": ("2", "0")}, {})


async def test_unseen_charge_stays(team, leader):
    team.quota()
    await leader.count()
    await leader.charge("train", {OWN: 2})
    await leader.count()
    assert (team.amounts, team.charged) == ({"all": ("0", "2")}, {"train": [OWN]})


async def test_pod_is_seen_before_its_claim(team, leader):
    team.quota()
    await leader.count()
    await leader.charge("train", {OWN: 1, "big": 4})
    team.pod("train", 1, claims=[{"name": "big", "resourceClaimTemplateName": "big"}])
    await leader.count()
    assert (team.amounts, team.charged) == ({"all": ("1", "4")}, {"train": ["big"]})
    team.claim("train-big", 4, pod="train", piece="big")
    team.seconds += 5
    await leader.count()
    assert (team.amounts, team.charged) == ({"all": ("5", "0")}, {})


async def test_charges_are_closed_every_five_seconds_where_nothing_else_changes(team, leader):
    team.quota()
    await leader.count()
    shown = []
    for name in ("first", "second"):
        await leader.charge(name, {OWN: 1})
        team.pod(name, 1)
        await leader.count()
        shown.append(team.amounts["all"])
    team.seconds += 5
    await leader.count()
    assert [*shown, team.amounts["all"]] == [("1", "0"), ("1", "1"), ("2", "0")]


async def test_freed_amounts_are_counted_at_once(team, leader):
    team.quota()
    await leader.count()
    for name in ("first", "second"):
        await leader.charge(name, {OWN: 1})
        team.pod(name, 1)
        await leader.count()
    await leader.client.delete("/api/v1/namespaces/team-a/pods/second")
    await leader.count()
    assert (team.amounts, team.charged) == ({"all": ("1", "0")}, {})


async def test_charge_is_closed_although_its_pod_was_deleted_before_the_count_was_written(team, leader):
    """The lists are those of the count before again, but the charge must not stay."""
    team.quota()
    await leader.count()
    await leader.charge("first", {OWN: 1})
    team.pod("first", 1)
    await leader.count()
    await leader.charge("second", {OWN: 1})
    await leader.count()
    team.pod("second", 1)
    await leader.count()
    assert team.amounts == {"all": ("1", "1")}
    team.sandbox.remove("Pod", "second", "team-a")
    for _ in range(3):
        await leader.count()
        team.seconds += 130
    assert (team.amounts, team.charged) == ({"all": ("1", "0")}, {})


async def test_many_charges_are_closed_at_once(team, leader):
    team.quota({"name": "all", "gpus": 100})
    await leader.count()
    for number in range(67):
        await leader.charge(f"pod-{number}", {OWN: 1})
    for number in range(2):
        team.pod(f"pod-{number}", 1)
        await leader.count()
    assert team.amounts == {"all": ("2", "65")}


async def test_nothing_is_asked_or_written_while_nothing_changes(team, leader):
    team.quota()
    team.pod("train", 2)
    await leader.count()
    await leader.count()
    before = len(team.sandbox.requests)
    for _ in range(3):
        await leader.count_what_was_seen()
    assert len(team.sandbox.requests) == before


async def test_other_objects_change_nothing(team, leader):
    team.quota()
    await leader.count()
    version = team.stored["metadata"]["resourceVersion"]
    team.pod("sidecar", 0)
    team.node("a", ("Tesla-T4", 15360))
    await leader.count()
    assert team.stored["metadata"]["resourceVersion"] == version


async def test_bound_pod_counts_what_it_got(team, leader):
    team.node("h", ("NVIDIA-H100-80GB-HBM3", 81920))
    team.node("t", ("Tesla-T4", 15360))
    team.quota(
        {"name": "h100", "selector": {"products": ["H100*"]}, "gpus": 8},
        {"name": "t4", "selector": {"products": ["Tesla-T4"]}, "gpus": 8},
        {"name": "memory", "memory": "1Ti"},
    )
    team.pod("train", 2)
    await leader.count()
    assert team.amounts == {"h100": ("2", "0"), "t4": ("2", "0"), "memory": ("171798691840", "0")}
    stored = team.sandbox.get("Pod", "train", "team-a")
    team.sandbox.replace({**stored, "spec": {**stored["spec"], "nodeName": "t"}})
    await leader.count()
    assert team.amounts == {"h100": ("0", "0"), "t4": ("2", "0"), "memory": ("32212254720", "0")}
    assert team.status["summary"] == "h100 0 of 8, t4 2 of 8, memory 30 of 1,024 GiB"


async def test_new_limit_is_primed_in_the_next_round(team, leader):
    team.quota()
    team.pod("train", 2)
    await leader.count()
    await leader.charge("late", {OWN: 1})
    team.quota({"name": "all", "gpus": 8}, {"name": "count", "devices": 14})
    await leader.count()
    assert team.amounts == {"all": ("2", "1"), "count": ("2", "1")}
    assert team.condition("Ready") == COUNTED


async def test_lowered_limit_is_reported_and_takes_nothing_away(team, leader):
    team.quota()
    team.pod("train", 6)
    await leader.count()
    team.quota({"name": "all", "gpus": 4})
    await leader.count()
    assert (team.status["limits"][0]["hard"], team.amounts) == ("4", {"all": ("6", "0")})
    assert (team.status["observedGeneration"], team.status["summary"]) == (2, "all 6 of 4")


async def test_pod_that_ended_counts_as_nothing(team, leader):
    team.quota()
    team.pod("train", 2)
    await leader.count()
    team.findings_of("train", phase="Succeeded")
    await leader.count()
    assert team.amounts == {"all": ("0", "0")}


async def test_claim_of_the_scheduler_counts_with_its_pod(team, leader):
    team.quota()
    team.pod("train", 2)
    team.claim("train-extended", 2, pod="train", extended=True)
    team.findings_of(
        "train", extendedResourceClaimStatus={"resourceClaimName": "train-extended", "requestMappings": []}
    )
    await leader.count()
    assert team.amounts == {"all": ("2", "0")}


async def test_claim_that_only_says_that_the_scheduler_made_it_counts_for_itself(team, leader):
    team.quota()
    team.pod("train", 2)
    team.claim("forged", 2, pod="train", extended=True)
    await leader.count()
    assert team.amounts == {"all": ("4", "0")}


async def test_claim_of_the_scheduler_is_known_by_its_charge_before_the_pod_tells(team, leader):
    team.quota()
    team.pod("train", 2)
    await leader.count()
    await leader.charge("train-extended", {OWN: 2}, "ResourceClaim", of=("train", OWN))
    team.claim("train-extended", 2, pod="train", extended=True)
    await leader.count()
    assert (team.amounts, team.charged) == ({"all": ("2", "0")}, {})


async def test_spec_that_is_newer_than_the_cache_is_left_to_the_next_round(team, leader):
    team.quota()
    team.pod("train", 2)
    await leader.see()
    team.quota({"name": "count", "devices": 14})
    await leader.count_what_was_seen()
    assert "status" not in team.stored
    await leader.count()
    assert team.amounts == {"count": ("2", "0")}


async def test_quota_that_is_deleted_and_made_again_is_counted_anew(team, leader):
    team.quota()
    team.pod("train", 2)
    await leader.count()
    team.sandbox.remove("GPUQuota", "gpu", "team-a")
    await leader.count()
    assert leader.sample("gpu_admission_quota", namespace="team-a", limit="all", unit="gpus", amount="hard") is None
    team.quota()
    await leader.count()
    assert team.amounts == {"all": ("2", "0")}


async def test_nothing_known_of_quotas_is_reported(team, leader):
    with pytest.raises(IncompleteRound, match="GPUQuotas are unknown, so none is counted"):
        await leader.count_what_was_seen()
