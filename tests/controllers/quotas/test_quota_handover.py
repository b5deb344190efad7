"""The next leader learns what was deleted while none counted."""

import pytest

from tests.sandbox.faults import gone


async def create_and_delete(team, leader, name="short"):
    """A pod is charged, stored and deleted."""
    await leader.charge(name, {"": 2})
    team.pod(name, gpus=2)
    team.sandbox.remove("Pod", name, "team-a")


@pytest.fixture
async def last_leader(team, leader):
    """A leader that has done two rounds, as each does within seconds."""
    team.quota()
    await leader.count()
    await leader.count()
    return leader


async def test_charge_of_a_pod_that_no_leader_saw_is_dropped_by_the_next_one(team, last_leader, replica):
    await create_and_delete(team, last_leader)
    assert team.amounts["all"] == ("0", "2")
    new = await replica()
    new.round.inherited = lambda: last_leader.round.counted
    await new.count()
    assert team.amounts["all"] == ("0", "0")


async def test_claim_that_no_leader_saw_is_dropped_by_the_next_one(team, last_leader, replica):
    await last_leader.charge("short", {"": 2}, kind="ResourceClaim")
    team.claim("short", 2)
    team.sandbox.remove("ResourceClaim", "short", "team-a")
    new = await replica()
    new.round.inherited = lambda: last_leader.round.counted
    await new.count()
    assert team.amounts["all"] == ("0", "0")


async def test_charge_of_a_pod_that_is_still_to_be_stored_stays(team, last_leader, replica):
    await last_leader.charge("coming", {"": 2})
    new = await replica()
    new.round.inherited = lambda: last_leader.round.counted
    await new.count()
    assert team.amounts["all"] == ("0", "2")


async def test_quotas_are_counted_although_the_history_is_gone(team, last_leader, replica):
    await create_and_delete(team, last_leader)
    new = await replica()
    new.round.inherited = lambda: last_leader.round.counted
    team.sandbox.faults.add(gone(), verb="WATCH")
    await new.count()
    assert team.amounts["all"] == ("0", "2")


async def test_charge_of_a_pod_is_dropped_although_the_last_leader_did_one_round_only(team, leader, replica):
    team.quota()
    await leader.count()
    await create_and_delete(team, leader)
    new = await replica()
    new.round.inherited = lambda: leader.round.counted
    await new.count()
    assert team.amounts["all"] == ("0", "0")


async def test_leader_that_did_one_round_passes_on_what_it_inherited(team, last_leader, replica):
    new = await replica()
    new.round.inherited = lambda: last_leader.round.counted
    team.pod("train")
    await new.count()
    assert new.round.counted == last_leader.round.counted


async def test_leader_passes_on_its_own_lists_where_the_history_is_gone(team, last_leader, replica):
    team.pod("train")
    new = await replica()
    new.round.inherited = lambda: last_leader.round.counted
    team.sandbox.faults.add(gone(), verb="WATCH")
    await new.count()
    assert new.round.counted["gpu-admission.io/counted-pods"] == new.stores["Pod"].listed_version


async def test_leader_passes_on_the_versions_before_its_last_round(team, leader):
    team.quota()
    await leader.count()
    team.pod("train")
    await leader.count()
    second = leader.stores["Pod"].resource_version
    team.pod("train-2")
    await leader.count()
    assert leader.round.counted["gpu-admission.io/counted-pods"] == second
