"""`gpu-admission quota`: on files and on a running cluster, what it prints and how it ends."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
import yaml

from webhook.sandbox import faults
from webhook.sandbox.server import Sandbox

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
WITH_QUOTA = EXAMPLES / "cluster-with-quota"
DEFINITION = yaml.safe_load((ROOT / "deploy" / "base" / "api" / "gpuquotas.yaml").read_text())
AWAY = {"HOME": "/nonexistent", "KUBECONFIG": "", "NO_COLOR": "1"}


def quota(namespace="team-a", hard=8, **spec):
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": namespace},
        "spec": {"limits": [{"name": "all", "gpus": hard}], **spec},
    }


def namespace(name="team-a", **labels):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def listed(kind, version="v1", *items):
    return {"apiVersion": version, "kind": f"{kind}List", "items": list(items)}


NOTHING = (listed("Pod"), listed("ResourceClaim", "resource.k8s.io/v1"), listed("Node"))


def test_example_is_told(run):
    done = run("quota", "--cluster", EXAMPLES / "cluster", "--cluster", WITH_QUOTA, **AWAY)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (EXAMPLES / "quota" / "expected.txt").read_text()


def test_json_tells_the_same(run):
    done = run("quota", "--cluster", EXAMPLES / "cluster", "--cluster", WITH_QUOTA, "-o", "json", **AWAY)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["notes"] == []
    (quota,) = told["quotas"]
    assert (quota["namespace"], quota["state"], quota["enforced"]) == ("team-vision", "within", True)
    assert quota["limits"][2] == {
        "name": "memory",
        "unit": "memory",
        "hard": "858993459200",
        "used": "427982585856",
        "reserved": "171041619968",
        "left": "259969253376",
        "counted": True,
    }
    assert quota["holders"][2] == {
        "name": "team-vision/pretrain-0",
        "seconds": None,
        "amounts": {"h100": "4", "memory": "342083239936"},
    }


def test_manifest_of_a_quota_is_tried_on_what_runs(invoke, write, cluster):
    file = write("quota.yaml", quota("team-legacy", 4))
    done = invoke("quota", "--cluster", cluster, "--cluster", EXAMPLES / "cluster-in-use", "--cluster", file)
    assert done.exit_code == 1
    first, *lines = done.stdout.splitlines()
    assert first == "GPUQuota team-legacy/gpu  over"
    assert "Warning: its status does not say what is used of all, so that is counted here." in lines
    assert "all    [####################>     8         0     0  4 GPUs" in lines


def test_only_one_namespace_is_told_where_one_is_named(invoke, write):
    file = write("all.yaml", *NOTHING, namespace(), namespace("team-b"), quota(), quota("team-b"))
    done = invoke("quota", "--cluster", file, "-n", "team-b")
    assert (done.exit_code, re.findall(r"GPUQuota \S+", done.stdout)) == (0, ["GPUQuota team-b/gpu"])


def test_quotas_come_by_namespace_with_a_summary(invoke, write):
    wrong = quota("team-c", mode="Allow")
    file = write("all.yaml", *NOTHING, namespace(), quota("team-b"), wrong, quota())
    done = invoke("quota", "--cluster", file)
    assert done.exit_code == 1
    assert re.findall(r"GPUQuota \S+", done.stdout) == [f"GPUQuota team-{each}/gpu" for each in "abc"]
    assert done.stdout.endswith("\n\n3 quotas: 2 within, 1 unreadable\n")


def test_namespace_without_a_quota_is_not_limited(invoke, write):
    file = write("all.yaml", namespace(), namespace("team-b"), quota())
    done = invoke("quota", "--cluster", file, "-n", "team-b")
    assert (done.exit_code, done.stdout) == (
        0,
        "Namespace team-b has no GPUQuota, so nothing is limited there; who holds GPUs is not shown.\n",
    )


def test_cluster_without_quotas_is_not_limited(invoke, write):
    file = write("all.yaml", listed("GPUQuota", "gpu-admission.io/v1alpha1"))
    done = invoke("quota", "--cluster", file)
    assert (done.exit_code, done.stdout) == (
        0,
        "There is no GPUQuota, so no namespace is limited; who holds GPUs is not shown.\n",
    )
    assert json.loads(invoke("quota", "--cluster", file, "-o", "json").stdout) == {"quotas": [], "notes": []}


def test_what_the_files_do_not_tell_is_noted(invoke, write):
    done = invoke("quota", "--cluster", write("quota.yaml", quota()), "-o", "json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["quotas"][0]["holders"], told["quotas"][0]["enforced"]) == (1, None, None)
    assert told["notes"] == [
        "there are no Pods in the files, so what they hold is not shown, and what is used only where a status says it",
        "there are no ResourceClaims in the files, so what they hold is not shown",
        "there are no Nodes in the files, so what pods hold is shown as the most that they could have got",
    ]


def test_settings_of_a_file_hold(invoke, write):
    weights = [{"products": ["Tesla-T4"], "sharing": "time-slicing", "gpus": "1/8"}]
    policy = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUAdmissionPolicy",
        "metadata": {"name": "default"},
        "spec": {"quota": {"weights": weights}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "chat", "namespace": "team-a"},
        "spec": {
            "nodeName": "gpu-t4-02",
            "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu.shared": "1"}}}],
        },
    }
    labels = {"nvidia.com/gpu.product": "Tesla-T4-SHARED", "nvidia.com/gpu.replicas": "4"}
    labels["nvidia.com/gpu.sharing-strategy"] = "time-slicing"
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "gpu-t4-02", "labels": labels},
        "status": {"allocatable": {"nvidia.com/gpu.shared": "4"}},
    }
    file = write("all.yaml", namespace(), listed("ResourceClaim", "resource.k8s.io/v1"), quota(), pod, node)

    def used(*arguments):
        told = json.loads(invoke("quota", "--cluster", file, "-o", "json", *arguments).stdout)
        return told["quotas"][0]["limits"][0]["used"]

    assert (used(), used("--settings", write("settings.yaml", policy))) == ("1/4", "1/8")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["--cluster", "x", "--context", "y"],
            "--cluster is for files, and --kubeconfig and --context are for a running cluster",
        ),
        (["-n", "../a b"], 'no namespace can be called "../a b"'),
        (["--cluster", "all.yaml", "-n", "team-x"], "there is no namespace team-x"),
        (
            ["--cluster", "namespace.yaml"],
            "nothing to tell: no GPUQuota in namespace.yaml; kubectl get gpuquotas -A -o yaml prints those of a cluster",
        ),
        (["--kubeconfig", "/nonexistent/config"], "there is no kubeconfig file /nonexistent/config"),
    ],
    ids=["files and cluster", "impossible namespace", "no such namespace", "no quota", "no kubeconfig"],
)
def test_wrong_usage_is_told(invoke, write, arguments, expected):
    write("all.yaml", namespace(), quota())
    write("namespace.yaml", namespace())
    done = invoke("quota", *arguments)
    assert (done.exit_code, done.stdout, done.stderr.splitlines()[-1]) == (2, "", f"Error: {expected}")


def test_files_that_cannot_be_read_are_told(invoke, write):
    done = invoke("quota", "--cluster", write("bad.yaml", "a: ["))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.endswith("problem; nothing was done\n")


@pytest.fixture
async def sandbox(tmp_path):
    """A sandbox with the cluster of the example and its quota; its kubeconfig is in `sandbox.file`."""
    sandbox = Sandbox(seed=1)
    sandbox.create(DEFINITION)
    folders = (EXAMPLES / "cluster", WITH_QUOTA)
    files = [file for folder in folders for file in sorted(folder.glob("*.yaml")) if file.name != "version.yaml"]
    documents = [each for file in files for each in yaml.safe_load_all(file.read_text())]
    objects = [each for one in documents for each in one.get("items", [one])]
    there = {each["metadata"]["name"] for each in sandbox.objects("Namespace")}
    for each in sorted(objects, key=lambda each: each["kind"] != "Namespace"):
        if each["kind"] != "Namespace" or each["metadata"]["name"] not in there:
            sandbox.create(each)
    await sandbox.start()
    sandbox.file = tmp_path / "kubeconfig"
    sandbox.file.write_text(sandbox.kubeconfig())
    yield sandbox
    await sandbox.stop()


@pytest.fixture
def live(sandbox, run):
    """Ask about the sandbox, as a process of its own."""

    async def live(*arguments):
        return await asyncio.to_thread(run, "quota", "--kubeconfig", sandbox.file, *arguments, **AWAY)

    return live


async def test_running_cluster_is_told(live):
    done = await live()
    assert (done.returncode, done.stderr) == (0, "")
    told = re.sub(r"(AGE|  \d+s)  ", "  ", done.stdout).split()
    assert told == (EXAMPLES / "quota" / "expected.txt").read_text().split()


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
        "Error: there is no namespace team-x",
    )


async def test_namespace_of_a_running_cluster_without_a_quota_is_not_limited(live):
    done = await live("-n", "team-legacy")
    assert (done.returncode, done.stdout) == (
        0,
        "Namespace team-legacy has no GPUQuota, so nothing is limited there; who holds GPUs is not shown.\n",
    )


async def test_cluster_that_does_not_know_quotas_is_told(live, sandbox):
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
async def test_quotas_that_may_not_be_listed_are_told(live, sandbox, arguments, more):
    said = 'gpuquotas.gpu-admission.io is forbidden: User "kim" cannot list resource "gpuquotas"'
    sandbox.faults.add(faults.failing(403, said), path="*/gpuquotas")
    done = await live(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"Error: {sandbox.url}: {said}; ask for the ClusterRole gpu-admission-quota-view{more}\n"


async def test_who_sees_nothing_but_quotas_is_told_what_is_not_shown(live, sandbox):
    for kind in ("pods", "nodes", "resourceclaims", "deviceclasses", "resourceslices", "namespaces/team-vision"):
        sandbox.faults.add(faults.failing(403, "forbidden"), path=f"*/{kind}")
    sandbox.faults.add(faults.failing(403, "forbidden"), path="*/gpuadmissionpolicies")
    done = await live("-n", "team-vision", "-o", "json")
    told = json.loads(done.stdout)
    (quota,) = told["quotas"]
    assert (done.returncode, quota["limits"][0]["used"], quota["holders"], quota["enforced"]) == (0, "4", None, None)
    assert told["notes"] == [
        "GPUAdmissionPolicy default cannot be read, so the built-in defaults hold",
        "you may not list Pods, so what they hold is not shown, and what is used only where a status says it",
        "you may not list ResourceClaims, so what they hold is not shown",
        "you may not list Nodes, so what pods hold is shown as the most that they could have got",
    ]


async def test_api_server_that_fails_is_told(live, sandbox):
    sandbox.faults.add(faults.failing(500, "etcdserver: leader changed"), path="*/pods")
    done = await live()
    assert (done.returncode, done.stderr) == (2, f"Error: {sandbox.url}: etcdserver: leader changed\n")


async def test_api_server_that_is_away_is_told(live, sandbox):
    await sandbox.stop()
    done = await live()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Error: GET /apis/gpu-admission.io/v1alpha1/gpuadmissionpolicies at {sandbox.url}: ")
