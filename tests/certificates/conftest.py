"""Authorities, clients and servers that the tests of certificates share."""

import asyncio
import contextlib
import ssl
from datetime import UTC, datetime

import pytest
from aiohttp import web
from cryptography.x509.oid import NameOID

from certs import make_authority
from webhook.server.tls import peer_name


@pytest.fixture
def now():
    """The real present: OpenSSL, in the clients of these tests, asks the machine's clock."""
    return datetime.now(UTC)


@pytest.fixture(scope="session")
def authority():
    return make_authority("test authority", now=datetime.now(UTC))


@pytest.fixture(scope="session")
def client_authority():
    return make_authority("test client authority", now=datetime.now(UTC))


@pytest.fixture(scope="session")
def impostor(client_authority):
    """Another authority under the name of the one that clients are verified against."""
    name = client_authority.chain[0].subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    return make_authority(name, now=datetime.now(UTC))


@pytest.fixture
def client(authority, tmp_path):
    """Build a client's context: it trusts `authority`, checks host names, and shows a certificate if it gets one."""

    def build(pair=None, version=None, *, check_hostname=True):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=authority.certificate_pem.decode())
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        context.check_hostname = check_hostname
        if version is not None:
            context.minimum_version = context.maximum_version = version
        if pair is not None:
            path = tmp_path / "client.pem"
            path.write_bytes(pair.key_pem + pair.certificate_pem)
            context.load_cert_chain(path)
        return context

    return build


@pytest.fixture
def handshake():
    """Shake hands in memory; gives both ends, or raises what the end that refused has to say."""

    def shake(server_context, client_context, server_hostname="localhost", session=None):
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = server_context.wrap_bio(to_server, to_client, server_side=True)
        client = client_context.wrap_bio(to_client, to_server, server_hostname=server_hostname, session=session)
        unfinished = [client, server]
        for _ in range(10):
            for end in list(unfinished):
                with contextlib.suppress(ssl.SSLWantReadError):
                    end.do_handshake()
                    unfinished.remove(end)
            if not unfinished:
                break
        with contextlib.suppress(ssl.SSLWantReadError):
            client.read()  # TLS 1.3 brings session tickets behind the handshake
        return server, client

    return shake


class Connection:
    """One keep-alive connection of a client."""

    def __init__(self, reader, writer):
        self._reader, self._writer = reader, writer

    @property
    def ssl_object(self):
        return self._writer.get_extra_info("ssl_object")

    async def ask(self, path="/"):
        self._writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return (await self._reader.readexactly(length)).decode()


class Server:
    """A running server that answers `/` with its caller's name, and `/slow` when it is released."""

    def __init__(self):
        self.port = 0
        self.entered, self.release = asyncio.Event(), asyncio.Event()

    async def name(self, request):
        return web.Response(text=str(peer_name(request.transport)))

    async def slow(self, _request):
        self.entered.set()
        await self.release.wait()
        return web.Response(text="done")

    @contextlib.asynccontextmanager
    async def connect(self, client_context, server_hostname="localhost"):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=client_context, server_hostname=server_hostname
        )
        try:
            yield Connection(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()


@pytest.fixture
async def serve():
    """Start an aiohttp server with the given context on a free port of this machine."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(context):
            server = Server()
            app = web.Application()
            app.router.add_get("/", server.name)
            app.router.add_get("/slow", server.slow)
            runner = web.AppRunner(app, access_log=None)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
            await site.start()
            server.port = runner.addresses[0][1]
            return server

        yield start
