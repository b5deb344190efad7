"""Charges that were never seen are looked up, and removed if their object does not exist."""

import pytest

from tests.sandbox.faults import failing
from webhook.controllers.metrics import IncompleteRound

OWN = ""


@pytest.fixture
async def waiting(team, leader):
    """A charge that this leader has not seen the object of for two minutes; the round that looks it up comes next."""
    team.quota()
    await leader.count()
    await leader.charge("train", {OWN: 2, "big": 1})
    await leader.count()
    team.seconds += 119
    await leader.count()
    assert team.charged == {"train": [OWN, "big"]}
    assert team.requests("get", "pods") == 0
    team.seconds += 1
    return leader


async def test_charge_of_a_pod_that_does_not_exist_is_given_up(team, waiting):
    await waiting.count_what_was_seen()
    assert (team.charged, team.amounts) == ({}, {"all": ("0", "0")})
    assert waiting.sample("gpu_admission_quota_expired_charges_total") == 1


async def test_charge_of_a_pod_that_the_cache_does_not_show_stays(team, waiting):
    team.pod("train", 2)
    await waiting.count_what_was_seen()
    assert team.charged == {"train": [OWN, "big"]}
    assert waiting.sample("gpu_admission_quota_expired_charges_total") == 0
    asked = team.requests("get", "pods")
    team.seconds += 119
    await waiting.count_what_was_seen()
    assert team.requests("get", "pods") == asked


async def test_charge_of_a_pod_that_requests_no_gpu_is_given_up(team, waiting):
    team.pod("train", 0)
    await waiting.count_what_was_seen()
    assert team.charged == {}


async def test_charge_is_given_up_where_another_pod_has_the_name(team, waiting):
    team.pod("train", 2, uid="another")
    await waiting.count()
    assert (team.charged, team.amounts) == ({}, {"all": ("2", "0")})


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_charge_of_a_pod_that_has_ended_is_given_up(team, waiting, phase):
    team.pod("train", 2, phase=phase)
    await waiting.count()
    assert (team.charged, team.amounts) == ({}, {"all": ("0", "0")})


async def test_charge_of_a_claim_with_an_odd_piece_is_removed_too(team, leader):
    team.quota()
    await leader.count()
    await leader.charge("odd", {"claim": 8}, "ResourceClaim")
    await leader.count()
    team.seconds += 120
    await leader.count()
    assert (team.charged, team.amounts) == ({}, {"all": ("0", "0")})


async def test_charge_of_a_claim_is_looked_up_as_well(team, leader):
    team.quota()
    await leader.count()
    await leader.charge("gone", {OWN: 1}, "ResourceClaim")
    await leader.charge("there", {OWN: 2}, "ResourceClaim")
    await leader.count()
    team.claim("there", 2)
    team.seconds += 120
    await leader.see("GPUQuota")
    await leader.count_what_was_seen()
    assert team.charged == {"there": [OWN]}


async def test_piece_whose_pod_was_seen_is_not_looked_up(team, leader):
    team.quota()
    team.pod("train", 1, claims=[{"name": "big", "resourceClaimTemplateName": "big"}])
    await leader.count()
    await leader.charge("train", {OWN: 1, "big": 1})
    await leader.count()
    team.seconds += 500
    await leader.count()
    assert team.charged == {"train": ["big"]}
    assert team.requests("get", "pods") == 0


async def test_charge_stays_while_the_api_server_does_not_say(team, waiting):
    team.sandbox.faults.add(failing(503), verb="GET", path="*/pods/train", count=1)
    with pytest.raises(IncompleteRound, match="some quotas could not be counted: GPUQuota gpu of namespace team-a: "):
        await waiting.count_what_was_seen()
    assert "train" in team.charged
    await waiting.count_what_was_seen()
    assert team.charged == {}


async def test_new_leader_watches_for_two_minutes_itself(team, waiting, replica):
    successor = await replica()
    await successor.count()
    assert "train" in team.charged


async def test_who_led_before_begins_to_watch_anew(team, waiting):
    waiting.round.forget()
    await waiting.count()
    assert "train" in team.charged


async def test_charge_by_a_name_that_nothing_can_have_is_given_up(team, leader):
    team.quota()
    await leader.count()
    await leader.charge("odd", {OWN: 1}, name="no/name")
    await leader.count()
    team.seconds += 120
    await leader.count_what_was_seen()
    assert team.charged == {}


async def test_charge_of_a_pod_that_came_and_went_between_two_rounds_is_given_up_at_once(team, leader):
    team.quota()
    await leader.count()
    await leader.charge("train", {OWN: 2, "big": 1})
    await leader.count()
    team.pod("train", 2)
    await leader.see("Pod")
    team.sandbox.remove("Pod", "train", "team-a")
    await leader.see("Pod")
    await leader.count_what_was_seen()
    assert (team.charged, team.amounts) == ({}, {"all": ("0", "0")})
    assert team.requests("get", "pods") == 0


async def test_charge_of_a_claim_that_came_and_went_is_given_up_at_once(team, leader):
    team.quota()
    await leader.count()
    await leader.charge("gpus", {OWN: 1}, "ResourceClaim")
    await leader.count()
    team.claim("gpus")
    await leader.see("ResourceClaim")
    team.sandbox.remove("ResourceClaim", "gpus", "team-a")
    await leader.see("ResourceClaim")
    await leader.count_what_was_seen()
    assert (team.charged, team.amounts) == ({}, {"all": ("0", "0")})
