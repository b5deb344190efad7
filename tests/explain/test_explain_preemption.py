"""Pods of lower priority that hold devices are named, the smallest set first."""

from __future__ import annotations

import pytest

from policies.analyses.explain import Change
from policies.outcome import Feasibility

NOTE = "the scheduler does not end pods of lower priority by itself to free devices of claims"


@pytest.fixture
def serve(k8s):
    """A pod of priority 1000 that requests GPUs by a template."""

    def serve(**spec):
        claims = k8s.claiming(resourceClaimTemplateName="gpus")
        return k8s.pod(name="serve", resourceClaims=claims, **{"priority": 1000, **spec})

    return serve


@pytest.fixture
def runs(k8s):
    """A pod on a node, and the claim by which it holds GPUs."""

    def runs(name, numbers, node="node-1", priority=0, **limits):
        pod = k8s.pod(limits, name=name, namespace="team-b", nodeName=node, priority=priority)
        return [pod, k8s.holding(name, numbers, node)]

    return runs


def texts_of(answer):
    return [each.sentence for each in answer.suggestions if each.change is Change.PREEMPTION]


def test_pod_that_would_have_to_end_is_named(ask, k8s, serve, runs):
    objects = [k8s.node(), k8s.resource_slice(k8s.gpus(1)), k8s.template(), *runs("batch", [0])]
    answer = ask(serve(), *objects)
    assert answer.verdict is Feasibility.FULL
    assert texts_of(answer) == ["delete pod team-b/batch on node node-1 (priority 0, this pod has 1000)"]
    assert NOTE in answer.remarks


def test_pods_that_can_be_spared_are_not_named(ask, k8s, serve, runs):
    objects = [*runs("a", [0]), *runs("b", [1], priority=5), *runs("c", [2, 3])]
    answer = ask(serve(), k8s.node(), k8s.resource_slice(k8s.gpus(4)), k8s.template({"count": 2}), *objects)
    assert texts_of(answer) == ["delete pod team-b/c on node node-1 (priority 0, this pod has 1000)"]


def test_pods_of_the_lowest_priority_end_first(ask, k8s, serve, runs):
    objects = [*runs("a", [0], priority=5), *runs("b", [1]), *runs("c", [2])]
    answer = ask(serve(), k8s.node(), k8s.resource_slice(k8s.gpus(3)), k8s.template({"count": 2}), *objects)
    assert texts_of(answer) == [
        "delete pods team-b/b and team-b/c on node node-1 (priority 0 at most, this pod has 1000)"
    ]


def test_node_where_fewest_would_have_to_end_comes_first(ask, k8s, serve, runs):
    objects = [*runs("a", [0]), *runs("b", [1]), *runs("c", [0, 1], "node-2")]
    nodes = [k8s.node("node-1"), k8s.node("node-2")]
    slices = [k8s.resource_slice(k8s.gpus(2), "node-1"), k8s.resource_slice(k8s.gpus(2), "node-2")]
    answer = ask(serve(), *nodes, *slices, k8s.template({"count": 2}), *objects)
    assert texts_of(answer) == [
        "delete pod team-b/c on node node-2 (priority 0, this pod has 1000)",
        "delete pods team-b/a and team-b/b on node node-1 (priority 0 at most, this pod has 1000)",
    ]


@pytest.mark.parametrize(
    "spec",
    [{"priority": 0}, {"preemptionPolicy": "Never"}, {"priority": None, "priorityClassName": "unseen"}],
    ids=["of the same priority", "never preempts", "of an unknown class"],
)
def test_pod_that_would_not_preempt_is_reported_nothing(ask, k8s, serve, runs, spec):
    objects = [k8s.node(), k8s.resource_slice(k8s.gpus(1)), k8s.template(), *runs("batch", [0])]
    answer = ask(serve(**spec), *objects)
    assert texts_of(answer) == []
    assert NOTE not in answer.remarks


def test_claim_that_another_pod_shares_is_not_free(ask, k8s, serve, runs):
    pod, held = runs("batch", [0])
    held["status"]["reservedFor"].append({"resource": "pods", "name": "elsewhere"})
    answer = ask(serve(), k8s.node(), k8s.resource_slice(k8s.gpus(1)), k8s.template(), pod, held)
    assert texts_of(answer) == []


def test_cpu_is_left_to_the_scheduler(ask, k8s, serve):
    busy = k8s.pod({"cpu": "128"}, name="busy", namespace="team-b", nodeName="node-1", priority=0)
    asked = serve()
    asked["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "8"}
    answer = ask(asked, k8s.node(), k8s.resource_slice(k8s.gpus(1)), k8s.template(), busy)
    assert answer.verdict is Feasibility.FULL
    assert texts_of(answer) == []


def test_pods_that_hold_cpu_and_devices_are_named(ask, k8s, serve, runs):
    asked = serve()
    asked["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "8"}
    objects = runs("batch", [0], cpu="128")
    answer = ask(asked, k8s.node(), k8s.resource_slice(k8s.gpus(1)), k8s.template(), *objects)
    assert texts_of(answer) == ["delete pod team-b/batch on node node-1 (priority 0, this pod has 1000)"]


def test_pods_of_the_device_plugin_are_left_to_the_scheduler(ask, k8s):
    node = k8s.node(allocatable={"nvidia.com/gpu": "1"})
    batch = k8s.pod({"nvidia.com/gpu": "1"}, name="batch", namespace="team-b", nodeName="node-1", priority=0)
    answer = ask(k8s.pod({"nvidia.com/gpu": "1"}, priority=1000), node, batch)
    assert answer.verdict is Feasibility.FULL
    assert texts_of(answer) == []


def test_converted_pod_is_reported_as_well(ask, k8s, runs):
    opted_in = k8s.namespace(**{"gpu-admission.io/dra": "enabled"})
    objects = [opted_in, k8s.node(), k8s.resource_slice(k8s.gpus(1)), *runs("batch", [0])]
    answer = ask(k8s.pod({"nvidia.com/gpu": "1"}, priority=1000), *objects)
    assert texts_of(answer) == ["delete pod team-b/batch on node node-1 (priority 0, this pod has 1000)"]
