"""Charges of calls that are not answered with "allowed" are removed."""

import asyncio
import threading

import pytest

from tests.ledger.conftest import TEAM_A
from tests.sandbox.faults import conflict, dropped, failing
from webhook.cluster.answers import APIError

GPUQUOTA = "/apis/gpu-admission.io/v1alpha1/namespaces/team-a/gpuquotas/gpu"
STATUS = f"{GPUQUOTA}/status"


async def stop(waiting):
    waiting.cancel()
    await asyncio.wait([waiting])


def lose_answers(sandbox, effect, count=1):
    async def lose(request, handler):
        await handler(request)
        return await effect(request, handler)

    sandbox.faults.add(lose, verb="PUT", path=STATUS, count=count)


async def test_charge_of_who_stops_waiting_is_taken_back(namespace, writer, pod, interrupted):
    namespace.make()
    ledger = await writer()
    waiting = asyncio.create_task(ledger.charge(TEAM_A, pod("a", 5), enforced=True))
    await interrupted.is_written.wait()
    await stop(waiting)
    interrupted.go_on.set()
    await ledger.close()
    assert (namespace.uids, namespace.reserved) == ([], 0)


async def test_charge_stays_where_the_object_is_created_without_an_answer(namespace, writer, pod, interrupted):
    namespace.make()
    ledger = await writer()
    waiting = asyncio.create_task(ledger.charge(TEAM_A, pod("a", 5), enforced=False))
    await interrupted.is_written.wait()
    await stop(waiting)
    interrupted.go_on.set()
    await ledger.close()
    assert namespace.uids == ["a"]


async def test_only_the_charge_of_who_stops_waiting_is_taken_back(namespace, writer, pod, interrupted):
    namespace.make()
    ledger = await writer()
    waiting = [asyncio.create_task(ledger.charge(TEAM_A, pod(uid), enforced=True)) for uid in "abc"]
    await interrupted.is_written.wait()
    await stop(waiting[1])
    interrupted.go_on.set()
    assert [(await each).allowed for each in (waiting[0], waiting[2])] == [True, True]
    await ledger.close()
    assert namespace.uids == ["a", "c"]


async def test_room_of_who_stops_waiting_is_there_for_who_comes_next(namespace, writer, pod, interrupted):
    namespace.make()
    ledger = await writer()
    waiting = asyncio.create_task(ledger.charge(TEAM_A, pod("a", 8), enforced=True))
    await interrupted.is_written.wait()
    coming = asyncio.create_task(ledger.charge(TEAM_A, pod("b", 8), enforced=True))
    await stop(waiting)
    interrupted.go_on.set()
    assert (await coming).allowed
    assert namespace.uids == ["b"]


async def test_charge_that_was_not_written_yet_never_is(namespace, writer, pod, interrupted):
    namespace.make()
    ledger = await writer()
    first = asyncio.create_task(ledger.charge(TEAM_A, pod("a"), enforced=True))
    await interrupted.is_written.wait()
    second = asyncio.create_task(ledger.charge(TEAM_A, pod("b"), enforced=True))
    await asyncio.sleep(0)
    await stop(second)
    interrupted.go_on.set()
    await first
    await ledger.close()
    assert (namespace.uids, namespace.writes()) == (["a"], 1)


async def test_charge_of_who_stops_waiting_while_it_is_judged_aside_is_taken_back(namespace, writer, pod):
    async def aside(_namespace, work):
        return await asyncio.to_thread(work)

    def charge(quota):
        judging.set()
        go_on.wait()
        return pod("a")(quota)

    namespace.make()
    judging, go_on = threading.Event(), threading.Event()
    ledger = await writer(run=aside)
    waiting = asyncio.create_task(ledger.charge(TEAM_A, charge, enforced=True))
    await asyncio.to_thread(judging.wait)
    await stop(waiting)
    go_on.set()
    await ledger.close()
    assert (namespace.uids, namespace.writes()) == ([], 2)


@pytest.mark.parametrize("times", [1, 2], ids=["sent-again-below-us", "unanswered"])
async def test_charge_that_may_have_been_written_before_it_failed_is_taken_back(namespace, sandbox, writer, pod, times):
    namespace.make()
    lose_answers(sandbox, dropped(), times)
    ledger = await writer()
    sandbox.faults.add(failing(503), verb="GET", path=GPUQUOTA, count=1, when=lambda _request: namespace.uids == ["a"])
    with pytest.raises(APIError):
        await ledger.charge(TEAM_A, pod("a"), enforced=True)
    await ledger.close()
    assert namespace.uids == []


async def test_charge_that_a_failing_server_stored_is_taken_back(namespace, sandbox, writer, pod):
    namespace.make()
    lose_answers(sandbox, failing(504))
    ledger = await writer()
    with pytest.raises(APIError):
        await ledger.charge(TEAM_A, pod("a"), enforced=True)
    await ledger.close()
    assert namespace.uids == []


async def test_charge_that_lost_its_answer_and_is_refused_then_is_taken_back(namespace, sandbox, writer, pod):
    namespace.make()
    lose_answers(sandbox, dropped())

    def charge(quota):
        if namespace.uids:
            raise LookupError("of no known product")
        return pod("a")(quota)

    ledger = await writer()
    with pytest.raises(LookupError):
        await ledger.charge(TEAM_A, charge, enforced=True)
    await ledger.close()
    assert namespace.uids == []


async def test_charge_that_cannot_be_taken_back_is_reported(namespace, sandbox, writer, pod, interrupted, caplog):
    namespace.make()
    ledger = await writer()
    waiting = asyncio.create_task(ledger.charge(TEAM_A, pod("a"), enforced=True))
    await interrupted.is_written.wait()
    sandbox.faults.add(failing(500, "etcdserver: no leader"), verb="PUT", path=STATUS)
    await stop(waiting)
    interrupted.go_on.set()
    await ledger.close()
    said = "the charge of a in team-a could not be taken back and stays until it expires: etcdserver: no leader"
    assert caplog.messages == [said]
    assert namespace.uids == ["a"]


async def test_closing_in_a_storm_ends_and_takes_back(namespace, sandbox, writer, hurried, pod, interrupted):
    namespace.make(hard=100)
    ledger = await writer(hurried)
    waiting = [asyncio.create_task(ledger.charge(TEAM_A, pod(f"{number}"), enforced=True)) for number in range(9)]
    await interrupted.is_written.wait()
    sandbox.faults.add(conflict(), verb="PUT", path=STATUS, count=5)
    waiting += [asyncio.create_task(ledger.charge(TEAM_A, pod(f"+{number}"), enforced=True)) for number in range(9)]
    closing = asyncio.create_task(ledger.close())
    await asyncio.sleep(0)
    for each in waiting:
        await stop(each)
    interrupted.go_on.set()
    await closing
    assert namespace.uids == []


async def test_closing_ends_where_others_are_always_faster(
    namespace, sandbox, writer, hurried, pod, interrupted, caplog
):
    namespace.make()
    ledger = await writer(hurried)
    waiting = asyncio.create_task(ledger.charge(TEAM_A, pod("a"), enforced=True))
    await interrupted.is_written.wait()
    sandbox.faults.add(conflict(), verb="PUT", path=STATUS)
    await stop(waiting)
    interrupted.go_on.set()
    await ledger.close()
    assert "met a conflict for 10 s" in caplog.text
