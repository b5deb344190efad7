"""Requests for several shares that the device plugin refuses after scheduling."""

from __future__ import annotations

import pytest

from policies.outcome import Feasibility

GPU = "nvidia.com/gpu"
REFUSED = (
    "the device plugin refuses the pod once it is scheduled, because a container requests 2 nvidia.com/gpu: "
    "maximum request size for shared resources is 1; found 2"
)


@pytest.fixture
def shared_node(k8s):
    """Makes a node whose GPU is shared by 4."""

    def shared_node(strategy, name="node-1", **labels):
        shown = {
            f"{GPU}.sharing-strategy": strategy,
            f"{GPU}.replicas": "4",
            "nvidia.com/gpu.present": "true",
            **labels,
        }
        return k8s.node(name, shown, allocatable={GPU: "4"})

    return shared_node


def plugin_config(text):
    config = {"name": "sharing", "default": "any"}
    policy = {"metadata": {"name": "cluster-policy"}, "spec": {"devicePlugin": {"config": config}}}
    config_map = {"metadata": {"name": "sharing", "namespace": "gpu-operator"}, "data": {"any": text}}
    return (
        {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", **policy},
        {"apiVersion": "v1", "kind": "ConfigMap", **config_map},
    )


ONE_SHARE = plugin_config("sharing: {timeSlicing: {failRequestsGreaterThanOne: true, resources: []}}")
SEVERAL = plugin_config("sharing: {mps: {failRequestsGreaterThanOne: false, resources: []}}")


@pytest.mark.parametrize(
    ("strategy", "config"), [("mps", ()), ("time-slicing", ONE_SHARE)], ids=["MPS", "time-slicing"]
)
def test_two_shares_fit_no_node_that_gives_one(ask, k8s, shared_node, strategy, config):
    answer = ask(k8s.pod({GPU: "2"}), shared_node(strategy), *config)
    assert answer.verdict is Feasibility.IMPOSSIBLE
    assert answer.groups[0].reason.sentence == REFUSED
    assert answer.groups[0].reason.facts == {"resource": GPU, "asked": 2}


@pytest.mark.parametrize(
    ("strategy", "config", "limits"),
    [("time-slicing", (), {GPU: "2"}), ("mps", SEVERAL, {GPU: "2"}), ("mps", (), {GPU: "1"})],
    ids=["time-slicing by default", "MPS that allows it", "one share"],
)
def test_shares_that_the_device_plugin_gives_fit(ask, k8s, shared_node, strategy, config, limits):
    assert ask(k8s.pod(limits), shared_node(strategy), *config).verdict is Feasibility.FITS


def test_one_share_for_each_of_two_containers_fits(ask, k8s, shared_node):
    pod = k8s.pod({GPU: "1"})
    (main,) = pod["spec"]["containers"]
    pod["spec"]["containers"].append({**main, "name": "second"})
    assert ask(pod, shared_node("mps")).verdict is Feasibility.FITS


def test_node_that_does_not_share_takes_the_pod(ask, k8s, shared_node):
    whole = k8s.node("node-2", {"nvidia.com/gpu.present": "true"}, allocatable={GPU: "4"})
    answer = ask(k8s.pod({GPU: "2"}), shared_node("mps"), whole)
    assert [(group.nodes, group.fits) for group in answer.groups] == [(("node-2",), True), (("node-1",), False)]


def test_headline_says_that_the_scheduler_may_choose_a_node_that_refuses(ask, k8s, shared_node):
    whole = k8s.node("node-2", {"nvidia.com/gpu.present": "true"}, allocatable={GPU: "4"})
    answer = ask(k8s.pod({GPU: "2"}), shared_node("mps"), whole)
    warned = "; the scheduler may choose node-1, where the device plugin refuses it"
    assert answer.headline == f"fits 1 of 2 nodes now, 2 replicas in all{warned}"


def test_node_that_the_pod_does_not_select_is_not_chosen(ask, k8s, shared_node):
    whole = k8s.node("node-2", {f"{GPU}.sharing-strategy": "none"}, allocatable={GPU: "4"})
    pod = k8s.pod({GPU: "2"}, nodeSelector={f"{GPU}.sharing-strategy": "none"})
    assert ask(pod, shared_node("mps"), whole).headline == "fits 1 of 2 nodes now, 2 replicas in all"
