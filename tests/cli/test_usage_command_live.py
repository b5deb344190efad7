"""`gpu-admission usage` on a running cluster: what it prints and how it ends."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.cli.example_sandboxes import example_sandbox
from tests.cli.quota_files import AWAY, EXAMPLES
from tests.explain.conftest import taint_rule
from tests.sandbox import faults

CLUSTERS = ("cluster", "cluster-in-use", "cluster-with-quota", "cluster-busy")
READ = {"Namespace", "Node", "Pod", "ResourceClaim", "ResourceSlice"}


@pytest.fixture
async def sandbox(tmp_path):
    """A sandbox with the cluster of the example; its kubeconfig is in `sandbox.file`."""
    async with example_sandbox(tmp_path, *CLUSTERS, kinds=READ) as sandbox:
        yield sandbox


@pytest.fixture
def live(sandbox, run):
    """Ask about the sandbox, in a separate process."""

    async def live(*arguments):
        return await asyncio.to_thread(run, "usage", "--kubeconfig", sandbox.file, *arguments, **AWAY)

    return live


async def test_running_cluster_is_reported(live):
    done = await live()
    assert (done.returncode, done.stderr) == (0, "")
    # Its pods were created a moment ago, so that none of them waits yet.
    _, blank, expected = (EXAMPLES / "usage" / "expected.txt").read_text().partition("\n\n")
    assert done.stdout == f"No pod waits for GPUs.{blank}{expected}"


@pytest.mark.parametrize(
    ("hidden", "reason", "why"),
    [
        ("", "noNode", "no node fits: request gpu requests 4 devices of class gpu.nvidia.com; none of 8 can serve it"),
        ("*/deviceclasses", "unknown", "you may not list everything that decides where it fits"),
    ],
    ids=["all is listed", "classes are not"],
)
async def test_pod_that_waits_in_a_running_cluster_is_explained(tmp_path, run, hidden, reason, why):
    created = datetime.now(UTC) - timedelta(hours=1)
    async with example_sandbox(tmp_path, *CLUSTERS, kinds={*READ, "DeviceClass"}, clock=lambda: created) as sandbox:
        if hidden:
            sandbox.faults.add(faults.failing(403, "forbidden"), path=hidden)
        done = await asyncio.to_thread(run, "usage", "--kubeconfig", sandbox.file, "-o", "json", **AWAY)
    (row,) = json.loads(done.stdout)["waiting"]
    assert (row["name"], row["reason"], row["why"]) == ("pretrain", reason, why)


@pytest.mark.parametrize("command", [("usage", "-o", "json"), ("explain", "-o", "json"), ("report", "-o", "-")])
async def test_workload_whose_pods_are_refused_in_a_running_cluster_waits(tmp_path, run, command):
    failed = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: team"}
    pod = {"containers": [{"name": "main", "image": "web", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "team-a"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod},
        },
        "status": {"conditions": [failed]},
    }
    created = datetime.now(UTC) - timedelta(hours=1)
    async with example_sandbox(tmp_path, *CLUSTERS[:1], clock=lambda: created) as sandbox:
        sandbox.create(web)
        name, *options = command
        done = await asyncio.to_thread(run, name, "--kubeconfig", sandbox.file, *options, **AWAY)
    assert "its pods are refused: exceeded quota: team" in done.stdout, done.stderr


async def test_running_cluster_is_only_read(live, sandbox):
    await live()
    assert {request.verb for request in sandbox.requests} == {"list"}


async def test_free_devices_that_a_rule_taints_are_unusable(live, sandbox):
    sandbox.upgrade("1.37.0")
    assert "DeviceTaintRule" not in (await live()).stdout
    sandbox.create(taint_rule(driver="gpu.nvidia.com"))
    text = "the device has the taint example.com/repair:NoSchedule of DeviceTaintRule repair"
    assert text in (await live("-o", "json")).stdout


@pytest.mark.parametrize(("version", "is_noted"), [("1.37.0", True), ("1.36.2", False)])
async def test_rules_that_may_not_be_listed_are_noted_where_they_are_applied(live, sandbox, version, is_noted):
    sandbox.upgrade(version)
    sandbox.faults.add(faults.failing(403, "forbidden"), path="*/devicetaintrules")
    done = await live()
    note = "Note: you may not list DeviceTaintRules, so GPUs that they taint count as free."
    assert (note in done.stdout) is is_noted


async def test_user_who_may_not_list_events_is_told_so(live, sandbox):
    sandbox.faults.add(faults.failing(403, "forbidden"), path="*/events")
    done = await live()
    assert done.returncode == 0
    assert (
        "Note: you may not list Events, so it is unknown why a node does not prepare the claims of a pod."
        in " ".join(done.stdout.split())
    )


async def test_pods_without_gpus_fill_a_node(live, sandbox):
    resources = {"requests": {"cpu": "206", "memory": "1Gi"}}
    spec = {"nodeName": "gpu-h100-01", "containers": [{"name": "main", "image": "batch", "resources": resources}]}
    metadata = {"name": "batch", "namespace": "team-a"}
    sandbox.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    done = await live("--by", "product")
    assert "on gpu-h100-01: the node has 0 of 207.8 cpu left" in done.stdout


async def test_namespace_is_shown_with_what_others_leave(live):
    done = await live("-n", "team-vision")
    assert done.returncode == 0
    assert (
        "NVIDIA-H100-80GB-HBM3              [#####==========.....]     16    12             4     4         0"
        in done.stdout
    )


async def test_user_of_one_namespace_sees_what_it_holds(live, sandbox):
    for kind in ("nodes", "resourceslices", "pods", "resourceclaims"):
        sandbox.faults.add(faults.failing(403, "forbidden"), path=f"*v1/{kind}")
    done = await live("-n", "team-vision", "-o", "json")
    reported = json.loads(done.stdout)
    assert (done.returncode, reported["products"][0]["held"], reported["products"][0]["heldByNamespace"]) == (
        1,
        None,
        "6",
    )
    assert reported["notes"] == [
        (
            "you may not list Nodes, so device plugins are seen only by the pods that hold their GPUs, and cordons and taints "
            "not at all"
        ),
        (
            "you may list Pods of namespace team-vision only, so it is unknown how many GPUs of device plugins are held, and "
            "which nodes are full"
        ),
        (
            "you may list ResourceClaims of namespace team-vision only, so it is unknown how many GPUs of the DRA driver are "
            "held"
        ),
        (
            "you may not list ResourceSlices, so GPUs of the DRA driver are shown only if claims hold them, without their "
            "product"
        ),
    ]


async def test_kinds_that_may_not_be_listed_are_noted(live, sandbox):
    sandbox.faults.add(faults.failing(403, "forbidden"), path="*/pods")
    done = await live("--by", "product")
    assert done.returncode == 1
    assert "Tesla-T4                           [????????????????????]      2     ?     ?         ?" in done.stdout
    assert "Note: you may not list Pods, so it is unknown how many GPUs of device plugins are held" in done.stdout


async def test_claims_are_unknown_if_another_version_of_them_may_be_served(live, sandbox):
    sandbox.faults.add(faults.failing(404, "the server could not find the requested resource"), path="*/resourceclaims")
    sandbox.faults.add(faults.failing(403, "forbidden"), path="/version")
    done = await live("-o", "json")
    assert (done.returncode, json.loads(done.stdout)["notes"]) == (
        1,
        [
            (
                "the API server does not serve ResourceClaims of resource.k8s.io/v1, so it is unknown how many GPUs of the DRA "
                "driver are held"
            )
        ],
    )


async def test_namespace_that_does_not_exist_is_refused(live):
    done = await live("-n", "team-x")
    assert (done.returncode, done.stdout, done.stderr.splitlines()[-1]) == (
        2,
        "",
        "Error: namespace team-x does not exist",
    )


async def test_api_server_that_fails_is_reported(live, sandbox):
    sandbox.faults.add(faults.failing(500, "etcdserver: leader changed"), path="*/pods")
    done = await live()
    assert (done.returncode, done.stderr) == (2, f"Error: {sandbox.url}: etcdserver: leader changed\n")


async def test_api_server_that_is_away_is_reported(live, sandbox):
    await sandbox.stop()
    done = await live()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: GET /api")
