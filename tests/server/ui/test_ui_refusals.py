"""Calls that get no data: of other origins, of strangers, too large, too many."""

import asyncio
import contextlib
import json
import socket

import pytest

from tests.server.ui.conftest import ADMIN, ALICE
from webhook.server.config import FEWEST, ConnectionLimits
from webhook.server.report_streams import MOST_OF_NAMESPACE, MOST_OF_USER, MOST_STREAMS

ELSEWHERE = "This call comes from another page; open /ui of this address.\n"


@pytest.mark.parametrize("what", ["report", "explain"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "https://localhost:1"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:PORT"},
        {"Origin": "https://localhost:PORT.evil.example"},
        {"Origin": "https://[::1"},
    ],
    ids=str,
)
async def test_call_of_another_origin_gets_nothing_although_it_has_a_token(ui, rights, what, headers):
    headers = {name: value.replace("PORT", str(ui.port)) for name, value in headers.items()}
    assert await ui.refusal(what, user=ADMIN, **headers) == (403, ELSEWHERE)
    assert rights.asked == []


@pytest.mark.parametrize(
    "headers", [{"Sec-Fetch-Site": "same-origin"}, {"Origin": "https://LOCALHOST:PORT"}, {}], ids=str
)
async def test_call_of_the_page_or_of_a_program_is_answered(ui, headers):
    headers = {name: value.replace("PORT", str(ui.port)) for name, value in headers.items()}
    async with ui.stream(**headers) as stream:
        await stream.line()


async def test_body_of_a_form_is_refused(ui):
    for content_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        status, sentence = await ui.refusal(user=ADMIN, **{"Content-Type": content_type})
        assert (status, sentence) == (415, f'The content type is "{content_type}"; send {{}} as application/json.\n')


@pytest.mark.parametrize(
    ("what", "body", "refusal"),
    [
        ("report", b'{"namespace": "team-a"}', (400, "The body is not {}; the report takes no options.\n")),
        ("report", b"[]", (400, "The body is not {}; the report takes no options.\n")),
        ("report", b"{", (400, "The body is not valid JSON: unexpected end of data at line 1 column 2.\n")),
        ("report", b" " * 1025, (413, "The body is larger than 1 KiB; send {}.\n")),
        ("explain", b" " * 4097, (413, "The body is larger than 4 KiB; send a kind and a name.\n")),
        (
            "explain",
            b'{"object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}}',
            (400, "The page asks about objects of the cluster; send a kind and a name.\n"),
        ),
    ],
)
async def test_other_bodies_are_refused(ui, what, body, refusal):
    assert await ui.refusal(what, user=ADMIN, body=body) == refusal


UNKNOWN = "The API server does not know the bearer token, or it has expired; get another one, as from kubectl create token NAME.\n"


@pytest.mark.parametrize("what", ["report", "explain"])
async def test_strangers_are_refused_before_their_body_is_read(ui, what, wire):
    status, sentence = await ui.refusal(what, body=b"no json")
    assert (status, sentence.split(";")[0]) == (401, "Explanations are for users of the cluster only")
    assert await ui.refusal(what, user=",", body=b"no json") == (401, UNKNOWN)
    assert (await ui.refusal(what, user="mallory", body=b"no json"))[0] == 403
    assert (await ui.refusal(what, user=ALICE, namespace="team-b", body=b"no json"))[0] == 403
    assert (await ui.refusal(what, user=ALICE, body=b"no json"))[0] == 403


async def test_token_that_is_too_long_is_refused_and_not_reviewed(ui, api):
    before = len(api.requests)
    assert await ui.refusal(user="x" * 16_385) == (
        401,
        "The bearer token is too long: the maximum is 16 KiB.\n",
    )
    assert len(api.requests) == before


async def test_header_beyond_every_limit_ends_the_connection_and_is_not_logged(ui, wire, lines):
    connection = await wire(ui.port)
    await connection.send(b"POST /ui/v1/report HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + b"x" * 70_000)
    assert (await connection.head()).startswith("HTTP/1.0 400 ")
    assert await connection.at_end()
    first, *_ = lines(level="warning")
    assert first["message"] == "turned down: The call breaks HTTP: Got more than 20480 bytes when reading"
    assert "Bearer" not in json.dumps(lines())


async def test_token_in_the_address_or_in_a_cookie_counts_for_nothing(ui):
    for headers in ({"Cookie": "token=admin; Authorization=Bearer admin"}, {"X-Authorization": "Bearer admin"}):
        assert (await ui.refusal(**headers))[0] == 401
    assert (await ui.refusal("report?access_token=admin&token=admin"))[0] == 401


@contextlib.asynccontextmanager
async def opened(ui, users, namespace="", clock=None):
    """Streams of these users, which have begun; with a clock, a second after each other: the gate checks few at once."""
    async with contextlib.AsyncExitStack() as stack:
        for user in users:
            if clock is not None:
                clock.seconds += 1
            stream = await stack.enter_async_context(ui.stream(user, namespace))
            await stream.line()
        yield


async def test_user_has_few_streams(start_ui):
    ui = await start_ui(parts=lambda *_: {"part": ""})
    async with opened(ui, [ADMIN] * MOST_OF_USER):
        assert await ui.refusal(user=ADMIN) == (429, "You have 4 reports open; close one of them.\n")
        async with opened(ui, [ALICE], "team-a"):
            pass


async def test_namespace_has_few_streams(start_ui, rights, clock):
    ui = await start_ui(parts=lambda *_: {"part": ""})
    users = [f"system:serviceaccount:team-a:{number}" for number in range(MOST_OF_NAMESPACE + 1)]
    rights.members = {(user, "team-a") for user in users} | {(ALICE, "team-b")}
    async with opened(ui, users[:-1], "team-a", clock):
        assert await ui.refusal(user=users[-1], namespace="team-a") == (
            429,
            "Users of this namespace have 8 reports open; close one of them.\n",
        )
        async with opened(ui, [ALICE], "team-b"):
            pass


async def test_users_of_namespaces_leave_room_for_others(start_ui, rights, clock):
    ui = await start_ui(parts=lambda *_: {"part": ""})
    users = [f"user-{number}" for number in range(MOST_STREAMS + 1)]
    rights.members = {(user, user) for user in users}
    async with contextlib.AsyncExitStack() as stack:
        for user in users[:-1]:
            await stack.enter_async_context(opened(ui, [user], user, clock))
        clock.seconds += 1
        assert await ui.refusal(user=users[-1], namespace=users[-1]) == (
            429,
            "At most 16 reports are shown at a time; try again later.\n",
        )
        async with opened(ui, [ADMIN]):
            pass


async def test_user_begins_streams_at_a_rate(start_ui, until, monkeypatch):
    ui = await start_ui(parts=lambda *_: {"part": ""})
    # However long the calls take, no token comes back.
    monkeypatch.setattr(ui.calls.streams._limits._rates, "_clock", lambda: 0.0)
    for _ in range(20):
        async with ui.stream() as stream:
            await stream.line()
        stream.response.close()
        await until(lambda: not len(ui.calls.streams))
    refusal = "You may open 20 reports a minute; try again in a moment.\n"
    assert await ui.refusal(user=ADMIN) == (429, refusal)


SMALLEST = ConnectionLimits(FEWEST, FEWEST)


async def test_stream_outlives_a_crowd_of_silent_connections(start_ui, clock, until):
    ui = await start_ui(parts=lambda _, now: {"part": str(now)}, limits=SMALLEST)
    async with ui.stream() as stream:
        with contextlib.ExitStack() as stack:
            await stream.parts()
            for _ in range(3 * FEWEST):
                stack.enter_context(socket.create_connection(("127.0.0.1", ui.port)))
            await until(lambda: ui.metrics._closed["ui", "address_limit"]._value.get() >= FEWEST)
            clock.seconds += 60
            assert await stream.parts()


async def test_stream_needs_room_for_its_connection(start_ui, rights, clock):
    ui = await start_ui(parts=lambda *_: {"part": ""}, limits=SMALLEST)
    users = [f"user-{number}" for number in range(FEWEST)]
    rights.members = {(user, user) for user in users}
    async with contextlib.AsyncExitStack() as stack:
        for user in users[:-1]:
            await stack.enter_async_context(opened(ui, [user], user, clock))
        clock.seconds += 1
        assert await ui.refusal(user=users[-1], namespace=users[-1]) == (
            503,
            "Too many connections are open; try again in a moment.\n",
        )


async def test_crowd_of_streams_does_not_stop_the_server(start_ui):
    ui = await start_ui(parts=lambda *_: {"part": ""})
    statuses = [status for status, _ in await asyncio.gather(*(attempt(ui) for _ in range(60)))]
    assert statuses.count(200) <= 20
    assert set(statuses) <= {200, 429}
    assert (await ui.client.get("/ui")).status == 200


async def attempt(ui):
    async with ui.request("report", ADMIN) as response:
        return response.status, await response.content.readline()


async def test_pending_pod_is_explained_by_name(start_ui, cluster):
    from webhook.cluster.manifests import ManifestsView

    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "gpu", "namespace": "team-a"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
    }
    kinds = ("DeviceClass", "Namespace", "Node", "ResourceSlice")
    ui = await start_ui(view=ManifestsView([claim, *(item for kind in kinds for item in cluster.list(kind))]))
    status, text = await ui.ask({"kind": "claim", "name": "gpu"}, ALICE, "team-a")
    assert status == 200
    html = json.loads(text)["html"]
    assert "fits" in html
    assert "gpu-a100-01" not in html
    status, text = await ui.ask({"kind": "claim", "name": "gpus", "namespace": "team-a"})
    assert (status, text) == (404, "ResourceClaim gpus in namespace team-a not found; did you mean claim/gpu?\n")
    assert (
        'gpu_admission_ui_calls_total{call="explanation",outcome="answered"} 1.0'
        in ui.metrics.exposition().text().decode()
    )
    assert 'gpu_admission_explanations_total{outcome="answered"} 1.0' in ui.metrics.exposition().text().decode()


async def test_question_about_another_namespace_is_refused(ui):
    status, text = await ui.ask({"kind": "pod", "name": "train", "namespace": "team-b"}, ALICE, "team-a")
    assert (status, text) == (400, 'The question is about namespace "team-b"; ask it at the path of that namespace.\n')
