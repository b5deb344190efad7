"""Charges of PodGroups are kept while a pod may wait for the claim of its group, and removed afterwards."""

import pytest

ENTRY = {"name": "gpu", "resourceClaimTemplateName": "one"}


@pytest.fixture
async def ring(team, leader):
    """The group `ring`, which was charged with its first pod; that one can be seen."""
    team.quota()
    team.pod_group("ring")
    await leader.count()
    await leader.charge("first", {}, group="ring")
    team.pod("first", 0, claims=[ENTRY], group="ring")
    await leader.count()
    assert (team.charged, team.amounts) == ({"ring": ["gpu"]}, {"all": ("0", "1")})
    return leader


async def test_charge_of_a_group_stays_while_a_pod_waits_for_its_claim(team, ring):
    team.seconds += 1000
    await ring.count()
    assert team.charged == {"ring": ["gpu"]}


async def test_charge_of_a_group_is_given_up_two_minutes_after_its_last_pod(team, ring):
    team.sandbox.remove("Pod", "first", "team-a")
    await ring.count()
    assert team.charged == {"ring": ["gpu"]}
    team.seconds += 120
    await ring.count()
    assert (team.charged, team.amounts) == ({}, {"all": ("0", "0")})


async def test_charge_of_a_group_stays_with_its_pods_while_groups_are_unknown(team, ring):
    """Kubernetes 1.35 serves none, in any version."""
    team.sandbox.upgrade("1.35.0")
    team.seconds += 1000
    await ring.count()
    assert team.charged == {"ring": ["gpu"]}
    team.sandbox.remove("Pod", "first", "team-a")
    await ring.count()
    team.seconds += 120
    await ring.count()
    assert team.charged == {}


async def test_charge_that_another_pod_rests_on_since_is_not_given_up(team, ring, monkeypatch):
    """It may be on its way still; the time of the charge tells that there is another."""
    team.sandbox.remove("Pod", "first", "team-a")
    await ring.count()
    team.seconds += 119
    monkeypatch.setattr("webhook.ledger.writer.rfc3339", lambda _now: "2026-01-01T00:00:30Z")
    await ring.charge("second", {}, group="ring")
    await ring.count()
    team.seconds += 1
    await ring.count()
    assert team.charged == {"ring": ["gpu"]}


async def test_charge_of_a_group_ends_with_the_group(team, ring):
    """One that is made again under its name is another."""
    team.sandbox.remove("PodGroup", "ring", "team-a")
    team.pod_group("ring", "again")
    await ring.count()
    assert (team.charged, team.amounts) == ({}, {"all": ("0", "0")})


async def test_claim_of_a_group_closes_its_charge(team, ring):
    team.claim(
        "ring-gpu-x", pod="ring", piece="gpu", owner={"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup"}
    )
    await ring.count()
    assert (team.charged, team.amounts) == ({}, {"all": ("1", "0")})


async def test_charges_of_pods_move_to_a_group_that_comes_later(team, leader):
    """A PodGroup alone is reason enough to count."""
    team.quota()
    await leader.count()
    for name in ("first", "second"):
        await leader.charge(name, {"gpu": 1})
        team.pod(name, 0, claims=[ENTRY], group="ring")
    await leader.count()
    assert team.amounts == {"all": ("0", "2")}
    team.pod_group("ring")
    await leader.count()
    assert (team.charged, team.amounts) == ({"ring": ["gpu"]}, {"all": ("0", "1")})
