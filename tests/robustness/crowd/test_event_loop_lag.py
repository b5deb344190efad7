"""The lag of the event loop is in /metrics."""


async def test_lag_of_the_event_loop_is_measured_while_the_service_runs(serve, until):
    served = await serve()

    async def measured():
        return await served.metric("event_loop_lag_seconds_count") > 0

    await until(measured)
