"""Probes of the kubelet."""

import json

import pytest
from aiohttp.test_utils import TestClient, TestServer

from webhook.server.caller_limits import Callers
from webhook.server.metrics import Metrics
from webhook.server.probes import Readiness, create_probes

(RISK,) = Callers().notes()


@pytest.fixture
def problems():
    return {"certificate": "", "view": ""}


@pytest.fixture
def readiness(problems):
    checks = [lambda: problems["certificate"], lambda: problems["view"]]
    return Readiness(checks, [Callers().notes, Callers(frozenset({"kube-apiserver"})).notes])


@pytest.fixture
async def probe(readiness):
    async with TestClient(TestServer(create_probes(readiness, Metrics()))) as client:

        async def get(path):
            async with client.get(path) as response:
                return response.status, response.headers["Content-Type"], await response.text()

        yield get


async def test_live_even_while_not_ready(probe):
    assert await probe("/livez") == (200, "text/plain; charset=utf-8", "ok\n")


async def test_not_ready_before_the_start(probe):
    status, content_type, text = await probe("/readyz")
    assert (status, content_type) == (503, "application/json")
    assert json.loads(text) == {"ready": False, "reasons": ["the server is starting"], "notes": [RISK]}


async def test_ready_with_a_note_of_the_residual_risk(probe, readiness):
    readiness.phase = "serving"
    status, _, text = await probe("/readyz")
    assert (status, json.loads(text)) == (200, {"ready": True, "reasons": [], "notes": [RISK]})


async def test_every_reason_is_reported(probe, readiness, problems):
    readiness.phase = "stopping"
    problems["certificate"] = "the certificate is gone"
    problems["view"] = "the nodes are unknown"
    status, _, text = await probe("/readyz")
    assert status == 503
    reasons = ["the server is stopping", "the certificate is gone", "the nodes are unknown"]
    assert json.loads(text)["reasons"] == reasons


async def test_ready_again_when_the_reason_is_gone(probe, readiness, problems):
    readiness.phase = "serving"
    problems["view"] = "the nodes are unknown"
    assert (await probe("/readyz"))[0] == 503
    problems["view"] = ""
    assert (await probe("/readyz"))[0] == 200


async def test_metrics_are_in_prometheus_text_format(probe):
    status, content_type, text = await probe("/metrics")
    assert status == 200
    assert content_type.startswith("text/plain; version=")
    assert "# TYPE gpu_admission_requests_total counter" in text


async def test_reasons_are_logged_when_they_change(probe, readiness, caplog):
    caplog.set_level("INFO", "gpu_admission.service")
    for phase in ("starting", "starting", "serving", "serving", "stopping"):
        readiness.phase = phase
        await probe("/readyz")
    assert caplog.messages == ["not ready: the server is starting", "ready", "not ready: the server is stopping"]
