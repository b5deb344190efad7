"""Callers of the webhook, and what they may call."""

import json

import pytest

from policies.admission.webhooks import ENTRIES
from webhook.server.bodies import SMALL
from webhook.server.caller_limits import Callers

EFFECTS = [name for name, entry in ENTRIES.items() if entry.side_effects != "None"]
NO_EFFECTS = [name for name, entry in ENTRIES.items() if entry.side_effects == "None"]


@pytest.fixture
async def guarded(start_webhook):
    return await start_webhook(allowed=["kube-apiserver", "demo"])


async def post(client, entry, review):
    return await client.post(f"/{entry}", json.dumps(review).encode())


def test_entries_that_write_have_effects():
    writes = {name for name, entry in ENTRIES.items() if {"conversion", "quota"} & {*entry.concerns}}
    assert set(EFFECTS) == writes >= {"convert-pods", "enforce-quota"}


@pytest.mark.parametrize("entry", EFFECTS)
@pytest.mark.parametrize("name", ["kube-apiserver", "demo"])
async def test_allowed_client_is_answered(guarded, client_of, client_context, pod, review_of, entry, name):
    client = await client_of(guarded.port, client_context(name))
    assert (await client.ask(entry, review_of(pod(0))))["allowed"] is True


@pytest.mark.parametrize("entry", EFFECTS)
async def test_client_of_another_name_is_refused(guarded, client_of, client_context, pod, review_of, entry):
    client = await client_of(guarded.port, client_context("mallory"))
    answer = await post(client, entry, review_of(pod()))
    assert answer.status == 403
    assert answer.text == (
        f'/{entry} has effects and answers only to known clients, and "mallory" is not one of them; add the name '
        "to the allowed ones if it is the API server's.\n"
    )


@pytest.mark.parametrize("entry", EFFECTS)
async def test_client_without_certificate_is_refused(guarded, pod, review_of, entry):
    answer = await post(guarded.client, entry, review_of(pod()))
    assert answer.status == 403
    assert answer.text == (
        f"/{entry} has effects and answers only to known clients, and this one showed no certificate with a common "
        "name; give the API server a client certificate for this webhook.\n"
    )


@pytest.mark.parametrize("entry", NO_EFFECTS)
async def test_entries_without_effects_answer_every_caller(guarded, pod, review_of, entry):
    assert "uid" in await guarded.client.ask(entry, review_of(pod()))


@pytest.mark.parametrize("entry", ENTRIES)
async def test_every_caller_is_allowed_without_a_client_ca(webhook, pod, review_of, entry):
    assert "uid" in await webhook.client.ask(entry, review_of(pod()))


async def test_strangers_hold_no_more_than_half_of_the_memory_together(
    guarded, client_of, client_context, pod, review_of
):
    callers, budget = guarded.calls.callers, guarded.calls._bodies
    large = json.dumps(review_of(pod(annotations={"note": "a" * SMALL}))).encode()
    known = await client_of(guarded.port, client_context("kube-apiserver"))
    deadline = guarded.calls.admission.deadline("30s")
    async with budget.hold(budget.most // 2, callers.payer(None, "10.0.0.1"), deadline):
        refused = await guarded.client.post(f"/{NO_EFFECTS[0]}?timeout=100ms", large)
        answered = await known.post(f"/{NO_EFFECTS[0]}", large)
    assert (refused.status, refused.text) == (
        503,
        "Too many large bodies are being reviewed; send this one again later.\n",
    )
    assert answered.response["allowed"] is True


def test_without_known_clients_each_address_has_its_own_share():
    assert [Callers().payer(None, address) for address in ("10.0.0.1", "10.0.0.2")] == ["10.0.0.1", "10.0.0.2"]
