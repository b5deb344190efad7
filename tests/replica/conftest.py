"""Replicas beside an API server in memory, with the objects of `deploy/`."""

import asyncio
import contextlib
import json
from pathlib import Path

import aiohttp
import pytest

from testbed import libyaml
from testbed.ports import free_ports
from tests.sandbox.faults import FaultySandbox
from webhook.cluster.client import APIClient
from webhook.controllers.replica import Replica
from webhook.controllers.replica_config import ReplicaConfig

ROOT = Path(__file__).parents[2]
ACCOUNT = "system:serviceaccount:gpu-admission:gpu-admission"
_FIRST = ("CustomResourceDefinition", "Namespace")


def documents(*files):
    """The objects of manifests, lists unpacked, what others need first."""
    read = [document for file in files for document in libyaml.load_all(file.read_text())]
    read = [document for document in read if document and "kind" in document]
    objects = [item for document in read for item in (document["items"] if document["kind"] == "List" else [document])]
    return sorted(objects, key=lambda document: document["kind"] not in _FIRST)


@pytest.fixture(scope="session")
def installation():
    """What is in the cluster of the examples, and what `deploy/install.yaml` puts there."""
    return documents(*sorted((ROOT / "examples" / "cluster").glob("*.yaml")), ROOT / "deploy" / "install.yaml")


@pytest.fixture
async def sandbox(installation):
    sandbox = FaultySandbox(seed=1)
    await sandbox.start()
    for document in installation:
        metadata = document["metadata"]
        if sandbox.get(document["kind"], metadata["name"], metadata.get("namespace", "")) is None:
            sandbox.create(document)
    yield sandbox
    await sandbox.stop()


@pytest.fixture
async def client_of(sandbox, tmp_path):
    """Connect to the sandbox, as our own account if nobody else is named."""
    async with contextlib.AsyncExitStack() as stack:

        async def connect(user=ACCOUNT):
            kubeconfig = tmp_path / "kubeconfig.yaml"
            kubeconfig.write_text(sandbox.kubeconfig(user))
            client = await APIClient.connect(str(kubeconfig), environ={})
            stack.push_async_callback(client.close)
            return client

        yield connect


class Running:
    """A replica, and what its probes tell."""

    def __init__(self, replica, ready):
        self.replica, self.ready = replica, ready

    async def readiness(self):
        return json.loads(await self._get("/readyz"))

    async def metric(self, name):
        lines = (await self._get("/metrics")).splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    async def _get(self, path):
        url = f"http://127.0.0.1:{self.ready.probe_port}{path}"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return await answer.text()


@pytest.fixture
async def make(client_of):
    """Make a replica that API servers call by URL, on ports that are free."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(rotation=None, **config):
            (port,) = free_ports(1)
            config = {
                "url": f"https://localhost:{port}",
                "drain_delay": 0.0,
                "port": port,
                "probe_port": 0,
                "explain_port": 0,
                **config,
            }
            replica = Replica(await client_of(), ReplicaConfig(**config), rotation=rotation)
            stack.push_async_callback(replica.close)
            return replica

        yield make


@pytest.fixture
async def start(make):
    """Start a replica, and come back when it is ready."""

    async def start(**config):
        replica = await make(**config)
        running = Running(replica, await replica.start())
        await until(running.readiness, lambda reported: reported["ready"])
        return running

    return start


@pytest.fixture
def gpu_pod():
    """A pod of the namespace `team-a`, which converts."""

    def make(name="train", gpus=1, **metadata):
        resources = {"limits": {"nvidia.com/gpu": str(gpus)}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "team-a", **metadata},
            "spec": {"containers": [{"name": "main", "image": "train:1", "resources": resources}]},
        }

    return make


async def until(ask, holds):
    """Ask again and again until an answer is as it should be; give it. A busy machine needs many seconds."""
    async with asyncio.timeout(60):
        while True:
            answer = ask()
            answer = await answer if asyncio.iscoroutine(answer) else answer
            if holds(answer):
                return answer
            await asyncio.sleep(0.01)


@pytest.fixture(name="until", scope="session")
def _until():
    return until
