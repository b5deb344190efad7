"""Charges that come together share a write, never exceed the limit, and are never lost."""

import asyncio

import pytest

from policies.quota.ledger.allowances import Contended, NoQuota
from policies.quota.ledger.ledger import Exceeded, Ledger, NotPrimed
from policies.quota.limits.quota import parse_quota
from tests.ledger.conftest import TEAM_A
from tests.sandbox.faults import conflict, dropped, failing
from webhook.cluster.answers import APIError
from webhook.ledger.documents import Reading
from webhook.ledger.pending import PendingCharge

STATUS = "/apis/gpu-admission.io/v1alpha1/namespaces/team-a/gpuquotas/gpu/status"


async def test_what_fits_is_written_before_it_is_allowed(namespace, writer, pod):
    namespace.make()
    answer = await (await writer()).charge(TEAM_A, pod("a", 3), enforced=True)
    assert (answer.allowed, answer.reason) == (True, None)
    assert (namespace.uids, namespace.reserved) == (["a"], 3)


async def test_what_does_not_fit_is_refused_and_not_written(namespace, writer, pod):
    namespace.make()
    ledger = await writer()
    await ledger.charge(TEAM_A, pod("a", 6), enforced=True)
    answer = await ledger.charge(TEAM_A, pod("b", 3), enforced=True)
    assert not answer.allowed
    assert isinstance(answer.reason, Exceeded)
    assert namespace.uids == ["a"]


async def test_warning_quota_allows_and_charges_what_does_not_fit(namespace, writer, pod):
    namespace.make(mode="Warn")
    answer = await (await writer()).charge(TEAM_A, pod("a", 9), enforced=True)
    assert answer.allowed
    assert isinstance(answer.reason, Exceeded)
    assert namespace.reserved == 9


@pytest.mark.parametrize("enforced", [True, False])
async def test_uncounted_quota_refuses_if_it_is_enforced(namespace, writer, pod, enforced):
    namespace.make(primed=False)
    answer = await (await writer()).charge(TEAM_A, pod("a"), enforced=enforced)
    assert isinstance(answer.reason, NotPrimed)
    assert answer.allowed is not enforced


async def test_namespace_without_quota_is_not_limited(writer, pod):
    assert await (await writer()).charge(TEAM_A, pod("a"), enforced=True) == NoQuota()


async def test_quota_is_read_once_to_see_that_it_exists(namespace, writer):
    ledger = await writer()
    assert not await ledger.exists(TEAM_A)
    namespace.make()
    assert await ledger.exists(TEAM_A)
    before = len(namespace.requests())
    assert await ledger.exists(TEAM_A)
    assert len(namespace.requests()) == before


async def test_quota_that_was_deleted_is_forgotten(namespace, sandbox, writer, pod):
    namespace.make()
    ledger = await writer()
    await ledger.charge(TEAM_A, pod("a"), enforced=True)
    sandbox.remove("GPUQuota", "gpu", "team-a")
    assert await ledger.charge(TEAM_A, pod("b", 0), enforced=True) == NoQuota()
    assert not await ledger.exists(TEAM_A)


async def test_dry_run_writes_nothing(namespace, writer, pod):
    namespace.make()
    answer = await (await writer()).charge(TEAM_A, pod("a"), enforced=True, dry_run=True)
    assert answer.allowed
    assert (namespace.writes(), namespace.uids) == (0, [])


async def test_charges_that_come_together_share_a_write(namespace, writer, pod):
    namespace.make(hard=100)
    ledger = await writer()
    answers = await asyncio.gather(*(ledger.charge(TEAM_A, pod(f"{number}"), enforced=True) for number in range(64)))
    assert all(answer.allowed for answer in answers)
    assert namespace.reserved == 64
    assert namespace.writes() <= 3


async def test_same_object_is_charged_once(namespace, writer, pod):
    namespace.make()
    for ledger in (await writer(), await writer()):
        assert (await ledger.charge(TEAM_A, pod("a", 5), enforced=True)).allowed
    assert namespace.reserved == 5


async def test_three_replicas_in_a_storm_of_conflicts_admit_what_fits_and_no_more(namespace, sandbox, writer, pod):
    namespace.make()
    sandbox.faults.add(conflict(), verb="PUT", path=STATUS, count=5)
    ledgers = [await writer() for _ in range(3)]
    charges = (ledgers[number % 3].charge(TEAM_A, pod(f"{number}"), enforced=True) for number in range(64))
    answers = await asyncio.gather(*charges)
    assert sum(answer.allowed for answer in answers) == namespace.reserved == 8
    assert all(isinstance(answer.reason, Exceeded | Contended) for answer in answers if not answer.allowed)


async def test_answer_that_got_lost_charges_once(namespace, sandbox, writer, pod):
    namespace.make()
    done = []

    async def lose(request, handler):
        done.append(await handler(request))
        return await dropped()(request, handler)

    sandbox.faults.add(lose, verb="PUT", path=STATUS, count=1)
    assert (await (await writer()).charge(TEAM_A, pod("a", 5), enforced=True)).allowed
    assert (len(done), namespace.uids, namespace.reserved) == (1, ["a"], 5)


async def test_failure_to_write_is_reported_to_each_pending_charge(namespace, sandbox, writer, pod):
    namespace.make()
    sandbox.faults.add(failing(503), verb="PUT", path=STATUS)
    ledger = await writer()
    answers = await asyncio.gather(
        *(ledger.charge(TEAM_A, pod(uid), enforced=True) for uid in "abc"), return_exceptions=True
    )
    assert [type(answer) for answer in answers] == [APIError] * 3


async def test_charge_that_cannot_be_made_fails_alone(namespace, writer, pod):
    namespace.make()

    def unbillable(_quota):
        raise LookupError("no template")

    ledger = await writer()
    failed, answer = await asyncio.gather(
        ledger.charge(TEAM_A, unbillable, enforced=True),
        ledger.charge(TEAM_A, pod("a"), enforced=True),
        return_exceptions=True,
    )
    assert str(failed) == "no template"
    assert answer.allowed


async def test_charge_whose_caller_was_cancelled_leaves_the_ledger_to_the_others(namespace, pod):
    namespace.make()
    document = namespace.stored
    reading = Reading(document, parse_quota(document), Ledger.read(document), "")
    charge = PendingCharge(0.0, pod("a"), enforced=True)
    charge.answered.cancel()
    assert charge.judge(reading.ledger, reading) is reading.ledger
