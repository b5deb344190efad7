"""Turns: short reviews run at once, long ones in a thread and one at a time."""

import asyncio
import threading

import pytest

from webhook.server.driver import ReviewRunner
from webhook.server.turns import Busy, Deadline, Turns

HOSTILE, OTHER, THIRD = ("team-hostile", ""), ("team-a", ""), ("team-b", "")


class World:
    """Turns whose clocks move only when a test or its work says so."""

    def __init__(self):
        self.now = 100.0
        self.asides = 0
        self._worked = threading.local()
        self.turns = Turns(clock=lambda: self.now)
        self.runner = ReviewRunner(self.turns, count=self._count, work_clock=self._work_clock)
        self.threads = []

    def _count(self):
        self.asides += 1

    def _work_clock(self):
        return getattr(self._worked, "seconds", 0.0)

    def deadline(self, seconds=9.5):
        """One that begins now, by a clock that goes on."""
        loop = asyncio.get_running_loop()
        return Deadline(loop.time, loop.time(), seconds)

    def work(self, seconds, then=lambda: None):
        def work():
            self.threads.append(threading.current_thread())
            self._worked.seconds = self._work_clock() + seconds
            return then()

        return work

    async def run(self, payer, seconds, then=lambda: None):
        result = await self.runner.run(self.work(seconds, then), self.deadline(), payer)
        await asyncio.sleep(0)  # work aside is charged once its thread has ended
        return result

    def ran_at_once(self):
        return [thread is threading.main_thread() for thread in self.threads]


@pytest.fixture
def world():
    return World()


async def test_short_work_runs_at_once(world):
    for _ in range(100):
        assert await world.run(OTHER, 0.001, lambda: "done") == "done"
    assert world.ran_at_once() == [True] * 100
    assert world.asides == 0


async def test_after_long_work_a_payer_runs_aside(world):
    await world.run(HOSTILE, 0.1)
    assert await world.run(HOSTILE, 0.1, lambda: "done") == "done"
    await world.run(OTHER, 0.001)
    assert world.ran_at_once() == [True, False, True]
    assert world.asides == 1


async def test_one_longer_review_now_and_then_is_no_reason_to_run_aside(world):
    for _ in range(100):
        await world.run(OTHER, 0.02)
        world.now += 1
    assert world.ran_at_once() == [True] * 100


async def test_a_minute_later_it_runs_at_once_again(world):
    await world.run(HOSTILE, 0.1)
    world.now += 60
    await world.run(HOSTILE, 0.001)
    assert world.ran_at_once() == [True, True]


async def test_error_of_work_aside_is_raised_and_the_turn_passes_on(world):
    def broken():
        raise RuntimeError("a mistake")

    await world.run(HOSTILE, 0.1)
    with pytest.raises(RuntimeError, match="a mistake"):
        await world.run(HOSTILE, 0.1, broken)
    assert await world.run(HOSTILE, 0.1, lambda: "done") == "done"


async def test_share_is_used_up_by_half_a_second_at_once(world):
    for _ in range(200):
        await world.run(OTHER, 0.0024)
    assert not world.turns.is_used_up(OTHER)
    await world.run(OTHER, 0.12)
    assert world.turns.is_used_up(OTHER)
    assert not world.turns.is_used_up(THIRD)


async def test_share_comes_back_by_half(world):
    await world.run(OTHER, 0.5)
    world.now += 0.9  # a quarter of it has come back
    assert world.turns.is_used_up(OTHER)
    world.now += 0.2
    assert not world.turns.is_used_up(OTHER)


async def test_debt_is_bounded(world):
    await world.run(OTHER, 100)
    assert world.turns.is_used_up(OTHER)
    world.now += 3.1
    assert not world.turns.is_used_up(OTHER)


async def test_payers_whose_share_has_come_back_are_forgotten(world):
    for number in range(10_000):
        await world.run((f"team-{number}", ""), 0.001)
        world.now += 0.001
    assert len(world.turns._shares) <= 2048


async def test_payer_that_used_nothing_is_not_remembered(world):
    for number in range(3000):
        assert not world.turns.is_used_up((f"team-{number}", ""))
        assert not world.turns.runs_aside((f"team-{number}", ""))
    assert not world.turns._shares


async def test_used_share_is_not_forgotten_for_other_names(world):
    await world.run(HOSTILE, 0.6)
    for number in range(10_000):
        await world.run((f"team-{number}", ""), 0.001)
    assert world.turns.is_used_up(HOSTILE)
    assert world.turns.runs_aside(HOSTILE)
    assert not world.turns.is_used_up(OTHER)


async def test_work_aside_runs_one_at_a_time_and_the_least_used_payer_goes_first(world, until):
    for payer, seconds in ((HOSTILE, 0.4), (OTHER, 0.1), (THIRD, 0.2)):
        await world.run(payer, seconds)
    release, order = threading.Event(), []
    first = asyncio.create_task(world.run(HOSTILE, 0.01, release.wait))
    await until(lambda: len(world.threads) == 4)
    others = [
        asyncio.create_task(world.run(payer, 0.01, lambda payer=payer: order.append(payer)))
        for payer in (HOSTILE, HOSTILE, THIRD, OTHER)
    ]
    await until(lambda: sum(map(len, world.turns._waiting.values())) == 4)
    assert len(world.threads) == 4
    release.set()
    await asyncio.gather(first, *others)
    assert order == [OTHER, THIRD, HOSTILE, HOSTILE]


async def test_callers_that_come_again_and_again_do_not_keep_out_one_that_waits():
    turns, order = Turns(clock=lambda: 100.0), []

    async def turn(payer):
        await turns.take(payer, Deadline(lambda: 0.0, 0.0, 60.0))
        order.append(payer[1])

    known, first, second = ("team-a", ""), ("made-up", "10.0.0.1"), ("made-up", "10.0.0.2")
    await turn(first)
    tasks = [asyncio.create_task(turn(payer)) for payer in (known, known, second)]
    await asyncio.sleep(0)
    for payer in (first, second, first, second):
        turns.release()
        await asyncio.sleep(0)  # whose turn it is goes on
        tasks.append(asyncio.create_task(turn(payer)))
        await asyncio.sleep(0)
    for _ in range(3):
        turns.release()
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert order == ["10.0.0.1", "", "10.0.0.2", "", "10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.2"]


async def test_turn_that_would_come_too_late_is_refused(world, until):
    await world.run(HOSTILE, 0.1)
    release = threading.Event()
    first = asyncio.create_task(world.run(HOSTILE, 0.01, release.wait))
    await until(lambda: len(world.threads) == 2)
    with pytest.raises(Busy):
        await world.runner.run(world.work(0.01), world.deadline(0.5), HOSTILE)
    assert world.asides == 1
    assert world.turns._waiting == {}
    release.set()
    await first


async def test_cancelled_wait_leaves_the_queue(world, until):
    await world.run(HOSTILE, 0.1)
    release = threading.Event()
    first = asyncio.create_task(world.run(HOSTILE, 0.01, release.wait))
    await until(lambda: len(world.threads) == 2)
    second = asyncio.create_task(world.run(HOSTILE, 0.01))
    await until(lambda: world.turns._waiting)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    assert world.turns._waiting == {}
    release.set()
    await first
    await world.run(HOSTILE, 0.01, lambda: "done")


async def test_turn_given_to_a_waiter_that_is_cancelled_at_that_moment_passes_on(world, until):
    await world.run(HOSTILE, 0.1)
    release = threading.Event()
    first = asyncio.create_task(world.run(HOSTILE, 0.01, release.wait))
    await until(lambda: len(world.threads) == 2)
    second = asyncio.create_task(world.run(HOSTILE, 0.01))
    third = asyncio.create_task(world.run(HOSTILE, 0.01, lambda: "done"))
    await until(lambda: sum(map(len, world.turns._waiting.values())) == 2)
    world.turns.release()  # as the end of the first one would
    second.cancel()
    assert await third == "done"
    release.set()
    await asyncio.gather(first, second, return_exceptions=True)


async def test_turn_is_not_given_to_a_waiter_that_was_cancelled_just_before(world, until):
    await world.run(HOSTILE, 0.1)
    release = threading.Event()
    first = asyncio.create_task(world.run(HOSTILE, 0.01, release.wait))
    await until(lambda: len(world.threads) == 2)
    second = asyncio.create_task(world.run(HOSTILE, 0.01))
    third = asyncio.create_task(world.run(HOSTILE, 0.01, lambda: "done"))
    await until(lambda: sum(map(len, world.turns._waiting.values())) == 2)
    second.cancel()
    world.turns.release()  # as the end of the first one would, before the second task runs again
    assert await third == "done"
    release.set()
    await asyncio.gather(first, second, return_exceptions=True)
    assert world.turns._waiting == {}
