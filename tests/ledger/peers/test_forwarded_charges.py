"""Charges are written by the replica that owns the ledger, and by the one that answers if that does not do it in time."""

import asyncio

import pytest

from policies.quota.ledger.ledger import Exceeded
from policies.rules.charges import Charge
from tests.ledger.conftest import bill
from webhook.ledger.forwarding_writer import ForwardingWriter


async def test_charge_is_written_by_the_owner(namespace, replicas, pod, monkeypatch):
    namespace.make()
    _owner, other = await replicas()
    for call in ("read", "swap"):
        monkeypatch.setattr(other.writer._documents, call, None)
    verdict = await other.charge(pod("a"))
    assert (verdict.allowed, verdict.reason, namespace.uids) == (True, None, ["a"])
    assert other.answers == {"charged": 1}


async def test_owner_sends_its_charges_to_no_other_replica(namespace, replicas, pod):
    namespace.make()
    owner, _other = await replicas()
    assert (await owner.charge(pod("a"))).allowed
    assert (namespace.uids, owner.answers) == (["a"], {})


async def test_charges_of_all_replicas_meet_no_conflict(namespace, replicas, pod):
    namespace.make(hard=100)
    three = await replicas(3)
    charges = (each.charge(pod(f"{number}-{each.identity}")) for number in range(10) for each in three)
    verdicts = await asyncio.gather(*charges)
    assert all(verdict.allowed for verdict in verdicts)
    await three[0].writer.close()
    assert len(namespace.uids) == 30
    assert "get" not in namespace.requests()  # which follows a conflict


async def test_charge_that_does_not_fit_is_refused_by_the_replica_that_answers(namespace, replicas, pod):
    namespace.make(hard=2)
    _owner, other = await replicas()
    verdict = await other.charge(pod("a", 3))
    assert (verdict.allowed, type(verdict.reason)) == (False, Exceeded)
    assert (namespace.uids, other.answers) == ([], {"declined": 1})


async def test_charge_that_does_not_fit_is_written_by_the_replica_that_answers_in_mode_warn(namespace, replicas, pod):
    namespace.make(hard=2, mode="Warn")
    _owner, other = await replicas()
    verdict = await other.charge(pod("a", 3))
    assert (verdict.allowed, type(verdict.reason), namespace.uids) == (True, Exceeded, ["a"])


async def test_dry_run_is_not_sent(namespace, replicas, pod):
    namespace.make()
    _, other = await replicas()
    assert (await other.charge(pod("a"), dry_run=True)).allowed
    assert (namespace.uids, other.answers) == ([], {})


async def test_charge_under_an_earlier_spec_is_written_by_the_replica_that_answers(namespace, replicas, pod):
    namespace.make(hard=2)
    _owner, other = await replicas()
    stored = namespace.stored
    other.writer._documents.shown = lambda _namespace: {**stored, "metadata": {**stored["metadata"], "generation": 0}}
    assert (await other.charge(pod("a"))).allowed
    assert (namespace.uids, other.answers) == (["a"], {"declined": 1})


async def test_replica_that_sees_no_quota_reads_it(namespace, replicas, pod):
    namespace.make()
    _, other = await replicas()
    other.is_blind = True
    assert (await other.charge(pod("a"))).allowed
    assert (namespace.uids, other.answers) == (["a"], {})


async def test_charge_is_written_once_where_the_owner_is_late(namespace, replicas, pod, interrupted):
    namespace.make()
    owner, other = await replicas()
    waiting = asyncio.create_task(other.charge(pod("a")))
    await interrupted.is_written.wait()
    assert (await waiting).allowed
    assert other.answers == {"late": 1}
    interrupted.go_on.set()
    await owner.writer.close()
    assert (namespace.uids, namespace.reserved) == (["a"], 1)


async def test_charge_is_written_by_the_replica_that_answers_where_the_owner_ends(namespace, replicas, pod, interrupt):
    namespace.make()
    owner, other = await replicas()
    held = interrupt("GET")
    owner.is_blind = True
    waiting = asyncio.create_task(other.charge(pod("a")))
    await held.is_written.wait()
    await owner.stop()
    assert (await waiting).allowed
    held.go_on.set()
    assert (namespace.uids, other.answers) == (["a"], {"lost": 1})


async def test_replica_becomes_the_owner_where_the_owner_has_ended(namespace, replicas, pod, until):
    namespace.make()
    owner, other = await replicas()
    await owner.stop()
    await until(lambda: not other.connected)
    assert (await other.charge(pod("a"))).allowed
    assert other.answers == {}


async def test_charge_of_who_stops_waiting_is_taken_back_by_the_owner(namespace, replicas, pod, interrupted, until):
    namespace.make()
    _owner, other = await replicas()
    waiting = asyncio.create_task(other.charge(pod("a")))
    await interrupted.is_written.wait()
    waiting.cancel()
    await asyncio.wait([waiting])
    assert namespace.uids == ["a"]
    interrupted.go_on.set()
    await until(lambda: not namespace.uids)


async def test_charge_stays_where_the_object_is_created_without_an_answer(
    namespace, replicas, pod, interrupted, monkeypatch
):
    namespace.make()
    owner, other = await replicas()
    cancelled = []
    monkeypatch.setattr(ForwardingWriter, "_cancel", lambda _writer, *sent: cancelled.append(sent))
    waiting = asyncio.create_task(other.charge(pod("a"), enforced=False))
    await interrupted.is_written.wait()
    waiting.cancel()
    await asyncio.wait([waiting])
    interrupted.go_on.set()
    await owner.writer.close()
    assert (namespace.uids, cancelled) == (["a"], [])


async def test_late_charge_of_a_refused_object_is_taken_back_where_the_link_is_lost(
    namespace, replicas, pod, interrupted
):
    namespace.make(hard=4)
    owner, other = await replicas()
    waiting = asyncio.create_task(other.charge(pod("a", 3)))
    await interrupted.is_written.wait()
    waiting.cancel()
    (link,) = other.peers.links
    link._outbox = None
    await asyncio.wait([waiting])
    interrupted.go_on.set()
    await owner.writer.close()
    await other.writer.close()
    assert namespace.uids == []


async def test_charge_that_is_declined_costs_the_owner_no_read(namespace, replicas, pod, monkeypatch):
    namespace.make(hard=2)
    owner, other = await replicas()
    monkeypatch.setattr(owner.client, "get", None)
    assert not (await other.charge(pod("a", 3))).allowed
    assert other.answers == {"declined": 1}


async def test_charge_that_is_too_large_to_be_sent_is_written_by_the_replica_that_answers(namespace, replicas, pod):
    namespace.make()
    _, other = await replicas()
    pieces = {f"claim-{number}": bill(0) for number in range(4000)}
    huge = Charge("a", "Pod", "team-a", "a", pieces)
    await other.charge(lambda _quota: huge)
    assert other.answers == {"declined": 1}


async def test_charge_of_a_call_that_no_longer_waits_is_not_written_again(namespace, replicas, pod, shown, interrupt):
    """The replica that answers has written it meanwhile, and it was counted."""
    namespace.make()
    owner, other = await replicas()
    owner.is_blind = True
    held = interrupt("GET")
    waiting = asyncio.create_task(other.charge(pod("a")))
    await held.is_written.wait()
    assert (await waiting).allowed
    namespace.count("2", shown("a", 1))
    held.go_on.set()
    await owner.writer.close()
    assert (namespace.used, namespace.uids) == (1, [])


async def test_hanging_owner_cancels_no_other_call(namespace, replicas, pod, monkeypatch):
    """Nothing is read on the other side, so messages wait; each call ends by itself."""
    namespace.make(hard=100)
    _, other = await replicas()
    (link,) = other.peers.links

    async def hang(_socket, _message):
        await asyncio.Event().wait()

    monkeypatch.setattr(type(link._outbox._socket), "send_bytes", hang)
    verdicts = await asyncio.gather(*(other.charge(pod(f"pod-{number}")) for number in range(5)))
    assert all(verdict.allowed for verdict in verdicts)
    assert other.answers == {"late": 5}


async def test_late_charge_of_a_refused_object_is_taken_back(namespace, replicas, pod, interrupt, until):
    """The quota shrinks while the owner is late, so the replica that answers refuses what the owner writes later."""
    namespace.make()
    owner, other = await replicas()
    owner.is_blind = True
    held = interrupt("GET")
    waiting = asyncio.create_task(other.charge(pod("a", 5)))
    await held.is_written.wait()
    namespace.allow(4)
    verdict = await waiting
    assert (verdict.allowed, other.answers) == (False, {"late": 1})
    held.go_on.set()
    await owner.writer.close()
    await until(lambda: not owner.writer._workers)
    assert namespace.uids == []


async def test_claim_of_a_charged_pod_is_written_by_the_owner(namespace, replicas, pod, claim):
    namespace.make()
    _, other = await replicas()
    await other.charge(pod("a", 2))

    async def cover():
        pytest.fail("nothing has to be read")

    assert (await other.charge(claim("c", 2, "a"), cover=cover)).allowed
    assert (namespace.uids, other.answers) == (["a", "c"], {"charged": 2})


async def test_claim_of_a_pod_that_is_counted_is_covered_by_the_replica_that_answers(
    namespace, replicas, pod, claim, shown
):
    namespace.make()
    _, other = await replicas()
    namespace.count("2", shown("a", 2))

    async def cover():
        return lambda _quota: {"all": 2}

    assert (await other.charge(claim("c", 2, "a"), cover=cover)).allowed
    assert (namespace.used, namespace.reserved, other.answers) == (2, 0, {"declined": 1})
