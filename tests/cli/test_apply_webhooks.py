"""`gpu-admission apply-webhooks`: what it waits for, and its errors."""

from __future__ import annotations

import asyncio
import copy
import json

import pytest

from testbed.webhook_configurations import current_configurations
from tests.cli.quota_files import AWAY
from tests.sandbox import faults
from tests.sandbox.faults import FaultySandbox

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
LABELS = {"app.kubernetes.io/name": "gpu-admission"}
NEEDED = "MutatingWebhookConfiguration gpu-admission and no ValidatingWebhookConfiguration gpu-admission"


@pytest.fixture
async def sandbox(tmp_path):
    """A sandbox with our namespace; its kubeconfig is in `sandbox.file`."""
    sandbox = FaultySandbox(seed=1)
    sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-admission"}})
    await sandbox.start()
    sandbox.file = tmp_path / "kubeconfig"
    sandbox.file.write_text(sandbox.kubeconfig())
    yield sandbox
    await sandbox.stop()


@pytest.fixture
def apply(sandbox, run, write):
    """Apply the webhooks of a version without waiting long, as a process of its own."""

    async def apply(*options, version=current_configurations, seconds=0):
        file = write("version.yaml", *version())
        arguments = ("apply-webhooks", "--timeout", seconds, "--kubeconfig", sandbox.file, *options, file)
        return await asyncio.to_thread(run, *arguments, **AWAY)

    return apply


@pytest.fixture
def roll_out(sandbox):
    """Store the Deployment of two replicas with a status, and pods of it."""

    def roll_out(pods, *, replicas=2, paused=False, **status):
        containers = [{"name": "gpu-admission", "image": "gpu-admission:0"}]
        template = {"metadata": {"labels": LABELS}, "spec": {"containers": containers}}
        for name, phase in pods.items():
            metadata = {"name": name, "namespace": "gpu-admission", "labels": LABELS}
            sandbox.create(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": metadata,
                    "spec": {"containers": containers},
                    "status": {"phase": phase},
                }
            )
        sandbox.create(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "gpu-admission", "namespace": "gpu-admission"},
                "spec": {
                    "replicas": replicas,
                    "paused": paused,
                    "selector": {"matchLabels": LABELS},
                    "template": template,
                },
                "status": status,
            }
        )

    return roll_out


def configurations(sandbox):
    return [*sandbox.objects("MutatingWebhookConfiguration"), *sandbox.objects("ValidatingWebhookConfiguration")]


DONE = {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}
UNCHANGED = "no webhook was changed; look at `kubectl -n gpu-admission get pods`, and run the command again when all replicas are ready"
RUNNING = {"new-1": "Running", "new-2": "Running"}


@pytest.mark.parametrize(
    ("pods", "status", "said"),
    [
        (RUNNING, {}, "the Deployment controller has not seen the newest template"),
        (RUNNING, {**DONE, "updatedReplicas": 1}, "1 of 2 replicas are updated"),
        (RUNNING, {**DONE, "availableReplicas": 0}, "0 of 2 replicas are available"),
        (RUNNING | {"old-1": "Running"}, DONE, "1 earlier replica has not ended"),
    ],
    ids=["unseen", "updating", "starting", "draining"],
)
async def test_webhooks_wait_for_every_replica(apply, roll_out, sandbox, pods, status, said):
    roll_out(pods, **status)
    done = await apply()
    assert (done.returncode, done.stderr) == (1, f"Error: after 0 seconds, {said}; {UNCHANGED}\n")
    assert configurations(sandbox) == []


async def test_replicas_that_ended_are_not_waited_for(apply, roll_out, sandbox):
    roll_out(RUNNING | {"evicted": "Failed"}, **DONE)
    assert (await apply()).returncode == 0
    assert len(configurations(sandbox)) == 2


async def test_webhooks_without_a_service_are_not_applied(apply):
    done = await apply()
    assert done.returncode == 1
    assert done.stderr == (
        "Error: Deployment gpu-admission in namespace gpu-admission not found: apply the service first, because a webhook is "
        "called as soon as its configuration exists (docs/upgrade.md)\n"
    )


async def test_rollback_does_not_wait_for_the_service(apply, roll_out, sandbox):
    """It comes before the service of the earlier version."""
    roll_out(RUNNING)
    done = await apply("--rollback")
    assert (done.returncode, done.stdout) == (
        0,
        "MutatingWebhookConfiguration gpu-admission created\nValidatingWebhookConfiguration gpu-admission created\n",
    )
    assert len(configurations(sandbox)) == 2


async def test_refusal_of_the_api_server_is_shown(apply, roll_out, sandbox):
    roll_out(RUNNING, **DONE)
    sandbox.faults.add(faults.failing(403, "forbidden by RBAC"), path="*/mutatingwebhookconfigurations/*")
    done = await apply()
    assert (done.returncode, done.stderr) == (2, f"Error: {sandbox.url}: forbidden by RBAC\n")


async def test_failures_of_an_api_server_that_answered_are_waited_out(apply, roll_out, sandbox):
    """The first look finds no update, the next ones find a server that restarts, and then the rollout is done."""
    roll_out(RUNNING, **DONE | {"updatedReplicas": 1})

    async def pass_on(request, handler):
        return await handler(request)

    async def complete(request, handler):
        deployment = sandbox.objects("Deployment")[0]
        deployment["status"]["updatedReplicas"] = 2
        sandbox.replace(deployment)
        return await handler(request)

    looks = iter((pass_on, faults.failing(503, "starting"), faults.dropped()))

    async def look(request, handler):
        return await next(looks, complete)(request, handler)

    sandbox.faults.add(look, path="*/deployments/gpu-admission")
    done = await apply(seconds=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(configurations(sandbox)) == 2


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        (
            [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}],
            f"has no {NEEDED}; give the manifests of one version of gpu-admission",
        ),
        (
            [*current_configurations(), *current_configurations()],
            "has a webhook configuration twice; give the manifests of one version",
        ),
    ],
    ids=["none", "twice"],
)
def test_manifests_of_one_version_are_required(run, write, documents, said):
    done = run("apply-webhooks", write("all.yaml", *documents), **AWAY)
    assert (done.returncode, done.stderr) == (2, f"all.yaml: {said}\n1 problem; nothing was done\n")


async def test_check_confirms_webhooks_that_were_applied(apply, roll_out):
    roll_out(RUNNING, **DONE)
    await apply()
    done = await apply("--check")
    assert (done.returncode, done.stdout) == (
        0,
        (
            "MutatingWebhookConfiguration gpu-admission is installed as in version.yaml\n"
            "ValidatingWebhookConfiguration gpu-admission is installed as in version.yaml\n"
        ),
    )


async def test_check_names_a_webhook_that_differs_and_changes_nothing(apply, roll_out, sandbox):
    roll_out(RUNNING, **DONE)
    opened = current_configurations()
    opened[0]["webhooks"][0]["failurePolicy"] = "Ignore"
    await apply(version=lambda: opened)
    before = configurations(sandbox)
    done = await apply("--check")
    assert (done.returncode, done.stderr) == (
        1,
        (
            "Error: MutatingWebhookConfiguration gpu-admission is not installed as in version.yaml; webhooks that differ: "
            "convert-pods.gpu-admission.io; apply it with `gpu-admission apply-webhooks` or `helm upgrade`\n"
        ),
    )
    assert configurations(sandbox) == before


async def test_check_finds_a_configuration_that_was_deleted(apply, roll_out):
    roll_out(RUNNING, **DONE)
    done = await apply("--check")
    assert done.returncode == 1
    assert "Error: MutatingWebhookConfiguration gpu-admission is not installed as in version.yaml" in done.stderr


def test_check_of_a_rollback_is_refused(run):
    done = run("apply-webhooks", "--check", "--rollback", "x.yaml", **AWAY)
    assert done.returncode == 2
    assert done.stderr.endswith("Error: --check and --rollback exclude each other.\n")


def stored(sandbox):
    """The installed configurations, as `kubectl get -o yaml` saves them."""
    return copy.deepcopy(configurations(sandbox))


def bundles(sandbox):
    return {webhook["clientConfig"].get("caBundle") for each in configurations(sandbox) for webhook in each["webhooks"]}


def install(sandbox, *documents, bundle="", **annotations):
    """Store configurations as `kubectl apply` does, with a caBundle."""
    for document in documents:
        document["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(document), **annotations}
        for webhook in document["webhooks"]:
            webhook["clientConfig"] |= {"caBundle": bundle} if bundle else {}
        sandbox.create(document)


async def test_restored_webhooks_keep_what_kubectl_applied_last(apply, roll_out, sandbox):
    """With what was saved instead, each later `kubectl apply` would remove the uid and the caBundle, and be refused."""
    roll_out(RUNNING, **DONE)
    install(sandbox, *current_configurations(), bundle="QQ==")
    saved = stored(sandbox)
    opened = stored(sandbox)[0]
    opened["webhooks"][0]["failurePolicy"] = "Ignore"
    sandbox.replace(opened)
    done = await apply(version=lambda: saved)
    assert "MutatingWebhookConfiguration gpu-admission configured" in done.stdout
    for now, before in zip(configurations(sandbox), saved, strict=True):
        assert now["webhooks"] == before["webhooks"]
        assert now["metadata"]["annotations"] == before["metadata"]["annotations"]


async def test_restored_webhooks_get_the_ca_bundle_that_was_written_since(apply, roll_out, sandbox):
    roll_out(RUNNING, **DONE)
    install(sandbox, *current_configurations(), bundle="QQ==")
    saved = stored(sandbox)
    for each in stored(sandbox):
        for webhook in each["webhooks"]:
            webhook["clientConfig"]["caBundle"] = "Qg=="
        sandbox.replace(each)
    assert (await apply(version=lambda: saved)).returncode == 0
    assert bundles(sandbox) == {"Qg=="}


async def test_created_webhooks_get_the_ca_bundle_of_the_other_configuration(apply, roll_out, sandbox):
    roll_out(RUNNING, **DONE)
    install(sandbox, current_configurations()[1], bundle="QQ==")
    assert (await apply()).returncode == 0
    assert bundles(sandbox) == {"QQ=="}


async def test_webhooks_of_an_emptied_bundle_get_that_of_the_other_configuration(apply, roll_out, sandbox):
    roll_out(RUNNING, **DONE)
    mutating, validating = current_configurations()
    install(sandbox, mutating)
    install(sandbox, validating, bundle="QQ==")
    assert (await apply()).returncode == 0
    assert bundles(sandbox) == {"QQ=="}


@pytest.mark.parametrize("webhooks", ["x", [], [3, None], None], ids=["text", "none", "numbers", "null"])
async def test_manifests_without_webhooks_delete_none(apply, roll_out, sandbox, webhooks):
    roll_out(RUNNING, **DONE)
    await apply()
    before = configurations(sandbox)
    broken = [{**each, "webhooks": webhooks} for each in current_configurations()[:1]] + current_configurations()[1:]
    for options in ((), ("--rollback",), ("--check",)):
        done = await apply(*options, version=lambda: broken)
        assert (done.returncode, done.stderr) == (
            2,
            (
                "version.yaml: MutatingWebhookConfiguration gpu-admission: webhooks: must be a list of at least one webhook, "
                "because applying it would delete those that are installed; to delete them, use `gpu-admission "
                "delete-webhooks`\n1 problem; nothing was done\n"
            ),
        )
    assert configurations(sandbox) == before


@pytest.mark.parametrize("options", [(), ("--rollback",), ("--check",)], ids=["forward", "rollback", "check"])
async def test_half_of_a_version_is_not_applied(apply, roll_out, sandbox, options):
    roll_out(RUNNING, **DONE)
    done = await apply(*options, version=lambda: current_configurations()[:1])
    assert (done.returncode, done.stderr) == (
        2,
        (
            "version.yaml: has no ValidatingWebhookConfiguration gpu-admission; give the manifests of one version of "
            "gpu-admission\n1 problem; nothing was done\n"
        ),
    )
    assert configurations(sandbox) == []


async def test_webhooks_are_not_applied_while_the_service_has_no_replicas(apply, roll_out, sandbox):
    roll_out({}, replicas=0, observedGeneration=1)
    done = await apply()
    assert (done.returncode, done.stderr) == (
        1,
        (
            "Error: Deployment gpu-admission in namespace gpu-admission is scaled to 0 replicas: scale it up first, because "
            "nothing answers these webhooks\n"
        ),
    )
    assert configurations(sandbox) == []


async def test_paused_rollout_is_named(apply, roll_out):
    roll_out(RUNNING, paused=True, **{**DONE, "updatedReplicas": 0})
    said = "0 of 2 replicas are updated, and the rollout is paused; resume it"
    assert f"after 0 seconds, {said}; no webhook was changed" in (await apply()).stderr


async def test_replica_that_does_not_end_is_named(apply, roll_out, sandbox):
    roll_out(RUNNING | {"old-1": "Running"}, **DONE)
    (old,) = (pod for pod in sandbox.objects("Pod") if pod["metadata"]["name"] == "old-1")
    ending = {**old["metadata"], "deletionTimestamp": "2026-11-27T00:00:00Z"}
    sandbox.replace({**old, "metadata": ending, "spec": {**old["spec"], "nodeName": "lost"}})
    said = "1 earlier replica has not ended (old-1 on node lost; if a node was lost, delete its pod with --force)"
    assert said in (await apply()).stderr


@pytest.mark.parametrize("options", [(), ("--rollback",)], ids=["saved", "rollback"])
async def test_webhooks_that_this_version_does_not_answer_are_not_applied(apply, roll_out, sandbox, options):
    roll_out(RUNNING, **DONE)
    unknown = current_configurations()
    unknown[0]["webhooks"][0]["name"] = "future.gpu-admission.io"
    done = await apply(*options, version=lambda: unknown)
    assert (done.returncode, done.stderr) == (
        1,
        (
            "Error: this gpu-admission does not know webhook future.gpu-admission.io of the manifests: give those of this "
            "version or of the one before, and take the gpu-admission of the newer of both versions (docs/upgrade.md)\n"
        ),
    )
    assert configurations(sandbox) == []


async def test_image_is_that_of_our_container(apply, roll_out, sandbox):
    """An overlay may put a container before it."""
    roll_out(RUNNING, **DONE)
    (deployment,) = sandbox.objects("Deployment")
    sidecar = {"name": "sidecar", "image": "sidecar:1"}
    deployment["spec"]["template"]["spec"]["containers"].insert(0, sidecar)
    sandbox.replace(deployment)
    other = copy.deepcopy(deployment)
    other["spec"]["template"]["spec"]["containers"][1]["image"] = "gpu-admission:1"
    done = await apply(version=lambda: [*current_configurations(), other])
    assert "runs image gpu-admission:0, but the manifests have gpu-admission:1" in done.stderr


async def test_two_commands_at_once_both_apply(apply, roll_out, sandbox):
    roll_out(RUNNING, **DONE)
    done = await asyncio.gather(*(apply() for _ in range(4)))
    assert [each.returncode for each in done] == [0] * 4, [each.stderr for each in done]
    assert len(configurations(sandbox)) == 2


async def test_half_of_a_change_is_named(apply, roll_out, sandbox):
    roll_out(RUNNING, **DONE)
    sandbox.faults.add(faults.failing(503, "etcdserver: leader changed"), verb="POST", path="*/validatingwebhookconf*")
    done = await apply()
    assert (done.returncode, done.stderr) == (
        2,
        (
            f"Error: {sandbox.url}: etcdserver: leader changed; ValidatingWebhookConfiguration gpu-admission is not applied; "
            "MutatingWebhookConfiguration gpu-admission created; run the command again\n"
        ),
    )
