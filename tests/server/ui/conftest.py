"""The page's port over TLS, beside an API server that decides who sees what."""

import asyncio
import contextlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from certs import issue_serving
from policies.settings import DEFAULTS
from policies.view import PassingView
from tests.server.explain.conftest import api, clock, gate, rights  # noqa: F401
from webhook.cluster.clockwork import Clockwork
from webhook.server.explainer import Explainer
from webhook.server.guarded_connection import Endpoint
from webhook.server.guarded_site import GuardedSite, create_runner
from webhook.server.live_reports import LiveReports
from webhook.server.metrics import Metrics
from webhook.server.open_connections import ConnectionLimits, OpenConnections
from webhook.server.questions import Questions
from webhook.server.report_streams import ReportStreams, StreamTimes
from webhook.server.routed_calls import Traffic
from webhook.server.tls import server_context
from webhook.server.ui_calls import UICalls, part_maker

ADMIN, ALICE = "admin", "alice"


@pytest.fixture(autouse=True)
def users(rights):  # noqa: F811
    """The administrator sees everything; Alice sees `team-a`, without nodes."""
    rights.names = {ADMIN}
    rights.members = {(ALICE, "team-a")}


class Changing(PassingView):
    """A cluster that a test replaces by another one."""

    def become(self, view):
        self._view = view


class Stream:
    """An open stream of the report."""

    def __init__(self, response):
        self.response = response

    async def line(self):
        async with asyncio.timeout(10):
            line = await self.response.content.readline()
        return json.loads(line) if line else None

    async def until(self, key):
        """All lines up to the first one with this key."""
        lines = []
        while line := await self.line():
            lines.append(line)
            if key in line:
                return lines
        raise AssertionError(f"the stream ended without {key}: {lines}")

    async def parts(self):
        """The parts up to the next line that says which are shown."""
        return {line["part"]: line["html"] for line in await self.until("shown") if "part" in line}


@dataclass
class UI:
    """A running port."""

    port: int
    client: Any
    calls: UICalls
    metrics: Metrics
    traffic: Traffic
    reports: LiveReports
    view: Changing

    def request(self, what, user=None, namespace="", body=b"{}", **headers):
        """A call for data; it is sent when it is entered."""
        path = f"/ui/v1/{f'namespaces/{namespace}/' if namespace else ''}{what}"
        token = {} if user is None else {"Authorization": f"Bearer {user}"}
        headers = {"Content-Type": "application/json", **token, **headers}
        url = f"https://localhost:{self.port}{path}"
        return self.client.session.post(url, data=body, headers=headers, timeout=aiohttp.ClientTimeout(sock_read=30))

    @contextlib.asynccontextmanager
    async def stream(self, user=ADMIN, namespace="", **headers):
        async with self.request("report", user, namespace, **headers) as response:
            assert response.status == 200, await response.text()
            yield Stream(response)

    async def ask(self, question, user=ADMIN, namespace=""):
        async with self.request("explain", user, namespace, json.dumps(question).encode()) as response:
            return response.status, await response.text()

    async def refusal(self, what="report", **arguments):
        async with self.request(what, **arguments) as response:
            return response.status, await response.text()


@pytest.fixture
async def start_ui(cluster, authority, client_of, gate, clock):  # noqa: F811
    """Serve the page's port; what it depends on can be chosen."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(view=cluster, parts=None, audit=None, times=StreamTimes(between=0.01, beat=1e9), gate=gate):  # noqa: B008
            view, metrics, traffic = Changing(view), Metrics(), Traffic()
            questions = Questions(Explainer(view, lambda: DEFAULTS), gate, metrics)
            make_parts = parts or part_maker(view, lambda: DEFAULTS, lambda: audit)
            reports = LiveReports(view, make_parts, metrics.time_report, Clockwork(clock=clock))
            calls = UICalls(questions, ReportStreams(reports, questions, traffic, times, clock), traffic)
            runner = create_runner(calls.handle)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            pair = issue_serving(authority, ["localhost"], now=datetime.now(UTC))
            connections = OpenConnections(ConnectionLimits(), metrics.closed_by("ui"))
            endpoint = Endpoint(runner.server, connections, server_context(pair, None), frozenset())
            site = GuardedSite(runner, "127.0.0.1", 0, endpoint)
            await site.start()
            return UI(site.port, await client_of(site.port), calls, metrics, traffic, reports, view)

        yield start


@pytest.fixture
async def ui(start_ui):
    return await start_ui()
