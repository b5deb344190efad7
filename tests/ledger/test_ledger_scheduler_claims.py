"""Claims of the scheduler for extended resources: the usage of their pods is read before they are charged."""

import asyncio
from fractions import Fraction

import pytest

from policies.quota.ledger.allowances import NoQuota
from tests.ledger.conftest import TEAM_A


class Cover:
    """What `used` holds for claims already, and how often it was read."""

    def __init__(self, gpus, meanwhile=lambda: None):
        self.gpus, self.meanwhile, self.reads = gpus, meanwhile, 0

    async def __call__(self):
        self.reads += 1
        self.meanwhile()
        return lambda quota: {limit.name: Fraction(self.gpus) for limit in quota.limits}


@pytest.mark.parametrize(("gpus", "reserved"), [(8, 0), (5, 3), (0, 8)])
async def test_claim_is_charged_what_its_pod_does_not_use(namespace, writer, shown, claim, gpus, reserved):
    namespace.make(hard=16)
    namespace.count("5", shown("p", 8))
    answer = await (await writer()).charge(TEAM_A, claim("c", 8, "p"), enforced=True, cover=Cover(gpus))
    assert answer.allowed
    assert (namespace.used, namespace.reserved, namespace.uids) == (8, reserved, ["c"])


async def test_cover_is_read_after_the_ledger(namespace, sandbox, writer, shown, claim):
    namespace.make()
    namespace.count("5", shown("p", 8))
    seen = []
    cover = Cover(8, lambda: seen.extend(namespace.requests()))
    await (await writer()).charge(TEAM_A, claim("c", 8, "p"), enforced=True, cover=cover)
    assert seen == ["get"]


async def test_cover_is_not_read_while_the_charge_of_its_pod_is_open(namespace, writer, pod, claim):
    namespace.make()
    ledger, cover = await writer(), Cover(8)
    await ledger.charge(TEAM_A, pod("p", 8), enforced=True)
    assert (await ledger.charge(TEAM_A, claim("c", 8, "p"), enforced=True, cover=cover)).allowed
    assert (cover.reads, namespace.reserved) == (0, 8)


async def test_cover_is_not_read_where_there_is_no_quota(writer, claim):
    cover = Cover(8)
    answer = await (await writer()).charge(TEAM_A, claim("c", 8, "p"), enforced=True, cover=cover)
    assert (answer, cover.reads) == (NoQuota(), 0)


async def test_cover_is_read_again_where_it_was_counted_anew_meanwhile(namespace, writer, shown, claim):
    namespace.make()
    namespace.count("5", shown("p", 8))
    cover = Cover(8)

    def taken_up():
        if cover.reads == 1:
            namespace.count("6", shown("p", 8), shown("other", 8, "ResourceClaim", owner="p"))
        cover.gpus = 8 if cover.reads == 1 else 0

    cover.meanwhile = taken_up
    answer = await (await writer()).charge(TEAM_A, claim("c", 8, "p"), enforced=True, cover=cover)
    assert not answer.allowed
    assert (cover.reads, namespace.uids) == (2, [])


async def test_cover_holds_when_others_are_charged_meanwhile(namespace, writer, shown, pod, claim):
    namespace.make(hard=16)
    namespace.count("5", shown("p", 8))
    ledger, other = await writer(), await writer()
    cover = Cover(8)

    async def read():
        await other.charge(TEAM_A, pod("a"), enforced=True)
        return await cover()

    assert (await ledger.charge(TEAM_A, claim("c", 8, "p"), enforced=True, cover=read)).allowed
    assert (cover.reads, namespace.reserved) == (1, 1)


async def test_cover_does_not_count_twice_for_claims_that_are_charged_meanwhile(namespace, writer, shown, claim):
    namespace.make()
    namespace.count("5", shown("p", 8))
    ledgers = [await writer() for _ in range(2)]
    answers = await asyncio.gather(
        *(
            ledger.charge(TEAM_A, claim(f"c{index}", 8, "p"), enforced=True, cover=Cover(8))
            for index, ledger in enumerate(ledgers)
        )
    )
    assert sorted(answer.allowed for answer in answers) == [False, True]
    assert (namespace.used, namespace.reserved) == (8, 0)


async def test_cover_that_fails_fails_alone(namespace, writer, pod, claim):
    namespace.make()

    async def broken():
        raise LookupError("no pods")

    ledger = await writer()
    failed, answer = await asyncio.gather(
        ledger.charge(TEAM_A, claim("c", 8, "p"), enforced=True, cover=broken),
        ledger.charge(TEAM_A, pod("a"), enforced=True),
        return_exceptions=True,
    )
    assert (str(failed), answer.allowed, namespace.uids) == ("no pods", True, ["a"])


async def test_slow_cover_does_not_delay_other_charges(namespace, writer, shown, pod, claim):
    namespace.make(hard=16)
    namespace.count("5", shown("p", 8))
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow():
        begun.set()
        await go_on.wait()
        return await Cover(8)()

    ledger = await writer()
    slowly = asyncio.create_task(ledger.charge(TEAM_A, claim("c", 8, "p"), enforced=True, cover=slow))
    await begun.wait()
    assert (await ledger.charge(TEAM_A, pod("a"), enforced=True)).allowed
    go_on.set()
    assert (await slowly).allowed
    assert (namespace.uids, namespace.reserved) == (["a", "c"], 1)


async def test_claim_without_a_waiting_call_is_not_charged(namespace, writer, claim):
    namespace.make()
    begun = asyncio.Event()

    async def endless():
        begun.set()
        await asyncio.Event().wait()

    ledger = await writer()
    waiting = asyncio.create_task(ledger.charge(TEAM_A, claim("c", 8, "p"), enforced=True, cover=endless))
    await begun.wait()
    waiting.cancel()
    await asyncio.wait([waiting])
    await ledger.close()
    assert (namespace.uids, namespace.writes()) == ([], 0)


async def test_dry_run_of_a_claim_reads_its_cover_and_writes_nothing(namespace, writer, shown, claim):
    namespace.make()
    namespace.count("5", shown("p", 8))
    namespace.sandbox.requests.clear()
    cover = Cover(8)
    answer = await (await writer()).charge(TEAM_A, claim("c", 8, "p"), enforced=True, dry_run=True, cover=cover)
    assert (answer.allowed, cover.reads, namespace.writes()) == (True, 1, 0)
