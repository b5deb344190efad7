"""Pauses of the garbage collector that overlap."""

import gc
import threading

import pytest

from webhook.cluster import garbage_collection
from webhook.cluster.garbage_collection import CollectionPause


@pytest.fixture(autouse=True)
def enabled():
    """The collector is enabled, and stays so for other tests."""
    gc.enable()
    yield
    gc.enable()


class MeanwhileEnds:
    """The module `gc`, in which another thread ends its pause right after the question whether the collector is enabled."""

    def __init__(self):
        self._began, self._may_end = threading.Event(), threading.Event()
        self._other = threading.Thread(target=self._pause)

    def __enter__(self):
        self._other.start()
        self._began.wait()
        return self

    def __exit__(self, *_):
        self._may_end.set()
        self._other.join()

    def _pause(self):
        with CollectionPause():
            self._began.set()
            self._may_end.wait()

    def isenabled(self):
        is_enabled = gc.isenabled()
        if self._began.is_set():
            self._may_end.set()
            self._other.join(0.05)  # or until it waits for this thread
        return is_enabled

    enable, disable = staticmethod(gc.enable), staticmethod(gc.disable)


def test_collector_is_enabled_after_a_pause_that_begins_while_another_thread_ends_its_own(monkeypatch):
    collector = MeanwhileEnds()
    monkeypatch.setattr(garbage_collection, "gc", collector)
    with collector, CollectionPause():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_inner_pause_does_not_end_the_outer_one():
    with CollectionPause():
        with CollectionPause():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_pause_that_ends_first_does_not_end_one_that_began_later():
    first, second = CollectionPause(), CollectionPause()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_collector_is_enabled_after_an_error_in_a_pause():
    with pytest.raises(ValueError, match="broken"), CollectionPause():
        raise ValueError("broken")
    assert gc.isenabled()


def test_collector_that_something_enables_in_a_pause_is_enabled_after_it():
    gc.disable()
    with CollectionPause():
        gc.enable()
        with CollectionPause():
            assert not gc.isenabled()
    assert gc.isenabled()
