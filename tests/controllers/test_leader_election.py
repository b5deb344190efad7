"""Leader election by a Lease."""

import asyncio
import contextlib
import logging
from datetime import datetime, timedelta, timezone

import pytest

from webhook.cluster.answers import APIError, Unreachable
from webhook.cluster.clockwork import micro_time
from webhook.cluster.leases import held_lease
from webhook.controllers.elector import Elector, Timing, new_identity

PLACE = ("gpu-admission", "leader")


class Term:
    """What the leader runs: it notes when it began and ended."""

    def __init__(self):
        self.began, self.ended = [], []

    async def __call__(self):
        self.began.append(asyncio.get_running_loop().time())
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append(asyncio.get_running_loop().time())


@pytest.fixture
def candidate(lease_server, clockwork, new_client):
    """Make a candidate for the lease of one server."""

    def make(identity="a", on_lead=None, client=None, timing=Timing(), better_leader=str, annotations=dict, **times):  # noqa: B008 - it is immutable
        term = on_lead or Term()
        client = client or new_client(lease_server)
        elector = Elector(
            client,
            PLACE,
            identity,
            term,
            better_leader=better_leader,
            annotations=annotations,
            timing=timing,
            clockwork=clockwork(**times),
        )
        return elector, term, client

    return make


@contextlib.asynccontextmanager
async def standing(*electors):
    tasks = [asyncio.create_task(elector.run()) for elector in electors]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def stop(task):
    task.cancel()
    await asyncio.wait({task})


def test_new_lease_is_led_after_it_has_stood(in_virtual_time, candidate, lease_server):
    elector, term, _ = candidate()

    async def story():
        async with standing(elector):
            await asyncio.sleep(14.9)
            assert not elector.is_leading
            await asyncio.sleep(3)
            assert elector.is_leading
            assert elector.note == "this replica leads"

    in_virtual_time(story())
    assert len(term.began) == 1
    assert lease_server.writes[0] == {
        "holderIdentity": "",
        "leaseDurationSeconds": 15,
        "leaseTransitions": 0,
        "renewTime": "2027-01-01T00:00:00.000000Z",
    }
    assert lease_server.writes[1] == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "leaseTransitions": 1,
        "acquireTime": "2027-01-01T00:00:16.000000Z",
        "renewTime": "2027-01-01T00:00:16.000000Z",
    }


def test_lease_is_renewed_and_not_acquired_again(in_virtual_time, candidate, lease_server):
    elector, _, _ = candidate()

    async def story():
        async with standing(elector):
            await asyncio.sleep(21)
            return lease_server.stored["spec"]

    spec = in_virtual_time(story())
    assert (spec["acquireTime"], spec["renewTime"]) == ("2027-01-01T00:00:16.000000Z", "2027-01-01T00:00:20.000000Z")
    assert spec["leaseTransitions"] == 1


def test_cancelled_leader_gives_the_lease_back_after_its_term(in_virtual_time, candidate, lease_server):
    first, term, _ = candidate("a")
    second, next_term, _ = candidate("b")

    async def story():
        async with standing(first, second) as (leader, _):
            await asyncio.sleep(20)
            await stop(leader)
            assert lease_server.stored["spec"]["holderIdentity"] == ""
            assert lease_server.stored["spec"]["leaseDurationSeconds"] == 1
            await asyncio.sleep(5)
            assert second.is_leading

    in_virtual_time(story())
    assert term.ended == [20.0]
    assert next_term.began[0] <= 25


def test_lease_is_given_back_although_a_cancelled_renewal_was_stored(in_virtual_time, candidate, lease_server):
    elector, _, client = candidate()
    renewing = asyncio.Event()

    async def slow(method):
        if method == "PUT" and elector.is_leading:
            renewing.set()
            await asyncio.sleep(1)

    client.after = slow

    async def story():
        async with standing(elector) as (leader,):
            await renewing.wait()
            await stop(leader)

    in_virtual_time(story())
    assert lease_server.stored["spec"]["holderIdentity"] == ""


def test_lease_is_given_back_although_the_attempt_that_took_it_was_cancelled(in_virtual_time, candidate, lease_server):
    elector, term, client = candidate()
    taking = asyncio.Event()

    async def slow(method):
        if method == "PUT":
            taking.set()
            await asyncio.sleep(1)

    client.after = slow

    async def story():
        async with standing(elector) as (task,):
            await taking.wait()
            assert lease_server.stored["spec"]["holderIdentity"] == "a"
            await stop(task)

    in_virtual_time(story())
    assert term.began == []
    assert lease_server.stored["spec"]["holderIdentity"] == ""


def test_next_leader_inherits_the_annotations_and_keeps_them(in_virtual_time, candidate, lease_server):
    first, _, _ = candidate("a", annotations=lambda: {"counted": "7"})
    second, _, _ = candidate("b")

    async def story():
        async with standing(first, second) as (leader, _):
            await asyncio.sleep(20)
            await stop(leader)
            await asyncio.sleep(10)
            assert second.is_leading

    in_virtual_time(story())
    assert (first.inherited, second.inherited) == ({}, {"counted": "7"})
    assert lease_server.stored["metadata"]["annotations"] == {"counted": "7"}


def test_leader_that_ends_before_a_renewal_writes_its_annotations(in_virtual_time, candidate, lease_server):
    leads = asyncio.Event()

    async def lead():
        leads.set()
        await asyncio.Event().wait()

    elector, _, _ = candidate("a", on_lead=lead, annotations=lambda: {"counted": "7"})

    async def story():
        async with standing(elector) as (leader,):
            await leads.wait()
            await stop(leader)

    in_virtual_time(story())
    assert lease_server.stored["metadata"]["annotations"] == {"counted": "7"}


def test_leader_hands_over_when_another_replica_is_a_better_one(in_virtual_time, candidate):
    reason = [""]
    first, term, _ = candidate("a", better_leader=lambda: reason[0])
    second, _, _ = candidate("b")

    async def story():
        async with standing(first, second):
            await asyncio.sleep(20)
            assert first.is_leading
            reason[0] = "b is up to date"
            await asyncio.sleep(8)
            assert (first.is_leading, second.is_leading) == (False, True)

    in_virtual_time(story())
    assert len(term.ended) == 1


def test_lease_that_nobody_takes_is_handed_over_once_a_minute(in_virtual_time, candidate):
    elector, term, _ = candidate(better_leader=lambda: "b is up to date")

    async def story():
        async with standing(elector):
            await asyncio.sleep(300)

    in_virtual_time(story())
    pauses = [later - earlier for earlier, later in zip(term.ended, term.ended[1:], strict=False)]
    assert len(pauses) >= 3
    assert all(60 <= pause <= 80 for pause in pauses[:-1])


def test_lease_is_given_back_only_when_the_term_has_ended(in_virtual_time, candidate, lease_server):
    async def slow():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(3)
            assert lease_server.stored["spec"]["holderIdentity"] == "a"

    elector, _, _ = candidate(on_lead=slow)

    async def story():
        async with standing(elector) as (leader,):
            await asyncio.sleep(20)
            await stop(leader)

    in_virtual_time(story())
    assert lease_server.stored["spec"]["holderIdentity"] == ""


def test_dead_leader_is_replaced_when_its_lease_has_stood(in_virtual_time, candidate, lease_server):
    elector, term, _ = candidate("b")

    async def story():
        async with standing(elector):
            lease = {"metadata": {"name": "leader"}, "spec": {"holderIdentity": "dead", "leaseDurationSeconds": 15}}
            lease_server.create(lease)
            await asyncio.sleep(14)
            assert elector.note == "dead leads"
            await asyncio.sleep(6)

    in_virtual_time(story())
    assert 15 < term.began[0] <= 18


@pytest.mark.parametrize("times", [{"offset": -1e6}, {"offset": 1e6}], ids=["behind", "ahead"])
def test_clocks_that_show_another_time_do_not_matter(in_virtual_time, candidate, times):
    first, _, _ = candidate("a")
    second, term, _ = candidate("b", **times)

    async def story():
        async with standing(first):
            await asyncio.sleep(20)
            async with standing(second):
                await asyncio.sleep(100)
                assert first.is_leading
                assert not second.is_leading

    in_virtual_time(story())
    assert term.began == []


def test_leader_stops_leading_when_it_cannot_renew(in_virtual_time, candidate, caplog):
    elector, term, client = candidate()

    async def down(method):
        raise Unreachable("GET https://10.0.0.1: connection refused")

    async def story():
        async with standing(elector):
            await asyncio.sleep(16.5)
            client.weather = down
            await asyncio.sleep(13)
            assert elector.note == "no replica leads; GET https://10.0.0.1: connection refused"

    in_virtual_time(story())
    assert term.ended == [26.0]
    reported = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert reported == [
        "the lease cannot be read or renewed: GET https://10.0.0.1: connection refused",
        "this replica, a, is no longer the leader: GET https://10.0.0.1: connection refused",
    ]


def test_leader_whose_writes_all_lose_says_that_it_could_not_renew(in_virtual_time, candidate, caplog):
    elector, _, client = candidate()

    async def conflict(method):
        if method == "PUT":
            raise APIError(409, "Conflict", "the object has been modified")

    async def story():
        async with standing(elector):
            await asyncio.sleep(16.5)
            client.weather = conflict
            await asyncio.sleep(13)
            assert elector.note == "no replica leads"

    in_virtual_time(story())
    assert caplog.messages[-2:] == [
        "this replica, a, is no longer the leader: it could not renew the lease in time",
        "cannot release the lease, so no replica leads until it expires: the object has been modified",
    ]


def test_hung_calls_do_not_prolong_a_term(in_virtual_time, candidate):
    elector, term, client = candidate()

    async def hang(method):
        await asyncio.Event().wait()

    async def story():
        async with standing(elector):
            await asyncio.sleep(16.5)
            client.weather = hang
            await asyncio.sleep(60)

    in_virtual_time(story())
    assert term.ended == [26.0]


@pytest.mark.parametrize(
    "timing",
    [Timing(), Timing(lease=15, renew=13, retry=2), Timing(lease=60, renew=40, retry=5)],
    ids=["default", "little time to end", "long"],
)
def test_term_counts_from_before_the_write_that_renewed_it(in_virtual_time, candidate, timing):
    elector, term, client = candidate(timing=timing)
    began = []

    async def slow(method):
        if method == "PUT":
            began.append(asyncio.get_running_loop().time())
            await asyncio.sleep(timing.call - 0.5)

    async def answered(method):
        if method == "PUT":
            client.weather = down

    async def down(method):
        raise Unreachable("GET https://10.0.0.1: connection refused")

    client.weather, client.after = slow, answered

    async def story():
        async with standing(elector):
            await asyncio.sleep(timing.lease + 2 * timing.renew + 4 * timing.retry)

    in_virtual_time(story())
    assert term.ended == [began[0] + timing.renew]


def test_every_call_has_a_time_out_below_the_renewal(in_virtual_time, candidate):
    elector, _, client = candidate()

    async def story():
        async with standing(elector):
            await asyncio.sleep(30)

    in_virtual_time(story())
    assert {timeout for _, _, timeout in client.asked} == {Timing().call}
    assert Timing().call < Timing().renew


def test_leader_that_sees_another_holder_stops_at_once(in_virtual_time, candidate, lease_server):
    elector, term, _ = candidate()

    async def story():
        async with standing(elector):
            await asyncio.sleep(17)
            stolen = lease_server.read()
            stolen["spec"]["holderIdentity"] = "thief"
            lease_server.replace(stolen)
            await asyncio.sleep(3)
            assert elector.note == "thief leads"

    in_virtual_time(story())
    assert term.ended == [18.0]


def test_deleted_lease_has_to_stand_before_another_leads(in_virtual_time, candidate, lease_server):
    first, term, client = candidate("a")
    second, next_term, _ = candidate("b")

    async def cut_off(method):
        raise Unreachable("no route")

    async def story():
        async with standing(first):
            await asyncio.sleep(16.5)
            client.weather = cut_off
            lease_server.delete()
            async with standing(second):
                await asyncio.sleep(40)

    in_virtual_time(story())
    assert term.ended[0] == 26.0
    assert next_term.began[0] > 31.0


def test_term_that_fails_is_logged_and_begun_again(in_virtual_time, candidate, caplog):
    began = []

    async def fails():
        began.append(asyncio.get_running_loop().time())
        raise ValueError("broken")

    elector, _, _ = candidate(on_lead=fails)

    async def story():
        async with standing(elector):
            await asyncio.sleep(30)

    in_virtual_time(story())
    assert len(began) > 1
    failure = next(record for record in caplog.records if record.levelno == logging.CRITICAL)
    assert failure.getMessage() == "the tasks of the leader ended by themselves; they are started again"
    assert failure.exc_info[1].args == ("broken",)


def test_trouble_that_stays_is_reported_once(in_virtual_time, candidate, caplog):
    elector, _, client = candidate()

    async def forbidden(method):
        raise APIError(403, "Forbidden", "leases is forbidden")

    client.weather = forbidden

    async def story():
        async with standing(elector):
            await asyncio.sleep(60)

    in_virtual_time(story())
    reported = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert reported == ["the lease cannot be read or renewed: leases is forbidden"]


def test_mistake_of_ours_does_not_end_the_election(in_virtual_time, candidate, caplog):
    elector, term, client = candidate()

    async def broken(method):
        del client.weather
        raise KeyError("spec")

    client.weather = broken

    async def story():
        async with standing(elector):
            await asyncio.sleep(20)

    in_virtual_time(story())
    assert term.began
    assert "the lease cannot be read or renewed: the attempt failed: KeyError('spec')" in caplog.messages


def test_term_that_does_not_end_in_time_is_reported(in_virtual_time, candidate, caplog):
    async def stubborn():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(7)

    elector, _, _ = candidate(on_lead=stubborn)

    async def story():
        async with standing(elector) as (leader,):
            await asyncio.sleep(20)
            await stop(leader)

    in_virtual_time(story())
    assert "the tasks of the leader took 7.0 seconds to end; another replica may have led meanwhile" in caplog.messages


@pytest.mark.parametrize(
    "spec",
    [None, {}, {"holderIdentity": 7, "leaseDurationSeconds": "long"}, {"leaseDurationSeconds": -1}],
    ids=["none", "empty", "wrong types", "negative"],
)
def test_lease_that_says_nothing_has_to_stand_too(in_virtual_time, candidate, lease_server, spec):
    elector, term, _ = candidate()
    lease_server.create({"metadata": {"name": "leader"}, "spec": spec})

    async def story():
        async with standing(elector):
            await asyncio.sleep(20)

    in_virtual_time(story())
    assert 15 < term.began[0] < 18


def test_what_others_wrote_into_a_lease_stays(clockwork):
    lease = {
        "metadata": {"labels": {"team": "x"}, "resourceVersion": "7"},
        "spec": {"holderIdentity": "b", "leaseTransitions": 4, "preferredHolder": "c"},
    }
    taken = held_lease(lease, "a", 15, datetime(2027, 1, 1, tzinfo=timezone.utc))  # noqa: UP017
    assert taken["metadata"] == lease["metadata"]
    assert taken["spec"]["preferredHolder"] == "c"
    assert taken["spec"]["leaseTransitions"] == 5


def test_micro_time_is_utc():
    moment = datetime(2027, 1, 1, 1, 30, 0, 5, tzinfo=timezone(timedelta(hours=2)))
    assert micro_time(moment) == "2026-12-31T23:30:00.000005Z"


def test_identities_of_one_host_differ():
    assert new_identity("pod-1") != new_identity("pod-1")
    assert new_identity("pod-1").startswith("pod-1_")


@pytest.mark.parametrize("times", [(15, 15, 2), (15, 10, 10), (15, 10, 0)])
def test_timing_that_is_unsafe_is_refused(times):
    with pytest.raises(ValueError, match=r"^must be 0 < retry < renew < lease, and is "):
        Timing(*times)
