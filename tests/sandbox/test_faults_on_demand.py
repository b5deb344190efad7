"""Faults on demand."""

import asyncio
import contextlib

import aiohttp
import pytest
from aiohttp import web

from tests.sandbox.faults import (
    Faults,
    FaultySandbox,
    conflict,
    dropped,
    expired_watch,
    failing,
    gone,
    half_open,
    html,
    latency,
    too_many,
)

PODS = "/api/v1/namespaces/team-a/pods"


@pytest.fixture
def faults():
    return Faults()


@pytest.fixture
def feed():
    """What the watches of the server tell next."""
    return asyncio.Queue()


@pytest.fixture
async def ask(faults, feed):
    """Ask a server that answers `ok`, and whose watches tell what is fed."""

    async def serve(request):
        if "watch" not in request.query:
            return web.Response(text="ok")
        response = web.StreamResponse()
        await response.prepare(request)
        while line := await feed.get():
            await response.write(line)
        return response

    app = web.Application(middlewares=[faults.middleware])
    app.router.add_route("*", "/{path:.*}", serve)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{site.port}") as session:
        yield lambda path=PODS, method="GET", **more: session.request(method, path, **more)
    faults.clear()
    await runner.cleanup()


async def status_of(request):
    async with request as response:
        return response.status


async def test_without_faults_nothing_happens(ask):
    assert await status_of(ask()) == 200


@pytest.mark.parametrize(
    ("effect", "code", "reason", "details"),
    [
        pytest.param(conflict(), 409, "Conflict", None, id="conflict"),
        pytest.param(too_many(3), 429, "TooManyRequests", {"retryAfterSeconds": 3}, id="too many"),
        pytest.param(failing(), 500, "InternalError", None, id="failing"),
        pytest.param(failing(503), 503, "ServiceUnavailable", None, id="unavailable"),
        pytest.param(gone(), 410, "Expired", None, id="gone"),
    ],
)
async def test_an_error_is_a_status(faults, ask, effect, code, reason, details):
    faults.add(effect)
    async with ask() as response:
        status = await response.json()
        assert (response.status, status["code"], status["reason"], status.get("details")) == (
            code,
            code,
            reason,
            details,
        )


async def test_too_many_says_when_to_come_again(faults, ask):
    faults.add(too_many(retry_after=2))
    async with ask() as response:
        assert response.headers["Retry-After"] == "2"


async def test_html_is_no_json(faults, ask):
    faults.add(html())
    async with ask() as response:
        assert (response.status, response.content_type) == (502, "text/html")


async def test_a_fault_is_over_after_its_number_of_requests(faults, ask):
    fault = faults.add(conflict(), count=2)
    assert [await status_of(ask()) for _ in range(3)] == [409, 409, 200]
    assert fault.hits == 2


@pytest.mark.parametrize(
    ("where", "befallen"),
    [
        pytest.param({"verb": "GET"}, True, id="verb"),
        pytest.param({"verb": "POST"}, False, id="another verb"),
        pytest.param({"verb": "WATCH"}, False, id="no watch"),
        pytest.param({"path": "*/pods"}, True, id="path"),
        pytest.param({"path": "/api/v1/nodes"}, False, id="another path"),
        pytest.param({"when": lambda request: "x" in request.query}, False, id="a condition"),
    ],
)
async def test_a_fault_befalls_what_it_is_meant_for(faults, ask, where, befallen):
    faults.add(conflict(), **where)
    assert await status_of(ask()) == (409 if befallen else 200)


async def test_a_watch_is_no_get(faults, ask, feed):
    faults.add(conflict(), verb="GET")
    feed.put_nowait(b"")
    assert await status_of(ask(params={"watch": "1"})) == 200


async def test_the_first_of_several_faults_counts(faults, ask):
    faults.add(conflict(), count=1)
    faults.add(gone(), count=1)
    assert [await status_of(ask()) for _ in range(3)] == [409, 410, 200]


async def test_a_fault_that_is_removed_is_over(faults, ask):
    faults.remove(faults.add(conflict()))
    assert await status_of(ask()) == 200


async def test_latency_comes_before_the_answer(faults, ask, monkeypatch):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr("tests.sandbox.faults.asyncio.sleep", sleep)
    faults.add(latency(5))
    assert (await status_of(ask()), slept) == (200, [5])


async def test_a_dropped_request_gets_no_answer(faults, ask):
    faults.add(dropped())
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await status_of(ask(method="POST"))


@contextlib.asynccontextmanager
async def watching(ask, feed):
    """A watch that has told one line already."""
    async with ask(params={"watch": "true"}) as response:
        feed.put_nowait(b"one\n")
        assert await response.content.readline() == b"one\n"
        yield response.content


async def test_a_watch_goes_on_without_faults(ask, feed):
    async with watching(ask, feed) as lines:
        feed.put_nowait(b"two\n")
        feed.put_nowait(b"")
        assert await lines.read() == b"two\n"


async def test_an_open_watch_can_be_dropped(faults, ask, feed):
    async with watching(ask, feed) as lines:
        assert faults.drop_watches("*/pods") == 1
        with pytest.raises(aiohttp.ClientError):
            await lines.readline()


async def test_an_open_watch_elsewhere_is_not_dropped(faults, ask, feed):
    async with watching(ask, feed):
        assert faults.drop_watches("*/nodes") == 0
        feed.put_nowait(b"")


async def test_a_stalled_watch_is_silent_and_stays_open_until_faults_end(faults, ask, feed):
    async with watching(ask, feed) as lines:
        assert faults.stall_watches() == 1
        feed.put_nowait(b"two\n")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await lines.readline()
        faults.clear()
        with pytest.raises(aiohttp.ClientError):
            await lines.readline()


async def test_a_half_open_watch_begins_and_says_nothing(faults, ask):
    faults.add(half_open(), verb="WATCH")
    async with ask(params={"watch": "1"}) as response:
        assert response.status == 200
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await response.content.readline()


async def test_a_watch_can_expire_by_an_event(faults, ask):
    faults.add(expired_watch(), verb="WATCH")
    async with ask(params={"watch": "1"}) as response:
        event = await response.json(content_type=None)
        assert (response.status, event["type"], event["object"]["code"]) == (200, "ERROR", 410)


async def test_stopping_a_sandbox_ends_all_faults():
    sandbox = FaultySandbox()
    sandbox.faults.add(failing())
    await sandbox.start()
    await sandbox.stop()
    await sandbox.start()
    async with aiohttp.ClientSession(sandbox.url) as session, session.get("/version") as response:
        assert response.status == 200
    await sandbox.stop()
