"""Several calls for one uid: none removes a charge on which another was answered."""

import asyncio

import pytest

from policies.quota.ledger.ledger import ChargedOtherwise, Unstorable
from policies.quota.ledger.status import charge_items
from tests.ledger.conftest import TEAM_A
from tests.sandbox.faults import dropped

STATUS = "/apis/gpu-admission.io/v1alpha1/namespaces/team-a/gpuquotas/gpu/status"


async def stop(waiting):
    waiting.cancel()
    await asyncio.wait([waiting])


def call_of(namespace):
    (charge,) = charge_items(namespace.stored["status"])
    return charge.get("call", "")


async def test_charge_has_the_call_that_made_it(namespace, writer, pod):
    namespace.make()
    ledger = await writer()
    await ledger.charge(TEAM_A, pod("a", 5), enforced=True)
    assert len(call_of(namespace)) == 16


async def test_repeated_call_is_answered_on_the_charge_that_is_there(namespace, writer, pod):
    namespace.make()
    ledger = await writer()
    for _ in range(3):
        assert (await ledger.charge(TEAM_A, pod("a", 5), enforced=True)).allowed
    assert (namespace.uids, namespace.reserved, namespace.writes()) == (["a"], 5, 2)
    assert call_of(namespace) == ""


async def test_cancelled_repetition_leaves_the_charge(namespace, writer, pod, interrupt):
    namespace.make()
    first, second = await writer(), await writer()
    assert (await first.charge(TEAM_A, pod("a", 8), enforced=True)).allowed
    again = interrupt()
    waiting = asyncio.create_task(second.charge(TEAM_A, pod("a", 8), enforced=True))
    await again.is_written.wait()
    await stop(waiting)
    again.go_on.set()
    await second.close()
    assert (namespace.uids, namespace.reserved) == (["a"], 8)


async def test_cancelled_call_leaves_a_charge_that_a_repetition_was_answered_on(namespace, writer, pod, interrupted):
    namespace.make()
    first, second = await writer(), await writer()
    waiting = asyncio.create_task(first.charge(TEAM_A, pod("a", 8), enforced=True))
    await interrupted.is_written.wait()
    assert (await second.charge(TEAM_A, pod("a", 8), enforced=True)).allowed
    await stop(waiting)
    interrupted.go_on.set()
    await first.close()
    assert (namespace.uids, namespace.reserved) == (["a"], 8)


async def test_cancelled_call_leaves_a_charge_that_a_call_of_the_same_batch_was_answered_on(
    namespace, writer, pod, interrupted, interrupt
):
    namespace.make()
    ledger = await writer()
    first = asyncio.create_task(ledger.charge(TEAM_A, pod("z", 1), enforced=True))
    await interrupted.is_written.wait()
    interrupted.go_on.set()
    again = interrupt()
    both = [asyncio.create_task(ledger.charge(TEAM_A, pod("a", 7), enforced=True)) for _ in range(2)]
    await again.is_written.wait()
    await stop(both[0])
    again.go_on.set()
    assert (await both[1]).allowed
    await first
    await ledger.close()
    assert namespace.uids == ["z", "a"]


async def test_repetition_that_meets_the_charge_in_a_conflict_does_not_take_it_back(namespace, writer, pod, interrupt):
    """Its own try may have been the one that was stored, for all it knows; the call on the charge tells."""
    namespace.make()
    first, second = await writer(), await writer()
    assert (await second.charge(TEAM_A, pod("z", 1), enforced=True)).allowed
    assert (await first.charge(TEAM_A, pod("a", 7), enforced=True)).allowed
    again = interrupt("GET")
    waiting = asyncio.create_task(second.charge(TEAM_A, pod("a", 7), enforced=True))
    await again.is_written.wait()
    await stop(waiting)
    again.go_on.set()
    await second.close()
    assert namespace.uids == ["z", "a"]


async def test_call_whose_answer_was_lost_finds_its_own_charge(namespace, sandbox, writer, pod):
    namespace.make()

    async def lose(request, handler):
        await handler(request)
        return await dropped()(request, handler)

    sandbox.faults.add(lose, verb="PUT", path=STATUS, count=2)
    ledger = await writer()
    assert (await ledger.charge(TEAM_A, pod("a", 5), enforced=True)).allowed
    assert namespace.reserved == 5
    assert call_of(namespace) != ""


@pytest.mark.parametrize(
    ("name", "gpus"), [("another", 5), ("another", 1), ("", 6)], ids=["renamed", "renamed-smaller", "larger"]
)
async def test_call_that_describes_another_object_changes_nothing(namespace, writer, pod, name, gpus):
    namespace.make()
    ledger = await writer()
    await ledger.charge(TEAM_A, pod("a", 5), enforced=True)
    before = namespace.stored["status"]
    answer = await ledger.charge(TEAM_A, pod("a", gpus, name), enforced=True)
    assert (answer.allowed, type(answer.reason)) == (False, ChargedOtherwise)
    assert namespace.stored["status"] == before


async def test_call_that_requests_less_shrinks_no_charge(namespace, writer, pod):
    namespace.make()
    ledger = await writer()
    for gpus in (5, 1):
        assert (await ledger.charge(TEAM_A, pod("a", gpus), enforced=True)).allowed
    assert namespace.reserved == 5


async def test_dry_run_of_a_charged_uid_leaves_the_charge_to_its_call(namespace, writer, pod):
    namespace.make()
    ledger = await writer()
    await ledger.charge(TEAM_A, pod("a", 5), enforced=True)
    before = namespace.stored["status"]
    assert (await ledger.charge(TEAM_A, pod("a", 5), enforced=True, dry_run=True)).allowed
    assert namespace.stored["status"] == before


@pytest.mark.parametrize(
    "uid", ["u" * 129, "a\nb", "a\x00", "ü", "a b"], ids=["long", "newline", "nul", "umlaut", "blank"]
)
async def test_invalid_uid_does_not_spoil_other_charges(namespace, writer, pod, uid):
    namespace.make()
    ledger = await writer()
    calls = [pod("z", 1), pod(uid, 1, "forged"), pod("y", 1)]
    answers = await asyncio.gather(*(ledger.charge(TEAM_A, each, enforced=True) for each in calls))
    assert [each.allowed for each in answers] == [True, False, True]
    assert isinstance(answers[1].reason, Unstorable)
    assert namespace.uids == ["z", "y"]


@pytest.mark.parametrize("gpus", [10**200, f"1/{10**100}"], ids=["huge", "tiny"])
async def test_invalid_amount_does_not_spoil_other_charges(namespace, writer, pod, gpus):
    namespace.make(mode="Warn")
    ledger = await writer()
    calls = [pod("z", 1), pod("forged", gpus)]
    answers = await asyncio.gather(*(ledger.charge(TEAM_A, each, enforced=True) for each in calls))
    assert [type(each.reason) for each in answers] == [type(None), Unstorable]
    assert namespace.uids == ["z"]
