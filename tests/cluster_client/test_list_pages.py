"""Pages of a list: the next one is prepared while one is read, and a page does not hold the event loop."""

import asyncio
import contextlib
from itertools import pairwise

from webhook.cluster.lists import raw_pages
from webhook.cluster.reflector import _AT_ONCE, Reflector
from webhook.cluster.resources import RESOURCES
from webhook.cluster.store import Store

NODE = RESOURCES["Node"]


class Pages:
    """A client that answers lists of three pages, and records its requests."""

    def __init__(self, is_slow=False):
        self.tokens = []
        self.cancelled = []
        self._is_slow = is_slow

    async def get(self, path, query, **_):
        token = query.get("continue", "")
        self.tokens.append(token)
        if token and self._is_slow:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.append(token)
                raise
        following = {"": "second", "second": "third", "third": ""}[token]
        return {
            "metadata": {"resourceVersion": "1", "continue": following},
            "items": [{"metadata": {"name": token or "first"}}],
        }


async def test_next_page_is_requested_while_the_caller_works_on_one():
    client, seen = Pages(), []
    async with contextlib.aclosing(raw_pages(client, NODE, limit=1)) as pages:
        async for page in pages:
            await asyncio.sleep(0)  # the work on a page lets other tasks run
            seen.append((page.items[0]["metadata"]["name"], [*client.tokens]))
    assert seen == [
        ("first", ["", "second"]),
        ("second", ["", "second", "third"]),
        ("third", ["", "second", "third"]),
    ]


async def test_caller_that_stops_cancels_the_request_of_the_next_page():
    client = Pages(is_slow=True)
    async with contextlib.aclosing(raw_pages(client, NODE, limit=1)) as pages:
        async for _ in pages:
            await asyncio.sleep(0)
            break
    assert client.cancelled == ["second"]
    assert len(asyncio.all_tasks()) == 1


async def test_other_tasks_run_while_a_page_is_trimmed(api, client, clock):
    for number in range(3 * _AT_ONCE):
        api.put(f"node-{number:03}")
    trimmed, moments = [], []

    def trim(item):
        trimmed.append(item)
        return item

    async def count_at_each_turn():
        while True:
            moments.append(len(trimmed))
            await asyncio.sleep(0)

    other = asyncio.create_task(count_at_each_turn())
    store = Store(NODE, trim)
    await Reflector(client, NODE, store, pace=clock.pace).turn()
    other.cancel()
    assert len(store) == 3 * _AT_ONCE
    assert max(after - before for before, after in pairwise(moments)) == _AT_ONCE
