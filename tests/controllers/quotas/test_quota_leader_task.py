"""The leader counts the cluster and closes charges every second, with the real caches."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from policies.quota.ledger.status import charge_items
from policies.rules.charges import OWN
from webhook.cluster.live import LiveSettings
from webhook.cluster.sync import Sync
from webhook.controllers.leading import Leading
from webhook.controllers.presence import Presences
from webhook.server.template_keeper import TemplateKeeper


@pytest.fixture
async def leading(leader):
    """A replica that leads, with the client and the writer of another one."""
    sync = Sync(leader.client)
    sync.start(["gpu-operator"])
    await sync.wait_for_first()
    keeper = TemplateKeeper(leader.client, sync.view)
    registry = CollectorRegistry()
    presences = Presences(leader.client, "gpu-admission")
    tasks = Leading(
        leader.client, sync.view, LiveSettings(sync.view), keeper, leader.writer, presences, sync, registry, "a"
    )
    running = asyncio.create_task(tasks.run())
    yield registry
    running.cancel()
    await asyncio.wait([running])
    await sync.close()


async def until(team, condition):
    """Let time pass until the status is as it should be; the time limit of tests ends what never is."""
    while not condition(team.stored.get("status", {})):  # noqa: ASYNC110 - nothing tells when the leader has written
        await asyncio.sleep(0.02)


async def test_leader_counts_what_comes(team, leading, leader):
    team.pod("train", 2)
    team.quota()
    await until(team, lambda status: status.get("summary") == "all 2 of 8")
    await leader.charge("late", {OWN: 1})
    assert team.amounts == {"all": ("2", "1")}
    team.pod("late", 1)
    await until(team, lambda status: not charge_items(status))
    assert team.amounts == {"all": ("3", "0")}
    team.sandbox.remove("Pod", "train", "team-a")
    await until(team, lambda status: status["summary"] == "all 1 of 8")
