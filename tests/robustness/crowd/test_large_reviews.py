"""Reviews of large objects get an answer that holds: `guard-pods` fails open, so a call without an answer passes."""

import asyncio
import gc
import io
import json
import tracemalloc

import aiohttp
import pytest

BEGINNING = '{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"0a1b-2c3d","kind":'
MANY = json.dumps([[]] * 250_000)
ESCAPED = '"' + "\\u003c" * 1_500_000 + '"'


def review_of(value, beginning=BEGINNING):
    return f'{beginning}{{"kind":"Pod"}},"operation":"CREATE","namespace":"a","object":{{"spec":{value}}}}}}}'.encode()


@pytest.fixture
async def post():
    async with aiohttp.ClientSession() as session:

        async def post(served, body, query=""):
            url = f"https://localhost:{served.port}/guard-pods{query}"
            headers = {"Content-Type": "application/json"}
            async with session.post(url, data=io.BytesIO(body), headers=headers, ssl=served.context) as answer:
                return answer.status, await answer.text()

        yield post


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (MANY, "takes more than 24 MiB once it is parsed"),
        (ESCAPED, "is larger than 8 MiB, where <, > and & take six bytes each"),
    ],
    ids=["many values", "escaped text"],
)
async def test_object_that_is_too_large_is_refused_with_an_answer(serve, post, value, what):
    status, text = await post(await serve(), review_of(value))
    response = json.loads(text)["response"]
    assert (status, response["uid"], response["allowed"]) == (200, "0a1b-2c3d", False)
    assert response["status"] == {
        "status": "Failure",
        "code": 413,
        "reason": "RequestEntityTooLarge",
        "message": f"the object is too large to be reviewed: its AdmissionReview {what}; make the object smaller",
    }


@pytest.mark.parametrize(
    ("value", "status", "sentence"),
    [
        (MANY, 400, "The body takes more than 24 MiB once it is parsed.\n"),
        (ESCAPED, 413, "The body is larger than 8 MiB; send a smaller object.\n"),
    ],
    ids=["many values", "escaped text"],
)
async def test_large_body_that_no_api_server_writes_is_turned_down(serve, post, value, status, sentence):
    assert await post(await serve(), review_of(value, BEGINNING.replace(",", ", "))) == (status, sentence)


@pytest.mark.parametrize("budget", ["_bodies", "_documents"])
async def test_review_for_which_there_is_no_memory_is_refused_with_an_answer(serve, post, budget):
    served = await serve()
    held = getattr(served.service._calls, budget)
    async with held.hold(held.most, "127.0.0.1", served.service._calls.admission.deadline("30s")):
        status, text = await post(served, review_of(json.dumps(["a"] * 20_000)), "?timeout=100ms")
    response = json.loads(text)["response"]
    assert (status, response["uid"], response["status"]["code"]) == (200, "0a1b-2c3d", 429)


HEAD = "POST /guard-pods?timeout={} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"


async def sent_in_part(connect, served, body, length, time="10s"):
    """A connection that has sent the head of a call and the beginning of its body."""
    peer = await connect(served.port, served.context)
    await peer.send(HEAD.format(time, length).encode() + body[:2048])
    return peer


async def test_review_that_is_too_large_is_refused_while_it_arrives(serve, connect):
    body = review_of(ESCAPED)
    peer = await sent_in_part(connect, await serve(), body, len(body))
    assert json.loads(await peer.whole_answer())["response"]["status"]["code"] == 413
    await peer.send(body[2048:])  # a client of Go writes on, and must not fail
    assert await peer.is_closed()


async def test_review_for_which_there_is_no_memory_is_refused_while_it_arrives(serve, connect):
    served, body = await serve(), review_of(json.dumps("x" * 1_000_000))
    held = served.service._calls._bodies
    async with held.hold(held.most, "127.0.0.1", served.service._calls.admission.deadline("30s")):
        peer = await sent_in_part(connect, served, body, len(body), "100ms")
        assert json.loads(await peer.whole_answer())["response"]["status"]["code"] == 429
    await peer.send(body[2048:])
    assert await peer.is_closed()


async def test_review_is_refused_at_once_if_too_many_wait_for_memory(serve, connect):
    served, body = await serve(), review_of(json.dumps("x" * 1_000_000))
    held = served.service._calls._bodies
    held.most_waiting = 1
    async with held.hold(held.most, "127.0.0.1", served.service._calls.admission.deadline("30s")):
        await sent_in_part(connect, served, body, len(body), "10s")
        last = await sent_in_part(connect, served, body, len(body), "10s")
        assert json.loads(await last.whole_answer())["response"]["status"]["code"] == 429
        assert len(held._waiting) == 1


async def test_review_that_does_not_arrive_in_time_is_refused_with_an_answer(serve, connect):
    body = review_of(json.dumps("x" * 1_000_000))
    peer = await sent_in_part(connect, await serve(), body, len(body), "100ms")
    assert json.loads(await peer.whole_answer())["response"]["status"]["code"] == 429


async def test_bodies_of_clients_that_hang_up_are_freed_at_once(serve, connect, until):
    served, part = await serve(), bytes(1_000_000)
    gc.disable()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(8):
            peer = await connect(served.port, served.context)
            await peer.send(HEAD.format("10s", 2_000_000).encode() + part)
            peer.abort()
        await until(lambda: not served.http_connections)
        assert tracemalloc.get_traced_memory()[0] - before < 4_000_000
    finally:
        tracemalloc.stop()
        gc.enable()


async def test_call_that_passes_unreviewed_is_counted(serve, connect):
    served = await serve()
    peer = await sent_in_part(connect, served, b" " * 100, 1_000_000, "100ms")
    assert "408" in await peer.answer()
    assert await served.metric("unreviewed_total", webhook="guard-pods") == 1


async def test_documents_that_are_reviewed_at_once_are_bounded(serve, post, until, monkeypatch):
    served = await serve()
    begun, go_on = [], asyncio.Event()

    async def answer(self, entry, body, deadline, **caller):
        begun.append(len(body))
        await go_on.wait()
        return b"{}"

    monkeypatch.setattr("webhook.server.admission.Admission.answer", answer)
    body = review_of(json.dumps([1] * 150_000))
    posts = [asyncio.create_task(post(served, body)) for _ in range(3)]
    await until(lambda: len(served.service._calls._documents._waiting) == 2)
    assert len(begun) == 1
    go_on.set()
    assert [status for status, _ in await asyncio.gather(*posts)] == [200] * 3


async def test_large_body_is_decoded_aside(serve, post, monkeypatch):
    from threading import current_thread, main_thread

    from webhook.server import admission_review

    threads = []

    def decode(body, entry, **caller):
        threads.append(current_thread() is main_thread())
        return admission_review.decode(body, entry, **caller)

    monkeypatch.setattr("webhook.server.admission.decode", decode)
    served = await serve()
    for size in (1, 200):
        status, _ = await post(served, review_of(json.dumps("x" * size * 1024)))
        assert status == 200
    assert threads == [True, False]
