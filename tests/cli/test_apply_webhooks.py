"""`gpu-admission apply-webhooks`: what it waits for, and its errors."""

from __future__ import annotations

import asyncio

import pytest
import yaml

from testbed.version_before import webhook_configurations
from testbed.webhook_configurations import current_configurations
from tests.cli.quota_files import AWAY, ROOT
from tests.sandbox import faults
from tests.sandbox.faults import FaultySandbox

LABELS = {"app.kubernetes.io/name": "gpu-admission"}
CHARGE = {"kind": "Allowance", "name": "a", "uid": "a", "admitted": "2026-11-27T00:00:00Z", "pieces": []}
NEEDED = "MutatingWebhookConfiguration gpu-admission and no ValidatingWebhookConfiguration gpu-admission"


@pytest.fixture
async def sandbox(tmp_path):
    """A sandbox with the namespace and the CRD of GPUQuotas; its kubeconfig is in `sandbox.file`."""
    sandbox = FaultySandbox(seed=1)
    sandbox.create(yaml.safe_load((ROOT / "deploy" / "base" / "api" / "gpuquotas.yaml").read_text()))
    sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-admission"}})
    await sandbox.start()
    sandbox.file = tmp_path / "kubeconfig"
    sandbox.file.write_text(sandbox.kubeconfig())
    yield sandbox
    await sandbox.stop()


@pytest.fixture
def apply(sandbox, run, write):
    """Apply the webhooks of a version without waiting long, as a process of its own."""

    async def apply(*options, version=current_configurations):
        file = write("version.yaml", *version())
        arguments = ("apply-webhooks", "--timeout", 0, "--kubeconfig", sandbox.file, *options, file)
        return await asyncio.to_thread(run, *arguments, **AWAY)

    return apply


@pytest.fixture
def roll_out(sandbox):
    """Store the Deployment of two replicas with a status, and pods of it."""

    def roll_out(pods, **status):
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
                "spec": {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": template},
                "status": status,
            }
        )

    return roll_out


def quota(namespace, **status):
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": namespace},
        "spec": {"limits": [{"name": "all", "gpus": 8}]},
        "status": status,
    }


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


@pytest.mark.parametrize("status", [{"openCharges": "[1]"}, {"charges": [CHARGE]}], ids=["text", "allowance"])
async def test_rollback_waits_for_charges_that_the_version_before_cannot_read(apply, sandbox, status):
    for name in ("team-a", "team-b", "team-c", "team-d"):
        sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        sandbox.create(quota(name, **status))
    done = await apply("--rollback", version=webhook_configurations)
    assert done.returncode == 1
    assert done.stderr == (
        "Error: after 0 seconds, the GPUQuota of team-a, team-b, team-c and 1 more has charges that the version before cannot "
        "read; the webhooks are applied, but do not apply the service yet: run the command again, and look at the leader with "
        "`gpu-admission doctor` if nothing changes\n"
    )
    assert len(configurations(sandbox)) == 2


async def test_rollback_within_a_version_does_not_wait(apply, sandbox):
    sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
    sandbox.create(quota("team-a", openCharges="[1]"))
    assert (await apply("--rollback")).returncode == 0


async def test_refusal_of_the_api_server_is_shown(apply, roll_out, sandbox):
    roll_out(RUNNING, **DONE)
    sandbox.faults.add(faults.failing(403, "forbidden by RBAC"), path="*/mutatingwebhookconfigurations/*")
    done = await apply()
    assert (done.returncode, done.stderr) == (2, f"Error: {sandbox.url}: forbidden by RBAC\n")


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        (
            [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}],
            f"has no {NEEDED}; give the manifests of one version of gpu-admission",
        ),
        (
            [*current_configurations(), *webhook_configurations()],
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
