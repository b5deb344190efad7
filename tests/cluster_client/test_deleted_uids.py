"""Uids that a store has seen and that are deleted."""

from __future__ import annotations

import pytest

from webhook.cluster.resources import RESOURCES
from webhook.cluster.store import DeletedUids, Listing, Store


def pod(name, uid, version="1"):
    return {"metadata": {"name": name, "namespace": "team-a", "uid": uid, "resourceVersion": version}}


def event(kind, document):
    return {"type": kind, "object": document}


@pytest.fixture
def store():
    def trim(document):
        return None if document.get("ended") else document

    return Store(RESOURCES["Pod"], trim, gone=DeletedUids())


def listed(store, version, *documents):
    listing = Listing(store)
    listing.add(documents)
    listing.finish(version)


def test_existing_object_is_not_gone(store):
    store.apply(event("ADDED", pod("a", "1")))
    assert "1" not in store.gone


def test_deleted_object_is_gone(store):
    store.apply(event("ADDED", pod("a", "1")))
    store.apply(event("DELETED", pod("a", "1", "2")))
    assert "1" in store.gone


def test_dropped_object_is_gone(store):
    store.apply(event("ADDED", pod("a", "1")))
    store.apply(event("MODIFIED", {**pod("a", "1", "2"), "ended": True}))
    assert "1" in store.gone


def test_object_that_was_never_kept_is_not_gone(store):
    store.apply(event("DELETED", pod("a", "1")))
    assert "1" not in store.gone


def test_change_does_not_make_an_object_gone(store):
    store.apply(event("ADDED", pod("a", "1")))
    store.apply(event("MODIFIED", pod("a", "1", "2")))
    assert "1" not in store.gone


def test_another_object_of_the_name_means_that_the_first_is_gone(store):
    store.apply(event("ADDED", pod("a", "1")))
    store.apply(event("ADDED", pod("a", "2", "2")))
    assert ("1" in store.gone, "2" in store.gone) == (True, False)


def test_object_missing_from_a_newer_list_is_gone(store):
    listed(store, "1", pod("a", "1"), pod("b", "2"))
    listed(store, "2", pod("b", "2"))
    assert ("1" in store.gone, "2" in store.gone) == (True, False)


def test_list_of_a_restored_etcd_begins_anew(store):
    listed(store, "5", pod("a", "1"))
    store.apply(event("DELETED", pod("a", "1", "6")))
    listed(store, "4", pod("a", "1"))
    assert "1" not in store.gone


def test_only_the_last_are_remembered():
    gone = DeletedUids()
    gone.add((pod(f"p{number}", str(number)) for number in range(20_001)), ())
    assert ("0" in gone, "1" in gone, "20000" in gone) == (False, True, True)


def test_unchanged_objects_of_a_new_list_cost_nothing(store, monkeypatch):
    listed(store, "1", pod("a", "1"), pod("b", "2"), pod("c", "3"))
    compared = []

    def add(before, after):
        compared.append([[each["metadata"]["uid"] for each in objects] for objects in (before, after)])

    monkeypatch.setattr(store.gone, "add", add)
    listed(store, "2", pod("a", "1"), pod("b", "9", "2"))
    assert compared == [[["2", "3"], ["9"]]]
