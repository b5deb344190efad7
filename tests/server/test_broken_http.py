"""Callers that break HTTP get an answer, and the log one line."""

import asyncio
import contextlib
import json

import pytest
from aiohttp import web

from webhook.server.config import ConnectionLimits
from webhook.server.guarded_connection import Endpoint, OpenConnections
from webhook.server.guarded_site import GuardedSite, create_application_runner, protocol_factory
from webhook.server.metrics import Metrics
from webhook.server.probes import Readiness, create_probes

HEAD = b"POST /convert-pods HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture
def logged(caplog, lines):
    """What was logged of calls, once nothing of aiohttp's own, no error and no trace is among it."""
    caplog.set_level("INFO")

    def read():
        assert not [record for record in caplog.records if record.name.startswith("aiohttp")]
        assert not [record for record in caplog.records if record.exc_info or record.levelname in ("ERROR", "CRITICAL")]
        assert lines("gpu_admission.connections") == []
        return [line["message"] for line in lines(level="warning")]

    return read


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate", b"br", b"zstd", b"x"])
@pytest.mark.parametrize(
    "body",
    [b"Content-Length: 2\r\n\r\n{}", b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"],
    ids=["plain", "chunked"],
)
async def test_body_that_only_says_to_be_compressed_is_one_warning(webhook, wire, logged, encoding, body):
    connection = await wire(webhook.port)
    for _ in range(2):
        await connection.send(HEAD + b"Content-Encoding: " + encoding + b"\r\n" + body)
        assert (await connection.head()).startswith("HTTP/1.1 415 ")
    assert logged() == ["turned down: The body has a Content-Encoding; send it without compression."] * 2


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/9.9\r\n\r\n", "Bad status line"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nno header\r\n\r\n", "Invalid header token"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: secret\0\r\n\r\n", "Invalid header value char"),
        (b"GET / HTTP/1.1\r\n" + b"X: 1\r\n" * 500 + b"\r\n", "Too many headers received"),
        (HEAD + b"Content-Length: -1\r\n\r\n", "Invalid character in Content-Length"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n", "Invalid character in chunk size"),
    ],
)
async def test_broken_call_is_one_warning_without_what_was_sent(webhook, wire, logged, lines, sent, reason):
    connection = await wire(webhook.port)
    await connection.send(sent)
    assert "400 Bad Request" in await connection.head()
    assert connection.body == "400: Bad Request\n"
    assert logged() == [f"turned down: The call breaks HTTP: {reason}"]
    (line,) = lines(level="warning")
    assert line["remote"] in ("127.0.0.1", "::1")
    assert "secret" not in json.dumps(line)


async def test_broken_call_after_a_proper_one_is_one_warning(webhook, wire, logged):
    connection = await wire(webhook.port)
    await connection.send(HEAD + b"Content-Length: 2\r\n\r\n{}")
    assert (await connection.head()).startswith("HTTP/1.1 400 ")
    await connection.send(b"\x01\x02\r\n\r\n")
    assert "400 Bad Request" in await connection.head()
    assert logged()[1:] == ["turned down: The call breaks HTTP: Invalid method encountered"]


@pytest.fixture
async def answer_of():
    """Serve an application over plain HTTP, send it something, and read the answer to its end."""
    async with contextlib.AsyncExitStack() as stack:

        async def ask(app, sent):
            runner = create_application_runner(app)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            connections = OpenConnections(ConnectionLimits(), Metrics().closed_by("probes"))
            endpoint = Endpoint(protocol_factory(runner), connections, None, frozenset())
            site = GuardedSite(runner, "127.0.0.1", 0, endpoint)
            await site.start()
            reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
            with contextlib.closing(writer):
                writer.write(sent)
                answer = await reader.read()
            await writer.wait_closed()
            return answer.decode()

        yield ask


async def test_broken_probe_is_one_warning(answer_of, logged):
    probes = create_probes(Readiness([]), Metrics())
    head, _, body = (await answer_of(probes, b"GET /secret HTTP/9.9\r\n\r\n")).partition("\r\n\r\n")
    assert head.startswith("HTTP/1.0 400 Bad Request\r\n")
    assert body == "400: Bad Request\n"
    assert logged() == ["turned down: The call breaks HTTP: Bad status line"]


async def test_mistake_of_ours_is_an_error_with_its_trace(answer_of, lines):
    async def broken(request):
        raise RuntimeError("a mistake")

    app = web.Application()
    app.router.add_get("/", broken)
    answer = await answer_of(app, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert "500 Internal Server Error" in answer
    assert "a mistake" not in answer
    (line,) = lines("gpu_admission.connections", level="error")
    assert "RuntimeError: a mistake" in line["trace"]


SENT = {"proper": b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "broken": b"GET / HTTP/9.9\r\n\r\n"}


@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
async def test_answers_of_probes_name_no_software(answer_of, sent):
    answer = await answer_of(create_probes(Readiness([]), Metrics()), sent)
    assert "\r\nserver:" not in answer.partition("\r\n\r\n")[0].lower()


@pytest.mark.parametrize("port", ["port", "explain_port"])
@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
async def test_answers_of_the_webhook_and_explanations_name_no_software(webhook, wire, port, sent):
    connection = await wire(getattr(webhook, port))
    await connection.send(sent)
    assert "\r\nserver:" not in (await connection.head()).lower()
