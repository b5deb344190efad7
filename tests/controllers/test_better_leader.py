"""A leader finds a replica whose caches are up to date when its own are silent."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from webhook.cluster.client import APIClient
from webhook.cluster.clockwork import Clockwork, Pace
from webhook.cluster.live import LiveSettings
from webhook.cluster.sync import FRESH_SECONDS, Sync
from webhook.controllers.leading import Leading
from webhook.controllers.presence import Presence, Presences, PresenceTiming
from webhook.ledger import LedgerWriter
from webhook.sandbox.server import Sandbox
from webhook.server.template_keeper import TemplateKeeper

OURS = "gpu-admission"


class Leader:
    """A leader and its caches, another replica, and a clock that a test moves on."""

    def __init__(self, client):
        self.now = 1000.0
        clockwork = Clockwork(clock=lambda: self.now)
        self.sync = Sync(client, pace=Pace(clockwork=clockwork))
        self.silent_kinds = set()
        self.other = Presence(
            client,
            OURS,
            "other",
            lambda: {"GPUQuota": self.sync.store("GPUQuota")},
            silent_kinds=lambda: self.silent_kinds,
            clockwork=clockwork,
        )
        settings, view = LiveSettings(self.sync.view), self.sync.view
        self.leading = Leading(
            client,
            view,
            settings,
            TemplateKeeper(client, view),
            LedgerWriter(client),
            Presences(client, OURS, clock=clockwork.clock),
            self.sync,
            CollectorRegistry(),
            "this",
        )

    async def look(self):
        """Look for a better leader before and after the other replica has renewed its Lease; returns the reason."""
        for _ in range(2):
            await self.other._turn(self.now)
            await self.leading.look_for_better_leader()
            self.now += PresenceTiming().renew
        return self.leading.better_leader


@pytest.fixture
async def leader(tmp_path):
    sandbox = Sandbox(seed=1)
    sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OURS}})
    await sandbox.start()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(sandbox.kubeconfig())
    client = await APIClient.connect(str(kubeconfig), environ={})
    leader = Leader(client)
    leader.sync.start(["gpu-operator"])
    await leader.sync.wait_for_first()
    await leader.sync.wait_for_answers(60)
    tasks = asyncio.create_task(leader.leading.run())
    while "ResourceSlice" not in leader.leading.kinds_read:  # noqa: ASYNC110 - tasks do not report their reads
        await asyncio.sleep(0)
    tasks.cancel()
    await asyncio.wait({tasks})
    yield leader
    await leader.sync.close()
    await client.close()
    await sandbox.stop()


def hear(leader, *but):
    """Every watch of the leader sends a bookmark, except those of these kinds."""
    for cache in leader.sync.caches:
        if cache.store.state == "synced" and cache.watched.kind not in but:
            cache.store.mark("synced")


async def test_leader_whose_caches_are_heard_of_stays(leader):
    assert await leader.look() == ""


async def test_silent_leader_names_a_replica_that_is_up_to_date(leader):
    leader.now += FRESH_SECONDS
    hear(leader, "ResourceSlice")
    assert await leader.look() == "nothing was heard of ResourceSlices for 100 s, and other is up to date"


async def test_silent_leader_stays_if_all_replicas_are(leader):
    leader.now += FRESH_SECONDS
    leader.silent_kinds = {"ResourceSlice"}
    hear(leader, "ResourceSlice")
    assert await leader.look() == ""


async def test_kind_that_no_task_reads_is_no_reason(leader):
    leader.now += FRESH_SECONDS
    unread = {cache.watched.kind for cache in leader.sync.caches} - leader.leading.kinds_read
    assert unread
    hear(leader, *unread)
    assert await leader.look() == ""
