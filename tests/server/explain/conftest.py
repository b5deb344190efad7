"""Webhooks that explain, with and without an API server that decides who may ask."""

from datetime import UTC, datetime

import pytest

from certs import issue_serving
from tests.sandbox.faults import FaultySandbox
from tests.server.explain.rights import OURS, Clock, Rights
from webhook.cluster.caller_reviews import SubjectAccess, TokenAuthenticator
from webhook.cluster.client import APIClient
from webhook.cluster.clockwork import Clockwork
from webhook.server.explain_gate import DelegatedGate


@pytest.fixture
async def guarded(start_webhook):
    return await start_webhook(allowed=["kube-apiserver", "dashboard"])


@pytest.fixture
async def caller(guarded, client_of, client_context):
    """A caller that gets explanations."""
    return await client_of(guarded.explain_port, client_context("dashboard"))


@pytest.fixture
def rights():
    return Rights()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def api(rights, authority):
    """An API server over TLS."""
    server = FaultySandbox(seed=1, allows=rights)
    pair = issue_serving(authority, ["127.0.0.1"], now=datetime.now(UTC))
    await server.start(tls=pair, authority=authority.certificate_pem)
    yield server
    await server.stop()


@pytest.fixture
async def gate(api, clock, tmp_path):
    file = tmp_path / "kubeconfig"
    file.write_text(api.kubeconfig(OURS))
    client = await APIClient.connect(str(file))
    clockwork = Clockwork(clock=clock)
    yield DelegatedGate(TokenAuthenticator(client, clockwork=clockwork), SubjectAccess(client, clockwork=clockwork))
    await client.close()


@pytest.fixture
async def live(start_webhook, gate):
    """A webhook that asks the API server about callers, and verifies their certificates."""
    return await start_webhook(gate=gate, allowed=["kube-apiserver"])


@pytest.fixture
def asked(api):
    """How often the API server was asked for a review."""

    def count(plural):
        return sum((each.verb, each.resource) == ("create", plural) for each in api.requests)

    return count
