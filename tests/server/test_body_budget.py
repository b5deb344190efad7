"""The memory of bodies that arrive or wait for their review."""

import asyncio
import itertools

import pytest

from webhook.server.bodies import SMALL, BodyBudget, NoMemory
from webhook.server.turns import Deadline

LARGE = 2 * SMALL


def deadline(seconds=60.0):
    return Deadline(lambda: 0.0, 0.0, seconds)


async def hold(budget, size, entered, leave, payer="10.0.0.1"):
    async with budget.hold(size, payer, deadline()):
        entered.append(size)
        await leave.wait()


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


async def test_bodies_beyond_the_budget_wait_in_order():
    budget, entered, leave = BodyBudget(2 * LARGE), [], asyncio.Event()
    tasks = [asyncio.create_task(hold(budget, size, entered, leave)) for size in (LARGE, LARGE, LARGE - 1)]
    await settle()
    assert entered == [LARGE]
    leave.set()
    await asyncio.gather(*tasks)
    assert entered == [LARGE, LARGE, LARGE - 1]


async def test_small_body_does_not_wait():
    budget, entered, leave = BodyBudget(2 * LARGE), [], asyncio.Event()
    leave.set()
    async with budget.hold(LARGE, "10.0.0.1", deadline()):
        await hold(budget, SMALL, entered, leave)
    assert entered == [SMALL]


async def test_one_address_holds_at_most_half():
    budget, entered, leave = BodyBudget(2 * LARGE), [], asyncio.Event()
    leave.set()
    async with budget.hold(LARGE, "10.0.0.1", deadline()):
        await hold(budget, LARGE, entered, leave, payer="10.0.0.2")
        with pytest.raises(NoMemory):
            async with budget.hold(LARGE, "10.0.0.1", deadline(0)):
                pass
    assert entered == [LARGE]


async def test_address_that_holds_nothing_may_hold_more_than_half():
    budget = BodyBudget(2 * LARGE)
    async with budget.hold(2 * LARGE, "10.0.0.1", deadline()):
        pass


async def test_address_that_was_served_longest_ago_is_next():
    budget, entered, leave = BodyBudget(2 * LARGE), [], asyncio.Event()
    sizes = (2 * LARGE, 2 * LARGE - 1, 2 * LARGE - 2)
    tasks = [asyncio.create_task(hold(budget, size, entered, leave)) for size in sizes]
    tasks.append(asyncio.create_task(hold(budget, LARGE, entered, leave, payer="10.0.0.2")))
    await settle()
    leave.set()
    await asyncio.gather(*tasks)
    assert entered == [2 * LARGE, LARGE, 2 * LARGE - 1, 2 * LARGE - 2]
    assert not budget._served


async def test_all_addresses_together_hold_no_more_than_the_budget():
    budget = BodyBudget(2 * LARGE)
    async with budget.hold(LARGE, "10.0.0.1", deadline()), budget.hold(LARGE, "10.0.0.2", deadline()):
        with pytest.raises(NoMemory):
            async with budget.hold(LARGE, "10.0.0.3", deadline(0)):
                pass


async def test_address_with_the_most_waiting_bodies_gives_up_its_last():
    budget, entered, leave = BodyBudget(2 * LARGE, most_waiting=3), [], asyncio.Event()
    async with budget.hold(2 * LARGE, "10.0.0.1", deadline()):
        calls = [("10.0.0.2", LARGE), ("10.0.0.1", LARGE + 1), ("10.0.0.1", LARGE + 2), ("10.0.0.3", LARGE + 3)]
        tasks = [asyncio.create_task(hold(budget, size, entered, leave, payer)) for payer, size in calls]
        await settle()
        assert [task.done() for task in tasks] == [False, False, True, False]
        assert isinstance(tasks[2].exception(), NoMemory)
    leave.set()
    await asyncio.gather(*tasks[:2], tasks[3])
    assert sorted(entered) == [LARGE, LARGE + 1, LARGE + 3]


async def test_call_that_gives_up_for_another_leaves_the_whole_budget():
    budget, entered, leave = BodyBudget(2 * LARGE, most_waiting=1), [], asyncio.Event()
    leave.set()
    async with budget.hold(2 * LARGE, "10.0.0.1", deadline()):
        tasks = [asyncio.create_task(hold(budget, LARGE, entered, leave)) for _ in range(5)]
        await settle()
        assert [task.done() for task in tasks] == [False, True, True, True, True]
    await asyncio.gather(*tasks, return_exceptions=True)
    await hold(budget, 2 * LARGE, entered, leave, payer="10.0.0.2")
    assert entered == [LARGE, 2 * LARGE]


async def test_call_that_is_cancelled_as_it_gives_up_leaves_the_whole_budget():
    budget, entered, leave = BodyBudget(2 * LARGE, most_waiting=1), [], asyncio.Event()
    leave.set()
    async with budget.hold(2 * LARGE, "10.0.0.1", deadline()):
        first = asyncio.create_task(hold(budget, LARGE, entered, leave))
        await settle()
        second = asyncio.create_task(hold(budget, LARGE, entered, leave, payer="10.0.0.2"))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
    await second
    await hold(budget, 2 * LARGE, entered, leave, payer="10.0.0.2")
    assert entered == [LARGE, 2 * LARGE]


async def test_call_that_gets_no_memory_until_its_deadline_is_turned_down():
    budget = BodyBudget(2 * LARGE)
    async with budget.hold(LARGE, "10.0.0.1", deadline()):
        with pytest.raises(NoMemory):
            async with budget.hold(LARGE, "10.0.0.1", deadline(0)):
                pass


async def test_calls_that_give_up_together_leave_the_whole_budget():
    budget, entered, leave = BodyBudget(2 * LARGE), [], asyncio.Event()
    holding = asyncio.create_task(hold(budget, 2 * LARGE, entered, leave))
    waiting = [asyncio.create_task(hold(budget, LARGE, entered, leave, payer)) for payer in ("a", "b", "c")]
    await settle()
    for each in (holding, *waiting):
        each.cancel()
    ended = await asyncio.gather(holding, *waiting, return_exceptions=True)
    assert [type(each) for each in ended] == [asyncio.CancelledError] * 4
    async with budget.hold(2 * LARGE, "10.0.0.1", deadline()):
        pass


@pytest.mark.parametrize(("first", "second"), list(itertools.product((0, 1), (0, 1))))
async def test_cancelled_calls_leave_the_whole_budget(first, second):
    """Whether a call is cancelled while it waits, or in the step in which it is admitted."""
    budget, entered, leave = BodyBudget(2 * LARGE), [], asyncio.Event()
    holding = asyncio.create_task(hold(budget, LARGE, entered, leave))
    waiting = asyncio.create_task(hold(budget, LARGE, entered, asyncio.Event()))
    await settle()
    if first:
        leave.set()
        await asyncio.sleep(0)
    waiting.cancel()
    if second:
        holding.cancel()
    leave.set()
    await asyncio.gather(holding, waiting, return_exceptions=True)
    async with budget.hold(LARGE, "10.0.0.1", deadline(0.501)):
        entered.append("all of it")
    assert entered[-1] == "all of it"


async def test_body_without_a_length_counts_as_the_largest(webhook):
    async def trickle():
        yield b"{}"

    answer = await webhook.client.post("/convert-pods", trickle())
    assert answer.status == 400
