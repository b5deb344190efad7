"""Settings for all tests."""

import faulthandler
import fcntl
import gc
import os
import time

import pytest
from hypothesis import settings

from tests.proof_summary import pytest_terminal_summary  # noqa: F401 - a hook
from tests.properties import USUAL

# A machine that is busy is slow, and no test judges by the clock. The gate tries the same examples every time, so that
# it judges the change and not its luck; `make properties` tries new ones.
settings.register_profile("house", deadline=None, max_examples=USUAL, derandomize=True)
settings.register_profile("long", deadline=None, max_examples=int(os.environ.get("FUZZ_EXAMPLES") or 3000))
settings.load_profile("house")

_STDERR = pytest.StashKey[int]()
_WATCHED_UNTIL = pytest.StashKey[float]()


def pytest_configure(config):
    config.stash[_STDERR] = os.dup(2)  # not yet redirected to what pytest captures
    # Most tests make more objects than the usual 700.
    gc.set_threshold(20_000, 10, 20)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect no garbage while tests are collected."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish(session):
    """Keep the collected tests out of garbage collections."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """Call a function with a folder, once for all processes that run tests; returns the folder."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent

    def once(name, fill):
        folder, mark = shared / name, shared / f"{name}.done"
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not mark.exists():
                folder.mkdir()
                fill(folder)
                mark.touch()
        return folder

    return once


@pytest.hookimpl(tryfirst=True)
def _end_if_it_hangs(item):
    """End the process, with the stacks of all threads, if a phase of a test takes twice the test's timeout.

    pytest-timeout raises an exception, once, in whatever the main thread runs at that moment. In a task or callback of an
    event loop nobody may get it, hypothesis takes it for a failing example and tries others, and the teardown may wait
    for what the test waited for. pytest-xdist reports the test and starts another worker.

    Every watch starts a thread. One watch serves all phases that begin while 1.5 times their timeout is left.
    """
    limit, left = _timeout_of(item), item.config.stash.get(_WATCHED_UNTIL, 0.0) - time.monotonic()
    if not limit:
        _end_watch(item.config)
    elif not 1.5 * limit <= left <= 2 * limit:
        item.config.stash[_WATCHED_UNTIL] = time.monotonic() + 2 * limit
        faulthandler.dump_traceback_later(2 * limit, exit=True, file=item.config.stash[_STDERR])


pytest_runtest_setup = pytest_runtest_call = pytest_runtest_teardown = _end_if_it_hangs


def pytest_exception_interact(node):
    _end_watch(node.config)  # as pytest has done: the next phase begins another


def pytest_sessionfinish(session):
    _end_watch(session.config)


def _end_watch(config):
    config.stash[_WATCHED_UNTIL] = 0.0
    faulthandler.cancel_dump_traceback_later()


def _timeout_of(item):
    """The seconds that pytest-timeout gives a test; 0 if there is no limit."""
    if marker := item.get_closest_marker("timeout"):
        return marker.args[0]
    chosen = item.config.getoption("timeout")
    return float(item.config.getini("timeout") or 0) if chosen is None else chosen
