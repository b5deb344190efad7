"""Holders of a full quota: computed from time to time, and never waited for long."""

import threading

import pytest

from policies.rules.settings.choices import Quotas
from webhook.cluster.manifests import ManifestsView
from webhook.ledger import LedgerKey
from webhook.server.quota_keeper import HoldersSeen

QUOTA = {
    "apiVersion": "gpu-admission.io/v1alpha1",
    "kind": "GPUQuota",
    "metadata": {"name": "gpu", "namespace": "team-a"},
    "spec": {"limits": [{"name": "all", "gpus": 8}]},
}


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


class Counted(ManifestsView):
    """A view that counts how often the pods are asked for, and can hold up who asks."""

    def __init__(self, *documents):
        super().__init__(documents)
        self.asked = 0
        self.go_on = threading.Event()
        self.go_on.set()

    def list(self, kind, namespace=""):
        self.asked += kind == "Pod"
        self.go_on.wait()
        return super().list(kind, namespace)


@pytest.fixture
def view(pod):
    return Counted(QUOTA, pod(3, name="train-7"))


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def seen(view, clock):
    return HoldersSeen(view, clock=clock)


async def test_holders_are_named(seen):
    (holder,) = await seen.look(LedgerKey.of_namespace("team-a"), Quotas(), 5)
    assert (holder.name, holder.amounts) == ("team-a/train-7", {"all": 3})


async def test_what_was_found_holds_for_some_seconds(seen, view, clock):
    first = await seen.look(LedgerKey.of_namespace("team-a"), Quotas(), 5)
    clock.now += 4
    assert await seen.look(LedgerKey.of_namespace("team-a"), Quotas(), 5) == first
    assert view.asked == 1
    clock.now += 2
    await seen.look(LedgerKey.of_namespace("team-a"), Quotas(), 5)
    assert view.asked == 2


async def test_namespaces_are_looked_at_by_themselves(seen):
    assert await seen.look(LedgerKey.of_namespace("team-a"), Quotas(), 5)
    assert await seen.look(LedgerKey.of_namespace("team-b"), Quotas(), 5) == ()


async def test_call_does_not_wait_beyond_its_time_and_a_later_one_gets_the_holders(seen, view, clock):
    view.go_on.clear()
    assert await seen.look(LedgerKey.of_namespace("team-a"), Quotas(), 0) == ()
    clock.now += 60
    assert await seen.look(LedgerKey.of_namespace("team-a"), Quotas(), -1) == ()
    view.go_on.set()
    assert len(await seen.look(LedgerKey.of_namespace("team-a"), Quotas(), 5)) == 1
    assert view.asked == 1


@pytest.mark.parametrize("documents", [[], [{**QUOTA, "spec": {}}]], ids=["no-quota", "unreadable"])
async def test_quota_that_is_not_shown_has_no_holders(documents):
    assert await HoldersSeen(ManifestsView(documents)).look(LedgerKey.of_namespace("team-a"), Quotas(), 5) == ()


async def test_holders_are_empty_without_a_free_thread(seen, monkeypatch):
    def no_thread(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    assert await seen.look(LedgerKey.of_namespace("team-a"), Quotas(), 5) == ()


async def test_holders_are_empty_after_too_long_a_search(seen, view, monkeypatch):
    monkeypatch.setattr("webhook.server.quota_keeper._LONGEST_LOOK", 0)
    view.go_on.clear()
    assert await seen.look(LedgerKey.of_namespace("team-a"), Quotas(), 5) == ()
    view.go_on.set()
