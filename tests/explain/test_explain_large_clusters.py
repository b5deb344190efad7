"""Large clusters: the answer is right, and nodes of one shape are solved once."""

from __future__ import annotations

import pytest

from policies.analyses.explain.explanations import fit_word
from policies.devices.allocation.allocator import Allocator
from policies.outcome import Feasibility

NODES = 400
MEMORY = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{}")) >= 0'


@pytest.fixture
def cluster(k8s):
    """Half of the nodes have 40Gi GPUs, the other half 81559Mi; on every fourth a pod holds six of the eight."""
    objects = []
    for number in range(NODES):
        name = f"node-{number:03}"
        memory = "40Gi" if number % 2 else "81559Mi"
        objects += [k8s.node(name), k8s.resource_slice(k8s.gpus(8, memory=memory), name)]
        if number % 4 == 0:
            objects.append(k8s.holding(f"train-{number}", range(6), name))
    return objects


def test_nodes_and_replicas_are_counted(ask, k8s, cluster):
    answer = ask(k8s.claim(k8s.selecting(MEMORY.format("81559Mi"), count=4)), *cluster)
    assert (answer.nodes, answer.fit_now, answer.fit_if_empty, answer.replicas) == (NODES, 100, 200, 200)
    assert [(group.count, group.fits, group.fits_if_empty) for group in answer.groups] == [
        (100, True, True),
        (100, False, True),
        (200, False, False),
    ]
    assert answer.groups[1].reason.details == ("gpu-0..gpu-5 are in use by team-b/train-0",)


def test_nodes_of_one_shape_are_solved_once(ask, k8s, cluster, monkeypatch):
    solved = []
    allocate = Allocator.allocate

    def counted(allocator, node):
        solved.append(node)
        return allocate(allocator, node)

    monkeypatch.setattr(Allocator, "allocate", counted)
    answer = ask(k8s.claim(k8s.selecting(MEMORY.format("100Gi"), count=4)), *cluster)
    assert answer.suggestions[0].sentence == "accept 81559Mi of memory instead of 100Gi in request gpu"
    assert answer.suggestions[0].nodes == 100
    assert len(solved) < 30


def test_search_that_is_given_up_is_reported(ask, k8s):
    devices = k8s.gpus(81)
    for number, device in enumerate(devices):
        device["attributes"] |= {"row": {"int": number // 9}, "column": {"int": number % 9}}
    asked = k8s.claim()
    exactly = {"deviceClassName": "gpu.nvidia.com"}
    asked["spec"]["devices"] = {
        "requests": [{"name": f"gpu-{number}", "exactly": exactly} for number in range(10)],
        "constraints": [{"distinctAttribute": f"gpu.nvidia.com/{name}"} for name in ("row", "column")],
    }
    answer = ask(asked, k8s.node(), k8s.resource_slice(devices))
    assert answer.verdict is Feasibility.UNKNOWN
    assert answer.headline == (
        "whether it fits is unknown for 1 of 1 node: too many combinations of devices to try them all"
    )
    assert answer.groups[0].reason.sentence == (
        "whether it fits is unknown: too many combinations of devices nearly satisfy the claims to try them all"
    )
    assert fit_word(answer.groups[0]) == "unknown"
