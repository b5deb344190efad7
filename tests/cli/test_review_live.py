"""`gpu-admission review` with facts of a running cluster."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.cli.example_sandboxes import example_sandbox
from tests.cli.quota_files import AWAY, quota
from tests.sandbox import faults

POLICY = {
    "apiVersion": "gpu-admission.io/v1alpha1",
    "kind": "GPUAdmissionPolicy",
    "metadata": {"name": "default"},
    "spec": {"conversion": {"enabled": False}},
}


@pytest.fixture
async def sandbox(tmp_path):
    """A sandbox with the cluster of the examples; its kubeconfig is in `sandbox.file`."""
    async with example_sandbox(
        tmp_path, "cluster", definitions=["gpuquotas.yaml", "gpuadmissionpolicies.yaml"]
    ) as sandbox:
        yield sandbox


@pytest.fixture
def review(run, sandbox):
    """Review against the sandbox, in a separate process."""

    async def review(*arguments):
        return await asyncio.to_thread(run, "review", "--kubeconfig", sandbox.file, *arguments, **AWAY)

    return review


async def test_answer_is_that_of_the_cluster_in_files(review, run, cluster, write, pod):
    file = write("pod.yaml", pod())
    live = await review(file)
    offline = await asyncio.to_thread(run, "review", "--cluster", cluster, file)
    assert (live.stdout, live.stderr, live.returncode) == (offline.stdout, offline.stderr, offline.returncode)
    assert "admitted, converted" in live.stdout


async def test_cluster_is_only_read(review, sandbox, write, pod):
    await review(write("pod.yaml", pod()))
    assert {request.verb for request in sandbox.requests} == {"list"}


async def test_only_what_rules_ask_for_is_read(review, sandbox, write, pod):
    await review(write("pod.yaml", pod()))
    asked = {request.resource for request in sandbox.requests}
    assert {"namespaces", "deviceclasses", "resourceslices"} <= asked
    assert not {"pods", "resourceclaims", "configmaps", "secrets"} & asked


async def test_each_list_is_read_once(review, sandbox, write, pod):
    await review(write("pod.yaml", *(pod(name=f"train-{number}") for number in range(3))))
    asked = [(request.resource, request.namespace) for request in sandbox.requests]
    assert sorted(set(asked)) == sorted(asked)


async def test_context_of_the_current_kubeconfig_is_taken(run, sandbox, write, pod):
    file = write("pod.yaml", pod())
    environment = {**AWAY, "KUBECONFIG": str(sandbox.file)}
    live = await asyncio.to_thread(run, "review", "--live", file, **environment)
    named = await asyncio.to_thread(run, "review", "--context", "gpu-admission-sandbox", file, **environment)
    assert (live.returncode, live.stdout) == (named.returncode, named.stdout)
    assert "admitted, converted" in live.stdout


@pytest.mark.parametrize(("arguments", "namespace"), [((), "team-a"), (("-n", "team-legacy"), "team-legacy")])
async def test_namespace_of_objects_without_one_is_that_of_the_context(
    review, sandbox, write, pod, arguments, namespace
):
    sandbox.file.write_text(sandbox.kubeconfig().replace("  context:\n", "  context:\n    namespace: team-a\n"))
    done = await review(*arguments, write("pod.yaml", pod(namespace="")))
    assert done.stdout.startswith(f"pod.yaml:1  Pod {namespace}/train  admitted")


async def test_settings_are_those_of_the_cluster(review, sandbox, write, pod):
    sandbox.create({**POLICY, "spec": {"rules": [{"rule": "GA302", "severity": "off"}]}})
    file = write("pod.yaml", pod(gpus="0.5"))
    assert (await review(file, "--no-diff")).returncode == 0
    defaults = write("settings.yaml", {**POLICY, "spec": {}})
    assert (await review(file, "--no-diff", "--settings", defaults)).returncode == 1


async def test_forbidden_facts_are_unknown_and_named(review, sandbox, write, pod):
    sandbox.faults.add(faults.failing(403, "no"), path="*/deviceclasses")
    done = await review(write("pod.yaml", pod()))
    assert done.returncode == 0
    assert done.stderr == ("Warning: forbidden: list deviceclasses.resource.k8s.io; it counts as unknown\n")


async def test_user_of_one_namespace_reads_that_namespace(review, sandbox, write, pod):
    forbidden = (
        "/api/v1/limitranges",
        "/api/v1/namespaces",
        "/api/v1/resourcequotas",
        "/apis/*/v1/resourceclaimtemplates",
    )
    for path in forbidden:
        sandbox.faults.add(faults.failing(403, "no"), path=path)
    done = await review(write("pod.yaml", pod()))
    assert (done.returncode, done.stderr) == (0, "")
    assert "admitted, converted" in done.stdout
    asked = {(request.verb, request.resource, request.namespace, request.name) for request in sandbox.requests}
    assert {("list", "limitranges", "team-a", ""), ("get", "namespaces", "", "team-a")} <= asked


async def test_objects_under_review_win_over_those_of_the_cluster(review, write, pod):
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    done = await review("-o", "json", write("all.yaml", namespace, pod()))
    assert [each["verdict"] for each in json.loads(done.stdout)] == ["admitted", "admitted"]
    assert json.loads(done.stdout)[1]["templates"] == []


async def test_quota_of_the_cluster_counts(review, sandbox, write, pod):
    sandbox.create(quota(hard=1))
    done = await review(write("pod.yaml", pod(gpus=2)))
    assert done.returncode == 1
    assert "GA50" in done.stdout


async def test_api_server_that_is_away_is_reported(review, sandbox, write, pod):
    await sandbox.stop()
    done = await review(write("pod.yaml", pod()))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Error: GET /apis/gpu-admission.io/v1alpha1/gpuadmissionpolicies at {sandbox.url}: ")


async def test_credentials_that_are_not_accepted_are_reported(review, sandbox, write, pod):
    sandbox.faults.add(faults.failing(401, "Unauthorized"))
    done = await review(write("pod.yaml", pod()))
    assert (done.returncode, done.stderr) == (2, f"Error: {sandbox.url}: Unauthorized\n")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--live",), "--cluster is for files, and --live is for a running cluster; give one of them"),
        (("--context", "x"), "--cluster is for files, and --kubeconfig and --context are for a running cluster"),
    ],
)
def test_files_and_a_running_cluster_exclude_each_other(invoke, cluster, write, pod, option, said):
    done = invoke("review", "--cluster", cluster, *option, write("pod.yaml", pod()))
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (2, f"Error: {said}")


def test_context_that_does_not_exist_is_reported(run, write, pod):
    done = run("review", "--live", write("pod.yaml", pod()), **AWAY)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: ")
