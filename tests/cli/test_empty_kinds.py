"""A kind without objects becomes known by the command that a message names, and not by a List that names no kind."""

from __future__ import annotations

import asyncio
import re
import urllib.request

import pytest

from tests.explain import conftest as k8s
from webhook.sandbox.server import Sandbox

COMMAND = re.compile(r"kubectl get --raw (\S+) > (\w+\.json)")
EMPTY = {"apiVersion": "v1", "kind": "List", "items": [], "metadata": {"resourceVersion": ""}}
"""The output of `kubectl get -o yaml` for any kind without objects."""
CLASS = k8s.device_class()
NODE = k8s.node()


@pytest.fixture
async def sandbox():
    server = Sandbox(seed=1)
    server.create(CLASS)
    server.create(NODE)
    await server.start()
    yield server
    await server.stop()


async def test_commands_of_messages_end_all_questions_about_empty_kinds(sandbox, invoke, write, folder):
    write("cluster/cluster.yaml", {**EMPTY, "items": [k8s.namespace()]})
    write("cluster/claims.yaml", EMPTY)
    write("pod.yaml", k8s.pod({"cpu": "1"}, resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus")))
    write("template.yaml", k8s.template())
    advised = []
    for _ in range(4):
        done = await asyncio.to_thread(invoke, "explain", "--cluster", "cluster", "pod.yaml", "template.yaml")
        commands = dict(COMMAND.findall(" ".join(done.stdout.split())))
        advised.append(sorted(commands.values()))
        for path, file in commands.items():
            with await asyncio.to_thread(urllib.request.urlopen, f"{sandbox.url}{path}") as answer:
                (folder / "cluster" / file).write_bytes(answer.read())
    assert advised == [
        ["deviceclasses.json", "resourceslices.json"],
        ["nodes.json", "resourceclaims.json"],
        ["pods.json"],
        [],
    ]
    assert "Fits none of 1 node" in done.stdout
