"""The lag of the event loop in /metrics."""

import asyncio

import pytest

from webhook.server.listeners import measure_loop_lag


class Clock:
    """A clock that `sleep` moves, later than asked for by what is in `delays`; sleeping ends with these."""

    def __init__(self, delays):
        self.now = 100.0
        self._delays = iter(delays)

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        try:
            self.now += seconds + next(self._delays)
        except StopIteration:
            raise asyncio.CancelledError from None


async def lags_of(*delays):
    observed = []
    clock = Clock(delays)
    with pytest.raises(asyncio.CancelledError):
        await measure_loop_lag(observed.append, clock=clock, sleep=clock.sleep)
    return observed


async def test_lag_is_the_time_past_each_probe():
    assert await lags_of(0, 0.3, 0.007) == pytest.approx([0, 0.3, 0.007])


async def test_early_timer_is_no_lag():
    assert await lags_of(-0.001) == [0]
