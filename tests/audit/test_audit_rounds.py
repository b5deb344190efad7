"""The leader's audit, against the sandbox."""

from __future__ import annotations

import asyncio
import itertools
import threading
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from policies.analyses.wait_reasons import WaitReason
from policies.rules.settings import DEFAULTS
from testbed.waiting import until_right
from tests.sandbox import faults
from tests.sandbox.faults import FaultySandbox
from webhook.cluster.answers import APIError, Unreachable
from webhook.cluster.client import APIClient
from webhook.cluster.clockwork import Clockwork
from webhook.cluster.resources import RESOURCES
from webhook.cluster.sync import Sync
from webhook.controllers.audit_round import AuditRound

NOON = datetime(2027, 1, 1, 12, tzinfo=UTC)
NODE_POOLS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "nodepools.karpenter.sh"},
    "spec": {
        "group": "karpenter.sh",
        "scope": "Cluster",
        "names": {"kind": "NodePool", "plural": "nodepools", "singular": "nodepool", "listKind": "NodePoolList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        ],
    },
}


@pytest.fixture
async def cluster(tmp_path, k8s):
    """A sandbox with two namespaces, one of which converts, a view of it, and an audit."""
    sandbox = FaultySandbox(seed=1)
    for document in (k8s.namespace(), k8s.namespace("team-b", ""), *k8s.BASE[1:]):
        sandbox.create(document)
    await sandbox.start()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(sandbox.kubeconfig())
    client = await APIClient.connect(str(kubeconfig), environ={})
    sync = Sync(client)
    sync.start(["gpu-operator"])
    await asyncio.wait_for(sync.wait_for_first(), 60)
    cluster = type("Cluster", (), {})()
    cluster.sandbox, cluster.client, cluster.view = sandbox, client, sync.view
    cluster.seconds = 0.0
    clockwork = Clockwork(clock=lambda: cluster.seconds, now=lambda: NOON)
    cluster.audit = AuditRound(client, sync.view, lambda: DEFAULTS, clockwork=clockwork)
    yield cluster
    await sync.close()
    await client.close()
    await sandbox.stop()


def findings_of(audit):
    return [(each.rule.id, each.kind, each.name, each.count) for each in audit.report.findings]


async def test_round_finds_what_is_there(cluster, k8s):
    owners = k8s.owner("ReplicaSet", "train-5d8f")
    for number in range(3):
        cluster.sandbox.create(k8s.pod(f"train-5d8f-{number}", owners=owners))
    cluster.sandbox.create(k8s.workload(namespace="team-b"))
    await cluster.audit.round()
    assert findings_of(cluster.audit) == [("GA321", "Pod", "train-5d8f-0", 3)]
    rows = [(row.namespace, row.workloads, row.converts) for row in cluster.audit.report.readiness]
    assert rows == [("team-a", 0, 0), ("team-b", 1, 1)]
    assert cluster.audit.report.gaps == ()


def refused_workload(k8s, **fields):
    """A Deployment of two pods, of which none exists."""
    refused = k8s.workload(namespace="team-b", **fields)
    refused["spec"]["replicas"] = 2
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: x"}
    refused["metadata"]["creationTimestamp"] = "2027-01-01T11:00:00Z"
    return {**refused, "status": {"replicas": 0, "conditions": [failure], "observedGeneration": 1}}


async def test_pods_that_workloads_lack_are_counted_until_they_exist(cluster, k8s):
    cluster.sandbox.create(refused_workload(k8s))
    await cluster.audit.round()
    assert cluster.audit.count_missing_pods() == {WaitReason.QUOTA: 2}
    hashed = {"pod-template-hash": "5d8f"}
    for number in range(2):
        owners = k8s.owner("ReplicaSet", "train-5d8f")
        cluster.sandbox.create(k8s.pod(f"train-5d8f-{number}", namespace="team-b", owners=owners, labels=hashed))

    async def pods_are_seen():
        return "" if len([*cluster.view.known_objects("Pod", "team-b")]) == 2 else "pods are not seen"

    await until_right(pods_are_seen, 20)
    assert cluster.audit.count_missing_pods() == {WaitReason.QUOTA: 2}  # counted once a minute
    cluster.seconds += 60
    assert cluster.audit.count_missing_pods() == {}


async def test_workloads_are_explained_for_a_few_seconds_only(cluster, k8s):
    cluster.sandbox.create(refused_workload(k8s))
    await cluster.audit.round()
    ticks = itertools.count(10, 5)
    cluster.audit.clockwork = Clockwork(clock=lambda: next(ticks), now=lambda: NOON)
    assert cluster.audit.count_missing_pods() == {WaitReason.UNKNOWN: 2}


async def test_pods_are_read_whole_because_the_view_keeps_no_environment(cluster, k8s):
    pod = k8s.pod(namespace="team-b", gpus=0)
    pod["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    cluster.sandbox.create(pod)
    await cluster.audit.round()
    assert findings_of(cluster.audit) == [("GA601", "Pod", "train", 1)]


async def test_node_pools_are_read_where_karpenter_is_installed(cluster, k8s):
    cluster.sandbox.create(NODE_POOLS)
    cluster.sandbox.create(k8s.node_pool())
    await cluster.audit.round()
    assert findings_of(cluster.audit) == [("karpenter", "NodePool", "gpus", 1)]


async def test_collections_of_many_pages_are_read_to_their_end(cluster, k8s):
    for number in range(501):
        cluster.sandbox.create(k8s.pod(f"p-{number:03}"))
    await cluster.audit.round()
    assert findings_of(cluster.audit) == [("GA321", "Pod", "p-000", 501)]


async def test_what_may_not_be_listed_is_unknown(cluster):
    path = RESOURCES["Deployment"].path()
    cluster.sandbox.faults.add(faults.failing(403, "forbidden"), path=path, count=1)
    await cluster.audit.round()
    gap = (
        "Deployments (forbidden: list deployments.apps): their pods are not counted among the workloads of a namespace"
    )
    assert [str(gap) for gap in cluster.audit.report.gaps] == [gap]


async def test_failed_round_keeps_what_was_found_before(cluster, k8s):
    await cluster.audit.round()
    before = cluster.audit.summary()
    cluster.sandbox.create(k8s.pod())
    cluster.sandbox.faults.add(faults.failing(500), path=RESOURCES["Job"].path(), count=1)
    with pytest.raises(APIError):
        await cluster.audit.round()
    assert cluster.audit.summary() == before


async def test_api_server_that_is_away_fails_the_round(cluster):
    await cluster.sandbox.stop()
    with pytest.raises(Unreachable):
        await cluster.audit.round()
    assert (cluster.audit.report, cluster.audit.summary()) == (None, None)


async def test_summary_is_what_the_status_holds(cluster, k8s):
    cluster.sandbox.create(k8s.pod())
    await cluster.audit.round()
    assert cluster.audit.summary() == {
        "time": "2027-01-01T12:00:00Z",
        "summary": "1 object would be refused, 0 with warnings; 1 of 1 namespace ready to convert",
        "counts": {
            "deny": 1,
            "warn": 0,
            "audit": 0,
            "waived": 0,
            "kindsNotReviewed": 0,
            "namespaces": 1,
            "namespacesReady": 1,
            "namespacesOptedIn": 1,
            "workloads": 1,
            "workloadsConvert": 1,
        },
    }


async def test_metrics_are_those_of_the_last_audit(cluster, k8s):
    registry = CollectorRegistry()
    registry.register(cluster.audit.metrics)
    assert b"gpu_admission_audit_findings{" not in generate_latest(registry)
    cluster.sandbox.create(k8s.pod())
    cluster.sandbox.create(k8s.workload(namespace="team-b", schedulerName="volcano"))
    await cluster.audit.round()
    lines = generate_latest(registry).decode().splitlines()
    assert [line for line in lines if not line.startswith("#") and not line.endswith(" 0.0")] == [
        'gpu_admission_audit_findings{rule="GA321",severity="deny"} 1.0',
        'gpu_admission_audit_namespaces{mode="enabled",ready="true"} 1.0',
        'gpu_admission_audit_namespaces{mode="off",ready="false"} 1.0',
        'gpu_admission_audit_workloads{mode="enabled",outcome="converts"} 1.0',
        'gpu_admission_audit_workloads{mode="off",outcome="left"} 1.0',
        f"gpu_admission_audit_last_timestamp_seconds {NOON.timestamp():.10g}".replace("1798804800", "1.7988048e+09"),
    ]


async def test_forgotten_audit_has_no_metrics(cluster):
    await cluster.audit.round()
    cluster.audit.forget()
    assert (cluster.audit.report, cluster.audit.summary()) == (None, None)


class WaitingView:
    """A view that answers no question before it is let go."""

    def __init__(self, view):
        self._view = view
        self.asked = threading.Event()
        self.go = threading.Event()
        self.questions = 0

    def __getattr__(self, name):
        return getattr(self._view, name)

    def get(self, kind, name, namespace=""):
        self.questions += 1
        self.asked.set()
        self.go.wait(60)
        return self._view.get(kind, name, namespace)


async def test_loop_turns_while_the_audit_computes(cluster, k8s):
    cluster.sandbox.create(k8s.pod())
    view = WaitingView(cluster.view)
    audit = AuditRound(cluster.client, view, lambda: DEFAULTS)
    task = asyncio.create_task(audit.round())
    await asyncio.to_thread(view.asked.wait, 20)
    assert not task.done()
    view.go.set()
    await task
    assert findings_of(audit) == [("GA321", "Pod", "train", 1)]


async def test_round_that_is_cut_off_computes_no_further(cluster, k8s):
    for number in range(50):
        cluster.sandbox.create(k8s.pod(f"p-{number}", gpus=number + 1))
    view = WaitingView(cluster.view)
    audit = AuditRound(cluster.client, view, lambda: DEFAULTS)
    before = set(threading.enumerate())
    task = asyncio.create_task(audit.round())
    await asyncio.to_thread(view.asked.wait, 20)
    task.cancel()
    await asyncio.wait([task])
    (worker,) = (each for each in set(threading.enumerate()) - before if each.daemon)
    view.go.set()
    await asyncio.to_thread(worker.join, 20)
    assert (task.cancelled(), worker.is_alive(), audit.report) == (True, False, None)
    assert view.questions < 50
