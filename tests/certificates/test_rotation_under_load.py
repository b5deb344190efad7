"""Three servers under load rotate their certificates, and no handshake fails."""

import asyncio
import base64
import contextlib
import itertools
import ssl
from datetime import timedelta

import pytest

from certs.authority import refusal

ROTATIONS = 3
TICK = timedelta(seconds=30)


class Load:
    """Clients that connect again and again, each with the bundle that it saw when it last looked."""

    def __init__(self, installation, ports):
        self.installation, self.ports = installation, itertools.cycle(ports)
        self.handshakes, self.failures, self.verified = 0, [], set()

    def _context(self, kind):
        (bundle,) = {
            webhook["clientConfig"]["caBundle"] for webhook in self.installation.configuration(kind)["webhooks"]
        }
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=base64.b64decode(bundle).decode())
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    async def client(self, kind, late):
        """Handshake for ever; look at the bundle only when `late` has passed since the last time."""
        context, looked = self._context(kind), self.installation.now
        while True:
            if self.installation.now - looked >= late:
                context, looked = self._context(kind), self.installation.now
            await self.handshake(context)

    async def handshake(self, context):
        port = next(self.ports)
        try:
            async with asyncio.timeout(60):
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", port, ssl=context, server_hostname="localhost"
                )
                with contextlib.closing(writer):
                    self.verified.add(writer.get_extra_info("ssl_object").getpeercert()["serialNumber"])
                    assert await reader.read() == b"here"
                with contextlib.suppress(ConnectionError, ssl.SSLError):
                    await writer.wait_closed()
        except Exception as error:  # noqa: BLE001 - a failure of any kind is one
            self.failures.append(repr(error))
        self.handshakes += 1


async def answer(_reader, writer):
    writer.write(b"here")
    writer.close()


@pytest.fixture
async def replicas(installation):
    """Three replicas with a TLS server each, and the ports of these."""
    async with contextlib.AsyncExitStack() as stack:
        replicas, ports = [], []
        for _ in range(3):
            replica, reloading = await installation.served()
            server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=reloading.context)
            stack.push_async_callback(server.wait_closed)
            stack.callback(server.close)
            replicas.append((replica, reloading))
            ports.append(server.sockets[0].getsockname()[1])
        yield replicas, ports


@pytest.mark.timeout(180)
async def test_no_handshake_fails_while_certificates_rotate(installation, replicas):
    looking, ports = replicas
    load = Load(installation, ports)
    # The later an API server may learn of a bundle, the longer `settle` has to be; these are as late as it allows.
    latest = installation.policy.settle - 2 * installation.policy.skew - TICK
    lateness = [timedelta(0), timedelta(minutes=1), latest, latest]
    kinds = itertools.cycle(["Mutating", "Validating"])
    clients = [asyncio.create_task(load.client(kind, late)) for kind, late in zip(kinds, lateness, strict=False)]
    began = installation.state.authority
    for number in range(ROTATIONS):
        installation.ask(f"rotation {number}")
        for _ in range(12):
            before = load.handshakes
            await asyncio.gather(*[replica.look() for replica, _ in looking])
            while load.handshakes < before + len(clients):
                assert not any(client.done() for client in clients)
                await asyncio.sleep(0)
            installation.now += TICK
    for client in clients:
        client.cancel()
    await asyncio.wait(clients)
    assert load.failures == []
    assert installation.state.asked == f"rotation {ROTATIONS - 1}"
    assert len(load.verified) > ROTATIONS
    assert installation.state.authority != began
    assert {reloading.pair for _, reloading in looking} == {installation.state.leaf}
    assert all(replica.problem() == "" for replica, _ in looking)


async def test_clients_of_this_load_notice_an_unpublished_leaf(installation, replicas):
    """What the proof stands on: had the bundle come too late, its clients would have said so."""
    looking, ports = replicas
    load = Load(installation, ports)
    context = load._context("Mutating")
    installation.sandbox.remove("Secret", "gpu-admission-tls", "gpu-admission")
    stranger = installation.replica()
    leaf = await stranger.obtain()
    for _, reloading in looking:
        reloading.replace(leaf)
    await load.handshake(context)
    assert "CERTIFICATE_VERIFY_FAILED" in load.failures[0]
    assert refusal(installation.state.bundle, leaf, installation.policy.names, installation.now) == ""
