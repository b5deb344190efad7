"""The quality of the GPUs that pods get, before and after a change of the cluster."""

import pytest

from policies.outcome import Outcome, compare_fits, subjects_of
from tests.explain import conftest as k8s
from tests.outcome.clusters import bound, changed, situation
from tests.plan.nodes import gpu_node
from tests.published import shared_device

H100 = "NVIDIA-H100-80GB-HBM3"
SHARED = {
    "nvidia.com/gpu.product": f"{H100}-SHARED",
    "nvidia.com/gpu.replicas": "4",
    "nvidia.com/gpu.sharing-strategy": "time-slicing",
}
EIGHT_QUARTERS = f"get 8 quarters of {H100} (time-slicing) instead of 8 whole {H100}"
ANY_GPU = "device.driver == 'gpu.nvidia.com'"


def h100(name="node-1", gpus=8, **rest):
    return gpu_node(name, gpus, product=H100, memory="81559", **rest)


def shared(name="node-1", gpus=8):
    return h100(name, labels=SHARED, **{"nvidia.com/gpu": str(4 * gpus)})


def mig(number, profile="1g.10gb", memory="9984Mi"):
    made = k8s.gpu(number, memory=memory)
    made["attributes"] |= {"type": {"string": "mig"}, "profile": {"string": profile}}
    return made


def claiming(name="train", **rest):
    """A pod that claims one device of the class gpu.nvidia.com, whatever that is."""
    pod = k8s.pod(name=name, resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"), **rest)
    pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpus"}]}
    return pod


def compared(before, after):
    """The comparison of the only subject."""
    (found,) = compare_fits(subjects_of(before.view, before.settings), before, after)
    return found


def result(before, *objects):
    found = compared(before, changed(before, *objects))
    return found.outcome, found.sentence


def test_whole_gpus_that_become_shares_are_changed():
    before = situation(h100(), bound("train", gpus=8))
    assert result(before, shared()) == (Outcome.CHANGED, f"1 pod would {EIGHT_QUARTERS}")


def test_pods_beyond_the_room_with_whole_gpus_are_changed():
    pods = [bound(f"train-{number}", f"node-{number}", gpus=8, owner="ReplicaSet/train") for number in (1, 2, 3)]
    before = situation(h100("node-1"), h100("node-2"), h100("node-3"), *pods)
    found = compared(before, changed(before, shared("node-1"), shared("node-2")))
    assert (found.outcome, found.changed) == (Outcome.CHANGED, 2)
    assert found.sentence == f"2 pods would each {EIGHT_QUARTERS}"


def test_pod_that_finds_whole_gpus_on_another_node_is_kept():
    before = situation(h100("node-1"), h100("node-2"), bound("train", gpus=8))
    assert result(before, shared("node-1"))[0] is Outcome.KEPT


def test_whole_gpus_that_others_hold_are_no_room():
    others = bound("other", "node-2", owner="ReplicaSet/other")
    before = situation(h100("node-1"), h100("node-2"), bound("train", gpus=8), others)
    after = changed(before, shared("node-1"))
    outcomes = {each.subject.label: each.outcome for each in compare_fits(subjects_of(*before), before, after)}
    assert outcomes == {"pod team-a/train": Outcome.CHANGED, "ReplicaSet team-a/other": Outcome.KEPT}


def test_gpu_of_another_product_is_changed():
    before = situation(h100(gpus=1), bound("train"))
    assert result(before, gpu_node(gpus=1)) == (
        Outcome.CHANGED,
        f"1 pod would get 1 whole NVIDIA-A100-SXM4-40GB instead of 1 whole {H100}",
    )


def test_less_memory_is_changed():
    before = situation(h100(gpus=1), bound("train"))
    smaller = h100(gpus=1, labels={"nvidia.com/gpu.memory": "40960"})
    assert result(before, smaller) == (
        Outcome.CHANGED,
        f"1 pod would get 1 whole {H100} with 40,960Mi instead of 81,559Mi",
    )


@pytest.mark.parametrize(
    "labels",
    [{"nvidia.com/gpu.memory": "80000"}, {"nvidia.com/gpu.memory": "143771"}, {"nvidia.com/gpu.product": ""}],
    ids=["rounding", "more memory", "unknown product"],
)
def test_what_is_no_worse_is_kept(labels):
    before = situation(h100(gpus=1), bound("train"))
    assert result(before, h100(gpus=1, labels=labels))[0] is Outcome.KEPT


def test_whole_gpus_instead_of_shares_are_kept():
    before = situation(shared(), bound("train", gpus=2))
    assert result(before, h100())[0] is Outcome.KEPT


def test_smaller_shares_are_changed():
    before = situation(shared(), bound("train"))
    smaller = h100(labels={**SHARED, "nvidia.com/gpu.replicas": "16"}, **{"nvidia.com/gpu": "128"})
    assert result(before, smaller) == (
        Outcome.CHANGED,
        f"1 pod would get 1 share of 1/16 of {H100} (time-slicing) instead of 1 quarter of {H100} (time-slicing)",
    )


def test_pods_that_wait_for_whole_gpus_and_find_shares_are_changed():
    pod = k8s.pod({"nvidia.com/gpu": "8"}, stored=True)
    before = situation(h100(), bound("other", gpus=8, owner="ReplicaSet/other"), pod)
    after = changed(before, shared())
    found = {each.subject.label: each for each in compare_fits(subjects_of(*before), before, after)}
    assert found["pod team-a/train"].outcome is Outcome.CHANGED
    assert found["pod team-a/train"].sentence == f"1 pod would {EIGHT_QUARTERS}"


def test_pod_without_a_place_is_lost_whatever_it_would_get():
    before = situation(h100(), bound("train", gpus=8))
    found = compared(before, changed(before, h100(gpus=0)))
    assert (found.outcome, found.changes) == (Outcome.LOST, ())


def test_claim_that_gets_a_mig_device_instead_of_a_gpu_is_changed():
    any_gpu = k8s.device_class(selector=ANY_GPU)
    before = situation(any_gpu, k8s.node(), k8s.resource_slice(k8s.gpus(1)), k8s.template(), claiming())
    assert result(before, k8s.resource_slice([mig(0)])) == (
        Outcome.CHANGED,
        f"1 pod would get 1 MIG 1g.10gb of {H100} instead of 1 whole {H100}",
    )


def test_devices_that_a_pod_holds_by_its_claim_are_what_it_had():
    any_gpu = k8s.device_class(selector=ANY_GPU)
    claim = k8s.holding("train", [1], namespace="team-a")
    pod = claiming(stored=True, nodeName="node-1")
    devices = [mig(0), k8s.gpu(1)]
    before = situation(any_gpu, k8s.node(), k8s.resource_slice(devices), k8s.template(), claim, pod)
    assert result(before)[0] is Outcome.KEPT
    assert result(before, k8s.resource_slice([mig(0)]))[0] is Outcome.CHANGED


def test_products_that_no_selector_reads_are_told_apart():
    any_gpu = k8s.device_class(selector=ANY_GPU)
    nodes = k8s.node("node-1"), k8s.node("node-2")
    slices = [k8s.resource_slice(k8s.gpus(1), name) for name in ("node-1", "node-2")]
    claim = k8s.holding("train", [0], node_name="node-2", namespace="team-a")
    pod = claiming(stored=True, nodeName="node-2")
    before = situation(any_gpu, *nodes, *slices, k8s.template(), claim, pod)
    after = changed(before, k8s.resource_slice(k8s.gpus(1, product="NVIDIA H200"), "node-2"))
    assert compared(before, after).outcome is Outcome.KEPT  # node-1 has a H100 still.
    after = changed(
        before, *(k8s.resource_slice(k8s.gpus(1, product="NVIDIA H200"), each) for each in ("node-1", "node-2"))
    )
    assert compared(before, after).sentence == f"1 pod would get 1 whole NVIDIA-H200 instead of 1 whole {H100}"


@pytest.mark.parametrize(
    ("earlier", "later", "outcome"),
    [
        ("", "4", Outcome.CHANGED),
        ("", "1", Outcome.KEPT),
        ("", "memory", Outcome.KEPT),
        ("", "unlimited", Outcome.CHANGED),
        ("4", "unlimited", Outcome.KEPT),
        ("unlimited", "4", Outcome.KEPT),
        ("unlimited", "", Outcome.KEPT),
        ("2", "4", Outcome.CHANGED),
    ],
)
def test_claim_that_gets_a_share_in_place_of_a_whole_or_larger_device_is_changed(earlier, later, outcome):
    """A share of a GPU that is shared without limit has no size."""
    before, after = (k8s.resource_slice([shared_device(k8s.gpu(0), shares)]) for shares in (earlier, later))
    situated = situation(k8s.node(), before, k8s.template(), claiming())
    assert result(situated, after)[0] is outcome


def test_share_of_a_gpu_that_is_shared_without_limit_is_called_so():
    before = situation(k8s.node(), k8s.resource_slice(k8s.gpus(1)), k8s.template(), claiming())
    after = k8s.resource_slice([shared_device(k8s.gpu(0), "unlimited")])
    assert result(before, after)[1] == f"1 pod would get 1 share of {H100} (unlimited) instead of 1 whole {H100}"


def test_pod_that_would_not_get_its_gpu_again_anyway_is_kept():
    cordoned = h100("node-1", gpus=1)
    cordoned["spec"]["unschedulable"] = True
    before = situation(cordoned, gpu_node("node-2", gpus=1), bound("train"))
    assert result(before)[0] is Outcome.KEPT
    assert result(before, gpu_node("node-2", gpus=1, labels=SHARED))[0] is Outcome.CHANGED
