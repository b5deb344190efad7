"""The readiness of namespaces and the proof of a migration have one verdict for each workload, with the same reason."""

from __future__ import annotations

import pytest

from policies.analyses.audit import Survey, audit
from policies.analyses.migrate.proof import prove_migration
from policies.outcome import Outcome
from policies.rules.settings import DEFAULTS
from tests.explain import conftest as k8s
from tests.outcome.clusters import BASE, GPU, bound
from tests.plan.nodes import gpu_node
from webhook.cluster.manifests import ManifestsView

H100 = "NVIDIA-H100-80GB-HBM3"
SHARED = {"nvidia.com/gpu.product": "Tesla-T4-SHARED", "nvidia.com/gpu.replicas": "4"}
NO_POOLS = k8s.empty_list("NodePool", "karpenter.sh/v1")


def h100(name="node-1", gpus=8):
    return gpu_node(name, gpus, product=H100, memory="81559")


def published(name, product="NVIDIA H100 80GB HBM3", memory="81559Mi", count=8):
    return k8s.resource_slice(k8s.gpus(count, product=product, memory=memory), name)


def deployment(name="web", replicas=2, **fields):
    template = k8s.pod({GPU: "1"}, **fields)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"replicas": replicas, "template": {"metadata": {}, "spec": template["spec"]}},
    }


QUOTA = {
    "apiVersion": "gpu-admission.io/v1alpha1",
    "kind": "GPUQuota",
    "metadata": {"name": "gpu", "namespace": "team-a"},
    "spec": {"limits": [{"name": "all", "gpus": 100}]},
}
CLUSTERS = {
    "nothing is lost": [h100(), bound("train", gpus=8), deployment()],
    "one pool is time-sliced": [
        h100("node-1"),
        gpu_node("node-2", 8, labels=SHARED),
        *(bound(f"train-{number}", gpus=number) for number in (1, 2, 3)),
    ],
    "the published GPU is another one": [
        gpu_node("node-1", 1, product="NVIDIA-A100-SXM4-80GB", memory="81920"),
        published("node-1", count=1),
        bound("train"),
    ],
    "fewer GPUs are published": [h100("node-1", 4), published("node-1", count=2), bound("train", gpus=4)],
    "conversion refuses it": [h100(), bound("train", nodeSelector={"nvidia.com/gpu.count": "8"})],
    "another scheduler": [h100(), deployment(schedulerName="volcano")],
    "a quota counts it": [h100(), bound("train", gpus=8), QUOTA],
    "it fits nowhere": [h100(), k8s.pod({GPU: "16"}, stored=True)],
    "it could preempt": [
        h100(),
        bound("low", gpus=8, priority=0),
        k8s.pod({GPU: "1"}, name="high", stored=True, priority=1000, priorityClassName="high"),
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high"},
            "value": 1000,
        },
    ],
}


def both(objects):
    """The row of the audit, and the proof."""
    view = ManifestsView([*BASE, NO_POOLS, k8s.empty_list("Deployment", "apps/v1"), *objects])
    survey = Survey(view, DEFAULTS)
    survey.add(objects)
    (row,) = audit(view, DEFAULTS, survey).readiness
    return row, prove_migration(view, DEFAULTS)


@pytest.mark.parametrize("objects", CLUSTERS.values(), ids=CLUSTERS)
def test_namespace_is_ready_if_and_only_if_the_proof_loses_and_leaves_nothing(objects):
    row, proof = both(objects)
    assert row.is_ready == (not any(each.loses or each.left for each in proof.workloads))
    assert row.workloads == len(proof.workloads)
    assert row.left + row.refused == sum(bool(each.left) for each in proof.workloads)
    assert row.loses == sum(each.loses and not each.left for each in proof.workloads)


@pytest.mark.parametrize("objects", CLUSTERS.values(), ids=CLUSTERS)
def test_reasons_are_those_of_the_proof(objects):
    row, proof = both(objects)
    proven = {
        f"{key}: {cell.sentence}"
        for each in proof.workloads
        if not each.left
        for key, cell in each.cells.items()
        if cell.outcome in (Outcome.LOST, Outcome.CHANGED) and key != "preemption"
        if (key, cell.outcome) != ("devices", Outcome.LOST)
    }
    proven |= {finding.message for each in proof.workloads if each.left for finding in each.findings}
    assert {each.message for each in row.obstacles} == proven


def test_pods_that_a_time_sliced_pool_keeps_from_conversion_get_the_reason_and_the_remedy():
    row, _ = both(CLUSTERS["one pool is time-sliced"])
    (obstacle,) = row.obstacles
    assert (row.is_ready, row.left, obstacle.rule.id, obstacle.count) == (False, 3, "GA306", 3)
    assert 'write gpu-admission.io/sharing: "exclusive" to get a whole GPU by DRA' in obstacle.remedy


def test_time_sliced_pool_beside_dra_pools_leaves_the_audit_and_the_proof_of_one_mind():
    labels = {**SHARED, "nvidia.com/gpu.sharing-strategy": "time-slicing"}
    nodes = [published("node-1"), gpu_node("node-1", 0), gpu_node("node-2", 32, labels=labels)]
    row, proof = both([*nodes, bound("train", node="node-2"), deployment()])
    assert (row.is_ready, row.converts, all(each.left for each in proof.workloads)) == (False, 0, True)
    assert {each.rule.id for each in row.obstacles} == {"GA306"}
    workload = deployment()
    workload["spec"]["template"]["metadata"] = {"annotations": {"gpu-admission.io/sharing": "exclusive"}}
    row, proof = both([*nodes, workload])
    assert (row.is_ready, row.converts, [each.left for each in proof.workloads]) == (True, 1, [""])


def test_gpus_of_another_product_are_named():
    row, _ = both(CLUSTERS["the published GPU is another one"])
    assert (row.is_ready, row.loses) == (False, 1)
    assert [(each.rule.id, each.message) for each in row.obstacles] == [
        ("migration-loss", f"devices: 1 pod would get 1 whole {H100} instead of 1 whole NVIDIA-A100-SXM4-80GB")
    ]


def test_workload_whose_gpus_are_not_known_afterwards_leaves_readiness_unknown():
    objects = [h100(), bound("train")]
    view = ManifestsView([each for each in BASE if each["kind"] != "ResourceSliceList"] + [NO_POOLS, *objects])
    survey = Survey(view, DEFAULTS)
    survey.add(objects)
    (row,) = audit(view, DEFAULTS, survey).readiness
    assert (row.is_ready, row.unknown, row.converts) == (None, 1, 0)
    assert [(each.rule.id, each.message) for each in row.obstacles] == [
        ("migration-unknown", "no ResourceSlices are known, so the devices are unknown")
    ]


def test_pods_that_no_node_takes_afterwards_have_one_reason():
    row, proof = both([h100("node-1", 4), published("node-1", count=2), bound("train", gpus=4)])
    assert {key for key, cell in proof.workloads[0].cells.items() if cell.outcome is Outcome.LOST} == {"fit", "devices"}
    assert [each.message.partition(":")[0] for each in row.obstacles] == ["fit"]
