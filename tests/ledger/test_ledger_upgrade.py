"""Replicas of two versions write one ledger: no charge is lost, in any order."""

from dataclasses import replace

import pytest

from policies.quota.charges import OWN
from policies.quota.ledger.open_charges import OpenCharge
from policies.quota.ledger.reservations import Reservations
from policies.quota.ledger.status import has_compact_charges
from testbed.version_before.ledger import LedgerBefore
from tests.ledger.conftest import bill
from webhook.cluster.errors import APIError
from webhook.ledger import documents


@pytest.fixture
async def new(writer):
    """A writer while replicas of the version before may run."""
    return await writer(is_compact=lambda: False)


@pytest.fixture
async def upgraded(writer):
    """A writer after the upgrade."""
    return await writer()


@pytest.fixture
async def old(writer, monkeypatch):
    """Charge a pod as a replica of the version before does."""
    ledger = await writer()

    async def charge(charge):
        with monkeypatch.context() as context:
            context.setattr(documents, "Ledger", LedgerBefore)
            return await ledger.charge("team-a", charge, enforced=True)

    return charge


async def test_replica_of_the_version_before_writes_between_two_new_ones(namespace, new, old, writer, pod):
    namespace.make()
    await new.charge("team-a", pod("a"), enforced=True)
    await old(pod("b"))
    another = await writer(is_compact=lambda: False)
    await another.charge("team-a", pod("c"), enforced=True)
    assert namespace.uids == ["a", "b", "c"]


async def test_charges_become_one_text_after_the_upgrade(namespace, new, old, upgraded, pod):
    namespace.make()
    await new.charge("team-a", pod("a"), enforced=True)
    await old(pod("b"))
    await upgraded.charge("team-a", pod("c"), enforced=True)
    assert has_compact_charges(namespace.stored["status"])
    assert (namespace.uids, namespace.stored["status"]["charges"]) == (["a", "b", "c"], [])


async def test_replica_of_the_version_before_cannot_drop_charges_that_it_does_not_know(namespace, old, upgraded, pod):
    namespace.make()
    await upgraded.charge("team-a", pod("a"), enforced=True)
    with pytest.raises(APIError) as refusal:
        await old(pod("b"))
    assert str(refusal.value).endswith(
        "the charges in openCharges would be lost, because this version of gpu-admission does not know them; to go back to "
        "it, take the steps of docs/upgrade.md"
    )
    assert namespace.uids == ["a"]


async def test_charges_are_a_list_again_before_a_rollback(namespace, new, old, upgraded, pod):
    namespace.make()
    await upgraded.charge("team-a", pod("a"), enforced=True)
    await new.charge("team-a", pod("b"), enforced=True)
    await old(pod("c"))
    assert namespace.uids == ["a", "b", "c"]


async def test_charges_stay_a_text_before_a_rollback_while_etcd_cannot_store_them_as_a_list(
    namespace, new, upgraded, monkeypatch
):
    """Otherwise each write would fail, also the one that closes charges."""
    monkeypatch.setattr(documents, "_MOST_LIST_BYTES", 2000)
    namespace.make(hard=20)
    charges = [OpenCharge(str(n), "Pod", f"pod-{n}", "", {OWN: bill(1)}) for n in range(20)]
    found = []
    for writer, kept in ((upgraded, 20), (new, 19), (new, 5)):
        few = Reservations(charges[:kept])
        await writer.change("team-a", lambda ledger, _quota, _document, few=few: replace(ledger, reservations=few))
        found.append((has_compact_charges(namespace.stored["status"]), len(namespace.uids)))
    assert found == [(True, 20), (True, 19), (False, 5)]
