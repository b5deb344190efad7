"""Replicas that create, publish and rotate their certificates in an API server."""

import asyncio
import logging
from datetime import timedelta

import pytest

from certs.authority import refusal
from tests.sandbox import faults
from webhook.cluster.resources import RESOURCES
from webhook.server.tls import ReloadingContext

SECRET = "/api/v1/namespaces/gpu-admission/secrets/gpu-admission-tls"
SECRETS = "/api/v1/namespaces/gpu-admission/secrets"


async def rotate(installation, replica, text="please"):
    """A rotation from its beginning to its end."""
    installation.ask(text)
    for _ in range(3):
        await replica.look()
    installation.now += installation.policy.settle
    await replica.look()


async def test_a_certificate_is_made_and_stored(installation):
    leaf = await installation.replica().obtain()
    assert installation.state.leaf == leaf


async def test_nothing_is_published_before_it_is_served(installation):
    replica = installation.replica()
    reloading = ReloadingContext(await replica.obtain(), clock=lambda: installation.now)
    assert installation.bundles() == {b""}
    replica.serve(reloading)
    await replica.look()
    assert installation.bundles() == {installation.state.authority.certificate_pem}


async def test_what_keeps_a_certificate_from_being_made_is_the_problem(installation):
    installation.sandbox.faults.add(faults.failing(403, "no secrets for you"), path=SECRET)
    replica = installation.replica()
    await replica.look()
    assert replica.problem() == "there is no certificate to serve yet: no secrets for you"


async def test_an_empty_secret_is_filled_and_keeps_its_labels(installation, caplog):
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "gpu-admission-tls", "namespace": "gpu-admission"},
    }
    secret["metadata"]["labels"] = {"a": "b"}
    installation.sandbox.create(secret)
    leaf = await installation.replica().obtain()
    assert installation.state.leaf == leaf
    assert installation.secret["metadata"]["labels"] == {"a": "b"}
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_replicas_that_start_at_once_agree(installation):
    leaves = await asyncio.gather(*[installation.replica().obtain() for _ in range(5)])
    assert set(leaves) == {installation.state.leaf}


async def test_a_ready_replica_has_no_problem(installation):
    replica, _ = await installation.served()
    assert replica.problem() == ""


async def test_other_parts_of_configurations_are_left_alone(installation):
    def trimmed():
        return [
            {**webhook, "clientConfig": {**webhook["clientConfig"], "caBundle": None}}
            for webhook in installation.configuration("Mutating")["webhooks"]
        ]

    before = trimmed()
    await installation.served()
    assert trimmed() == before


async def test_a_quiet_look_writes_nothing(installation):
    replica, _ = await installation.served()
    installation.sandbox.requests.clear()
    assert await replica.look() == installation.policy.look_every.total_seconds()
    assert {request.verb for request in installation.sandbox.requests} == {"get"}


async def test_a_rotation_reaches_every_replica(installation):
    (first, served), (second, also_served) = await installation.served(), await installation.served()
    before = served.pair
    await rotate(installation, first)
    assert served.pair == installation.state.leaf != before
    await second.look()
    assert also_served.pair == served.pair


async def test_every_leaf_in_use_is_verified_all_the_time(installation):
    (first, served), (_, left_behind) = await installation.served(), await installation.served()
    await rotate(installation, first)
    for reloading in (served, left_behind):
        for bundle in installation.bundles():
            assert refusal(bundle, reloading.pair, installation.policy.names, installation.now) == ""


async def test_every_writing_of_a_bundle_is_logged(installation, caplog):
    caplog.set_level(logging.INFO, logger="gpu_admission.certificates")
    replica, _ = await installation.served()
    wrote = [message for message in caplog.messages if message.startswith("Wrote ")]
    assert wrote == [
        f"Wrote the authorities of our certificates into {kind}WebhookConfiguration gpu-admission."
        for kind in ("Mutating", "Validating")
    ]
    caplog.clear()
    await replica.look()
    assert caplog.messages == []


async def test_overwritten_bundle_is_restored_and_the_wait_restarts(installation):
    replica, _ = await installation.served()
    old = installation.state.bundle
    installation.ask("please")
    for _ in range(3):
        await replica.look()
    installation.overwrite("Validating", old)
    await replica.look()
    assert installation.state.published is None
    assert installation.bundles() == {installation.state.bundle}


@pytest.mark.parametrize(
    "content", [b"", b"eA==", b"-----BEGIN CERTIFICATE-----\n"], ids=["none", "garbage", "cut off"]
)
async def test_garbage_in_a_configuration_is_replaced(installation, content):
    replica, _ = await installation.served()
    installation.overwrite("Mutating", content)
    await replica.look()
    assert installation.bundles() == {installation.state.bundle}


async def test_a_bundle_that_does_not_verify_is_a_problem(installation):
    replica, _ = await installation.served()
    installation.overwrite("Mutating", b"")
    installation.sandbox.faults.add(faults.failing(), verb="PATCH")
    await replica.look()
    assert replica.problem() == (
        "the caBundle of webhook one.gpu-admission.io in MutatingWebhookConfiguration gpu-admission does not verify the"
        " serving certificate: There is no PEM certificate: no BEGIN CERTIFICATE line; give the certificate, not its"
        " key."
    )


async def test_one_configuration_that_cannot_be_written_does_not_hold_up_the_other(installation):
    path = RESOURCES["MutatingWebhookConfiguration"].path(name="gpu-admission")
    installation.sandbox.faults.add(faults.failing(), verb="PATCH", path=path)
    await installation.served()
    assert installation.bundles() == {b"", installation.state.bundle}


async def test_absent_configurations_are_no_problem(installation):
    for kind in ("Mutating", "Validating"):
        installation.sandbox.remove(f"{kind}WebhookConfiguration", "gpu-admission")
    replica, _ = await installation.served()
    assert replica.problem() == ""
    await rotate(installation, replica)
    assert installation.state.retiring


async def test_unread_configurations_are_a_problem_and_hold_no_renewal_up(installation):
    installation.sandbox.faults.add(faults.failing(), verb="GET", path="/apis/*")
    replica, reloading = await installation.served()
    assert replica.problem().startswith("the webhook configurations could not be read yet: ")
    before = reloading.pair
    installation.now += timedelta(minutes=14)
    await replica.look()
    assert reloading.pair == installation.state.leaf != before


async def test_a_known_verdict_outlives_an_outage(installation):
    replica, _ = await installation.served()
    installation.sandbox.faults.add(faults.failing())
    await replica.look()
    assert replica.problem() == ""


async def test_failures_are_tried_again_with_growing_pauses(installation):
    replica, _ = await installation.served()
    installation.sandbox.faults.add(faults.failing())
    assert [await replica.look() for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert installation.counted("certificate_failures_total", reason="cluster") == 8


async def test_failure_is_logged_once(installation, caplog):
    replica, _ = await installation.served()
    installation.sandbox.faults.add(faults.failing())
    caplog.clear()
    for _ in range(3):
        await replica.look()
    assert len([record for record in caplog.records if record.name == "gpu_admission.certificates"]) == 1


async def test_a_lost_race_is_looked_at_again_soon(installation):
    replica, _ = await installation.served()
    installation.ask("please")
    installation.sandbox.faults.add(faults.conflict(), verb="PUT", count=1)
    assert await replica.look() == 0.2
    assert installation.counted("certificate_failures_total", reason="cluster") == 0
    await replica.look()
    assert installation.state.successor is not None


async def test_a_stale_patch_is_refused(installation):
    replica, _ = await installation.served()
    stale = await replica.bundles.read()
    installation.overwrite("Mutating", b"newer")
    with pytest.raises(Exception, match="MutatingWebhookConfiguration gpu-admission changed meanwhile") as raised:
        await replica.bundles.publish(stale[0], b"older")
    assert type(raised.value).__name__ == "LostRace"
    assert b"newer" in installation.bundles()


DAMAGE = {
    "foreign": (
        {"a": "Yg=="},
        "is damaged or not ours, and is replaced: it has no rotation.json: this program did not write it",
    ),
    "emptied": ({}, "was deleted or emptied, and is written again"),
}


@pytest.mark.parametrize(("data", "said"), DAMAGE.values(), ids=DAMAGE)
async def test_a_damaged_secret_is_written_again_from_memory(installation, caplog, data, said):
    replica, _ = await installation.served()
    before = installation.state
    installation.change_secret(data=data)
    await replica.look()
    assert installation.state == before
    assert installation.counted("certificate_changes_total", change="restored") == 1
    assert (
        "gpu_admission.certificates",
        logging.ERROR,
        f"Secret gpu-admission/gpu-admission-tls {said}. Its content is as it was.",
    ) in caplog.record_tuples


async def test_a_deleted_secret_is_created_again_from_memory(installation):
    replica, _ = await installation.served()
    before = installation.state
    installation.sandbox.remove("Secret", "gpu-admission-tls", "gpu-admission")
    await replica.look()
    assert installation.state == before


async def test_damaged_secret_without_a_replica_that_has_it_is_created_again(installation, caplog):
    caplog.set_level(logging.ERROR)
    await installation.served()
    before = installation.state
    installation.change_secret(data={"a": "Yg=="})
    _, reloading = await installation.served()
    assert reloading.pair == installation.state.leaf != before.leaf
    assert installation.bundles() == {installation.state.bundle}
    assert caplog.record_tuples[-1][2] == (
        "Secret gpu-admission/gpu-admission-tls is damaged or not ours, and is replaced: it has no rotation.json: this"
        " program did not write it. Its content is made anew; calls fail until API servers know the new authority."
    )


async def test_an_old_memory_is_not_written(installation):
    replica, _ = await installation.served()
    before = installation.state
    installation.change_secret(data={})
    installation.now += installation.policy.settle
    await replica.look()
    assert installation.state.authority != before.authority


async def test_a_secret_of_a_newer_version_is_left_alone(installation, caplog):
    replica, reloading = await installation.served()
    before = reloading.pair
    newer = {**installation.secret["data"], "rotation.json": "eyJmb3JtYXQiOiAyfQ=="}
    installation.change_secret(data=newer)
    await replica.look()
    assert installation.secret["data"] == newer
    assert reloading.pair == before
    assert caplog.record_tuples[-1][2] == (
        "Certificates could not be checked or renewed; trying again: Secret gpu-admission/gpu-admission-tls was"
        " written by a newer version, and is not changed: its format is 2, and this version knows formats up to 1."
    )


async def test_a_certificate_of_tomorrow_is_not_served(installation, caplog):
    replica, reloading = await installation.served()
    before = reloading.pair
    installation.now += timedelta(minutes=14)
    await installation.replica().look()
    reloading._clock = lambda: installation.now - timedelta(hours=2)
    await replica.look()
    assert reloading.pair == before
    assert installation.state.leaf != before
    assert "cannot be served: The certificate is not valid before " in caplog.records[-1].getMessage()


async def test_expiries_and_changes_are_shown(installation):
    replica, _ = await installation.served()
    await rotate(installation, replica)
    state = installation.state
    assert installation.counted("stored_certificate_expiry_timestamp_seconds") == state.leaf.not_after.timestamp()
    assert installation.counted("ca_expiry_timestamp_seconds") == state.authority.not_after.timestamp()
    assert installation.counted("certificate_last_look_timestamp_seconds") == installation.now.timestamp()
    assert installation.counted("certificate_changes_total", change="switched") == 1


async def test_run_looks_until_it_is_cancelled(installation):
    replica = installation.replica()
    before = installation.now
    running = asyncio.create_task(replica.run())
    while installation.now - before < 3 * installation.policy.leaf_life:  # noqa: ASYNC110 - its sleeps move the clock
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ReloadingContext(installation.state.leaf, clock=lambda: installation.now).pair == installation.state.leaf
    assert installation.counted("certificate_changes_total", change="renewed") >= 3
