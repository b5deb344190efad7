"""Starting the server: certificates, ports, and messages."""

import asyncio
import contextlib
import json
import signal
import ssl
import sys
from datetime import UTC, datetime, timedelta

import pytest

from certs import KeyPair, KeyPairFiles, issue_serving, make_authority
from policies.rules.settings import DEFAULTS
from webhook.server.config import CannotServe, ClientCertificates, SelfSigned, ServerConfig
from webhook.server.guarded_site import KEEP_ALIVE
from webhook.server.service import Service


@pytest.fixture
async def start(cluster):
    async with contextlib.AsyncExitStack() as stack:

        async def make(certificate=None, now=None, **config):
            config = ServerConfig(
                certificate=certificate or SelfSigned(), **{"port": 0, "probe_port": 0, "explain_port": 0, **config}
            )
            service = Service(config, cluster, DEFAULTS, **({"now": now} if now else {}))
            ready = await service.start()
            stack.push_async_callback(service.close)
            return service, ready

        yield make


@pytest.fixture
def files(tmp_path):
    return KeyPairFiles(tmp_path / "tls.crt", tmp_path / "tls.key")


@pytest.fixture
def put(files, authority):
    """Put a serving certificate into the files."""

    def write(now=None):
        pair = issue_serving(authority, ["localhost"], now=now or datetime.now(UTC))
        files.certificate.write_bytes(pair.certificate_pem)
        files.key.write_bytes(pair.key_pem)
        return pair

    return write


def readiness(probes):
    async def ask():
        answer = await probes.get("/readyz")
        return answer.status, json.loads(answer.text)

    return ask()


async def test_self_signed_server_is_verified_by_its_ca(start, client_of, client_context, pod, review_of):
    _, ready = await start()
    client = await client_of(ready.port, client_context(ca=ready.ca_pem))
    assert (await client.ask("convert-pods", review_of(pod())))["allowed"] is True


async def test_self_signed_server_is_not_verified_without_it(start, wire):
    _, ready = await start()
    with pytest.raises(ssl.SSLCertVerificationError):
        await wire(ready.port)


async def test_self_signed_certificate_is_for_this_machine_and_given_names(start):
    service, _ = await start(SelfSigned(("gpu-admission.gpu.svc", "localhost", "10.0.0.1")))
    assert service._certificate.reloading.pair.names == (
        "localhost",
        "gpu-admission.gpu.svc",
        "127.0.0.1",
        "::1",
        "10.0.0.1",
    )


async def test_ca_is_written(start, tmp_path):
    file = tmp_path / "ca.crt"
    _, ready = await start(SelfSigned(ca_file=file))
    assert file.read_bytes() == ready.ca_pem
    assert ready.ca_pem.startswith(b"-----BEGIN CERTIFICATE-----\n")
    assert [path.name for path in tmp_path.iterdir()] == ["ca.crt"]


async def test_certificate_from_files_is_served(start, put, files, client_of, pod, review_of):
    put()
    _, ready = await start(files)
    assert ready.ca_pem is None
    assert (await (await client_of(ready.port)).ask("convert-pods", review_of(pod())))["allowed"] is True


async def test_changed_files_are_served_and_connections_kept(start, put, files, client_of, until, pod, review_of):
    put()
    service, ready = await start(files, reload_seconds=0.01)
    client = await client_of(ready.port)
    await client.ask("convert-pods", review_of(pod()))
    changed = put()
    await until(lambda: service._certificate.reloading.pair == changed)
    await client.ask("convert-pods", review_of(pod()))
    assert len(service._listeners._runners[0].server.connections) == 1


async def test_expiry_is_a_metric(start, put, files, client_of):
    pair = put()
    _, ready = await start(files)
    text = (await (await client_of(ready.probe_port, scheme="http")).get("/metrics")).text
    (line,) = [line for line in text.splitlines() if line.startswith("gpu_admission_certificate_expiry")]
    assert float(line.split()[1]) == pair.not_after.timestamp()


async def test_expired_certificate_is_not_ready(start, put, files, client_of):
    class Clock:
        now = datetime(2026, 11, 20, tzinfo=UTC)

    made = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    authority = make_authority("a", now=made)
    pair = issue_serving(authority, ["localhost"], now=made)
    files.certificate.write_bytes(pair.certificate_pem)
    files.key.write_bytes(pair.key_pem)
    _, ready = await start(files, now=lambda: Clock.now)
    probes = await client_of(ready.probe_port, scheme="http")
    assert (await readiness(probes))[0] == 200
    Clock.now += timedelta(days=100)
    status, reported = await readiness(probes)
    assert (status, reported["reasons"]) == (503, ["the serving certificate expired at 2027-01-02T03:04:05Z"])


async def test_idle_connections_are_kept_longer_than_the_api_server_keeps_them(start, client_of, client_context):
    service, ready = await start()
    await (await client_of(ready.port, client_context(ca=ready.ca_pem))).get("/")
    (connection,) = service._listeners._runners[0].server.connections
    assert connection.keepalive_timeout == KEEP_ALIVE > 90


async def test_clients_are_verified_where_that_is_configured(
    start, tmp_path, client_authority, client_of, client_context, pod, review_of
):
    file = tmp_path / "client-ca.crt"
    file.write_bytes(client_authority.certificate_pem)
    _, ready = await start(clients=ClientCertificates(file, frozenset({"kube-apiserver"})))
    known = await client_of(ready.port, client_context("kube-apiserver", ca=ready.ca_pem))
    unknown = await client_of(ready.port, client_context(ca=ready.ca_pem))
    body = json.dumps(review_of(pod())).encode()
    assert (await known.post("/convert-pods", body)).status == 200
    assert (await unknown.post("/convert-pods", body)).status == 403
    probes = await client_of(ready.probe_port, scheme="http")
    assert (await readiness(probes))[1]["notes"] == []


async def cannot(start, *arguments, **config):
    with pytest.raises(CannotServe) as caught:
        await start(*arguments, **config)
    return str(caught.value)


async def test_missing_certificate_is_reported(start, files):
    assert await cannot(start, files) == (
        f"The certificate file {files.certificate} does not exist; mount its Secret there, or correct the path."
    )


async def test_mismatched_pair_is_reported(start, put, files):
    put()
    first = files.key.read_bytes()
    put()
    files.key.write_bytes(first)
    assert await cannot(start, files) == (
        f"The key pair in {files} cannot be used: The key does not belong to the certificate; "
        "use the key that the certificate was issued for."
    )


async def test_missing_client_ca_is_reported(start, tmp_path):
    clients = ClientCertificates(tmp_path / "none", frozenset({"x"}))
    assert await cannot(start, clients=clients) == (
        f"The client CAs in {tmp_path / 'none'} cannot be read: No such file or directory."
    )


async def test_broken_client_ca_is_reported(start, tmp_path):
    file = tmp_path / "client-ca.crt"
    file.write_bytes(b"nothing")
    reported = await cannot(start, clients=ClientCertificates(file, frozenset({"x"})))
    assert reported.startswith("The bundle of client CAs cannot be used: ")


async def test_ca_that_cannot_be_written_is_reported(start, tmp_path):
    file = tmp_path / "none" / "ca.crt"
    reported = await cannot(start, SelfSigned(ca_file=file))
    assert reported == f"The CA certificate cannot be written to {file}: No such file or directory."


@pytest.mark.parametrize("which", ["port", "probe_port"])
async def test_taken_port_is_reported_and_nothing_left_open(start, which):
    _, taken = await start()
    other = "probe_port" if which == "port" else "port"
    reported = await cannot(start, **{which: taken.port, other: 0})
    assert reported == (
        f"The server cannot listen on port {taken.port} of 127.0.0.1: Address already in use; choose another one."
    )


async def test_address_of_another_machine_is_reported(start):
    reported = await cannot(start, host="192.0.2.1")
    assert reported.startswith("The server cannot listen on port 0 of 192.0.2.1: ")


async def test_address_that_is_no_name_is_reported(start):
    reported = await cannot(start, host="x" * 64)
    assert reported.startswith(f"The server cannot listen on port 0 of {'x' * 64}: ")
    assert reported.endswith("; choose another one.")


def test_client_ca_without_names_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"^A client CA without allowed client names allows no client; name the API"):
        ClientCertificates(tmp_path / "ca.crt", frozenset())


def test_pair_is_not_shown(files, put):
    assert "PRIVATE" not in repr(KeyPair(b"a", put().key_pem))


PROCESS = """
import asyncio, json, sys
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView
from webhook.server.config import SelfSigned, ServerConfig
from webhook.server.logs import configure
from webhook.server.listeners import run
from webhook.server.service import Service

def tell(ready):
    ports = {"port": ready.port, "explain_port": ready.explain_port, "probe_port": ready.probe_port}
    print(json.dumps({**ports, "ca": ready.ca_pem.decode()}), flush=True)

configure()
config = ServerConfig(certificate=SelfSigned(), port=0, probe_port=0, explain_port=0, drain_delay=float(sys.argv[1]))
asyncio.run(run(Service(config, ManifestsView(), DEFAULTS), tell))
"""


@pytest.fixture
async def process():
    """Run the server as a process of its own."""
    started = []

    async def run(drain_delay):
        made = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            PROCESS,
            str(drain_delay),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        started.append(made)
        return made, json.loads(await made.stdout.readline())

    yield run
    for made in started:
        if made.returncode is None:
            made.kill()
            await made.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_signal_ends_the_process_with_zero(process, client_of, client_context, pod, review_of, number):
    server, reported = await process(0)
    client = await client_of(reported["port"], client_context(ca=reported["ca"].encode()))
    assert (await client.ask("place-pods", review_of(pod())))["allowed"] is True
    server.send_signal(number)
    _, log = await server.communicate()
    assert server.returncode == 0
    lines = [json.loads(line) for line in log.splitlines()]
    assert [line["message"] for line in lines] == [
        (
            f"serving on port {reported['port']}, explanations on port {reported['explain_port']}, "
            f"probes and metrics on port {reported['probe_port']}"
        ),
        "reviewed",
        "stopping: serving on for 0 seconds",
        "stopped",
    ]


async def test_process_serves_on_after_the_first_signal_and_stops_after_the_second(
    process, client_of, client_context, pod, review_of
):
    server, reported = await process(3600)
    client = await client_of(reported["port"], client_context(ca=reported["ca"].encode()))
    probes = await client_of(reported["probe_port"], scheme="http")
    server.send_signal(signal.SIGTERM)
    while (await readiness(probes))[0] != 503:
        pass
    answer = await client.post("/place-pods", json.dumps(review_of(pod())).encode())
    assert answer.response["allowed"] is True
    assert answer.headers["Connection"] == "close"
    server.send_signal(signal.SIGTERM)
    await server.communicate()
    assert server.returncode == 0
