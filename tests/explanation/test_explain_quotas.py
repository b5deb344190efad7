"""Explanations while the quota of the namespace is full."""

from __future__ import annotations

import pytest

from policies.outcome import Feasibility, ObstacleKind

OVER = (
    "unless these pods themselves hold the quota, they are refused until there is room: exceeded quota: gpu, "
    'requested: all=2, used: all=2, limited: all=3; requested 2 GPUs, but limit "all" has 1 of 3 left'
)


@pytest.fixture
def full(k8s):
    """A namespace with a quota of three GPUs, of which a pod holds two, and a node with six others."""
    quota = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": "team-a"},
        "spec": {"limits": [{"name": "all", "gpus": 3}]},
    }
    held = k8s.pod({"nvidia.com/gpu": "2"}, name="serve-1", stored=True, nodeName="node-1")
    return quota, held, k8s.node()


def deployment(k8s, gpus="2", **metadata):
    pod = k8s.pod({"nvidia.com/gpu": gpus})
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "serve", "namespace": "team-a", **metadata},
        "spec": {"template": {"metadata": {"labels": {"app": "serve"}}, "spec": pod["spec"]}},
    }


def test_pod_beyond_the_quota_is_refused(ask, k8s, full):
    answer = ask(k8s.pod({"nvidia.com/gpu": "2"}), *full)
    (obstacle,) = answer.obstacles
    assert (answer.verdict, obstacle.kind, obstacle.rule) == (Feasibility.BLOCKED, ObstacleKind.REFUSED, "GA502")


@pytest.mark.parametrize("metadata", [{}, {"uid": "of-serve"}], ids=["from-a-file", "stored"])
def test_pods_of_a_workload_are_looked_for_though_the_quota_is_full(ask, k8s, full, metadata):
    answer = ask(deployment(k8s, **metadata), *full)
    assert answer.obstacles == ()
    assert answer.nodes is not None
    (warning,) = (each for each in answer.warnings if each.rule == "GA502")
    assert warning.message == OVER


def test_pods_of_a_workload_are_converted_though_the_quota_is_full(ask, k8s, full):
    opted_in = k8s.namespace("team-a", **{"gpu-admission.io/dra": "enabled"})
    answer = ask(deployment(k8s), opted_in, *full, k8s.resource_slice(k8s.gpus(8)))
    assert answer.converted_to.startswith("gpu-")
    assert answer.verdict is Feasibility.FITS


def test_pods_of_a_workload_that_are_refused_for_another_reason_stay_refused(ask, k8s, full):
    opted_in = k8s.namespace("team-a", **{"gpu-admission.io/dra": "enabled"})
    answer = ask(deployment(k8s, gpus="1.5"), opted_in, *full)
    assert [each.rule for each in answer.obstacles] == ["GA302"]


def test_pods_of_a_workload_within_the_quota_are_not_spoken_of(ask, k8s, full):
    assert [each.rule for each in ask(deployment(k8s, gpus="1"), *full).warnings if each.rule == "GA502"] == []
