"""The leader sums GPU hours into the status of quotas, with the count or every five minutes."""

import pytest

from policies.quota.ledger.gpu_hours import GPUHours, total_seconds
from tests.controllers.quotas.conftest import H100


@pytest.fixture
async def counting(team, leader):
    """A leader that has counted a pod with two H100s at midnight."""
    team.node("a", H100)
    team.quota()
    team.pod("train", 2, node="a", phase="Running")
    for _ in range(3):
        await leader.count()
    return leader


async def pass_time(team, leader, seconds):
    """Let a leader count every minute."""
    for _ in range(seconds // 60):
        team.seconds += 60
        await leader.count()


def found(team):
    return GPUHours.read(team.stored)


def seconds(team):
    return {kind: int(seconds) for kind, seconds in total_seconds(found(team).days).items()}


TWO = ("team-a", H100[0], "")


async def test_pod_has_gpu_hours_until_it_is_gone(team, counting):
    await pass_time(team, counting, 3600)
    team.sandbox.remove("Pod", "train", "team-a")
    await counting.count()
    assert (seconds(team), found(team).now) == ({TWO: 7200}, {})
    assert counting.sample("gpu_admission_gpu_seconds_total", namespace="team-a", product=H100[0], profile="") == 7200


async def test_hours_of_a_pod_that_stays_are_written_every_five_minutes(team, counting):
    writes = team.requests("update", "gpuquotas")
    await pass_time(team, counting, 600)
    assert team.requests("update", "gpuquotas") == writes + 2
    assert seconds(team) == {TWO: 1200}


async def test_quota_that_holds_nothing_is_not_written_for_its_hours(team, leader):
    team.quota()
    await leader.count()
    await leader.count()
    written = team.stored["metadata"]["resourceVersion"]
    team.seconds += 3600
    await leader.count()
    assert team.stored["metadata"]["resourceVersion"] == written


async def test_hours_before_a_quiet_time_are_no_gap_while_a_leader_counts(team, counting):
    team.sandbox.remove("Pod", "train", "team-a")
    await counting.count()
    await pass_time(team, counting, 3600)
    team.pod("next", 1, node="a", phase="Running")
    await counting.count()
    assert sum(each.gap for each in found(team).days) == 0


async def test_charge_keeps_the_hours(team, counting):
    before = team.status["hours"]
    await counting.charge("coming", {"": 1})
    assert team.status["hours"] == before


async def test_next_leader_sums_from_where_the_last_one_counted(team, counting, replica):
    await pass_time(team, counting, 3600)
    await counting.count()
    new = await replica()
    new.round.inherited = lambda: counting.round.counted
    team.seconds += 60
    await new.count()
    team.sandbox.remove("Pod", "train", "team-a")
    await new.count()
    assert (seconds(team), [each.gap for each in found(team).days]) == ({TWO: 2 * 3660}, [0])


async def test_time_without_a_leader_is_a_gap(team, counting, replica):
    await counting.count()
    new = await replica()
    new.round.inherited = lambda: counting.round.counted
    team.seconds += 3600
    await new.count()
    assert (seconds(team), [each.gap for each in found(team).days]) == ({}, [3600])


async def test_two_leaders_do_not_add_the_same_time_twice(team, counting, replica):
    other = await replica()
    other.round.inherited = lambda: counting.round.counted
    team.seconds += 300
    await other.see()
    await counting.count()
    await other.count_what_was_seen()
    team.seconds += 300
    await other.count()
    assert seconds(team) == {TWO: 1200}


async def test_hours_that_another_program_wrote_begin_anew(team, counting):
    stored = team.stored
    team.sandbox.replace({**stored, "status": {**stored["status"], "hours": "nonsense"}})
    team.seconds += 60
    await counting.count()
    assert (found(team).days, found(team).now) == ((), {TWO: 2})


async def test_time_in_which_lists_were_unknown_is_a_gap_if_it_was_long(team, counting):
    await pass_time(team, counting, 300)
    await counting.see()
    counting.stores["Pod"].mark("forbidden", "pods is forbidden")
    team.seconds += 3600
    await counting.count_what_was_seen()
    await counting.count()
    assert (seconds(team), [each.gap for each in found(team).days]) == ({TWO: 600}, [3600])
