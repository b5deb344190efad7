"""A webhook over TLS on a free port, real clients, and the cluster of the examples."""

import asyncio
import contextlib
import io
import json
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from certs import issue_serving, make_authority
from policies.kubernetes.view import ChangedView
from policies.rules.settings import DEFAULTS
from testbed import libyaml
from testbed.client_certificates import issue_client
from tests.sandbox.faults import FaultySandbox
from tests.server.explain.rights import OURS, Clock, Rights, delegated_gate
from webhook.cluster.manifests import ManifestsView
from webhook.server.admission import Admission
from webhook.server.app import Calls
from webhook.server.caller_limits import Callers
from webhook.server.config import ConnectionLimits
from webhook.server.explain_gate import NamedClients
from webhook.server.guarded_connection import Endpoint, OpenConnections
from webhook.server.guarded_site import GuardedSite, create_runner, protocol_factory
from webhook.server.metrics import Metrics
from webhook.server.questions import ExplainCalls, Explainer, Questions
from webhook.server.tls import server_context

EXAMPLE_CLUSTER = Path(__file__).parents[2] / "examples" / "cluster"


@pytest.fixture(scope="session")
def cluster():
    """The cluster of the examples: `team-a` converts, `team-preview` previews, `team-legacy` does neither."""
    files = sorted(EXAMPLE_CLUSTER.glob("*.yaml"))
    return ManifestsView(document for file in files for document in libyaml.load_all(file.read_text()) if document)


@pytest.fixture
def limited_cluster(cluster):
    """The cluster of the examples, where `team-a` and `team-legacy` have a GPUQuota."""
    limits = [{"name": "all", "devices": 8}]
    quotas = [
        {"metadata": {"name": "gpu", "namespace": name}, "spec": {"limits": limits}}
        for name in ("team-a", "team-legacy")
    ]
    return ChangedView(cluster, {("GPUQuota", each["metadata"]["namespace"], "gpu"): each for each in quotas})


@pytest.fixture
def pod():
    """Make a pod with one container that asks for GPUs; `gpus=0` for none."""

    def make(gpus=1, name="train", namespace="team-a", **spec):
        limits = {"cpu": "1", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
        container = {"name": "main", "image": "train:1", "resources": {"limits": limits, "requests": dict(limits)}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"containers": [container], **spec},
        }

    return make


@pytest.fixture
def review_of():
    """The AdmissionReview with which the API server asks about creating an object."""

    def make(document, uid="0a1b2c3d-0000-4000-8000-000000000001", **request):
        metadata = document.get("metadata", {})
        return {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": uid,
                "kind": {"group": "", "version": "v1", "kind": document.get("kind", "Pod")},
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "name": metadata.get("name", ""),
                "namespace": metadata.get("namespace", ""),
                "operation": "CREATE",
                "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
                "object": document,
                "oldObject": None,
                "dryRun": False,
                "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
                **request,
            },
        }

    return make


@pytest.fixture(scope="session")
def authority():
    return make_authority("test authority", now=datetime.now(UTC))


@pytest.fixture(scope="session")
def client_authority():
    return make_authority("test client authority", now=datetime.now(UTC))


@pytest.fixture
def client_context(authority, client_authority, tmp_path):
    """Build a client's TLS context: it trusts `authority`, or `ca`, and shows a certificate if it is given a name."""

    def build(common_name=None, ca=None):
        context = ssl.create_default_context(cadata=(ca or authority.certificate_pem).decode())
        if common_name is not None:
            pair = issue_client(client_authority, common_name, now=datetime.now(UTC))
            file = tmp_path / "client.pem"
            file.write_bytes(pair.key_pem + pair.certificate_pem)
            context.load_cert_chain(file)
        return context

    return build


@dataclass
class Answer:
    """What came back of a call."""

    status: int
    headers: dict
    text: str

    @property
    def response(self):
        """The `response` of the AdmissionReview, once the rest of it is as it must be."""
        assert (self.status, self.headers["Content-Type"]) == (200, "application/json")
        review = json.loads(self.text)
        assert set(review) == {"apiVersion", "kind", "response"}
        assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
        return review["response"]


class Client:
    """A client with keep-alive connections, as the API server is one."""

    def __init__(self, session, port, scheme="https"):
        self.session = session
        self.port = port
        self._base = f"{scheme}://localhost:{port}"

    async def post(self, path, body, content_type="application/json", headers=None):
        headers = {"Content-Type": content_type, **(headers or {})}
        data = io.BytesIO(body) if isinstance(body, bytes) else body
        return await self.request("POST", path, data=data, headers=headers)

    async def get(self, path):
        return await self.request("GET", path)

    async def request(self, method, path, **arguments):
        async with self.session.request(method, self._base + path, **arguments) as response:
            return Answer(response.status, dict(response.headers), await response.text())

    async def ask(self, entry, review, query="?timeout=10s"):
        """The response to a review."""
        return (await self.post(f"/{entry}{query}", json.dumps(review).encode())).response


@pytest.fixture
async def client_of(client_context):
    """Make clients of a port."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(port, context=None, scheme="https"):
            connector = aiohttp.TCPConnector(ssl=context or client_context())
            session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
            return Client(session, port, scheme)

        yield make


@dataclass
class Webhook:
    """A running webhook."""

    calls: Calls
    runner: web.ServerRunner
    port: int
    metrics: Metrics
    client: Client
    explain_calls: ExplainCalls
    explain_runner: web.ServerRunner
    explain_port: int
    explain_client: Client


@pytest.fixture
async def start_webhook(cluster, authority, client_authority, client_of):
    """Serve reviews and explanations over TLS; everything they depend on can be chosen."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(view=cluster, settings=DEFAULTS, allowed=None, gate=None, **admission):
            metrics = Metrics()
            callers = Callers(None if allowed is None else frozenset(allowed))
            calls = Calls(Admission(view, lambda: settings, metrics, **admission), callers)
            gate = gate or NamedClients(callers.allowed)
            questions = Questions(Explainer(view, lambda: settings), gate, metrics)
            explain_calls = ExplainCalls(questions, calls.traffic)
            pair = issue_serving(authority, ["localhost"], now=datetime.now(UTC))
            context = server_context(pair, None if allowed is None else client_authority.certificate_pem)

            async def listen(name, handle):
                runner = create_runner(handle)
                await runner.setup()
                stack.push_async_callback(runner.cleanup)
                connections = OpenConnections(ConnectionLimits(), metrics.closed_by(name))
                endpoint = Endpoint(protocol_factory(runner), connections, context, frozenset(allowed or ()))
                site = GuardedSite(runner, "127.0.0.1", 0, endpoint)
                await site.start()
                return runner, site.port

            runner, port = await listen("webhook", calls.handle)
            explain_runner, explain_port = await listen("explain", explain_calls.handle)
            clients = [await client_of(each) for each in (port, explain_port)]
            return Webhook(
                calls, runner, port, metrics, clients[0], explain_calls, explain_runner, explain_port, clients[1]
            )

        yield start


@pytest.fixture
async def webhook(start_webhook):
    return await start_webhook()


@pytest.fixture
def ask(webhook):
    return webhook.client.ask


@pytest.fixture
def until():
    """Let the server go on until something holds."""

    async def wait(condition):
        while not condition():  # noqa: ASYNC110 - what is waited for happens inside aiohttp, which sets no event
            await asyncio.sleep(0)

    return wait


class Wire:
    """A connection on which a test decides what is sent when."""

    def __init__(self, reader, writer):
        self._reader, self._writer = reader, writer

    async def send(self, data):
        self._writer.write(data)
        await self._writer.drain()

    async def head(self):
        """The head of the next answer, and its body read away."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
        self.body = (await self._reader.readexactly(length)).decode()
        return head

    async def told_to_continue(self):
        assert await self._reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"

    def abort(self):
        self._writer.transport.abort()

    async def at_end(self):
        return await self._reader.read() == b""


@pytest.fixture
async def wire(client_context):
    """Open connections to a port on which bytes are sent by hand."""
    async with contextlib.AsyncExitStack() as stack:

        async def connect(port, context=None):
            reader, writer = await asyncio.open_connection("localhost", port, ssl=context or client_context())

            async def close():
                writer.close()
                with contextlib.suppress(ConnectionError, ssl.SSLError):
                    await writer.wait_closed()

            stack.push_async_callback(close)
            return Wire(reader, writer)

        yield connect


@pytest.fixture
def lines(caplog):
    """What was logged, as the lines of JSON that the process would have written, parsed."""
    from webhook.server.logs import JSONFormatter

    caplog.set_level("DEBUG", logger="gpu_admission")
    formatter = JSONFormatter()

    def read(logger="gpu_admission.decisions", **wanted):
        written = [formatter.format(record) for record in caplog.records if record.name == logger]
        assert not any(len(line.splitlines()) != 1 for line in written)
        parsed = [json.loads(line) for line in written]
        return [line for line in parsed if all(line.get(key) == value for key, value in wanted.items())]

    return read


@pytest.fixture
def rights():
    return Rights()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def api(rights, authority):
    """An API server over TLS that decides who may ask."""
    server = FaultySandbox(seed=1, allows=rights)
    pair = issue_serving(authority, ["127.0.0.1"], now=datetime.now(UTC))
    await server.start(tls=pair, authority=authority.certificate_pem)
    yield server
    await server.stop()


@pytest.fixture
async def gate(api, clock, tmp_path):
    file = tmp_path / "kubeconfig"
    file.write_text(api.kubeconfig(OURS))
    async with delegated_gate(file, clock) as gate:
        yield gate
