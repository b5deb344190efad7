"""Work in a thread: its result, its deadline, and the turn of the next caller."""

import asyncio
import gc
import threading
import weakref

import pytest

from policies.kubernetes.bounds import TooMuchWork, Work, bounded_by, check_cancelled, count_work
from webhook.server.turns import run_aside, run_spread


async def test_result_of_the_work_is_returned_and_its_end_reported():
    ended = asyncio.Event()
    assert await run_aside(lambda: 42, 10, ended.set) == 42
    await ended.wait()


async def test_end_is_reported_after_the_time_is_up_and_not_before():
    ended, go_on = asyncio.Event(), threading.Event()
    with pytest.raises(TimeoutError):
        await run_aside(go_on.wait, 0, ended.set)
    assert not ended.is_set()
    go_on.set()
    await ended.wait()


async def test_end_of_work_that_fails_is_reported():
    ended = asyncio.Event()

    def fails():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await run_aside(fails, 10, ended.set)
    await ended.wait()


async def test_end_is_reported_where_no_thread_can_be_started(monkeypatch):
    def cannot_start(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", cannot_start)
    reported = []
    with pytest.raises(RuntimeError):
        await run_aside(lambda: 42, 10, lambda: reported.append(True))
    assert reported == [True]


async def test_bounds_of_work_hold_in_the_thread():
    with pytest.raises(TooMuchWork), bounded_by(Work(9)):
        await run_aside(lambda: count_work(10), 10, lambda: None)


@pytest.mark.parametrize("step", [lambda: count_work(1), check_cancelled], ids=["counted", "check"])
async def test_work_ends_at_its_next_step_when_nobody_waits_for_it(step):
    begun, ended, go_on, steps = threading.Event(), asyncio.Event(), threading.Event(), []

    def work():
        begun.set()
        go_on.wait()
        step()
        steps.append(1)

    task = asyncio.create_task(run_spread(work, 60, ended.set))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    await asyncio.wait([task])
    go_on.set()
    await ended.wait()
    assert steps == []


class Document(dict):
    """Something that can be watched."""


async def test_failed_work_keeps_nothing_until_a_collection():
    document, gone = Document(), asyncio.Event()
    loop = asyncio.get_running_loop()
    weakref.finalize(document, loop.call_soon_threadsafe, gone.set)

    def fails(document):
        raise ValueError("no")

    async def ask(document):
        await run_spread(lambda: fails(document), 10)

    gc.disable()
    try:
        asked = ask(document)
        del document
        with pytest.raises(ValueError, match="no"):
            await asked
        del asked
        await gone.wait()
    finally:
        gc.enable()
