"""The pods of a workload, of which an explanation is about one."""

from __future__ import annotations

import pytest

from policies.analyses.explain.explanations import Peers


def of_replica_set(k8s, name, node="", replica_set="web-5d8f", **metadata):
    """A pod of a ReplicaSet of Deployment web."""
    found = k8s.pod({"nvidia.com/gpu": "4"}, name=name, stored=True, **({"nodeName": node} if node else {}))
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": replica_set, "uid": "u", "controller": True}
    found["metadata"] |= {"ownerReferences": [owner], "labels": {"pod-template-hash": "5d8f"}, **metadata}
    return found


def deployment(k8s, replicas):
    spec = {"replicas": replicas, "template": {"spec": k8s.pod({"nvidia.com/gpu": "4"})["spec"]}}
    metadata = {"name": "web", "namespace": "team-a"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


@pytest.fixture
def cluster(k8s):
    """A node of 8 GPUs, and three pods of Deployment web, of which one has the node."""
    deleted = of_replica_set(k8s, "web-x", deletionTimestamp="2026-11-30T12:00:00Z")
    return (
        k8s.node(allocatable={"nvidia.com/gpu": "8"}),
        of_replica_set(k8s, "web-0", "node-1"),
        of_replica_set(k8s, "web-2"),
        of_replica_set(k8s, "web-other", replica_set="web-other-5d8f"),
        deleted,
    )


def test_pod_is_one_of_all_pods_of_its_replica_set(ask, k8s, cluster):
    pod = of_replica_set(k8s, "web-1")
    assert ask(pod, pod, *cluster).peers == Peers("ReplicaSet web-5d8f", 3, 1)


def test_deployment_has_the_pods_of_its_replica_sets(ask, k8s, cluster):
    answer = ask(deployment(k8s, 4), *cluster)
    assert (answer.peers, answer.replicas) == (Peers("Deployment web", 4, 1), 1)


def test_workload_of_one_pod_that_has_none_yet_has_no_peers(ask, k8s):
    assert ask(deployment(k8s, 1), k8s.node(allocatable={"nvidia.com/gpu": "8"})).peers is None


def test_single_pod_has_no_peers(ask, k8s, cluster):
    assert ask(k8s.pod({"nvidia.com/gpu": "4"}), *cluster).peers is None
