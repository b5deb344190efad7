"""`gpu-admission quota` on a running cluster: what it prints and how it ends."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from testbed import libyaml
from tests.cli.example_sandboxes import example_sandbox
from tests.cli.quota_files import AWAY, EXAMPLES, ROOT, TEAMS
from tests.sandbox import faults

DEFINITION = libyaml.load((ROOT / "deploy" / "base" / "api" / "gpuquotas.yaml").read_text())


@pytest.fixture
async def sandbox(tmp_path):
    """A sandbox with the cluster of the example and its quota; its kubeconfig is in `sandbox.file`."""
    async with example_sandbox(tmp_path, "cluster", "cluster-with-quota", definitions=["gpuquotas.yaml"]) as sandbox:
        yield sandbox


@pytest.fixture
def live(sandbox, run):
    """Ask about the sandbox, as a process of its own."""

    async def live(*arguments):
        return await asyncio.to_thread(run, "quota", "--kubeconfig", sandbox.file, *arguments, **AWAY)

    return live


async def test_running_cluster_is_reported(live):
    done = await live()
    assert (done.returncode, done.stderr) == (0, "")
    reported = re.sub(r"(AGE|  \d+s)  ", "  ", done.stdout).split()
    assert reported == (EXAMPLES / "quota" / "expected.txt").read_text().split()


async def test_running_cluster_is_only_read(live, sandbox):
    await live()
    assert {request.verb for request in sandbox.requests} == {"list"}


async def test_one_namespace_of_a_running_cluster_is_read_alone(live, sandbox):
    done = await live("-n", "team-vision")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "GPUQuota team-vision/gpu  within")
    asked = {(request.resource, request.namespace) for request in sandbox.requests if request.verb == "list"}
    assert {("pods", "team-vision"), ("resourceclaims", "team-vision"), ("gpuquotas", "team-vision")} <= asked
    assert not {("pods", ""), ("resourceclaims", ""), ("gpuquotas", ""), ("namespaces", "")} & asked


async def test_namespace_that_does_not_exist_is_no_good_news(live):
    done = await live("-n", "team-x")
    assert (done.returncode, done.stdout, done.stderr.splitlines()[-1]) == (
        2,
        "",
        "Error: namespace team-x does not exist",
    )


async def test_namespace_of_a_running_cluster_without_a_quota_is_not_limited(live):
    done = await live("-n", "team-legacy")
    assert (done.returncode, done.stdout) == (
        0,
        (
            "Namespace team-legacy has no GPUQuota, so no limit holds. To write one:\n"
            "  gpu-admission generate quota -n team-legacy --gpus 8\n"
            "gpu-admission usage lists the pods with GPUs.\n"
        ),
    )


async def test_cluster_that_does_not_know_quotas_is_reported(live, sandbox):
    sandbox.remove("CustomResourceDefinition", DEFINITION["metadata"]["name"])
    done = await live()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"Error: {sandbox.url} serves no GPUQuotas: the CustomResourceDefinition gpuquotas.gpu-admission.io is not "
        "installed; kubectl apply -f deploy/install.yaml installs it, see docs/install.md\n"
    )


@pytest.mark.parametrize(
    ("arguments", "more"),
    [((), "; with -n NAMESPACE only those of one namespace are listed"), (("-n", "team-vision"), "")],
    ids=["all", "one namespace"],
)
async def test_quotas_that_may_not_be_listed_are_reported(live, sandbox, arguments, more):
    said = 'gpuquotas.gpu-admission.io is forbidden: User "kim" cannot list resource "gpuquotas"'
    sandbox.faults.add(faults.failing(403, said), path="*/gpuquotas")
    done = await live(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"Error: {sandbox.url}: {said}; request the ClusterRole gpu-admission-quota-view{more}\n"


async def test_report_for_a_user_who_sees_only_quotas_says_what_is_not_shown(live, sandbox):
    for kind in ("pods", "nodes", "resourceclaims", "deviceclasses", "resourceslices", "namespaces/team-vision"):
        sandbox.faults.add(faults.failing(403, "forbidden"), path=f"*/{kind}")
    sandbox.faults.add(faults.failing(403, "forbidden"), path="*/gpuadmissionpolicies")
    done = await live("-n", "team-vision", "-o", "json")
    reported = json.loads(done.stdout)
    (quota,) = reported["quotas"]
    assert (done.returncode, quota["limits"][0]["used"], quota["holders"], quota["enforced"]) == (0, "4", None, None)
    assert reported["notes"] == [
        "GPUAdmissionPolicy default cannot be read, using the built-in defaults",
        "you may not list Pods, so what they hold is not shown, and usage is shown only if a status has it",
        "you may not list ResourceClaims, so what they hold is not shown",
        "you may not list Nodes, so pods are shown with the most that they could have got",
        "you may not list ResourceSlices, so pods and claims with devices of DRA are shown with the most that they could have got",
    ]


async def test_api_server_that_fails_is_reported(live, sandbox):
    sandbox.faults.add(faults.failing(500, "etcdserver: leader changed"), path="*/pods")
    done = await live()
    assert (done.returncode, done.stderr) == (2, f"Error: {sandbox.url}: etcdserver: leader changed\n")


async def test_api_server_that_is_away_is_reported(live, sandbox):
    await sandbox.stop()
    done = await live()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Error: GET /apis/gpu-admission.io/v1alpha1/gpuadmissionpolicies at {sandbox.url}: ")


async def test_quota_of_a_running_cluster_is_compiled(live):
    done = await live("--compile")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("# GPUQuota team-vision/gpu: 0 of 3 limits have a form in ResourceQuotas")


@pytest.fixture
async def teams(tmp_path):
    """A sandbox with a group of two namespaces; each has a pod with three GPUs."""
    kinds = ["gpuquotas.yaml", "clustergpuquotas.yaml", "gpuquotagroups.yaml"]
    async with example_sandbox(tmp_path, "cluster", definitions=kinds) as sandbox:
        for document in libyaml.load_all(TEAMS):
            sandbox.create(document)
        yield sandbox


async def test_group_of_a_namespace_is_reported_with_what_its_other_namespaces_hold(teams, run):
    arguments = ("--kubeconfig", teams.file, "-n", "vision-prod", "-o", "json")
    done = await asyncio.to_thread(run, "quota", *arguments, **AWAY)
    assert done.stderr == ""
    (group,) = json.loads(done.stdout)["quotas"]
    assert (group["name"], group["namespaces"]) == ("research.vision", ["vision-dev", "vision-prod"])
    assert {each["name"] for each in group["holders"]} == {"vision-dev/train", "vision-prod/serve"}
