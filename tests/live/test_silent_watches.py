"""Watches through a proxy that keeps connections open and lets nothing through."""

import asyncio
from random import Random

import pytest

from policies.kubernetes.view import UNKNOWN
from testbed.relay import Relay
from webhook.cluster.client import APIClient
from webhook.cluster.clockwork import Clockwork, Pace
from webhook.cluster.store import TRUSTED_SECONDS
from webhook.cluster.sync import Sync
from webhook.sandbox.server import Sandbox


def node(name):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


async def until(condition):
    """Let the loop turn until something holds; the time limit of tests ends what never does."""
    while not condition():  # noqa: ASYNC110 - a view reports no changes
        await asyncio.sleep(0)


@pytest.fixture
async def sandbox():
    sandbox = Sandbox(seed=1)
    await sandbox.start()
    yield sandbox
    await sandbox.stop()


@pytest.fixture
async def proxy(sandbox):
    host, _, port = sandbox.url.rpartition("/")[2].partition(":")
    relay = Relay(Random(1), (host, int(port)))
    await relay.listen("127.0.0.1")
    yield relay
    await relay.close()


@pytest.fixture
async def begin(sandbox, proxy, tmp_path, clock):
    """Start a sync through the proxy, which opens a watch again after so many seconds of silence."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(sandbox.kubeconfig().replace(sandbox.url, f"http://{proxy.netloc}"))
    client = await APIClient.connect(str(kubeconfig), environ={})
    started = []

    async def begin(silence):
        sync = Sync(client, pace=Pace(silence=silence, brief=0.0, clockwork=Clockwork(clock=clock)))
        started.append(sync)
        sync.start(["gpu-operator"])
        await sync.wait_for_first()
        await until(lambda: all(cache.store.state in ("synced", "absent") for cache in sync.caches))
        return sync

    yield begin
    for sync in started:
        await sync.close()
    await client.close()


async def test_silent_watch_is_opened_again_and_shows_what_it_missed(sandbox, proxy, begin):
    sync = await begin(silence=0.1)
    assert proxy.hush() > 0
    sandbox.create(node("missed"))
    await until(lambda: sync.view.get("Node", "missed"))
    assert sync.store("Node").state == "synced"


async def test_kinds_are_unknown_two_minutes_after_the_proxy_fell_silent(sandbox, proxy, begin, clock):
    sync = await begin(silence=60.0)
    proxy.hush()
    sandbox.create(node("missed"))
    clock.now += TRUSTED_SECONDS - 1
    assert sync.view.get("Node", "missed") is None
    clock.now += 1
    assert sync.view.get("Node", "missed") is UNKNOWN
    assert sync.silent_kinds()["Node"] == TRUSTED_SECONDS
