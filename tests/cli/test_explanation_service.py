"""Questions to the Service of explanations, if it limits the rate."""

from __future__ import annotations

import pytest
from aiohttp import web

from tests.sandbox import faults
from tests.sandbox.faults import FaultySandbox
from webhook.cli.explain.live_explanations import EXPLANATIONS, PROXY, ServiceRefusal, ask_service
from webhook.cluster.client import APIClient

ALICE = "system:serviceaccount:team-a:alice"
QUESTION = {"kind": "resourceclaims.resource.k8s.io", "name": "pretrain"}


@pytest.fixture
async def sandbox():
    sandbox = FaultySandbox(seed=1)
    await sandbox.start()
    yield sandbox
    await sandbox.stop()


@pytest.fixture
async def client(sandbox, tmp_path):
    file = tmp_path / "kubeconfig"
    file.write_text(sandbox.kubeconfig(ALICE))
    client = await APIClient.connect(str(file))
    yield client
    await client.close()


class Pauses(list):
    """Records the pauses instead of sleeping."""

    async def sleep(self, seconds):
        self.append(seconds)


async def answer_with_an_empty_list(request, handler):
    return web.json_response([])


def limit_rate(sandbox, retry_after, count=None):
    sandbox.faults.add(faults.too_many(retry_after), verb="POST", path=f"{PROXY}/*", count=count)


@pytest.mark.parametrize(("retry_after", "pause"), [(2, 2.0), (3600, 60.0)], ids=["short", "bounded"])
async def test_refused_question_is_asked_again_after_the_pause(sandbox, client, retry_after, pause):
    limit_rate(sandbox, retry_after, count=2)
    sandbox.faults.add(answer_with_an_empty_list, verb="POST", path=f"{PROXY}/*")
    pauses = Pauses()
    assert await ask_service(client, QUESTION, "team-a", EXPLANATIONS, sleep=pauses.sleep) == []
    assert pauses == [pause, pause]


async def test_service_that_keeps_refusing_is_reported_in_the_end(sandbox, client):
    limit_rate(sandbox, 1)
    pauses = Pauses()
    with pytest.raises(ServiceRefusal) as raised:
        await ask_service(client, QUESTION, "team-a", EXPLANATIONS, sleep=pauses.sleep)
    assert len(pauses) == 20
    assert str(raised.value) == (
        "the API server limits the rate of requests (Too many requests, please try again later.); try again in a few minutes"
    )
