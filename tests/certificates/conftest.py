"""Authorities, clients and servers for the tests of certificates."""

import asyncio
import base64
import contextlib
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web
from cryptography.x509.oid import NameOID
from prometheus_client import CollectorRegistry

from certs import issue_serving, make_authority
from certs.rotation import RotationPolicy
from certs.secret import parse_secret
from tests.sandbox.faults import FaultySandbox
from webhook.cluster.client import APIClient
from webhook.cluster.clockwork import Clockwork
from webhook.controllers.ca_bundles import CABundles
from webhook.controllers.certificate_upkeep import ROTATE_ANNOTATION, Certificates, CertificateSecret
from webhook.controllers.metrics import CertificateMetrics
from webhook.server.tls import ReloadingContext, peer_name


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


SERVICE = "gpu-admission.gpu-admission.svc"
CONFIGURATIONS = [(f"{sort}WebhookConfiguration", "gpu-admission") for sort in ("Mutating", "Validating")]


class Installation:
    """An API server with our webhook configurations, and replicas whose clocks a test moves on."""

    def __init__(self, sandbox, api):
        self.sandbox, self.api = sandbox, api
        self.now = datetime.now(UTC)
        self.policy = RotationPolicy(
            names=("localhost", SERVICE),
            authority_life=timedelta(hours=3),
            leaf_life=timedelta(minutes=20),
            settle=timedelta(minutes=4),
            skew=timedelta(seconds=10),
        )

    def install(self):
        for kind, name in CONFIGURATIONS:
            webhooks = [
                {
                    "name": f"{entry}.gpu-admission.io",
                    "clientConfig": {"service": {"namespace": "gpu-admission", "name": "gpu-admission", "path": "/"}},
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                }
                for entry in ("one", "two")
            ]
            self.sandbox.create(
                {
                    "apiVersion": "admissionregistration.k8s.io/v1",
                    "kind": kind,
                    "metadata": {"name": name},
                    "webhooks": webhooks,
                }
            )

    def replica(self):
        self.registry = CollectorRegistry()
        clockwork = Clockwork(now=lambda: self.now, sleep=self.sleep, random=lambda: 0.0)
        return Certificates(
            CertificateSecret(self.api, "gpu-admission", "gpu-admission-tls"),
            CABundles(self.api, CONFIGURATIONS),
            self.policy,
            CertificateMetrics(self.registry),
            clockwork=clockwork,
        )

    async def sleep(self, seconds):
        self.now += timedelta(seconds=seconds)
        await asyncio.sleep(0)

    async def served(self):
        """A replica that has begun to serve."""
        replica = self.replica()
        reloading = ReloadingContext(await replica.obtain(), clock=lambda: self.now)
        replica.serve(reloading)
        await replica.look()
        return replica, reloading

    def counted(self, name, **labels):
        return self.registry.get_sample_value(f"gpu_admission_{name}", labels)

    @property
    def secret(self):
        return self.sandbox.get("Secret", "gpu-admission-tls", "gpu-admission")

    def change_secret(self, **changes):
        self.sandbox.replace({**self.secret, **changes})

    def ask(self, text):
        self.change_secret(metadata={**self.secret["metadata"], "annotations": {ROTATE_ANNOTATION: text}})

    @property
    def state(self):
        return parse_secret({key: base64.b64decode(value) for key, value in self.secret["data"].items()})

    def configuration(self, kind):
        return self.sandbox.get(f"{kind}WebhookConfiguration", "gpu-admission")

    def bundles(self):
        """Every caBundle of all configurations, each once."""
        webhooks = [webhook for kind, name in CONFIGURATIONS for webhook in self.sandbox.get(kind, name)["webhooks"]]
        return {base64.b64decode(webhook["clientConfig"].get("caBundle", "")) for webhook in webhooks}

    def overwrite(self, kind, bundle):
        configuration = self.configuration(kind)
        written = base64.b64encode(bundle).decode()
        webhooks = [
            {**webhook, "clientConfig": {**webhook["clientConfig"], "caBundle": written}}
            for webhook in configuration["webhooks"]
        ]
        self.sandbox.replace({**configuration, "webhooks": webhooks})


@pytest.fixture
async def installation(tmp_path):
    sandbox = FaultySandbox(seed=1)
    await sandbox.start()
    sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-admission"}})
    path = tmp_path / "kubeconfig"
    path.write_text(sandbox.kubeconfig())
    api = await APIClient.connect(str(path))
    installation = Installation(sandbox, api)
    installation.install()
    yield installation
    await api.close()
    await sandbox.stop()


@pytest.fixture
def first(authority, now):
    """A key pair for this machine."""
    return issue_serving(authority, ["localhost", "127.0.0.1"], now=now)


@pytest.fixture
def second(authority, now):
    """Another key pair for this machine."""
    return issue_serving(authority, ["localhost", "127.0.0.1"], now=now)
