"""The pause of garbage collections while a cluster is read."""

import asyncio
import gc

import pytest

from webhook.cluster import sync
from webhook.cluster.sync import PausedCollector


@pytest.fixture
def collector():
    gc.unfreeze()
    yield PausedCollector()
    gc.enable()
    gc.freeze()  # as after the collection: each full one would traverse all tests


async def test_pause_ends_with_the_reading(collector):
    collector.begin()
    assert not gc.isenabled()
    collector.end(keep=True)
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0


async def test_pause_that_is_too_long_ends_without_collections_of_what_was_read(collector, monkeypatch):
    monkeypatch.setattr(sync, "_LONGEST_SECONDS", 0)
    collector.begin()
    while not gc.isenabled():  # noqa: ASYNC110 - the timer of the pause has no event
        await asyncio.sleep(0)
    assert gc.get_freeze_count() > 0


async def test_reading_that_is_given_up_excludes_nothing(collector):
    collector.begin()
    collector.end(keep=False)
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
