"""Replicas that send charges to each other over TLS, beside an API server in memory."""

import asyncio
import contextlib
from collections import Counter
from datetime import UTC, datetime

import pytest

from tests.ledger.conftest import TEAM_A
from webhook.cluster.client import APIClient
from webhook.controllers.presence import Presence
from webhook.controllers.replica import Peers
from webhook.controllers.replica_config import ReplicaConfig
from webhook.ledger.forwarding_writer import ForwardingWriter, owner_of
from webhook.server.listeners import Listeners
from webhook.server.metrics import Metrics
from webhook.server.probes import Readiness

NAMESPACE = "team-a"


class Replica:
    """One replica without a webhook: its Lease, its links, its writer, and the port for the others."""

    def __init__(self, client, sandbox, identity):
        config = ReplicaConfig(host="127.0.0.1", peer_host="127.0.0.1", peer_port=0)
        self.client, self.identity = client, identity
        self.answers = Counter()
        self.is_blind = False
        """Whether its watch shows no GPUQuota."""
        self.peers = Peers(client, config, identity, datetime.now(UTC))
        self.listeners = Listeners(config, Readiness([]), Metrics())
        self.writer = ForwardingWriter(
            client,
            identity,
            self.peers.links,
            lambda key: None if self.is_blind else sandbox.get(key.kind, key.name, key.namespace),
            count=lambda answer: self.answers.update([answer]),
        )
        self.presence = Presence(client, "gpu-admission", identity, dict, annotations=lambda: self.peers.annotations)
        self._watching = None

    async def start(self):
        await self.peers.listen(self.listeners, self.writer)
        await self.presence._turn(0.0)
        self._watching = asyncio.create_task(self.peers.run())

    async def stop(self):
        """End the process: connections break off, and the Lease stays."""
        await self.peers.close()
        await self.listeners.close()
        self._watching.cancel()

    async def close(self):
        await self.stop()
        await self.writer.close()
        await self.client.close()

    @property
    def connected(self):
        return {link.peer.identity for link in self.peers.links if link.is_open}

    def charge(self, charge, **options):
        return self.writer.charge(TEAM_A, charge, **{"enforced": True, **options})


@pytest.fixture
async def replicas(sandbox, tmp_path):
    """Make replicas that are connected to each other, the owner of `team-a` first."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(count=2):
            sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-admission"}})
            kubeconfig = tmp_path / "kubeconfig"
            kubeconfig.write_text(sandbox.kubeconfig())
            made = []
            for number in range(count):
                client = await APIClient.connect(str(kubeconfig), environ={})
                made.append(Replica(client, sandbox, f"replica-{number}"))
                stack.push_async_callback(made[-1].close)
                await made[-1].start()
            names = {each.identity for each in made}
            await until(lambda: all(each.connected == names - {each.identity} for each in made))
            owner = owner_of(NAMESPACE, tuple(names))
            return sorted(made, key=lambda each: each.identity != owner)

        yield make


async def until(holds):
    """Wait until something holds."""
    async with asyncio.timeout(60):
        while True:
            if holds():
                return
            await asyncio.sleep(0.01)


@pytest.fixture(name="until", scope="session")
def _until():
    return until
