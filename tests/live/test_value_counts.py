"""ValueCounts by change are always equal to a full count."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.conversion.preemption import gpu_holding
from policies.devices.pod_groups import names_pod_group
from policies.kubernetes.objects import lookup, name_of
from policies.kubernetes.view import UNKNOWN
from webhook.cluster.live import LiveView
from webhook.cluster.store import Listing, Store
from webhook.cluster.trimmed import store_of
from webhook.cluster.watched_kinds import watched_kinds

(PODS,) = [each for each in watched_kinds(()) if each.kind == "Pod"]
GPU = [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]


def pod(name="train", priority=0):
    return {
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"priority": priority, "preemptionPolicy": "Never", "containers": GPU},
    }


def priority_of(item):
    return lookup(item, ("spec", "priority"))


def anything(_):
    return True


def policy_of(item):
    return lookup(item, ("spec", "preemptionPolicy"))


@pytest.fixture
def store(take_list):
    made = store_of(PODS)
    take_list(made, [])
    return made


@pytest.fixture
def view(store):
    return LiveView([(PODS, store)])


def tell(store, event, item):
    store.apply({"type": event, "object": item})


def test_nothing_is_counted_before_pods_are_listed():
    assert LiveView([(PODS, store_of(PODS))]).count_each("Pod", priority_of, anything) is UNKNOWN
    assert LiveView().count_each("Pod", priority_of, anything) is UNKNOWN


def test_values_that_are_not_wanted_are_left_out(store, view):
    tell(store, "ADDED", pod("a", priority=7))
    tell(store, "ADDED", pod("b", priority=3))
    assert view.count_each("Pod", priority_of, lambda priority: priority < 5) == {3: 1}


def test_fields_that_decide_about_preemption_are_kept(store, view):
    tell(store, "ADDED", pod(priority=7))
    assert view.count_each("Pod", priority_of, anything) == {7: 1}
    assert view.count_each("Pod", policy_of, anything) == {"Never": 1}


def test_change_moves_an_object_to_another_count(store, view):
    tell(store, "ADDED", pod("a"))
    tell(store, "ADDED", pod("b"))
    assert view.count_each("Pod", priority_of, anything) == {0: 2}
    tell(store, "MODIFIED", pod("a", 5))
    assert view.count_each("Pod", priority_of, anything) == {0: 1, 5: 1}
    tell(store, "DELETED", pod("b"))
    assert view.count_each("Pod", priority_of, anything) == {5: 1}


def test_objects_are_not_looked_at_again_for_an_answer(take_list):
    seen = []

    def noted(item):
        seen.append(name_of(item))
        return 0

    store = Store(PODS.resource, counted=(noted,))
    take_list(store, [pod("a")])
    tell(store, "ADDED", pod("b"))
    assert [store.counts(noted), store.counts(noted), seen] == [{0: 2}, {0: 2}, ["a", "b"]]


def test_pods_that_hold_gpus_and_those_of_groups_are_tallied(store):
    assert store.value_counts.functions == (gpu_holding, names_pod_group)


def test_new_list_is_counted_anew(store, view, take_list):
    tell(store, "ADDED", pod("a"))
    assert view.count_each("Pod", priority_of, anything) == {0: 1}
    take_list(store, [pod("b", 3), pod("c", 3)])
    assert view.count_each("Pod", priority_of, anything) == {3: 2}


EVENTS = st.lists(
    st.tuples(st.sampled_from(["ADDED", "MODIFIED", "DELETED", "LIST"]), st.sampled_from("abc"), st.integers(0, 2)),
    max_size=20,
)


@given(EVENTS)
def test_counts_are_those_of_all_objects(events):
    store = Store(PODS.resource, counted=(priority_of,))
    for event, name, priority in events:
        if event == "LIST":
            listing = Listing(store)
            listing.add([pod(name, priority)])
            listing.finish("1")
        else:
            tell(store, event, pod(name, priority))
    assert store.counts(priority_of) == Counter(map(priority_of, store.list()))
