"""Calls that cannot be charged now: refused if the quota is enforced, admitted with a warning otherwise."""

import logging

import pytest

from tests.sandbox.faults import conflict, failing, half_open
from tests.server.quotas.quota_calls import ENTRIES, QUOTA, later, template, warned
from webhook.cluster.manifests import ManifestsView


async def test_quota_that_was_not_counted_yet_holds_up_where_it_is_enforced(serve, namespace, ask, train):
    namespace.limit(primed=False)
    webhook = await serve()
    assert ": status unknown for quota: gpu, limits: h100; " in later(await ask(webhook, train()), 1)
    assert "charged all the same" in warned(await ask(webhook, train(), "check-pods"))
    assert namespace.charged == ["1"]


async def test_quota_that_cannot_be_read_refuses_where_it_is_enforced_since_no_waiting_helps(
    serve, namespace, sandbox, ask, train
):
    namespace.limit()
    sandbox.replace({**namespace.stored, "spec": {"limits": [{"name": "h100", "gpus": "x"}]}})
    webhook = await serve()
    status = (await ask(webhook, train()))["status"]
    assert (status["code"], "details" in status) == (403, False)
    assert status["message"].startswith(
        'Show this to your administrator: quota gpu of namespace team-a cannot be read: spec.limits[0].gpus: is "x"; '
    )
    assert "counted when that is put right" in warned(await ask(webhook, train(), "check-pods"))
    assert webhook.counted == [("enforce-quota", "unreadable"), ("check-pods", "unreadable")]


@pytest.mark.parametrize("verb", ["GET", "PUT"])
async def test_api_server_that_fails_holds_up_where_quotas_are_enforced(serve, namespace, sandbox, ask, train, verb):
    namespace.limit()
    sandbox.faults.add(failing(), verb=verb, path=f"{QUOTA}*")
    webhook = await serve()
    assert later(await ask(webhook, train()), 5) == (
        "Try again in 5 s, and if that does not help, show this to your administrator: quota gpu of namespace team-a cannot "
        "be charged: etcdserver: leader changed; the namespace enforces its quota, so GPUs must be charged first [GA504]"
    )
    assert "counted when it is seen" in warned(await ask(webhook, train(), "check-pods"))
    assert webhook.counted == [("enforce-quota", "unavailable"), ("check-pods", "unavailable")]


async def test_right_that_we_lack_refuses_where_quotas_are_enforced_since_no_waiting_helps(
    serve, namespace, sandbox, ask, train
):
    namespace.limit()
    said = 'gpuquotas.gpu-admission.io "gpu" is forbidden: User "webhook" cannot update resource "gpuquotas/status"'
    sandbox.faults.add(failing(403, said), verb="PUT", path=f"{QUOTA}*")
    webhook = await serve()
    status = (await ask(webhook, train()))["status"]
    assert (status["code"], "details" in status) == (403, False)
    assert status["message"] == (
        f"Show this to your administrator: quota gpu of namespace team-a cannot be charged: {said}; the namespace enforces "
        "its quota, so GPUs mu… [GA504]"
    )
    assert "counted when it is seen" in warned(await ask(webhook, train(), "check-pods"))


async def test_reason_why_nothing_was_charged_is_logged(serve, namespace, sandbox, ask, train, caplog):
    namespace.limit()
    sandbox.faults.add(failing(), path=f"{QUOTA}*")
    with caplog.at_level(logging.WARNING, "gpu_admission.decisions"):
        await ask(await serve(), train(), "check-pods")
    (record,) = [record for record in caplog.records if record.message.startswith("not charged: ")]
    assert record.message == "not charged: etcdserver: leader changed"
    assert (record.fields["webhook"], record.fields["namespace"], record.fields["name"]) == (
        "check-pods",
        "team-a",
        "train",
    )


async def test_template_that_cannot_be_read_holds_up_where_quotas_are_enforced(
    serve, namespace, sandbox, ask, of_template
):
    namespace.limit()
    sandbox.faults.add(failing(503, "no"), path="*/resourceclaimtemplates/gpus")
    webhook = await serve()
    assert "cannot be charged: no;" in later(await ask(webhook, of_template()), 5)
    assert "cannot be charged: no;" in warned(await ask(webhook, of_template(), "check-pods"))


async def test_template_that_was_read_is_not_called_missing_if_the_charge_cannot_be_written(
    serve, namespace, sandbox, ask, of_template
):
    namespace.limit()
    sandbox.create(template(2))
    sandbox.faults.add(failing(), verb="PUT", path=f"{QUOTA}*")
    assert "GA505" not in warned(await ask(await serve(), of_template(), "check-pods"))


@ENTRIES
async def test_storm_of_conflicts_holds_up_where_quotas_are_enforced(serve, namespace, sandbox, ask, train, entry):
    namespace.limit()
    sandbox.faults.add(conflict(), verb="PUT", path=f"{QUOTA}/status")
    response = await ask(await serve(), train(), entry)
    said = later(response, 1) if entry == "enforce-quota" else warned(response)
    assert "too many requests at once" in said


async def test_answer_comes_before_the_api_server_gives_up_and_nothing_stays_charged(
    serve, namespace, sandbox, ask, train, until, writer
):
    namespace.limit()
    stuck = sandbox.faults.add(half_open(), verb="PUT", path=f"{QUOTA}/status")
    webhook = await serve()
    response = await ask(webhook, train(), query="?timeout=600ms")
    assert "cannot be charged: the API server takes too long;" in later(response, 5)
    sandbox.faults.remove(stuck)
    sandbox.faults.clear()
    await writer.close()
    assert namespace.charged == []


@pytest.mark.parametrize(("entry", "allowed"), [("enforce-quota", False), ("check-pods", True)])
async def test_mistake_of_ours_is_answered_by_the_failure_policy(serve, namespace, ask, train, entry, allowed):
    class Broken(ManifestsView):
        def derive(self, function):
            raise RuntimeError("a mistake of ours")

    namespace.limit()
    response = await ask(await serve(Broken()), train(), entry)
    assert response["allowed"] is allowed
    assert (response.get("status") or {"code": 500})["code"] == 500


async def test_who_holds_what_is_no_condition_of_a_refusal(serve, namespace, shown, ask, train, monkeypatch):
    namespace.limit(used=8)
    monkeypatch.setattr("webhook.server.quota_keeper.holders", lambda *_, **__: 1 / 0)
    response = await ask(await serve(), train(), "check-pods")
    assert (response["allowed"], response["status"]["code"]) == (False, 403)
