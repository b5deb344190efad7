"""Objects in a store, and when its answers count as new."""

import sys
import threading

import pytest

from webhook.cluster.resources import RESOURCES
from webhook.cluster.store import Listing, Store, is_older


def pod(name, version, namespace="a", **spec):
    return {
        "metadata": {"name": name, "namespace": namespace, "resourceVersion": str(version)},
        "spec": spec,
    }


def spec_only(item):
    return {"spec": item["spec"]} if item["spec"] else None


@pytest.fixture
def store():
    return Store(RESOURCES["Pod"])


@pytest.fixture
def trimming():
    return Store(RESOURCES["Pod"], spec_only)


def event(kind, item):
    return {"type": kind, "object": item}


def take_list(store, objects, version):
    listing = Listing(store)
    listing.add(objects)
    listing.finish(version)


def test_new_store_waits(store):
    assert (store.state, store.reason, len(store)) == ("waiting", "not listed yet", 0)


def test_list_fills_the_store(store):
    take_list(store, [pod("x", 1), pod("y", 2, "b")], "5")
    assert (store.state, store.reason, store.resource_version) == ("synced", "", "5")
    assert store.get("a", "x")["metadata"]["name"] == "x"
    assert [item["metadata"]["name"] for item in store.list("b")] == ["y"]
    assert len(store.list()) == 2


def test_objects_of_lists_get_their_kind(store):
    take_list(store, [pod("x", 1)], "5")
    assert (store.get("a", "x")["apiVersion"], store.get("a", "x")["kind"]) == ("v1", "Pod")


def test_what_a_list_does_not_have_is_gone(store):
    take_list(store, [pod("x", 1)], "5")
    take_list(store, [pod("y", 6)], "7")
    assert store.get("a", "x") is None


def test_unfinished_list_changes_nothing(store):
    take_list(store, [pod("x", 1)], "5")
    Listing(store).add([pod("y", 6)])
    assert len(store) == 1


def test_events_change_single_objects(store):
    take_list(store, [pod("x", 1)], "5")
    store.apply(event("ADDED", pod("y", 6)))
    store.apply(event("MODIFIED", pod("x", 7, node="n")))
    store.apply(event("DELETED", pod("y", 8)))
    assert [item["spec"] for item in store.list()] == [{"node": "n"}]
    assert store.resource_version == "8"


def test_event_older_than_what_is_kept_changes_nothing(store):
    take_list(store, [pod("x", 10, node="n")], "10")
    store.apply(event("MODIFIED", pod("x", 9)))
    store.apply(event("DELETED", pod("x", 9)))
    assert store.get("a", "x")["spec"] == {"node": "n"}
    assert store.resource_version == "10"


def test_event_from_before_the_list_changes_nothing(store):
    take_list(store, [], "10")
    store.apply(event("ADDED", pod("x", 9)))
    assert (len(store), store.resource_version) == (0, "10")


def test_namespaces_without_objects_take_no_memory(store):
    take_list(store, [pod("x", 1)], "5")
    assert [store.list(namespace) for namespace in ("a", "nowhere", "nothing")] == [store.list(), (), ()]
    assert store._listed.keys() == {"", "a"}


def test_list_from_before_what_is_kept_is_the_truth(store):
    take_list(store, [pod("x", 10)], "10")
    take_list(store, [pod("y", 4)], "5")
    store.apply(event("ADDED", pod("z", 6)))
    assert [item["metadata"]["name"] for item in store.list()] == ["y", "z"]


def test_bookmark_moves_the_version_only(store):
    take_list(store, [pod("x", 1)], "5")
    before = store.version
    store.apply(event("BOOKMARK", {"metadata": {"resourceVersion": "50"}}))
    assert (store.resource_version, store.version) == ("50", before)
    assert store.changed_version == "5"
    store.apply(event("DELETED", pod("x", 51)))
    assert store.changed_version == "51"


def test_deletion_of_what_is_not_kept_is_no_news(store):
    take_list(store, [], "5")
    before = store.version
    store.apply(event("DELETED", pod("x", 6)))
    assert store.version == before


def test_change_that_is_trimmed_away_is_no_news(trimming):
    take_list(trimming, [pod("x", 1, node="n")], "5")
    before, kept, listed = trimming.version, trimming.get("a", "x"), trimming.list()
    trimming.apply(event("MODIFIED", {**pod("x", 6, node="n"), "status": {"phase": "Running"}}))
    assert trimming.version == before
    assert trimming.get("a", "x") is kept
    assert trimming.list() is listed


def test_same_list_again_is_no_news(trimming):
    take_list(trimming, [pod("x", 1, node="n")], "5")
    before = trimming.version
    take_list(trimming, [pod("x", 9, node="n")], "10")
    assert trimming.version == before


def test_object_that_is_of_no_interest_any_more_is_dropped(trimming):
    take_list(trimming, [pod("x", 1, node="n"), pod("y", 1)], "5")
    assert len(trimming) == 1
    trimming.apply(event("MODIFIED", pod("x", 6)))
    assert len(trimming) == 0


@pytest.mark.parametrize("state", ["absent", "forbidden"])
def test_objects_of_what_cannot_be_had_are_dropped(store, state):
    take_list(store, [pod("x", 1)], "5")
    before = store.version
    store.mark(state, "why")
    assert (len(store), store.state, store.reason, store.list()) == (0, state, "why", ())
    assert store.version > before


def test_stale_store_keeps_its_objects(store):
    take_list(store, [pod("x", 1)], "5")
    store.mark("stale", "why")
    assert (len(store), store.state) == (1, "stale")


@pytest.mark.parametrize("state", ["waiting", "forbidden"])
def test_store_of_which_nothing_is_known_does_not_become_stale(store, state):
    store.mark(state, "one")
    store.mark("stale", "two")
    assert (store.state, store.reason) == (state, "two")


@pytest.mark.parametrize(
    "contact",
    [
        lambda store: take_list(store, [], "5"),
        lambda store: store.mark("synced"),
        lambda store: store.apply({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "6"}}}),
    ],
    ids=["list", "accepted watch", "bookmark"],
)
def test_silence_counts_from_the_last_contact(contact):
    now = [1.0]
    store = Store(RESOURCES["Pod"], clock=lambda: now[0])
    take_list(store, [], "5")
    now[0] = 100.0
    contact(store)
    now[0] = 130.0
    assert store.silent_seconds == 30.0


def test_break_of_a_watch_is_no_contact():
    now = [1.0]
    store = Store(RESOURCES["Pod"], clock=lambda: now[0])
    take_list(store, [], "5")
    now[0] = 100.0
    store.mark("stale", "the connection broke")
    assert store.silent_seconds == 99.0


@pytest.mark.parametrize(
    ("version", "than", "older"),
    [
        ("9", "10", True),
        ("10", "9", False),
        ("10", "10", False),
        ("", "10", False),
        ("x", "10", False),
        ("9", "", False),
    ],
)
def test_versions_are_compared_as_numbers(version, than, older):
    assert is_older(version, than) is older


@pytest.fixture
def often():
    """Threads take turns so often that they meet in the middle of things."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("often")
def test_list_while_another_thread_changes_the_store_is_whole(store):
    stop, failures = threading.Event(), []

    def ask():
        while not stop.is_set():
            try:
                store.list()
            except RuntimeError as error:
                failures.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    for number in range(3_000):
        item = pod(f"x-{number % 50}", number + 1, f"n-{number % 7}", number=number)
        store.apply(event("DELETED" if number % 3 == 2 else "MODIFIED", item))
    stop.set()
    asking.join()
    assert failures == []
    assert all(store.get(item["metadata"]["namespace"], item["metadata"]["name"]) is item for item in store.list())
    assert len(store.list()) == len(store)
