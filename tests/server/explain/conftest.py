"""Webhooks that explain, with and without an API server that decides who may ask."""

import pytest


@pytest.fixture
async def guarded(start_webhook):
    return await start_webhook(allowed=["kube-apiserver", "dashboard"])


@pytest.fixture
async def caller(guarded, client_of, client_context):
    """A caller that gets explanations."""
    return await client_of(guarded.explain_port, client_context("dashboard"))


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
