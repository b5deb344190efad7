"""A service as `gpu-admission serve` runs it, and many connections to it."""

import asyncio
import contextlib
import inspect
import ssl
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from policies.rules.settings import DEFAULTS
from testbed import libyaml
from webhook.cluster.manifests import ManifestsView
from webhook.server.config import SelfSigned, ServerConfig
from webhook.server.service import Service

EXAMPLE_CLUSTER = Path(__file__).parents[3] / "examples" / "cluster"


@pytest.fixture(scope="session")
def cluster():
    """The cluster of the examples: `team-a` converts."""
    files = sorted(EXAMPLE_CLUSTER.glob("*.yaml"))
    return ManifestsView(document for file in files for document in libyaml.load_all(file.read_text()) if document)


class Served:
    """A service that answers calls."""

    def __init__(self, service, ready, session):
        self.service, self.port, self.probe_port = service, ready.port, ready.probe_port
        self.explain_port = ready.explain_port
        self.context = ssl.create_default_context(cadata=ready.ca_pem.decode())
        self._session = session

    @property
    def open_connections(self):
        """How many connections the webhook's port has open."""
        return len(self.service._listeners._open["webhook"])

    @property
    def http_connections(self):
        """How many of them have come to HTTP."""
        return len(self.service._listeners._runners[0].server.connections)

    async def closed(self, reason):
        """How many connections of the webhook's port were closed by a limit."""
        return await self.metric("connections_closed_total", port="webhook", reason=reason)

    async def metric(self, name, **labels):
        """The value of one sample of /metrics."""
        async with self._session.get(f"http://127.0.0.1:{self.probe_port}/metrics") as response:
            families = text_string_to_metric_families(await response.text())
        (value,) = [
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == f"gpu_admission_{name}" and sample.labels == labels
        ]
        return value


@pytest.fixture
async def serve(cluster):
    """Start services, and close them in the end."""
    async with contextlib.AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())

        async def start(view=cluster, **config):
            config = {"certificate": SelfSigned(), "port": 0, "probe_port": 0, "explain_port": 0, **config}
            service = Service(ServerConfig(**config), view, DEFAULTS)
            stack.push_async_callback(service.close)
            return Served(service, await service.start(), session)

        yield start


class Peer:
    """One connection, on which a test decides what is sent when."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    def abort(self):
        """Close the connection without the end of TLS."""
        self.writer.transport.abort()

    async def ask(self):
        """Send a whole request, and return the head of its answer."""
        await self.send(WHOLE)
        return await self.answer()

    async def answer(self):
        """The head of the next answer, without its body."""
        head, _ = await self._next_answer()
        return head

    async def whole_answer(self):
        """The body of the next answer."""
        _, body = await self._next_answer()
        return body

    async def _next_answer(self):
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
        return head, await self.reader.readexactly(length)

    async def is_closed(self):
        """Wait for the end of the connection; true if nothing came before it."""
        try:
            return await self.reader.read() == b""
        except ConnectionError:
            return True


WHOLE = b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture
async def connect():
    """Open connections to a port, over TLS with a context."""
    async with contextlib.AsyncExitStack() as stack:

        async def opened(port, context=None, source="127.0.0.1"):
            server_hostname = "localhost" if context else None
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=context, server_hostname=server_hostname, local_addr=(source, 0)
            )

            async def close():
                writer.transport.abort()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()

            stack.push_async_callback(close)
            return Peer(reader, writer)

        yield opened


@pytest.fixture
def until():
    """Let the server go on until something holds."""

    async def wait(condition):
        # What is waited for happens inside the server, which sets no event.
        while not (await held if inspect.isawaitable(held := condition()) else held):  # noqa: ASYNC110
            await asyncio.sleep(0)

    return wait
