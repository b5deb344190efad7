"""Allowances of replicas, as the leader counts."""

from dataclasses import replace

from policies.rules.charges import OWN
from tests.ledger.conftest import TEAM_A


def marked_as_late(ledger, _quota, _document):
    return replace(
        ledger, reservations=ledger.reservations.map(lambda charge: replace(charge, late=charge.kind == "Pod"))
    )


async def reserve(leader, gpus):
    await leader.charge("allowance-of-a-replica", {OWN: gpus}, kind="Allowance", name="replica-1")


async def test_allowance_stays_for_a_minute(team, leader):
    team.quota()
    await leader.count()
    await reserve(leader, 2)
    for _ in range(2):
        await leader.count()
        team.seconds += 59
    assert team.amounts == {"all": ("0", "2")}


async def test_charges_are_closed_five_seconds_later_while_an_allowance_is_open(team, leader):
    """Its owner writes others meanwhile."""
    team.quota()
    await leader.count()
    await reserve(leader, 2)
    await leader.charge("train", {OWN: 1})
    team.pod("train", 1)
    await leader.count()
    assert team.amounts == {"all": ("0", "3")}
    team.seconds += 5
    await leader.count()
    assert team.amounts == {"all": ("1", "2")}


async def test_charges_that_were_closed_by_another_write_make_no_later_ones_be_closed_sooner(team, leader):
    team.quota()
    await leader.count()
    await reserve(leader, 2)
    await leader.charge("first", {OWN: 1})
    team.pod("first", 1)
    await leader.count()
    team.pod("uncovered", 3)
    await leader.count()
    assert team.amounts == {"all": ("4", "2")}
    team.seconds += 10
    await leader.charge("second", {OWN: 1})
    team.pod("second", 1)
    await leader.count()
    assert team.amounts == {"all": ("4", "3")}


async def test_pods_that_an_allowance_covers_are_counted_five_seconds_later(team, leader):
    """Their charges are written meanwhile."""
    team.quota()
    await leader.count()
    await reserve(leader, 2)
    team.pod("covered", 2)
    await leader.count()
    assert team.amounts == {"all": ("0", "2")}
    team.seconds += 5
    await leader.count()
    assert team.amounts == {"all": ("2", "2")}


async def test_freed_amounts_are_counted_at_once_beside_an_allowance(team, leader):
    team.quota()
    team.pod("old", 1)
    await leader.count()
    await reserve(leader, 2)
    team.pod("covered", 2)
    await leader.client.delete("/api/v1/namespaces/team-a/pods/old")
    await leader.count()
    assert team.amounts == {"all": ("2", "2")}


async def test_charge_that_may_be_counted_twice_is_closed_at_once(team, leader):
    team.quota()
    await leader.count()
    await reserve(leader, 2)
    await leader.charge("train", {OWN: 1})
    await leader.writer.change(TEAM_A, marked_as_late)
    team.pod("train", 1)
    await leader.count()
    assert team.amounts == {"all": ("1", "2")}


async def test_pods_beyond_an_allowance_are_counted_at_once(team, leader):
    team.quota()
    await leader.count()
    await reserve(leader, 2)
    team.pod("uncovered", 3)
    await leader.count()
    assert team.amounts == {"all": ("3", "2")}


async def test_allowance_of_a_replica_that_has_ended_is_dropped(team, leader):
    team.quota()
    await leader.count()
    await reserve(leader, 2)
    await leader.count()
    team.seconds += 60
    await leader.count()
    assert (team.amounts, team.charged) == ({"all": ("0", "0")}, {})


async def test_pods_that_were_admitted_out_of_it_are_counted_before_it_is_dropped(team, leader):
    """The caches do not show them yet."""
    team.quota()
    await leader.count()
    await reserve(leader, 2)
    await leader.count()
    team.pod("covered", 2)
    team.seconds += 60
    await leader.see("GPUQuota")
    await leader.count_what_was_seen()
    assert (team.amounts, team.charged) == ({"all": ("2", "0")}, {})


async def test_pods_without_a_charge_are_not_reported_while_an_allowance_may_cover_them(team, leader):
    team.quota()
    await leader.count()
    await reserve(leader, 2)
    team.pod("covered", 2)
    await leader.count()
    assert leader.sample("gpu_admission_quota_drift_total") == 0
    team.seconds += 60
    await leader.count()
    await leader.count()
    assert leader.sample("gpu_admission_quota_drift_total") == 1


async def test_allowance_is_not_dropped_while_another_spec_cannot_be_counted(team, leader):
    """The limit is raised while the leader looks, so it leaves the count to its next round."""
    team.quota()
    await leader.count()
    await reserve(leader, 2)
    await leader.count()
    team.pod("covered", 2)
    team.seconds += 60
    await leader.see("GPUQuota")
    team.quota({"name": "all", "gpus": 9})
    await leader.count_what_was_seen()
    assert team.amounts == {"all": ("0", "2")}
    await leader.count()
    assert (team.amounts, team.charged) == ({"all": ("2", "0")}, {})


async def test_older_lists_of_another_leader_are_not_counted_after_an_allowance_was_dropped(team, leader, replica):
    """They lack what was admitted out of it, although the amounts were the same."""
    team.quota()
    team.pod("before", 2)
    other = await replica()
    for each in (leader, other):
        await each.count()
    team.sandbox.remove("Pod", "before", "team-a")
    await other.see()
    team.pod("covered", 2)
    await reserve(leader, 2)
    await leader.count()
    team.seconds += 60
    await leader.count()
    assert (team.amounts, team.charged) == ({"all": ("2", "0")}, {})
    team.seconds += 60
    await other.count_what_was_seen()
    assert team.amounts == {"all": ("2", "0")}
