"""Explanations while the quota of the namespace is full."""

from __future__ import annotations

import pytest

from policies.outcome import Feasibility, ObstacleKind

OVER = (
    "unless these pods themselves hold the quota, they are refused until there is room: needs 2 GPUs, 1 of 3 "
    'left in limit "all"; exceeded quota: gpu'
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


DEVICES = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"


def native(hard, used=None):
    """A ResourceQuota of Kubernetes in team-a."""
    made = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "team-a"}}
    return {**made, "spec": {"hard": hard}, "status": {"used": used or dict.fromkeys(hard, "0")}}


@pytest.fixture
def opted_in(k8s):
    """A namespace that converts, and a node with eight GPUs of the DRA driver."""
    return (
        k8s.namespace("team-a", **{"gpu-admission.io/dra": "enabled"}),
        k8s.node(),
        k8s.resource_slice(k8s.gpus(8)),
        {"serverVersion": {"gitVersion": "v1.36.2"}},
    )


def test_claim_of_a_converted_pod_that_a_resource_quota_refuses_is_an_obstacle(ask, k8s, opted_in):
    answer = ask(k8s.pod({"nvidia.com/gpu": "2"}), *opted_in, native({DEVICES: "8"}, {DEVICES: "7"}))
    (obstacle,) = answer.obstacles
    assert answer.headline == "it fits no node: a ResourceQuota is exceeded"
    assert (answer.verdict, obstacle.kind) == (Feasibility.BLOCKED, ObstacleKind.QUOTA_EXCEEDED)
    assert obstacle.remedy == "wait until there is room, or raise the limit of ResourceQuota q"
    assert obstacle.sentence == (
        "the pod does not get its claim, because a ResourceQuota refuses it: exceeded quota: q, requested: "
        f"{DEVICES}=2, used: {DEVICES}=7, limited: {DEVICES}=8"
    )
    assert answer.warnings == ()


def test_claim_within_a_resource_quota_fits(ask, k8s, opted_in):
    answer = ask(k8s.pod({"nvidia.com/gpu": "2"}), *opted_in, native({DEVICES: "8"}, {DEVICES: "6"}))
    assert answer.verdict is Feasibility.FITS


def test_claim_that_a_limit_never_admits_has_another_remedy(ask, k8s, opted_in):
    answer = ask(deployment(k8s), *opted_in, native({DEVICES: "1"}))
    (obstacle,) = answer.obstacles
    assert obstacle.remedy == "raise the limit of ResourceQuota q, or request fewer devices"


def test_pods_of_a_workload_are_looked_for_though_a_resource_quota_is_full(ask, k8s, opted_in):
    answer = ask(deployment(k8s), *opted_in, native({DEVICES: "8"}, {DEVICES: "8"}))
    assert (answer.verdict, [each.rule for each in answer.warnings]) == (Feasibility.FITS, ["GA338"])


def test_stored_pod_waits_for_the_claim_that_a_resource_quota_refuses(ask, k8s, opted_in):
    pod = k8s.pod(stored=True, resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"))
    answer = ask(pod, *opted_in, k8s.template({"count": 2}), native({DEVICES: "1"}))
    assert [each.kind for each in answer.obstacles] == [ObstacleKind.QUOTA_EXCEEDED]


def test_claim_that_exists_is_not_refused_any_more(ask, k8s, opted_in):
    pod = k8s.pod(stored=True, resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"))
    pod["status"] = {"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": "train-gpus"}]}
    made = k8s.claim({"count": 2}, name="train-gpus", stored=True)
    answer = ask(pod, *opted_in, k8s.template({"count": 2}), made, native({DEVICES: "1"}))
    assert answer.verdict is Feasibility.FITS


def test_pod_whose_extended_resource_a_resource_quota_refuses_is_not_created(ask, k8s):
    node = k8s.node(allocatable={"nvidia.com/gpu": "8"})
    key = "requests.nvidia.com/gpu"
    answer = ask(k8s.pod({"nvidia.com/gpu": "2"}), node, native({key: "1"}))
    assert [each.sentence for each in answer.obstacles] == [
        f"a ResourceQuota refuses the pod: exceeded quota: q, requested: {key}=2, used: {key}=0, limited: {key}=1"
    ]


@pytest.fixture
def served(k8s):
    """A namespace that converts nothing, and two nodes: one where a class serves nvidia.com/gpu, one with a device plugin."""
    return (
        k8s.device_class(extendedResourceName="nvidia.com/gpu"),
        k8s.node(),
        k8s.node("node-2", allocatable={"nvidia.com/gpu": "1"}),
        k8s.resource_slice(k8s.gpus(8)),
        {"serverVersion": {"gitVersion": "v1.36.2"}},
    )


REFUSED = (
    "the pod waits, because a ResourceQuota refuses the claim that the scheduler makes for its extended resources: "
    "exceeded quota: q, requested: {0}=2, used: {0}={1}, limited: {0}={2}"
)


def test_claim_of_the_scheduler_that_a_limit_never_admits_fits_no_node(ask, k8s, served):
    answer = ask(k8s.pod({"nvidia.com/gpu": "2"}), *served, native({DEVICES: "1"}))
    (reason,) = (each.reason for each in answer.groups if each.nodes == ("node-1",))
    assert answer.verdict is Feasibility.IMPOSSIBLE
    assert (reason.kind, reason.sentence) == ("quota", REFUSED.format(DEVICES, 0, 1))
    assert reason.details == ("raise the limit of ResourceQuota q, or request fewer devices",)


def test_claim_of_the_scheduler_waits_for_room_in_a_resource_quota(ask, k8s, served):
    answer = ask(k8s.pod({"nvidia.com/gpu": "2"}), *served, native({DEVICES: "8"}, {DEVICES: "7"}))
    (reason,) = (each.reason for each in answer.groups if each.nodes == ("node-1",))
    assert (answer.verdict, answer.fit_if_empty) == (Feasibility.FULL, 1)
    assert reason.sentence == REFUSED.format(DEVICES, 7, 8)


def test_pod_that_a_device_plugin_serves_needs_no_claim_within_a_quota(ask, k8s, served):
    answer = ask(k8s.pod({"nvidia.com/gpu": "1"}), *served, native({DEVICES: "0"}))
    assert [(each.nodes, each.fits) for each in answer.groups] == [(("node-2",), True), (("node-1",), False)]


def test_claim_of_the_scheduler_within_a_resource_quota_fits(ask, k8s, served):
    answer = ask(k8s.pod({"nvidia.com/gpu": "2"}), *served, native({DEVICES: "8", "requests.nvidia.com/gpu": "2"}))
    assert answer.verdict is Feasibility.FITS
