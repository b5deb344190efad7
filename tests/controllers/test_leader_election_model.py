"""Model test: with any failures of calls and clocks, two candidates never lead at once, and one leads without failures."""

import asyncio
import contextlib

from hypothesis import given
from hypothesis import strategies as st

from webhook.cluster.answers import APIError, Unreachable
from webhook.controllers.elector import Elector, Timing

# With the clocks below, `renew` may be up to 0.95 / 1.05 of `lease`.
timings = st.sampled_from([Timing(), Timing(lease=15, renew=13.5, retry=2), Timing(lease=30, renew=20, retry=2)])
STORM = 150.0
"""Seconds in which everything can go wrong."""
CALM = 60.0
"""Seconds in which all is well again."""

delays = st.sampled_from([0.0, 0.01, 1.0, 3.0, 4.9, 5.1, 9.0, 14.0, 20.0, 40.0])
fates = st.one_of(
    st.just(("well", 0.0, 0.0)),
    st.tuples(st.sampled_from(["well", "refused", "lost", "answer lost", "late"]), delays, delays),
)
clocks = st.fixed_dictionaries(
    {
        "offset": st.floats(-1e5, 1e5),
        "rate": st.floats(0.95, 1.05),
        "random": st.floats(0, 0.99).map(lambda x: lambda: x),
    }
)
troubles = st.lists(
    st.tuples(st.floats(0, STORM), st.sampled_from(["crash a", "crash b", "stop a", "stop b", "delete"])), max_size=6
)


class Weather:
    """What becomes of each call of one candidate, in turn; well when nothing is said of it."""

    def __init__(self, client, fates):
        self.client, self.fates = client, iter(fates)
        self.on_the_way = set()

    def __getattr__(self, method):
        async def call(*arguments, **options):
            return await self._call(getattr(self.client, method), arguments, options)

        return call

    async def _call(self, act, arguments, options):
        loop = asyncio.get_running_loop()
        fate, before, after = next(self.fates, ("well", 0.0, 0.0)) if loop.time() < STORM else ("well", 0.0, 0.0)
        if fate == "late":
            # On its way for long; it arrives although nobody waits for it any more.
            arrival = asyncio.create_task(self._arrive(before, act, arguments, options))
            self.on_the_way.add(arrival)
            await asyncio.sleep(after)
            raise Unreachable("timed out")
        await asyncio.sleep(before)
        if fate == "refused":
            raise APIError(500, "InternalError", "etcd has no leader")
        if fate == "lost":
            raise Unreachable("connection refused")
        answer = await act(*arguments, **options)
        await asyncio.sleep(after)
        if fate == "answer lost":
            raise Unreachable("connection reset")
        return answer

    async def _arrive(self, delay, act, arguments, options):
        await asyncio.sleep(delay)
        with contextlib.suppress(APIError):
            await act(*arguments, **options)


class World:
    """Candidates that lead, are stopped, crash and come back."""

    def __init__(self, server, make):
        self.server, self.make = server, make
        self.leading, self.overlaps, self.runs = set(), [], {}

    def start(self, name, life=1):
        identity = f"{name}-{life}"
        self.runs[name] = (asyncio.create_task(self.make(name, identity, lambda: self._term(identity)).run()), life)

    async def _term(self, identity):
        self.leading.add(identity)
        if len(self.leading) > 1:
            self.overlaps.append((asyncio.get_running_loop().time(), set(self.leading)))
        try:
            await asyncio.Event().wait()
        finally:
            self.leading.discard(identity)

    async def suffer(self, trouble):
        what, _, name = trouble.partition(" ")
        if what == "delete":
            self.server.delete()
            return
        task, life = self.runs[name]
        if what == "crash":
            # Nothing is given back.
            task.cancel()
            while not task.done():
                task.cancel()
                await asyncio.sleep(0)
        else:
            task.cancel()
            await asyncio.wait({task})
        self.start(name, life + 1)

    async def end(self):
        for task, _ in self.runs.values():
            task.cancel()
        await asyncio.wait([task for task, _ in self.runs.values()])


@given(
    fates=st.tuples(st.lists(fates, max_size=60), st.lists(fates, max_size=60)),
    times=st.tuples(clocks, clocks),
    troubles=troubles,
    timing=timings,
)
def test_two_candidates_never_lead_at_once(
    in_virtual_time, new_server, new_client, clockwork, fates, times, troubles, timing
):
    async def story():
        server = new_server()
        ways = {name: Weather(new_client(server), fate) for name, fate in zip("ab", fates, strict=True)}
        clocks = {name: clockwork(**time) for name, time in zip("ab", times, strict=True)}
        loop = asyncio.get_running_loop()

        def make(name, identity, on_lead):
            place = ("gpu-admission", "leader")
            return Elector(ways[name], place, identity, on_lead, timing=timing, clockwork=clocks[name])

        world = World(server, make)
        world.start("a")
        world.start("b")
        for moment, trouble in sorted(troubles):
            await asyncio.sleep(max(0.0, moment - loop.time()))
            await world.suffer(trouble)
        await asyncio.sleep(max(0.0, STORM + CALM - loop.time()))
        assert world.overlaps == []
        assert len(world.leading) == 1
        await world.end()

    in_virtual_time(story())
