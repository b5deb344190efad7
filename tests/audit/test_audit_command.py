"""`gpu-admission audit`: as a process, on files and on a running cluster."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from policies.analyses.audit import MOST_FINDINGS
from testbed.commands import run_command
from tests.cli.quota_files import quota
from tests.published import shared_device
from tests.sandbox import faults
from tests.sandbox.faults import FaultySandbox
from tests.usage.usage_objects import device, resource_slice

EXAMPLES = Path(__file__).parents[2] / "examples"
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"} | {"HOME": "/nonexistent"}


def run(*arguments, stdin=""):
    return run_command("audit", *arguments, stdin=stdin, cwd=Path.cwd(), environment=ENVIRONMENT)


@pytest.fixture
def files(tmp_path, k8s):
    """Write a cluster into a folder."""

    def write(*objects):
        folder = tmp_path / "cluster"
        folder.mkdir()
        lists = [k8s.listed(kind, version) for kind, version in k8s.KNOWN.items()]
        (folder / "all.yaml").write_text(yaml.safe_dump_all([*k8s.BASE, *lists, *objects]))
        return str(folder)

    return write


def test_operator_in_a_namespace_that_no_setting_names_is_noted_with_the_line_to_write(files):
    policy = {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy"},
        "spec": {},
        "status": {"namespace": "nvidia"},
    }
    done = run("--cluster", files(policy), "-o", "json")
    (note,) = json.loads(done.stdout)["notes"]
    assert note.startswith("the GPU Operator runs in nvidia, which configuration.operatorNamespaces does not name")
    assert note.endswith("write configuration: {operatorNamespaces: [nvidia, gpu-operator, nvidia-gpu-operator]}")


@pytest.mark.parametrize(("quotas", "is_noted"), [([quota()], True), ([], False)], ids=["quota", "no quota"])
def test_share_that_quotas_count_of_gpus_shared_without_limit_is_noted_as_missing(files, k8s, quotas, is_noted):
    slices = resource_slice([shared_device(device(), "unlimited")])
    done = run("--cluster", files(slices, k8s.namespace(), *quotas), "-o", "json")
    notes = json.loads(done.stdout)["notes"]
    assert any(each.startswith("a claim counts as a whole GPU, because the driver") for each in notes) is is_noted


def test_text_tells_what_is_broken_first_and_readiness_last(files, k8s):
    owners = k8s.owner("ReplicaSet", "train-5d8f")
    done = run(
        "--cluster",
        files(
            k8s.namespace(),
            k8s.namespace("team-b", ""),
            *(k8s.pod(f"train-5d8f-{number}", owners=owners) for number in range(4)),
            k8s.workload(),
            k8s.workload(name="other", namespace="team-b", schedulerName="volcano"),
            k8s.quota(namespace="team-b"),
            k8s.node_pool(),
        ),
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert (
        done.stdout
        == """\
Would be refused today
  GA321  Pod team-a/train-5d8f-0 and 3 more (ReplicaSet train-5d8f)
    spec.containers: requests GPUs from the device plugin in a namespace that converts: the pod is older than the opt-in, was created while the webhook was down, or was created by an exempt user
    What to do: create it again (kubectl rollout restart, if a workload creates it)

Warnings
  karpenter  NodePool gpus
    spec.template.spec.requirements: creates GPU nodes; Karpenter creates no nodes for pods with claims unless its support of DRA, which is alpha, is on; namespaces that convert: team-a
    What to do: turn on Karpenter's support of DRA (settings.enableDRA of 1.15 on AWS, ignoreDRARequests: false on Google Cloud), or leave namespaces that need its GPU nodes unconverted

Worth knowing
  GA312  ResourceQuota team-b/gpus
    spec.hard[requests.nvidia.com/gpu]: is "8", and does not count the claims of converted pods (DeviceClass "gpu.nvidia.com"); opting the namespace in would switch the quota off
    What to do: ask your administrator to limit claims too
    An administrator can limit the namespace by a GPUQuota and remove the limit from the ResourceQuota, or set spec.extendedResourceName: nvidia.com/gpu on the DeviceClass gpu.nvidia.com (Kubernetes 1.36)

Not reviewed
  PodTemplates, ReplicationControllers, DaemonSets, ReplicaSets, StatefulSets, Rollouts, CronJobs, Jobs, PodCliqueSets, JobSets, JAXJobs, MPIJobs, PaddleJobs, PyTorchJobs, TFJobs, XGBoostJobs, Notebooks, LeaderWorkerSets, RayClusters, RayJobs, RayServices: their pods are not counted among the workloads of a namespace

Readiness to convert
NAMESPACE  MODE     READY  WORKLOADS  CONVERT  REFUSED  LEFT
team-a     enabled  yes            1        1        0     0
team-b     off      no             1        0        0     1
team-b:
  Deployment other stays with the device plugin [GA315]
    spec.schedulerName: "volcano" is not in conversion.schedulers, so the pod is not converted
    What to do: list it there, because Volcano allocates ResourceClaims

4 objects would be refused, 1 with warnings; 1 of 2 namespaces ready to convert; 21 kinds not reviewed
"""
    )


def test_json_has_the_same_content(files, k8s):
    done = run("--cluster", files(k8s.namespace(), k8s.pod()), "-o", "json")
    assert (done.returncode, done.stderr) == (1, "")
    report = json.loads(done.stdout)
    assert report["findings"] == [
        {
            "rule": "GA321",
            "severity": "deny",
            "object": {"kind": "Pod", "namespace": "team-a", "name": "train"},
            "count": 1,
            "owners": [],
            "path": "spec.containers",
            "message": "requests GPUs from the device plugin in a namespace that converts: the pod is older than the opt-in, "
            "was created while the webhook was down, or was created by an exempt user",
            "remedy": "create it again (kubectl rollout restart, if a workload creates it)",
            "waived": "",
        }
    ]
    assert report["readiness"] == [
        {
            "namespace": "team-a",
            "mode": "enabled",
            "ready": True,
            "workloads": 1,
            "converts": 1,
            "refused": 0,
            "left": 0,
            "loses": 0,
            "unknown": 0,
            "obstacles": [],
            "preemption": None,
        }
    ]
    assert report["notReviewed"][0]["kinds"][:2] == ["PodTemplate", "ReplicationController"]
    assert (report["counts"]["deny"], report["findingsLeftOut"], report["notes"]) == (1, 0, [])


def test_cluster_without_denials_exits_with_0(files, k8s):
    done = run("--cluster", files(k8s.namespace(), k8s.workload()))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Not reviewed\n")


def test_example_cluster_can_be_audited():
    done = run("--cluster", EXAMPLES / "cluster", "--cluster", EXAMPLES / "cluster-in-use")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Readiness to convert\n" in done.stdout


def test_one_namespace_is_audited_alone(files, k8s):
    done = run("--cluster", files(k8s.namespace(), k8s.namespace("team-b"), k8s.pod()), "-n", "team-b", "-o", "json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["findings"]) == (0, [])
    assert [row["namespace"] for row in report["readiness"]] == ["team-b"]


def test_namespace_that_does_not_exist_is_no_good_news(files, k8s):
    done = run("--cluster", files(k8s.namespace()), "-n", "team-x")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, "Error: namespace team-x does not exist")


def test_namespace_that_cannot_be_is_refused():
    done = run("-n", "../a b")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith('Error: invalid namespace name "../a b"\n')


def test_names_of_namespaces_make_no_lines_of_their_own(files, k8s):
    done = run("--cluster", files(k8s.namespace("a\n\x07b", ""), k8s.workload(namespace="a\n\x07b")))
    assert "\na  b       off  " in done.stdout


def test_findings_that_are_left_out_are_reported(files, k8s):
    nodes = [
        k8s.thing("Node", f"n-{number}", labels={"nvidia.com/mig.config": f"x,{number}"})
        for number in range(MOST_FINDINGS + 1)
    ]
    done = run("--cluster", files(*nodes))
    assert "\n\n1 more finding not shown: a report has the 1,000 most severe; its numbers count all\n" in done.stdout
    assert "\n1,001 objects would be refused, " in done.stdout


def test_settings_of_the_cluster_hold(files, k8s):
    rules = [{"rule": "GA321", "severity": "audit"}]
    policy = k8s.thing("GPUAdmissionPolicy", "default", version="gpu-admission.io/v1alpha1", spec={"rules": rules})
    assert run("--cluster", files(k8s.namespace(), k8s.pod(), policy)).returncode == 0


def test_settings_that_are_refused_are_reported_and_the_defaults_hold(files, k8s):
    spec = {"conversion": {"nope": 1}}
    policy = k8s.thing("GPUAdmissionPolicy", "default", version="gpu-admission.io/v1alpha1", spec=spec)
    done = run("--cluster", files(policy), "-o", "json")
    report = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (1, "")
    assert [(each["object"]["kind"], each["path"]) for each in report["findings"]] == [
        ("GPUAdmissionPolicy", "spec.conversion.nope")
    ]
    (note,) = report["notes"]
    assert note == (
        "GPUAdmissionPolicy default, generation 0, is invalid, using the built-in defaults instead: "
        "Write a setting that docs/settings.md lists: nope is unknown; spec.conversion.nope"
    )


def test_settings_of_a_file_hold_instead(files, k8s, tmp_path):
    rules = [{"rule": "GA321", "severity": "warn"}]
    policy = k8s.thing("GPUAdmissionPolicy", "default", version="gpu-admission.io/v1alpha1", spec={"rules": rules})
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(policy))
    done = run("--cluster", files(k8s.namespace(), k8s.pod()), "--settings", tmp_path / "settings.yaml")
    assert (done.returncode, done.stdout[:9]) == (0, "Warnings\n")


def test_files_that_cannot_be_read_are_reported(tmp_path):
    (tmp_path / "bad.yaml").write_text("a: [")
    done = run("--cluster", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("problem; nothing was done\n")


def test_folder_without_manifests_is_an_error(tmp_path):
    (tmp_path / "empty.yaml").write_text("")
    done = run("--cluster", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"{tmp_path}: holds no Kubernetes objects\n1 problem; nothing was done\n"


def test_list_without_objects_is_an_error(tmp_path):
    (tmp_path / "empty.yaml").write_text("{apiVersion: v1, kind: List, items: []}")
    done = run("--cluster", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"nothing to audit: no objects in {tmp_path}" in done.stderr


@pytest.mark.parametrize("option", ["--kubeconfig", "--context"])
def test_files_and_a_running_cluster_exclude_each_other(option):
    done = run("--cluster", "x", option, "y")
    assert done.returncode == 2
    assert "--cluster is for files, and --kubeconfig and --context are for a running cluster" in done.stderr


def test_kubeconfig_that_is_not_there_is_reported():
    done = run("--kubeconfig", "/nonexistent/config")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Error: kubeconfig file /nonexistent/config not found\n"


def test_help_has_an_example():
    done = run("--help")
    assert done.returncode == 0
    assert "  gpu-admission audit -n team-a\n" in done.stdout


def test_files_are_audited_without_a_clients_libraries(files, k8s):
    code = (
        "import sys; from webhook.cli import main\n"
        f"try: main(['audit', '--cluster', {files(k8s.namespace())!r}])\n"
        "except SystemExit: print(sorted({'aiohttp', 'kubernetes_asyncio', 'cryptography'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\n[]\n")


@pytest.fixture
async def sandbox(tmp_path, k8s):
    """A sandbox with a namespace that converts and an escaped pod; its kubeconfig is in `sandbox.file`."""
    sandbox = FaultySandbox(seed=1)
    for document in (k8s.namespace(), k8s.pod(), *k8s.BASE[1:]):
        sandbox.create(document)
    await sandbox.start()
    sandbox.file = tmp_path / "kubeconfig"
    sandbox.file.write_text(sandbox.kubeconfig())
    yield sandbox
    await sandbox.stop()


async def live(sandbox, *arguments):
    return await asyncio.to_thread(run, "--kubeconfig", sandbox.file, *arguments)


async def test_running_cluster_is_audited(sandbox):
    done = await live(sandbox, "-o", "json")
    assert (done.returncode, done.stderr) == (1, "")
    report = json.loads(done.stdout)
    assert [(each["rule"], each["object"]["name"]) for each in report["findings"]] == [("GA321", "train")]
    assert report["notReviewed"] == []
    assert any(note.startswith("not served: clusterpolicies.nvidia.com") for note in report["notes"])


async def test_running_cluster_is_only_read(sandbox):
    await live(sandbox)
    assert {request.verb for request in sandbox.requests} <= {"get", "list", "watch"}


async def test_one_namespace_of_a_running_cluster_is_read_alone(sandbox):
    await live(sandbox, "-n", "team-a")
    asked = {request.namespace for request in sandbox.requests if request.resource == "deployments"}
    assert "" not in asked
    assert "team-a" in asked


async def test_api_server_that_is_away_is_reported(sandbox):
    await sandbox.stop()
    done = await live(sandbox)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Error: GET /version at {sandbox.url}: ")


async def test_api_server_that_refuses_is_reported(sandbox):
    sandbox.faults.add(faults.failing(500, "etcdserver: leader changed"), path="*/gpuadmissionpolicies")
    done = await live(sandbox)
    assert (done.returncode, done.stderr) == (2, f"Error: {sandbox.url}: etcdserver: leader changed\n")


async def test_first_lists_that_take_too_long_are_reported(sandbox):
    from webhook.cli.cluster_options import ClusterOptions
    from webhook.cli.running_clusters import NoClusterError, connected_client, read_cluster

    sandbox.faults.add(faults.half_open(), path="/api/v1/nodes")
    with pytest.raises(NoClusterError) as raised:
        async with (
            connected_client(ClusterOptions(kubeconfig=str(sandbox.file))) as client,
            read_cluster(client, seconds=0.5),
        ):
            pass
    assert str(raised.value).startswith(f"{sandbox.url}: after 0.5 seconds, not listed yet: nodes: ")
