"""Writes of the reconciler take turns with charges, and go before waiting ones."""

import asyncio
from dataclasses import replace
from fractions import Fraction

import pytest

from policies.quota.ledger.recount import Snapshot, recount
from policies.quota.limits.quota import QuotaError
from tests.ledger.conftest import TEAM_A

READY = {"type": "Ready", "status": "True", "reason": "Counted", "message": "", "lastTransitionTime": "now"}


def counting(version, *pods):
    snapshot = Snapshot({pod.uid: pod for pod in pods}, {}, version, version)
    return lambda ledger, quota, _document: recount(ledger, quota, snapshot) or ledger


async def test_change_is_written(namespace, writer, shown):
    namespace.make(primed=False)
    written = await (await writer()).change(TEAM_A, counting("5", shown("p", 3)))
    assert written.limits["all"].used == namespace.used == 3
    assert namespace.stored["status"]["counted"] == {"pods": "5", "claims": "5"}


async def test_change_is_shown_the_ledger_the_spec_and_the_document(namespace, writer, pod):
    namespace.make()
    ledger, given = await writer(), []
    await ledger.charge(TEAM_A, pod("a"), enforced=True)
    await ledger.change(TEAM_A, lambda *shown: given.append(shown) or shown[0])
    ((found, quota, document),) = given[-1:]
    assert [charge.uid for charge in found.reservations] == ["a"]
    assert quota.limits[0].hard == Fraction(8)
    assert document == namespace.stored


async def test_change_writes_conditions(namespace, writer):
    namespace.make()
    await (await writer()).change(TEAM_A, lambda ledger, _quota, _document: replace(ledger, conditions=(READY,)))
    assert namespace.stored["status"]["conditions"] == [READY]


async def test_change_of_nothing_is_not_written(namespace, writer):
    namespace.make()
    version = namespace.stored["metadata"]["resourceVersion"]
    assert await (await writer()).change(TEAM_A, lambda ledger, _quota, _document: ledger) is not None
    assert namespace.stored["metadata"]["resourceVersion"] == version


async def test_change_of_nothing_rests_on_what_is_stored(namespace, writer, pod):
    namespace.make()
    ledger = await writer()
    await ledger.charge(TEAM_A, pod("a"), enforced=True)
    namespace.count("7")
    kept = await ledger.change(TEAM_A, lambda ledger, _quota, _document: ledger)
    assert kept.counted.pods == "7"


async def test_change_without_a_quota_does_nothing(writer):
    assert await (await writer()).change(TEAM_A, counting("5")) is None


async def test_change_that_fails_fails_alone(namespace, writer, pod):
    namespace.make()

    def impossible(_ledger, _quota, _document):
        raise LookupError("no pods")

    ledger = await writer()
    failed, answer = await asyncio.gather(
        ledger.change(TEAM_A, impossible),
        ledger.charge(TEAM_A, pod("a"), enforced=True),
        return_exceptions=True,
    )
    assert (str(failed), answer.allowed) == ("no pods", True)


async def test_change_of_a_quota_that_cannot_be_read_fails(namespace, writer):
    namespace.make()
    namespace.garble()
    with pytest.raises(QuotaError, match="limits"):
        await (await writer()).change(TEAM_A, counting("5"))


async def test_change_is_made_again_on_what_another_replica_wrote(namespace, writer, pod, shown):
    namespace.make()
    ledger, other = await writer(), await writer()
    await ledger.charge(TEAM_A, pod("a"), enforced=True)
    await other.charge(TEAM_A, pod("b", 2), enforced=True)
    await ledger.change(TEAM_A, counting("5", shown("a", 1)))
    assert (namespace.uids, namespace.used, namespace.reserved) == (["b"], 1, 2)


async def test_change_makes_room_for_charges_that_wait(namespace, writer, pod):
    namespace.make(primed=False)
    ledger = await writer()
    answer, _ = await asyncio.gather(
        ledger.charge(TEAM_A, pod("a"), enforced=True), ledger.change(TEAM_A, counting("5"))
    )
    assert answer.reason is None
    assert namespace.writes() == 1


async def test_change_without_a_waiting_call_is_dropped(namespace, writer, pod, interrupted):
    namespace.make()
    ledger, made = await writer(), []
    charging = asyncio.create_task(ledger.charge(TEAM_A, pod("a"), enforced=True))
    await interrupted.is_written.wait()
    changing = asyncio.create_task(ledger.change(TEAM_A, lambda *shown: made.append(shown) or shown[0]))
    await asyncio.sleep(0)
    changing.cancel()
    interrupted.go_on.set()
    assert (await charging).allowed
    await ledger.close()
    assert made == []
