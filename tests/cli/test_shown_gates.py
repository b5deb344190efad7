"""Feature gates that the API server shows in `/metrics`, in commands that read a running cluster."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from testbed import libyaml
from tests.cli.example_sandboxes import example_sandbox
from tests.cli.quota_files import AWAY
from tests.sandbox import faults
from webhook.cli.cluster_options import ClusterOptions
from webhook.cli.running_clusters import connected_client, read_cluster

METRICS = """\
kubernetes_feature_enabled{name="DRAExtendedResource",stage="BETA"} 1
kubernetes_feature_enabled{name="DRADeviceTaints",stage="BETA"} 0
kubernetes_feature_enabled{name="APIServerTracing",stage=""} 1
"""
GATES = {"DRAExtendedResource": True, "DRADeviceTaints": False}
CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: one, namespace: team-a}
spec:
  devices:
    requests:
    - {name: gpu, exactly: {deviceClassName: gpu.nvidia.com, tolerations: [{operator: Exists}]}}
"""


@pytest.fixture
async def sandbox(tmp_path):
    """A sandbox that shows these gates; its kubeconfig is in `sandbox.file`."""

    async def show(_request, _handler):
        return web.Response(text=METRICS)

    async with example_sandbox(tmp_path, "cluster") as sandbox:
        sandbox.faults.add(show, path="/metrics")
        yield sandbox


async def gates_of(sandbox):
    options = ClusterOptions(kubeconfig=str(sandbox.file))
    async with connected_client(options) as client, read_cluster(client) as cluster:
        return cluster.view.feature_gates()


async def test_gates_of_the_table_are_read(sandbox):
    assert await gates_of(sandbox) == GATES


async def test_metrics_that_may_not_be_read_show_no_gates(sandbox):
    sandbox.faults.clear()
    sandbox.faults.add(faults.failing(403, "forbidden"), path="/metrics")
    assert await gates_of(sandbox) == {}


async def test_snapshot_has_the_gates(run, sandbox, tmp_path):
    await asyncio.to_thread(run, "snapshot", "--kubeconfig", sandbox.file, tmp_path / "taken", **AWAY)
    head = libyaml.load((tmp_path / "taken" / "snapshot.yaml").read_text())
    assert head["featureGates"] == GATES


async def test_review_warns_of_a_field_whose_gate_the_cluster_has_off(run, sandbox, write):
    done = await asyncio.to_thread(run, "review", "--kubeconfig", sandbox.file, write("claim.yaml", CLAIM), **AWAY)
    said = " ".join(done.stdout.split())
    assert "Remove them, or turn the gate on: tolerations is dropped by Kubernetes 1.36 unless" in said
