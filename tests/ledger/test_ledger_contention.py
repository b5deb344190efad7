"""Other writers of the same ledger: no answer rests on an outdated ledger, and every writer gets its turn."""

import asyncio
import itertools
from dataclasses import replace

import pytest

from policies.quota.ledger.allowances import Contended, NoQuota
from policies.quota.ledger.ledger import Exceeded
from tests.ledger.conftest import TEAM_A
from tests.sandbox.faults import conflict
from webhook.cluster.answers import APIError
from webhook.cluster.clockwork import Clockwork
from webhook.ledger.pending import ForwardedCharge, PendingCharge

STATUS = "/apis/gpu-admission.io/v1alpha1/namespaces/team-a/gpuquotas/gpu/status"


@pytest.mark.parametrize(
    ("spec", "enforced", "gpus", "allowed"),
    [
        ({}, True, 1, False),
        ({"mode": "Warn"}, True, 1, True),
        ({}, False, 1, True),
        ({"limits": [{"name": "other", "gpus": 8}]}, True, 1, True),
    ],
    ids=["enforced", "warning", "not-enforced", "touches-no-limit"],
)
async def test_contention_without_end_is_reported(
    namespace, sandbox, writer, hurried, pod, spec, enforced, gpus, allowed
):
    namespace.make(**spec)
    sandbox.faults.add(conflict(), verb="PUT", path=STATUS)
    answer = await (await writer(hurried)).charge(TEAM_A, pod("a", gpus), enforced=enforced)
    assert (answer.allowed, answer.reason) == (allowed, Contended())
    assert namespace.uids == []


async def test_last_attempt_of_a_charge_begins_within_two_seconds(namespace, sandbox, writer, pod):
    namespace.make()
    sandbox.faults.add(conflict(), verb="PUT", path=STATUS)
    tries, moment = [], [0.0]

    async def sleep(seconds):
        tries.append(moment[0])
        moment[0] += seconds

    clockwork = Clockwork(clock=lambda: moment[0], sleep=sleep, random=lambda: 1.0)
    await (await writer(clockwork)).charge(TEAM_A, pod("a"), enforced=True)
    longest_pause = max(later - sooner for sooner, later in itertools.pairwise(tries))
    assert ForwardedCharge.most_seconds + PendingCharge.most_seconds + longest_pause <= 2


async def test_dry_run_gets_no_message_about_contention(namespace, sandbox, writer, hurried, pod):
    namespace.make()
    sandbox.faults.add(conflict(), verb="PUT", path=STATUS)
    ledger = await writer(hurried)
    real, dry = await asyncio.gather(
        ledger.charge(TEAM_A, pod("a"), enforced=True),
        ledger.charge(TEAM_A, pod("b"), enforced=True, dry_run=True),
    )
    assert (real.reason, dry.reason) == (Contended(), None)


async def test_error_is_reported_even_where_others_are_always_faster(namespace, sandbox, writer, hurried, pod):
    namespace.make()
    sandbox.faults.add(conflict(), verb="PUT", path=STATUS)
    ledger = await writer(hurried)

    def unbillable(_quota):
        raise LookupError("no template")

    answers = await asyncio.gather(
        ledger.charge(TEAM_A, pod("a"), enforced=True),
        ledger.charge(TEAM_A, unbillable, enforced=True),
        return_exceptions=True,
    )
    assert [str(answers[0].reason), str(answers[1])] == ["Contended()", "no template"]


async def test_change_that_is_always_too_late_fails_as_conflict(namespace, sandbox, writer, hurried):
    namespace.make()
    sandbox.faults.add(conflict(), verb="PUT", path=STATUS)
    with pytest.raises(APIError) as failed:
        await (await writer(hurried)).change(TEAM_A, findings_of)
    assert failed.value.is_conflict
    assert str(failed.value) == "every write of GPUQuota gpu of namespace team-a met a conflict for 10 s"


async def test_change_gets_through_a_storm_of_other_replicas(namespace, writer, pod):
    namespace.make(hard=1_000_000)
    leader, storms, is_done = await writer(), [await writer() for _ in range(2)], asyncio.Event()

    async def storm(ledger, name):
        number = 0
        while not is_done.is_set():
            number += 1
            await ledger.charge(TEAM_A, pod(f"{name}-{number}"), enforced=True)

    storming = [asyncio.create_task(storm(ledger, f"{index}")) for index, ledger in enumerate(storms * 4)]
    while not namespace.uids:
        await leader.change(TEAM_A, lambda ledger, _quota, _document: ledger)
    for _ in range(3):
        kept = await leader.change(TEAM_A, emptied)
        assert list(kept.reservations) == []
    is_done.set()
    await asyncio.gather(*storming)


def findings_of(ledger, _quota, _document):
    return replace(ledger, conditions=({"type": "Ready", "status": "True"},))


def emptied(ledger, _quota, _document):
    for charge in ledger.reservations:
        ledger = ledger.release(charge.uid)
    return ledger


async def test_replica_that_is_alone_reads_once(namespace, writer, pod):
    namespace.make()
    ledger = await writer()
    for uid in "abc":
        await ledger.charge(TEAM_A, pod(uid), enforced=True)
    assert namespace.requests() == ["get", "update", "update", "update"]


async def test_replica_that_is_not_alone_reads_first(namespace, writer, pod):
    namespace.make()
    ledger, other = await writer(), await writer()
    for uid in "abc":
        await other.charge(TEAM_A, pod(f"other-{uid}"), enforced=True)
        await ledger.charge(TEAM_A, pod(uid), enforced=True)
    namespace.sandbox.requests.clear()
    await ledger.charge(TEAM_A, pod("d"), enforced=True)
    await ledger.charge(TEAM_A, pod("e"), enforced=True)
    assert namespace.requests() == ["get", "update", "update"]


async def test_refusal_rests_on_what_is_stored_and_not_on_what_is_remembered(namespace, writer, pod):
    namespace.make()
    ledger = await writer()
    await ledger.charge(TEAM_A, pod("a", 8), enforced=True)
    namespace.allow(16)
    assert (await ledger.charge(TEAM_A, pod("b", 8), enforced=True)).allowed


async def test_refusal_beside_what_is_written_rests_on_what_was_written_over(namespace, writer, pod):
    namespace.make()
    ledger = await writer()
    await ledger.charge(TEAM_A, pod("a", 6), enforced=True)
    namespace.sandbox.requests.clear()
    small, large = await asyncio.gather(
        ledger.charge(TEAM_A, pod("b", 1), enforced=True), ledger.charge(TEAM_A, pod("c", 2), enforced=True)
    )
    assert (small.reason, type(large.reason)) == (None, Exceeded)
    assert namespace.requests() == ["update"]


async def test_charge_that_cannot_be_made_under_a_remembered_spec_is_made_under_the_stored_one(namespace, writer, pod):
    namespace.make(unknownProducts="Deny")
    ledger = await writer()
    await ledger.charge(TEAM_A, pod("a"), enforced=True)
    namespace.allow(8)

    def charge(quota):
        if quota.unknown_products == "Deny":
            raise LookupError("of no known product")
        return pod("b")(quota)

    assert (await ledger.charge(TEAM_A, charge, enforced=True)).allowed


async def test_charge_of_a_quota_that_was_made_anew_is_made_anew(namespace, sandbox, writer, pod):
    namespace.make()
    ledger = await writer()
    await ledger.charge(TEAM_A, pod("a", 5), enforced=True)
    sandbox.remove("GPUQuota", "gpu", "team-a")
    namespace.make()
    assert (await ledger.charge(TEAM_A, pod("a", 5), enforced=True)).allowed
    assert namespace.uids == ["a"]


async def test_quota_that_was_made_anew_is_not_overwritten(namespace, sandbox, writer, pod):
    namespace.make(hard=100)
    ledger = await writer()
    await ledger.charge(TEAM_A, pod("a", 50), enforced=True)
    sandbox.remove("GPUQuota", "gpu", "team-a")
    namespace.make(hard=8)
    assert not (await ledger.charge(TEAM_A, pod("b", 9), enforced=True)).allowed
    assert (await ledger.charge(TEAM_A, pod("c", 8), enforced=True)).allowed
    assert namespace.uids == ["c"]


async def test_quota_that_is_gone_limits_nothing(namespace, sandbox, writer, pod):
    namespace.make()
    ledger = await writer()
    await ledger.charge(TEAM_A, pod("a"), enforced=True)
    sandbox.remove("GPUQuota", "gpu", "team-a")
    assert [await ledger.charge(TEAM_A, pod(uid), enforced=True) for uid in "ab"] == [NoQuota()] * 2
