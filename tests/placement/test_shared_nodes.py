"""Pods without a wish for sharing are kept off nodes that share their GPUs, if the settings say so."""

import pytest

from policies.fleet.device_plugin import sharing_strategy
from policies.fleet.gpu_nodes import gpu_nodes
from policies.kubernetes.selectors import ALWAYS, NodeRequirement
from policies.nvidia.wishes import Wish
from policies.placement.resource_requests import unshared_nodes, ways_of_sharing
from policies.rules.settings import DEFAULTS, GPUAdmissionPolicy, Placement, parse_settings
from tests.findings import labelled_text
from webhook.cluster.manifests import ManifestsView

AVOID = GPUAdmissionPolicy(placement=Placement(avoid_shared_gpus=True))
GPU = {"nvidia.com/gpu": 1}
OFF_SHARED_GPUS = NodeRequirement("nvidia.com/gpu.sharing-strategy", "NotIn", ("mps", "time-slicing"))
OFF_SHARED_MIG = NodeRequirement("nvidia.com/mig-1g.5gb.sharing-strategy", "NotIn", ("mps", "time-slicing"))
STRATEGY = "nvidia.com/gpu.sharing-strategy"
NOTHING = (ALWAYS, ())


def affinity(key, operator, *values, preferred=False):
    term = {"matchExpressions": [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}
    if preferred:
        rest = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}
    else:
        rest = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": rest}}


@pytest.mark.parametrize(
    ("limits", "requirements"),
    [
        pytest.param(GPU, (OFF_SHARED_GPUS,), id="GPU"),
        pytest.param({"nvidia.com/mig-1g.5gb": 2}, (OFF_SHARED_MIG,), id="MIG device"),
        pytest.param({"nvidia.com/mig-1g.5gb": 2, **GPU}, (OFF_SHARED_GPUS, OFF_SHARED_MIG), id="both"),
        pytest.param({"nvidia.com/gpu.shared": 1}, (), id="share"),
        pytest.param({"nvidia.com/mig-1g.5gb.shared": 1}, (), id="share of a MIG device"),
        pytest.param({"nvidia.com/gpu": 0}, (), id="none"),
        pytest.param({"nvidia.com/hostdev": 1, "amd.com/gpu": 1, "cpu": 1}, (), id="something else"),
    ],
)
@pytest.mark.parametrize("parts", [("f1", "f2", "f4", "f5"), ("f6",), ()], ids=["some shared", "none", "unknown"])
def test_pod_is_kept_off_nodes_that_share_what_it_requests(pod, cluster, limits, requirements, parts):
    assert unshared_nodes(pod(limits), Wish(), cluster(*parts), AVOID) == ((requirements,), ())


def test_nothing_is_avoided_unless_wanted(pod, cluster):
    assert unshared_nodes(pod(GPU), Wish(), cluster("f1", "f4"), DEFAULTS) == NOTHING


@pytest.mark.parametrize("sharing", ["shared", "any", "exclusive"])
def test_wish_of_sharing_decides_by_itself(pod, cluster, sharing):
    assert unshared_nodes(pod(GPU), Wish(sharing=sharing), cluster("f4"), AVOID) == NOTHING


def test_other_wishes_say_nothing_about_sharing(pod, cluster):
    assert unshared_nodes(pod(GPU), Wish(min_memory=1), cluster("f1"), AVOID) == (((OFF_SHARED_GPUS,),), ())


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {STRATEGY: "time-slicing"}},
        {"nodeSelector": {"nvidia.com/gpu.product": "Tesla-T4-SHARED"}},
        affinity(STRATEGY, "In", "none"),
        affinity(STRATEGY, "In", "mps", preferred=True),
        affinity("nvidia.com/gpu.replicas", "Lt", "5"),
        affinity("nvidia.com/gpu.product", "NotIn", "Tesla-T4-SHARED"),
    ],
)
def test_pod_that_speaks_of_sharing_is_left_alone(pod, cluster, spec):
    assert unshared_nodes(pod(GPU, **spec), Wish(), cluster("f1", "f4", "f5"), AVOID) == NOTHING


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}},
        {"nodeSelector": {"nvidia.com/mig-1g.5gb.sharing-strategy": "mps"}},
        affinity("nvidia.com/gpu.product", "Exists"),
        {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [None, "x", {}]}}},
    ],
)
def test_pod_that_speaks_of_something_else_is_kept_off(pod, cluster, spec):
    assert unshared_nodes(pod(GPU, **spec), Wish(), cluster("f1", "f4"), AVOID) == (((OFF_SHARED_GPUS,),), ())


@pytest.mark.parametrize(
    ("parts", "spec", "ways"),
    [
        pytest.param(("f4",), {}, "by time-slicing on 1 node", id="time-sliced"),
        pytest.param(("f5", "gpucluster"), {}, "by MPS on 1 node", id="MPS"),
        pytest.param(("f4", "f5"), {}, "by MPS on 1 node and by time-slicing on 1 node", id="both"),
        pytest.param(
            ("f1", "f4"),
            {"nodeSelector": {"nvidia.com/gpu.family": "hopper"}},
            "by time-slicing on 1 node",
            id="selected",
        ),
    ],
)
def test_pod_that_finds_shares_only_is_reported(pod, cluster, parts, spec, ways):
    alternatives, findings = unshared_nodes(pod(GPU, **spec), Wish(), cluster(*parts), AVOID)
    assert alternatives == ALWAYS
    (finding,) = findings
    assert labelled_text(finding) == (
        "spec.containers[0].resources.limits[nvidia.com/gpu]: is a share of a GPU on every node that offers it to this "
        f"pod, {ways}; the pod gets a share, though spec.placement.avoidSharedGPUs keeps pods off shared GPUs where "
        "there are others; add the annotation gpu-admission.io/sharing: shared if a share will do, or exclusive to wait "
        "for a whole one [GA411]"
    )


def test_node_that_is_not_as_wished_is_no_node_with_a_whole_gpu(pod, cluster):
    hopper = ((NodeRequirement("nvidia.com/gpu.family", "In", ("hopper",)),),)
    alternatives, (finding,) = unshared_nodes(pod(GPU), Wish(families=("hopper",)), cluster("f1", "f4"), AVOID, hopper)
    assert alternatives == ALWAYS
    assert finding.message.startswith(
        "is a share of a GPU on every node that offers it to this pod, by time-slicing on 1"
    )


def test_shares_of_mig_devices_are_reported_apart_from_whole_gpus(pod, cluster, node):
    shared = node("f2", labels={"nvidia.com/mig-1g.5gb.sharing-strategy": "time-slicing"})
    limits = {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.5gb": 1}
    alternatives, (finding,) = unshared_nodes(pod(limits), Wish(), cluster("f1", shared), AVOID)
    assert alternatives == ((OFF_SHARED_GPUS,),)
    assert finding.message.startswith(
        "is a share of a MIG device on every node that offers it to this pod, by time-sli"
    )


def test_node_that_offers_nothing_decides_nothing(pod, cluster, node):
    renamed = node("f4", offers={"nvidia.com/gpu": None, "nvidia.com/gpu.shared": "32"})
    assert unshared_nodes(pod(GPU), Wish(), cluster(renamed), AVOID) == (((OFF_SHARED_GPUS,),), ())


@pytest.mark.parametrize(
    ("fixture", "resource", "strategy"),
    [
        ("f1", "nvidia.com/gpu", None),
        ("f2", "nvidia.com/mig-1g.5gb", None),
        ("f4", "nvidia.com/gpu", "time-slicing"),
        ("f4", "nvidia.com/gpu.shared", "time-slicing"),
        ("f4", "nvidia.com/mig-1g.5gb", None),
        ("f5", "nvidia.com/gpu", "mps"),
    ],
)
def test_strategy_is_that_of_the_resource(cluster, fixture, resource, strategy):
    (node,) = gpu_nodes(cluster(fixture)).nodes
    assert sharing_strategy(node.labels, resource) == strategy


def test_ways_of_sharing_are_counted(cluster, node):
    nodes = gpu_nodes(cluster("f1", "f4", node("f4", "h100-2"), "f5")).nodes
    assert ways_of_sharing(nodes, "nvidia.com/gpu") == "by MPS on 1 node and by time-slicing on 2 nodes"


def test_finding_names_the_setting_as_it_is_spelt():
    document = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUAdmissionPolicy",
        "metadata": {"name": "default"},
    }
    policy = parse_settings({**document, "spec": {"placement": {"avoidSharedGPUs": True}}})
    assert policy.placement.avoid_shared_gpus


def test_unknown_nodes_keep_the_pod_off(pod):
    assert unshared_nodes(pod(GPU), Wish(), ManifestsView(), AVOID) == (((OFF_SHARED_GPUS,),), ())
