"""Many nodes with one index: the same answers as one by one, and shapes that show which nodes are alike."""

from __future__ import annotations

import pytest

from policies.devices.allocation.usage import Usage


def node(name, zone="z1"):
    return {"metadata": {"name": name, "labels": {"zone": zone}}}


def fill(cluster, name, *devices, **spec):
    cluster.add(*devices, pool=name, nodeName=name, name=f"{name}-slice", **spec)


def gpus(cluster, name, count=2, **fields):
    fill(
        cluster,
        name,
        *(
            cluster.device(f"{name}-{number}", attributes={"uuid": {"string": f"{name}-{number}"}}, **fields)
            for number in range(count)
        ),
    )


def test_one_allocator_answers_for_each_node_as_a_call_of_its_own_does(cluster):
    gpus(cluster, "node-a")
    gpus(cluster, "node-b", 1)
    cluster.add(
        "rack-0",
        pool="rack",
        nodeSelector={
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z2"]}]}]
        },
    )
    claim = cluster.claim(cluster.request(count=2))
    allocator = cluster.allocator(claim)

    for document in (node("node-a"), node("node-b"), node("node-b", "z2"), node("node-c")):
        cluster.node = document
        assert allocator.allocate(document) == cluster.ask(claim)


def test_nodes_that_differ_in_names_only_have_one_shape(cluster):
    gpus(cluster, "node-a")
    gpus(cluster, "node-b")
    allocator = cluster.allocator(cluster.claim(cluster.request()))

    assert allocator.node_shape(node("node-a")) == allocator.node_shape(node("node-b"))


@pytest.mark.parametrize(
    "difference",
    [{"count": 3}, {"taints": [{"key": "t", "effect": "NoSchedule"}]}, {"capacity": {"memory": {"value": "1Gi"}}}],
    ids=["devices", "taints", "capacity"],
)
def test_nodes_with_other_devices_have_other_shapes(cluster, difference):
    gpus(cluster, "node-a")
    gpus(cluster, "node-b", **difference)
    allocator = cluster.allocator(cluster.claim(cluster.request()))

    assert allocator.node_shape(node("node-a")) != allocator.node_shape(node("node-b"))


def test_a_node_with_a_device_in_use_has_another_shape(cluster):
    gpus(cluster, "node-a")
    gpus(cluster, "node-b")
    claim = cluster.claim(cluster.request())
    allocator = cluster.allocator(claim, allocated=["gpu.example.com/node-b/node-b-0"])

    assert allocator.node_shape(node("node-a")) != allocator.node_shape(node("node-b"))


def test_nodes_differ_in_attributes_that_a_selector_reads(cluster):
    gpus(cluster, "node-a")
    gpus(cluster, "node-b")
    claim = cluster.claim(cluster.request("gpu", 'device.attributes["gpu.example.com"].uuid == "node-a-0"'))
    allocator = cluster.allocator(claim)

    assert allocator.node_shape(node("node-a")) != allocator.node_shape(node("node-b"))


def test_a_node_that_sees_another_pool_has_another_shape(cluster):
    gpus(cluster, "node-a")
    gpus(cluster, "node-b")
    cluster.add(
        "rack-0",
        pool="rack",
        nodeSelector={
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z2"]}]}]
        },
    )
    allocator = cluster.allocator(cluster.claim(cluster.request()))

    assert allocator.node_shape(node("node-a")) != allocator.node_shape(node("node-b", "z2"))


def test_allocator_against_other_usage_answers_as_a_new_one_does(cluster):
    gpus(cluster, "node-a")
    allocator = cluster.allocator(cluster.claim(cluster.request()))
    taken = frozenset(device.id for pool in allocator.pools(node("node-a")) for device in pool.slices[0].devices)

    assert allocator.against(Usage(taken), budget=10).allocate(node("node-a")) is None
    assert allocator.allocate(node("node-a")) is not None
