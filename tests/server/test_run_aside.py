"""Work in a thread: its result, its deadline, and the turn of the next caller."""

import asyncio
import threading

import pytest

from webhook.server.pacing import run_aside


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
