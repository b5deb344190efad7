"""Stopping a server."""

import asyncio
import contextlib
import json

import aiohttp
import pytest

from policies.rules.settings import DEFAULTS
from webhook.server.config import SelfSigned, ServerConfig
from webhook.server.service import Service


class Running:
    """A service that has started, and the means to stop it."""

    def __init__(self, service, ready, client, probes, connect):
        self.client, self.probes, self.connect = client, probes, connect
        self.port = ready.port
        self.traffic = service._calls.traffic
        self._service = service
        self._hurry = asyncio.Event()
        self.stopped = None

    async def stop(self):
        """Begin to stop, and come back when readiness has failed."""
        self.stopped = asyncio.create_task(self._service.drain(self._hurry))
        await asyncio.sleep(0)

    def hurry(self):
        self._hurry.set()


@pytest.fixture
async def start(cluster, client_of, client_context, wire):
    async with contextlib.AsyncExitStack() as stack:

        async def make(**config):
            service = Service(
                ServerConfig(certificate=SelfSigned(), port=0, probe_port=0, explain_port=0, **config),
                cluster,
                DEFAULTS,
            )
            ready = await service.start()
            stack.push_async_callback(service.close)
            context = client_context(ca=ready.ca_pem)
            client = await client_of(ready.port, context)
            probes = await client_of(ready.probe_port, context, scheme="http")
            return Running(service, ready, client, probes, lambda: wire(ready.port, context))

        yield make


@pytest.fixture
async def running(start):
    return await start(drain_delay=3600)


@pytest.fixture
def begun(pod, review_of, until):
    """Begin a call on a connection of its own; the rest of its body is what comes back, to be sent later."""

    async def begin(running):
        body = json.dumps(review_of(pod(0), "uid-slow")).encode()
        connection = await running.connect()
        head = (
            "POST /convert-pods HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        await connection.send(head.encode() + body[:10])
        await until(lambda: running.traffic.under_way)
        return connection, body[10:]

    return begin


async def test_answers_keep_the_connection_before(running, pod, review_of):
    answer = await running.client.post("/convert-pods", json.dumps(review_of(pod())).encode())
    assert "Connection" not in answer.headers


async def test_readiness_fails_at_once(running):
    assert (await running.probes.get("/readyz")).status == 200
    await running.stop()
    answer = await running.probes.get("/readyz")
    assert (answer.status, json.loads(answer.text)["reasons"]) == (503, ["the server is stopping"])
    assert (await running.probes.get("/livez")).status == 200


async def test_calls_are_answered_as_ever_and_their_connections_closed(running, pod, review_of):
    await running.stop()
    for _ in range(3):
        answer = await running.client.post("/convert-pods", json.dumps(review_of(pod())).encode())
        assert answer.response["allowed"] is True
        assert answer.headers["Connection"] == "close"


async def test_what_is_turned_down_closes_its_connection_too(running):
    await running.stop()
    assert (await running.client.get("/nowhere")).headers["Connection"] == "close"


async def test_delay_ends_when_there_is_a_hurry(running):
    await running.stop()
    running.hurry()
    await running.stopped
    with pytest.raises(aiohttp.ClientConnectorError):
        await running.client.get("/")


async def test_delay_ends_by_itself(start):
    running = await start(drain_delay=0.01)
    await running.stop()
    await running.stopped


async def test_call_under_way_is_finished(running, begun):
    connection, rest = await begun(running)
    await running.stop()
    running.hurry()
    await refused(running)
    assert not running.stopped.done()
    await connection.send(rest)
    head = await connection.head()
    assert head.startswith("HTTP/1.1 200 OK")
    assert "Connection: close" in head
    assert json.loads(connection.body)["response"] == {"uid": "uid-slow", "allowed": True}
    await running.stopped


async def refused(running):
    """Wait until no new connections are taken."""
    while True:
        try:
            await running.connect()
        except OSError:
            return


async def test_call_that_never_ends_is_cut_off(start, begun, lines):
    running = await start(drain_delay=0, drain_timeout=0.05)
    connection, _ = await begun(running)
    await running.stop()
    await running.stopped
    assert await connection.at_end()
    (warning,) = lines("gpu_admission.service", level="warning")
    assert warning["message"] == "calls are still under way after 0.05 seconds and are cut off"


async def test_idle_connections_are_closed_at_the_end(running):
    connection = await running.connect()
    await connection.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await connection.head()
    await running.stop()
    running.hurry()
    await running.stopped
    assert await connection.at_end()


async def test_steps_are_logged(running, lines):
    await running.stop()
    running.hurry()
    await running.stopped
    messages = [line["message"] for line in lines("gpu_admission.service")]
    assert messages == ["stopping: serving on for 3600 seconds", "stopped"]
