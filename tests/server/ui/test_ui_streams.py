"""Streams of the report: what a user sees, when something is sent, and when a stream ends."""

import asyncio
import contextlib
import itertools
import json
import socket

import pytest
from aiohttp import web

from policies.rules.settings import DEFAULTS
from tests.server.ui.conftest import ADMIN, ALICE
from webhook.cluster.manifests import ManifestsView
from webhook.server.config import SelfSigned, ServerConfig
from webhook.server.live_reports import ReportUnavailableError
from webhook.server.report_streams import StreamTimes
from webhook.server.service import Service

PARTS = ["tiles", "filters", "waiting", "summary", "nodes", "quotas", "migration", "findings"]


def numbered_parts():
    """Makes reports of two parts, one of which differs each time."""
    numbers = itertools.count(1)
    return lambda *_: {"same": "<p>same</p>", "number": f"<p>{next(numbers)}</p>"}


async def test_user_with_the_wider_right_sees_everything(ui):
    async with ui.stream() as stream:
        begin, *lines, shown = await stream.until("shown")
        assert begin == {"begin": {"user": ADMIN, "namespace": "", "seesNodes": True}}
        assert [line["part"] for line in lines] == shown["shown"] == PARTS
        assert "gpu-a100-01" in lines[4]["html"]
        assert shown["time"].endswith("Z")


async def test_user_of_a_namespace_sees_its_name_and_no_node(ui):
    async with ui.stream(ALICE, "team-a") as stream:
        begin, *lines, _ = await stream.until("shown")
        assert begin == {"begin": {"user": ALICE, "namespace": "team-a", "seesNodes": False}}
        html = "".join(line["html"] for line in lines)
        assert "nodes have GPUs. You may not list nodes, so they are not shown." in html
        assert "gpu-a100-01" not in html


async def test_user_of_a_namespace_who_may_list_nodes_sees_them(ui, rights):
    rights.node_viewers = {ALICE}
    async with ui.stream(ALICE, "team-a") as stream:
        assert "gpu-a100-01" in (await stream.parts())["nodes"]


async def test_authorizer_is_asked_the_same_as_for_explanations(ui, rights):
    async with ui.stream(ALICE, "team-a") as stream:
        await stream.parts()
    asked_by_report, rights.asked = rights.asked, []
    rights.members.add(("bob", "team-a"))
    await ui.ask({"kind": "claim", "name": "none"}, "bob", "team-a")

    def attributes(asked):
        return [{key: value for key, value in spec.items() if key.endswith("Attributes")} for spec in asked]

    assert attributes(asked_by_report) == attributes(rights.asked) != []


async def test_only_parts_that_have_changed_are_sent_again(start_ui, clock):
    ui = await start_ui(parts=numbered_parts())
    async with ui.stream() as stream:
        assert set(await stream.parts()) == {"same", "number"}
        clock.seconds += 61
        assert set(await stream.parts()) == {"number"}


async def test_change_of_the_cluster_is_sent(start_ui, cluster, clock):
    ui = await start_ui()
    async with ui.stream() as stream:
        await stream.parts()
        ui.view.become(ManifestsView([item for kind in ("Node", "DeviceClass") for item in cluster.list(kind)][:2]))
        clock.seconds += 6
        assert "summary" in await stream.parts()


async def test_part_that_is_gone_is_no_longer_shown(start_ui, clock):
    parts = {"first": "<p></p>", "second": "<p></p>"}
    ui = await start_ui(parts=lambda *_: dict(parts))
    async with ui.stream() as stream:
        await stream.parts()
        del parts["first"]
        clock.seconds += 61
        assert (await stream.until("shown"))[-1]["shown"] == ["second"]


async def test_silent_stream_has_a_beat(start_ui, clock):
    ui = await start_ui(parts=lambda *_: {"same": ""}, times=StreamTimes(between=0.01, beat=5))
    async with ui.stream() as stream:
        (*_, shown) = await stream.until("shown")
        clock.seconds += 5
        assert await stream.line() == {"beat": shown["time"]}


async def test_stream_ends_when_the_right_is_gone(ui, rights, clock):
    async with ui.stream(ALICE, "team-a") as stream:
        await stream.parts()
        rights.members.clear()
        clock.seconds += 11
        assert await stream.line() == {
            "end": "forbidden",
            "text": (
                'The user "alice" may not get gpuexplanations.gpu-admission.io in namespace team-a; an administrator allows '
                "it with kubectl create rolebinding explain -n team-a --clusterrole=gpu-admission-explain-view --user=alice."
            ),
        }
        assert await stream.line() is None


async def unauthenticated(request, handler):
    review = await request.json()
    return web.json_response({**review, "status": {"authenticated": False}}, status=201)


async def test_stream_ends_when_the_token_is_revoked(start_ui, api, clock):
    ui = await start_ui(parts=numbered_parts())
    async with ui.stream() as stream:
        await stream.parts()
        api.faults.add(unauthenticated, verb="POST", path="*/tokenreviews")
        clock.seconds += 61
        line = await stream.line()
        assert line["end"] == "unauthenticated", "a part was sent after the token was revoked"
        assert await stream.line() is None
    assert (
        'gpu_admission_ui_streams_ended_total{reason="unauthenticated"} 1.0' in ui.metrics.exposition().text().decode()
    )


async def test_slow_reader_gets_no_more_after_the_token_is_revoked(start_ui, client_context, api, clock, until):
    """One who takes half an hour for a large part must not get the rest of it."""
    ui = await start_ui(parts=lambda *_: {"large": "x" * (7 << 20)})
    async with slow_call(ui, client_context) as reader:
        await reader.readuntil(b"large")
        api.faults.add(unauthenticated, verb="POST", path="*/tokenreviews")
        clock.seconds += 61
        rest = bytearray()
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(1 << 20):
                rest += piece
    assert len(rest) < 7 << 20
    assert b"unauthenticated" not in rest
    await until(ui.metrics._stream_ends["unauthenticated"]._value.get)


@contextlib.asynccontextmanager
async def slow_call(ui, client_context):
    """A call whose answer is read through small buffers."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", ui.port))
        reader, writer = await asyncio.open_connection(
            sock=connection, ssl=client_context(), server_hostname="localhost"
        )
        writer.write(
            b"POST /ui/v1/report HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
            b"Authorization: Bearer admin\r\n\r\n{}"
        )
        yield reader
        writer.transport.abort()


async def test_nothing_is_sent_while_the_token_cannot_be_checked(start_ui, api, clock):
    ui = await start_ui(parts=numbered_parts())

    async def failing(request, handler):
        return web.json_response({}, status=500)

    async with ui.stream() as stream:
        await stream.parts()
        api.faults.add(failing, verb="POST", path="*/tokenreviews")
        clock.seconds += 61
        assert (await stream.line())["end"] == "unavailable"


async def test_stream_ends_when_the_user_may_see_something_else(ui, rights, clock):
    async with ui.stream(ALICE, "team-a") as stream:
        await stream.parts()
        rights.node_viewers = {ALICE}
        clock.seconds += 11
        assert await stream.line() == {
            "end": "changed",
            "text": "Your rights have changed; the page reloads the report.",
        }


async def test_report_that_cannot_be_made_ends_the_stream_with_the_reason(start_ui):
    def late(*_):
        raise ReportUnavailableError("Too late.")

    ui = await start_ui(parts=late)
    async with ui.stream() as stream:
        await stream.line()
        assert await stream.line() == {"end": "unavailable", "text": "Too late."}


async def test_mistake_of_ours_shows_no_traceback(start_ui, lines):
    def broken(*_):
        raise RuntimeError("secret detail")

    ui = await start_ui(parts=broken)
    async with ui.stream() as stream:
        await stream.line()
        end = await stream.line()
    (logged,) = lines(level="error")
    assert end == {
        "end": "failed",
        "text": f"The server failed; its log has the details under the id {logged['failure']}.",
    }
    assert "RuntimeError: secret detail" in logged["trace"]


async def test_streams_end_when_the_server_drains_and_none_begins(ui):
    async with ui.stream() as stream:
        await stream.parts()
        ui.traffic.drain()
        assert await stream.line() == {
            "end": "stopping",
            "text": "This replica is stopping; another one answers in a moment.",
        }
    assert await ui.traffic.wait_until_idle(10)
    assert await ui.refusal(user=ADMIN) == (503, "This replica is stopping; another one answers in a moment.\n")


async def test_stream_of_a_user_who_has_gone_ends(ui, until):
    async with ui.stream() as stream:
        await stream.parts()
        assert len(ui.calls.streams) == 1
    stream.response.close()
    await until(lambda: not len(ui.calls.streams))
    assert 'gpu_admission_ui_streams_ended_total{reason="closed"} 1.0' in ui.metrics.exposition().text().decode()


async def test_user_who_does_not_read_is_cut_off(start_ui, client_context, until):
    ui = await start_ui(parts=lambda *_: {"large": "x" * (7 << 20)}, times=StreamTimes(between=0.01, write=0.05))
    async with slow_call(ui, client_context):
        await until(ui.metrics._stream_ends["slow"]._value.get)


async def test_begin_and_end_are_lines_of_the_log(ui, lines):
    async with ui.stream(ALICE, "team-a") as stream:
        await stream.parts()
        ui.traffic.drain()
        await stream.line()
    await ui.traffic.wait_until_idle(10)
    logged = [(line["message"], line["user"], line["namespace"], line.get("reason")) for line in lines(level="info")]
    assert logged == [
        ("the report is being shown", ALICE, "team-a", None),
        ("the report is no longer shown", ALICE, "team-a", "stopping"),
    ]


@pytest.fixture
async def of_files(cluster, client_authority, tmp_path):
    """A server for a cluster in files, which knows clients by their certificates."""
    from webhook.server.config import ClientCertificates

    authority = tmp_path / "clients.pem"
    authority.write_bytes(client_authority.certificate_pem)
    service = Service(
        ServerConfig(
            certificate=SelfSigned(),
            port=0,
            probe_port=0,
            explain_port=0,
            ui_port=0,
            drain_delay=3600,
            clients=ClientCertificates(authority, frozenset(["dashboard"])),
        ),
        cluster,
        DEFAULTS,
    )
    yield service, await service.start()
    await service.close()


async def test_cluster_in_files_is_shown_to_a_named_client_until_the_server_stops(of_files, client_of, client_context):
    service, ready = of_files
    client = await client_of(ready.ui_port, client_context("dashboard", ready.ca_pem))
    url = f"https://localhost:{ready.ui_port}/ui/v1/report"
    async with client.session.post(url, json={}) as response:
        lines = []
        while "shown" not in (line := json.loads(await response.content.readline())):
            lines.append(line)
        assert lines[0]["begin"]["user"] == "dashboard"
        assert "not audited" not in lines[-1]["html"]
        hurry = asyncio.Event()
        stopping = asyncio.create_task(service.drain(hurry))
        assert json.loads(await response.content.readline())["end"] == "stopping"
        hurry.set()
    await stopping


async def test_cluster_in_files_is_not_shown_to_others(of_files, client_of, client_context):
    _, ready = of_files
    client = await client_of(ready.ui_port, client_context(ca=ready.ca_pem))
    answer = await client.post("/ui/v1/report", b"{}")
    assert answer.status == 403
