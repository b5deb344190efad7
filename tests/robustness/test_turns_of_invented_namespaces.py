"""Callers that name another namespace with each call take turns too."""

import asyncio

from webhook.server.turns import Deadline, Turns

API_SERVER, PEER = "10.0.0.1", "10.0.0.9"


def never():
    return Deadline(lambda: 0.0, 0.0, 60.0)


async def waiting(turns, order, payer):
    """Wait for a turn, note whose it was, and give it back."""
    await turns.take(payer, never())
    order.append(payer)
    turns.release()


async def test_caller_that_names_many_namespaces_goes_first_no_more_often_than_another():
    turns, order = Turns(clock=lambda: 100.0), []
    turns.charge(("team-a", API_SERVER), 0.01)  # a namespace that was never seen has more left
    await turns.take(("team-x", PEER), never())
    calls = [asyncio.create_task(waiting(turns, order, (f"made-up-{number}", PEER))) for number in range(200)]
    await asyncio.sleep(0)
    calls += [asyncio.create_task(waiting(turns, order, ("team-a", API_SERVER))) for _ in range(3)]
    await asyncio.sleep(0)
    turns.release()
    await asyncio.gather(*calls)
    assert [place for place, (_, caller) in enumerate(order) if caller == API_SERVER] == [1, 3, 5]
