"""Two claims of the scheduler for one pod: the second is charged without what the first has covered."""

from functools import partialmethod

import pytest

from tests.quota.model.state import Admission, Cover
from tests.quota.model.world import World


@pytest.fixture
def world():
    """A pod with two of three GPUs, and two claims of which the second was submitted before the first was stored."""
    world = World()
    lead(world)
    store(world, world.new("Pod", ("h100", 2)))
    lead(world)
    first, second = (world.scheduled(world.seen_at(0), 0) for _ in range(2))
    submit(world, second)
    world.read_covers(world.replicas[0])
    store(world, first, replica=1)
    world.becomes(world.claims, first.uid, {"is_named": True})
    lead(world)
    return world


def lead(world):
    leader = world.leaders[0]
    leader.pods_at = leader.claims_at = len(world.history) - 1
    world.count(leader, 0)
    world.finish(leader)


def submit(world, thing, replica=0):
    world.replicas[replica].waiting.append(Admission(thing, world.now))
    go_on(world, replica)


def go_on(world, replica=0):
    world.read(world.replicas[replica], 0)
    world.answer(world.replicas[replica], "fine")


def store(world, thing, replica=0):
    submit(world, thing, replica)
    if world.replicas[replica].uncovered:
        world.read_covers(world.replicas[replica])
        go_on(world, replica)
    world.store(0, "fine")


def nothing(_monkeypatch):
    """As it is."""


def believes_an_old_cover(monkeypatch):
    monkeypatch.setattr(World, "holds", lambda *_: True)


def reads_the_cover_from_a_cache(monkeypatch):
    monkeypatch.setattr(World, "read_covers", partialmethod(World.read_covers, lag=2))


def forgets_what_other_claims_took(monkeypatch):
    amounts = Cover.amounts
    monkeypatch.setattr(Cover, "amounts", lambda cover, quota: amounts(Cover(cover.pod, []), quota))


@pytest.mark.parametrize(
    ("mistake", "gpus"),
    [
        (nothing, 2),
        (believes_an_old_cover, 4),
        (reads_the_cover_from_a_cache, 4),
        (forgets_what_other_claims_took, 4),
    ],
)
def test_second_claim_is_refused_unless_its_cover_is_wrong(world, mistake, gpus, monkeypatch):
    mistake(monkeypatch)
    go_on(world)
    world.read_covers(world.replicas[0])
    go_on(world)
    if world.coming:
        world.store(0, "fine")
    assert world.truth(world.quota)["h100"] == gpus
