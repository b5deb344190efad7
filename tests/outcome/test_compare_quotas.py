"""What quotas count and refuse before and after a change."""

from policies.outcome import Outcome, compare_limits, compare_refusals, subjects_of
from tests.explain import conftest as k8s
from tests.outcome.clusters import bound, changed, gpu_node, situation

SHARED = {
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-SHARED",
    "nvidia.com/gpu.replicas": "4",
    "nvidia.com/gpu.sharing-strategy": "time-slicing",
}
WHOLE = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}


def quota(gpus=2, **spec):
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": "team-a"},
        "spec": {"limits": [{"name": "all", "gpus": gpus}], **spec},
    }


def limits(before, after):
    return [(each.outcome, each.sentence) for each in compare_limits(before, after)]


def refused(before, after):
    subjects = subjects_of(before.view, before.settings)
    return {each.subject.label: each.sentence for each in compare_refusals(subjects, before, after) if each.is_new}


def test_lower_limit_is_exceeded_at_once_and_refuses_the_next_pod():
    before = situation(gpu_node(**WHOLE), quota(2), bound("a"), bound("b"))
    after = changed(before, quota(1))
    assert limits(before, after) == [(Outcome.LOST, "exceeded at once: 2 of 1 GPU used, before 2 of 2 GPUs")]
    (sentence,) = refused(before, after).values()
    assert sentence.endswith("[GA502]")


def test_limit_that_still_suffices_is_kept():
    before = situation(gpu_node(**WHOLE), quota(3), bound("a"))
    after = changed(before, quota(2))
    assert limits(before, after) == [(Outcome.KEPT, "1 of 2 GPUs used, before 1 of 3 GPUs")]
    assert refused(before, after) == {}


def test_new_quota_that_is_exceeded_refuses_pods_that_start_again():
    before = situation(gpu_node(**WHOLE), bound("a"), bound("b"), bound("big", gpus=2))
    after = changed(before, quota(3))
    assert limits(before, after) == [(Outcome.LOST, "a new limit, exceeded at once: 4 of 3 GPUs used")]
    assert list(refused(before, after)) == ["pod team-a/a (2 alike)", "pod team-a/big"]


def test_shared_gpus_count_as_parts():
    before = situation(gpu_node(**WHOLE), quota(2), bound("a"))
    after = changed(before, gpu_node(gpus=8, **SHARED))
    assert limits(before, after) == [
        (Outcome.LOST, "counts the same pods differently: 0.2 of 2 GPUs used, before 1 of 2 GPUs")
    ]


def test_quota_that_is_deleted_limits_nothing():
    before = situation(gpu_node(**WHOLE), quota(1), bound("a"))
    after = changed(before, deleted=[("GPUQuota", "team-a", "gpu")])
    assert limits(before, after) == [(Outcome.GAINED, "the limit is gone")]


def test_pod_that_starts_again_gives_back_what_its_claim_holds():
    pod, claim = k8s.running()
    pod["metadata"]["uid"] = "uid-train"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "train", "uid": "uid-train", "controller": True}
    claim["metadata"] |= {
        "ownerReferences": [owner],
        "annotations": {"resource.kubernetes.io/pod-claim-name": "gpus"},
    }
    before = situation(
        k8s.node("node-1"), k8s.resource_slice(k8s.gpus(2)), k8s.template(), quota(2), pod, claim, bound("other")
    )
    after = changed(before, quota(1), deleted=[("Pod", "team-a", "other")])
    assert limits(before, after)[0][1] == "counts the same pods differently: 1 of 1 GPU used, before 2 of 2 GPUs"
    assert "pod team-a/train" not in refused(before, after)
    assert "pod team-a/train" in refused(before, changed(before, quota(1)))
