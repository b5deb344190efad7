"""The pause of garbage collections while a cluster is read."""

import asyncio
import gc

import pytest

from webhook.cluster import garbage_collection
from webhook.cluster.garbage_collection import TimedCollectionPause


@pytest.fixture
def pause():
    gc.unfreeze()
    yield TimedCollectionPause()
    gc.enable()
    gc.unfreeze()


async def test_pause_ends_with_the_reading(pause):
    pause.begin()
    assert not gc.isenabled()
    pause.end(keep=True)
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0


async def test_pause_that_is_too_long_ends_without_collections_of_what_was_read(pause, monkeypatch):
    monkeypatch.setattr(garbage_collection, "_LONGEST_SECONDS", 0)
    pause.begin()
    while not gc.isenabled():  # noqa: ASYNC110 - the timer of the pause has no event
        await asyncio.sleep(0)
    assert gc.get_freeze_count() > 0


async def test_reading_that_is_given_up_excludes_nothing(pause):
    pause.begin()
    pause.end(keep=False)
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
