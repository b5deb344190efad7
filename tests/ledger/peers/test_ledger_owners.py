"""Owners of ledgers, by rendezvous hashing."""

from collections import Counter

from webhook.ledger.forwarding_writer import owner_of

REPLICAS = ("a", "b", "c")
NAMESPACES = [f"team-{number}" for number in range(3000)]


def test_replicas_own_about_equally_many_namespaces():
    owned = Counter(owner_of(namespace, REPLICAS) for namespace in NAMESPACES)
    assert all(900 < count < 1100 for count in owned.values())


def test_owner_does_not_depend_on_the_order_of_replicas():
    assert all(owner_of(each, REPLICAS) == owner_of(each, REPLICAS[::-1]) for each in NAMESPACES)


def test_only_namespaces_of_a_new_replica_change_their_owner():
    changed = {
        owner_of(each, (*REPLICAS, "d"))
        for each in NAMESPACES
        if owner_of(each, REPLICAS) != owner_of(each, (*REPLICAS, "d"))
    }
    assert changed == {"d"}
