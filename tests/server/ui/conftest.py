"""The page's port over TLS, beside an API server that decides who sees what."""

import asyncio
import contextlib
import json

import aiohttp
import pytest

from tests.server.ui.serving import served_ui

ADMIN, ALICE = "admin", "alice"


@pytest.fixture(autouse=True)
def users(rights):
    """The administrator sees everything; Alice sees `team-a`, without nodes."""
    rights.names = {ADMIN}
    rights.members = {(ALICE, "team-a")}


class Stream:
    """An open stream of the report."""

    def __init__(self, response):
        self.response = response

    async def line(self):
        """The next line, with whole names."""
        async with asyncio.timeout(60):
            line = await self.response.content.readline()
        return json.loads(line.replace(b"<wbr>", b"")) if line else None

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


class UI:
    """A running port, and calls of it."""

    def __init__(self, served, client):
        self.port, self.calls, self.metrics = served.port, served.calls, served.metrics
        self.traffic, self.view = served.traffic, served.view
        self.client = client

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
            return response.status, (await response.text()).replace("<wbr>", "")

    async def refusal(self, what="report", **arguments):
        async with self.request(what, **arguments) as response:
            return response.status, await response.text()


@pytest.fixture
async def start_ui(cluster, authority, client_of, gate, clock):
    """Serve the page's port; what it depends on can be chosen."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(view=cluster, **options):
            served = await stack.enter_async_context(served_ui(view, gate, authority, clock, **options))
            return UI(served, await client_of(served.port))

        yield start


@pytest.fixture
async def ui(start_ui):
    return await start_ui()
