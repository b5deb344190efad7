"""One watch over a real socket."""

import asyncio
import json

import pytest

from webhook.cluster.answers import APIError, BadAnswer, Lines, LineTooLong, Silent, Unreachable


async def watched(client, **options):
    return [
        event
        async for event in client.watch("/api/v1/nodes", {"resourceVersion": "1"}, **{"read_timeout": 5.0, **options})
    ]


@pytest.fixture
def streaming(api, answers):
    """Let the next watch send these events, or bytes."""

    def send(*events):
        async def give(server, request, *, is_watch):
            return await answers.stream(request, *events)

        api.faults.append(give)

    return send


async def test_events_come_one_by_one_until_the_server_ends(client, streaming):
    events = [{"type": "ADDED", "object": {"n": number}} for number in range(3)]
    streaming(*events)
    assert await watched(client) == events


async def test_event_in_many_pieces_is_one(client, streaming):
    line = json.dumps({"type": "ADDED", "object": {"é": "x" * 3_000_000}}, ensure_ascii=False).encode()
    streaming(line[:9], line[9:20], line[20:], b"\r\n\n")
    assert await watched(client) == [json.loads(line)]


async def test_last_line_without_an_end_is_no_event(client, streaming):
    streaming({"type": "ADDED"}, b'{"type": "DELETED"}')
    assert await watched(client) == [{"type": "ADDED"}]


@pytest.mark.parametrize("line", [b"nonsense", b"[]", b'"x"', b"\xff\xfe", b"{"])
async def test_line_that_is_no_object_is_a_bad_answer(client, streaming, line):
    streaming(line + b"\n")
    with pytest.raises(BadAnswer):
        await watched(client)


async def test_refusal_to_begin_is_raised(api, client, faults):
    api.faults.append(faults.gone)
    with pytest.raises(APIError) as caught:
        await watched(client)
    assert caught.value.is_gone


async def test_page_instead_of_events_is_a_bad_answer(api, client, faults):
    api.faults.append(faults.login_page)
    with pytest.raises(BadAnswer) as caught:
        await watched(client)
    assert str(caught.value) == f"GET /api/v1/nodes at {api.url}, watching: expected JSON, got text/html"


async def test_reset_after_events_is_reported_after_them(api, client, faults):
    api.version = 0
    api.put("a"), api.put("b"), api.put("c")
    api.faults.append(faults.reset)
    seen = []

    async def read():
        async for event in client.watch("/api/v1/nodes", {"resourceVersion": "1"}, read_timeout=5.0):
            seen.append(event["object"]["metadata"]["name"])  # noqa: PERF401 - what came before the error counts

    with pytest.raises(Unreachable, match=r"the connection broke off$"):
        await read()
    assert seen == ["b"]


async def test_silence_is_an_end(api, client, answers):
    released = asyncio.Event()

    async def silent(server, request, *, is_watch):
        response = await answers.stream(request, {"type": "ADDED"}, end=False)
        await released.wait()
        return response

    api.faults.append(silent)
    with pytest.raises(Silent, match=r"nothing came for 0\.05 seconds"):
        await watched(client, read_timeout=0.05)
    released.set()


async def test_opening_is_reported_before_events(client, streaming):
    seen = []
    streaming({"type": "ADDED"})
    stream = client.watch("/api/v1/nodes", read_timeout=5.0, on_open=lambda: seen.append("open"))
    seen += [event["type"] async for event in stream]
    assert seen == ["open", "ADDED"]


def test_line_that_goes_on_and_on_is_given_up():
    lines = Lines()
    lines.feed(b"x" * 2**24)
    with pytest.raises(LineTooLong, match=r"^a line has more than 16777216 bytes$"):
        lines.feed(b"x")
