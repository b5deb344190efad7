"""The owner of a busy ledger reserves an allowance, and admits objects out of it without a write."""

import asyncio
import time

import pytest

from policies.quota.ledger import ledger
from policies.quota.ledger.allowances import Contended, has_only_certain_charges
from policies.quota.ledger.ledger import ROOM, Exceeded, Full, Ledger
from policies.rules.charges import OWN, Charge
from tests.ledger.conftest import TEAM_A, bill
from webhook.ledger import accounts
from webhook.ledger.accounts import FLUSH_SECONDS, USED_SECONDS


def pod_with_claims(uid, gpus, *pieces):
    """What a converted pod is charged: nothing of its own, and its claims from templates."""
    return lambda _quota: Charge(uid, "Pod", "team-a", f"pod-{uid}", {piece: bill(gpus) for piece in pieces})


def claim_of(pod, piece, uid, gpus):
    """What the claim is charged that is made for a piece of a pod."""
    return lambda _quota: Charge(uid, "ResourceClaim", "team-a", f"claim-{uid}", {OWN: bill(gpus)}, (pod, piece))


async def busy_owner(namespace, replicas, pod, hard=100, count=2, **spec):
    """The owner of a ledger with an allowance, after so many charges."""
    namespace.make(hard=hard, **spec)
    owner, *others = await replicas(count)
    for uid in ("first", "second"):
        assert (await owner.charge(pod(uid))).allowed
    return owner, *others


async def until_flushed(owner):
    await asyncio.wait(owner.writer._accounts._flushers.values())


async def test_single_charge_reserves_nothing(namespace, replicas, pod):
    namespace.make()
    owner, _ = await replicas()
    await owner.charge(pod("a"))
    assert namespace.allowance is None


async def test_charges_in_quick_succession_reserve_as_much_again(namespace, replicas, pod):
    await busy_owner(namespace, replicas, pod)
    assert (namespace.allowance, namespace.reserved) == ({"all": "4"}, 6)


async def test_allowance_takes_at_most_half_of_what_is_left(namespace, replicas, pod):
    await busy_owner(namespace, replicas, pod, hard=4)
    assert namespace.allowance == {"all": "1"}


async def test_covered_charge_costs_no_request(namespace, replicas, pod):
    owner, other = await busy_owner(namespace, replicas, pod)
    before = namespace.requests()
    assert (await owner.charge(pod("third"))).allowed
    assert (await other.charge(pod("fourth"))).allowed
    assert (namespace.requests(), other.answers) == (before, {"charged": 1})


async def test_covered_charges_are_written_together(namespace, replicas, pod):
    owner, _ = await busy_owner(namespace, replicas, pod)
    before = namespace.writes()
    for uid in ("third", "fourth"):
        await owner.charge(pod(uid))
    await owner.writer.close()
    assert (namespace.uids, namespace.writes() - before) == (["first", "second", "third", "fourth"], 1)


async def test_allowance_that_is_not_used_is_given_back(namespace, replicas, pod):
    owner, _ = await busy_owner(namespace, replicas, pod)
    await until_flushed(owner)
    assert (namespace.allowance, namespace.uids, namespace.reserved) == (None, ["first", "second"], 2)


async def test_allowance_is_given_back_where_a_replica_ends(namespace, replicas, pod):
    owner, _ = await busy_owner(namespace, replicas, pod)
    await owner.writer.close()
    assert (namespace.allowance, namespace.reserved) == (None, 2)


async def test_claim_of_a_charged_pod_costs_no_write(namespace, replicas):
    namespace.make()
    owner, other = await replicas()
    await other.charge(pod_with_claims("p", 2, "gpu"))
    before = namespace.requests()
    assert (await other.charge(claim_of("p", "gpu", "c", 2))).allowed
    assert namespace.requests() == before
    await owner.writer.close()
    assert (namespace.uids, namespace.reserved) == (["p", "c"], 2)


async def test_second_claim_of_a_piece_counts_besides(namespace, replicas):
    namespace.make()
    owner, _ = await replicas()
    await owner.charge(pod_with_claims("p", 2, "gpu"))
    for uid in ("c", "d"):
        assert (await owner.charge(claim_of("p", "gpu", uid, 2))).allowed
    await owner.writer.close()
    assert (namespace.uids, namespace.reserved) == (["p", "c", "d"], 4)


async def test_charge_beyond_the_allowance_is_written_with_all_others(namespace, replicas, pod):
    owner, _ = await busy_owner(namespace, replicas, pod)
    await owner.charge(pod("third", 3))
    before = namespace.writes()
    assert (await owner.charge(pod("fourth", 3))).allowed
    assert (namespace.uids, namespace.writes() - before) == (["first", "second", "third", "fourth"], 1)


async def test_charges_that_come_in_during_a_write_need_no_other(namespace, replicas, pod, until):
    owner, _ = await busy_owner(namespace, replicas, pod)
    put, late = owner.client.put, []

    async def put_when_others_wait(*arguments, **options):
        if not late:
            late.extend(asyncio.create_task(owner.charge(pod(uid))) for uid in ("fourth", "fifth"))
            await until(lambda: len(owner.writer._waiting[TEAM_A]) == 3)
        return await put(*arguments, **options)

    owner.client.put = put_when_others_wait
    before = namespace.writes()
    assert (await owner.charge(pod("third", 5))).allowed
    assert [verdict.allowed for verdict in await asyncio.gather(*late)] == [True, True]
    assert namespace.writes() - before == 1


async def test_charge_of_a_cancelled_call_that_came_in_during_a_write_is_taken_back(namespace, replicas, pod, until):
    owner, _ = await busy_owner(namespace, replicas, pod)
    put, late = owner.client.put, []

    async def put_when_another_waits(*arguments, **options):
        if not late:
            late.append(asyncio.create_task(owner.charge(pod("fourth"))))
            await until(lambda: len(owner.writer._waiting[TEAM_A]) == 2)
            late[0].cancel()
        return await put(*arguments, **options)

    owner.client.put = put_when_another_waits
    assert (await owner.charge(pod("third", 5))).allowed
    await owner.writer.close()
    assert (late[0].cancelled(), namespace.uids) == (True, ["first", "second", "third"])


async def test_allowance_keeps_nothing_from_fitting(namespace, replicas, pod):
    _, other = await busy_owner(namespace, replicas, pod, hard=8)
    assert namespace.allowance == {"all": "3"}
    assert (await other.charge(pod("third", 6))).allowed
    assert (namespace.uids, namespace.reserved) == (["first", "second", "third"], 8)


async def test_refusal_counts_what_was_covered_and_no_allowance(namespace, replicas, pod):
    owner, other = await busy_owner(namespace, replicas, pod, hard=8)
    await owner.charge(pod("third"))
    verdict = await other.charge(pod("fourth", 6))
    assert (verdict.allowed, type(verdict.reason), verdict.reason.limits[0].reserved) == (False, Exceeded, 3)
    assert (namespace.uids, namespace.allowance) == (["first", "second", "third"], None)


async def test_what_another_replica_has_reserved_refuses_nothing_for_good(namespace, replicas, pod):
    owner, other = await busy_owner(namespace, replicas, pod, hard=8)
    await owner.stop()
    verdict = await other.charge(pod("third", 6))
    assert (verdict.allowed, type(verdict.reason).__name__) == (False, "Contended")


async def test_pod_that_was_counted_before_its_charge_was_written_refuses_nothing(namespace, replicas, pod, shown):
    owner, _ = await busy_owner(namespace, replicas, pod, hard=4)
    assert (await owner.charge(pod("third"))).allowed
    seen = [shown(uid, 1) for uid in ("first", "second", "third")]
    namespace.count("2", *seen)
    early = await owner.charge(pod("fourth"))
    namespace.count("3", *seen)
    assert [early.reason, (await owner.charge(pod("fourth"))).reason] == [Contended(), None]
    assert type((await owner.charge(pod("fifth"))).reason) is Exceeded


async def test_refusal_stands_beside_a_pod_that_was_counted_before_its_charge_was_written(
    namespace, replicas, pod, shown
):
    owner, _ = await busy_owner(namespace, replicas, pod, hard=4)
    await owner.charge(pod("third"))
    namespace.count("2", *(shown(uid, 1) for uid in ("first", "second", "third")))
    assert type((await owner.charge(pod("fourth", 2))).reason) is Exceeded


async def test_quota_that_is_not_enforced_is_not_exceeded_because_a_charge_is_late(namespace, replicas, pod, shown):
    """The claim of the pod is not counted yet, only the pod."""
    owner, _ = await busy_owner(namespace, replicas, pod, hard=4)
    assert (await owner.charge(pod_with_claims("third", 1, "gpu"))).allowed
    namespace.count("2", shown("first", 1), shown("second", 1), shown("third", 0))
    verdict = await owner.charge(pod("fourth", 2), enforced=False)
    assert (verdict.allowed, verdict.reason, namespace.used + namespace.reserved) == (False, Contended(), 3)


async def test_charge_that_was_written_before_the_next_count_is_certain(namespace, replicas, pod):
    owner, _ = await busy_owner(namespace, replicas, pod)
    await owner.charge(pod("third"))
    await owner.writer.close()
    assert has_only_certain_charges(Ledger.read(namespace.stored))


async def test_covered_charge_of_a_call_that_ends_is_taken_back(namespace, replicas, pod):
    owner, _ = await busy_owner(namespace, replicas, pod)
    await owner.charge(pod("third"), call="some-call")
    owner.writer.take_back(TEAM_A, "third", "some-call")
    await owner.writer.close()
    assert namespace.uids == ["first", "second"]


@pytest.mark.parametrize("times", [1, 2])
async def test_withdrawn_charge_that_the_owner_has_not_written_yet_is_gone(namespace, replicas, pod, times):
    owner, other = await busy_owner(namespace, replicas, pod)
    assert (await other.charge(pod("third"), call="some-call")).allowed
    for _ in range(times):
        other.writer.withdraw(TEAM_A, "third", "some-call")
    await other.writer.close()
    # A connection keeps the order of its messages.
    assert (await other.charge(pod("fourth"))).allowed
    await owner.writer.close()
    assert (namespace.uids, other.answers) == (["first", "second", "fourth"], {"charged": 2})


async def test_charge_that_the_owner_has_written_is_withdrawn_without_a_link(namespace, replicas, pod):
    owner, other = await busy_owner(namespace, replicas, pod)
    await other.charge(pod("third"), call="some-call")
    await owner.writer.close()
    (link,) = other.peers.links
    link._outbox = None
    other.writer.withdraw(TEAM_A, "third", "some-call")
    await other.writer.close()
    assert namespace.uids == ["first", "second"]


async def test_charge_counts_too_much_where_the_owner_writes_it_after_a_lost_withdrawal(namespace, replicas, pod):
    """The leader finds that its object does not exist."""
    owner, other = await busy_owner(namespace, replicas, pod)
    await other.charge(pod("third"), call="some-call")
    (link,) = other.peers.links
    link._outbox = None
    other.writer.withdraw(TEAM_A, "third", "some-call")
    await other.writer.close()
    await owner.writer.close()
    assert namespace.uids == ["first", "second", "third"]


async def test_charge_under_a_changed_spec_is_written(namespace, replicas, pod):
    owner, _ = await busy_owner(namespace, replicas, pod)
    stored = namespace.stored
    namespace.sandbox.replace(
        {
            **stored,
            "metadata": {**stored["metadata"], "generation": 2},
            "spec": {"limits": [{"name": "all", "gpus": 3}]},
        }
    )
    assert (await owner.charge(pod("third"))).allowed
    assert namespace.uids == ["first", "second", "third"]
    assert not (await owner.charge(pod("fourth"))).allowed


async def test_allowance_is_not_used_for_long_without_a_write(namespace, replicas, pod, monkeypatch):
    owner, _ = await busy_owner(namespace, replicas, pod)
    (accounts,) = owner.writer._accounts._accounts.values()
    accounts._until = -1.0
    before = namespace.writes()
    await owner.charge(pod("third"))
    assert namespace.writes() == before + 1


async def test_allowance_is_not_used_after_the_machine_was_suspended(namespace, replicas, pod, monkeypatch):
    """The leader may have dropped it meanwhile. A monotonic clock stands still, the one of the time since boot does not."""
    owner, _ = await busy_owner(namespace, replicas, pod)
    before, now = namespace.writes(), time.clock_gettime(time.CLOCK_BOOTTIME)
    monkeypatch.setattr(time, "clock_gettime", lambda _clock: now + 600)
    await owner.charge(pod("third"))
    assert namespace.writes() == before + 1


def test_allowance_is_written_before_it_may_be_used_no_more():
    assert FLUSH_SECONDS * 2 < USED_SECONDS


async def test_quota_that_is_not_enforced_charges_beside_what_another_replica_has_reserved(namespace, replicas, pod):
    owner, other = await busy_owner(namespace, replicas, pod, hard=8)
    await owner.stop()
    verdict = await other.charge(pod("third", 6), enforced=False)
    assert (verdict.allowed, verdict.reason) == (True, None)
    assert "third" in namespace.uids


async def test_dry_run_is_not_refused_for_what_another_replica_has_reserved(namespace, replicas, pod):
    _, other = await busy_owner(namespace, replicas, pod, hard=8)
    before = namespace.writes()
    verdict = await other.charge(pod("third", 6), dry_run=True)
    assert (verdict.allowed, verdict.reason, namespace.writes() - before) == (True, None, 0)


async def test_refusal_leaves_out_what_another_replica_has_reserved(namespace, replicas, pod):
    owner, other = await busy_owner(namespace, replicas, pod, hard=8)
    await owner.stop()
    verdict = await other.charge(pod("third", 7))
    assert (verdict.allowed, verdict.reason.limits[0].reserved) == (False, 2)


async def test_mode_warn_does_not_warn_about_what_another_replica_has_reserved(namespace, replicas, pod):
    owner, other = await busy_owner(namespace, replicas, pod, hard=8, mode="Warn")
    await owner.stop()
    verdict = await other.charge(pod("third", 6))
    assert (verdict.allowed, verdict.reason) == (True, None)
    assert "third" in namespace.uids


def pod_with_other_claims(uid, count):
    """A pod with a GPU, and claims that no limit counts."""
    uncounted = {f"{uid}-{number}".ljust(63, "x"): bill(1, ()) for number in range(count)}
    return lambda _quota: Charge(uid, "Pod", "team-a", f"pod-{uid}", {OWN: bill(1), **uncounted})


async def test_allowance_admits_no_more_than_the_ledger_has_room_for(namespace, replicas, monkeypatch):
    room = ROOM._replace(charges=1000)
    for module in (accounts, ledger):
        monkeypatch.setattr(module, "ROOM", room)
    owner, _ = await busy_owner(namespace, replicas, lambda uid: pod_with_other_claims(uid, 300))
    verdicts = [await owner.charge(pod_with_other_claims(f"more-{number}", 300)) for number in range(2)]
    assert [(each.allowed, type(each.reason)) for each in verdicts] == [(True, type(None)), (False, Full)]
    reservations = Ledger.read(namespace.stored).reservations
    assert reservations.places <= room.charges


async def test_charge_that_another_call_forged_counts_in_full(namespace, replicas, writer, pod):
    """A call to a replica that is not connected says of the uid that it is a claim for a piece of a charged pod."""
    namespace.make()
    owner, _ = await replicas()
    await owner.charge(pod_with_claims("first", 2, "gpu"))
    assert (await owner.charge(pod("second", 2))).allowed
    assert (await (await writer()).charge(TEAM_A, claim_of("first", "gpu", "second", 2), enforced=True)).allowed
    await owner.writer.close()
    assert (namespace.uids, namespace.reserved) == (["first", "second"], 4)


async def test_account_is_kept_while_its_ledger_is_written(namespace, replicas, pod, interrupt, monkeypatch):
    monkeypatch.setattr(accounts, "_MOST_ACCOUNTS", 2)
    namespace.make()
    owner, _ = await replicas()
    await owner.charge(pod("first"))
    held = interrupt()
    second = asyncio.create_task(owner.charge(pod("second")))
    await held.is_written.wait()
    for other in ("team-b", "team-c"):
        owner.writer._accounts.begin(other, may_grant=False, is_flush=False, is_busy=False)
        owner.writer._accounts.end(other)
    held.go_on.set()
    assert (await second).allowed
    await owner.writer.close()
    assert (namespace.allowance, namespace.uids) == (None, ["first", "second"])
