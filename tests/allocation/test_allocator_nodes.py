"""Node selection by slices and devices, and the node selector of the allocation."""

from __future__ import annotations

import pytest

from policies.devices.allocation.reading import AllocationError

HERE = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}]}


def zone(*values, operator="In"):
    expression = {"key": "zone", "operator": operator, "values": list(values)}
    return {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}


def selector_of(cluster, claim=None):
    (allocation,) = cluster.ask(claim or cluster.claim(cluster.request()))
    return allocation.get("nodeSelector")


@pytest.mark.parametrize(
    ("where", "fits"),
    [
        ({"nodeName": "node-a"}, True),
        ({"nodeName": "node-b"}, False),
        ({"allNodes": True}, True),
        ({"allNodes": False}, False),
        ({"nodeSelector": zone("z1", "z2")}, True),
        ({"nodeSelector": zone("z2")}, False),
        ({"nodeSelector": {"nodeSelectorTerms": [{}]}}, False),
        ({"nodeSelector": {"nodeSelectorTerms": []}}, False),
    ],
    ids=["this", "another", "all", "none", "selected", "not selected", "empty term", "no term"],
)
def test_a_slice_counts_for_its_nodes(cluster, where, fits):
    cluster.add("gpu-0", **where)

    assert (cluster.picked(cluster.claim(cluster.request())) is not None) is fits


def test_each_device_of_a_slice_can_have_its_own_nodes(cluster):
    cluster.add(
        cluster.device("gpu-0", nodeName="node-b"),
        cluster.device("gpu-1", nodeSelector=zone("z2")),
        cluster.device("gpu-2", allNodes=True),
        "gpu-3",
        perDeviceNodeSelection=True,
    )

    assert cluster.picked(cluster.claim(cluster.request())) == ["gpu=gpu-2"]
    assert cluster.picked(cluster.claim(cluster.request(count=2))) is None


def test_a_device_of_one_node_ties_the_allocation_to_it(cluster):
    cluster.add("gpu-0")

    assert selector_of(cluster) == HERE


def test_a_device_that_binds_to_its_node_ties_the_allocation_to_it(cluster):
    cluster.add(cluster.device("gpu-0", bindsToNode=True), allNodes=True)

    assert selector_of(cluster) == HERE


def test_devices_for_all_nodes_leave_the_allocation_free(cluster):
    cluster.add("gpu-0", allNodes=True)

    assert selector_of(cluster) is None


def test_node_selectors_of_several_devices_are_joined_without_repetition(cluster):
    cluster.add("gpu-0", pool="a", nodeSelector=zone("z1", "z2"))
    cluster.add("gpu-1", pool="b", nodeSelector=zone("z2", "z1"))
    cluster.add("gpu-2", pool="c", nodeSelector=zone("z3", operator="NotIn"))

    assert selector_of(cluster, cluster.claim(cluster.request(count=3))) == {
        "nodeSelectorTerms": [
            {
                "matchExpressions": [
                    {"key": "zone", "operator": "In", "values": ["z1", "z2"]},
                    {"key": "zone", "operator": "NotIn", "values": ["z3"]},
                ]
            }
        ]
    }


def test_a_node_selector_with_two_terms_cannot_be_reported_in_an_allocation(cluster):
    both = {"nodeSelectorTerms": [*zone("z1")["nodeSelectorTerms"], *zone("z2")["nodeSelectorTerms"]]}
    cluster.add("gpu-0", nodeSelector=both)

    with pytest.raises(AllocationError) as failed:
        cluster.ask(cluster.claim(cluster.request()))
    assert str(failed.value) == (
        "create NodeSelector for claim claim: unsupported ResourceSlice.NodeSelector with 2 terms"
    )


@pytest.mark.parametrize(
    ("operator", "values", "problem"),
    [
        (
            "Near",
            ["z1"],
            'operator: Unsupported value: "Near": supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"',
        ),
        ("In", [], "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"),
        ("Exists", ["z1"], 'values: Invalid value: ["z1"]: values set must be empty for exists and does not exist'),
        ("Gt", ["x"], "values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"),
    ],
    ids=["operator", "no values", "values", "number"],
)
def test_invalid_node_selector_stops_the_allocation(cluster, operator, values, problem):
    cluster.add("gpu-0", name="broken", nodeSelector=zone(*values, operator=operator))

    with pytest.raises(AllocationError) as failed:
        cluster.ask(cluster.claim(cluster.request()))
    spelled = (
        "&NodeSelector{NodeSelectorTerms:[]NodeSelectorTerm{NodeSelectorTerm{MatchExpressions:"
        f"[]NodeSelectorRequirement{{NodeSelectorRequirement{{Key:zone,Operator:{operator},"
        f"Values:[{' '.join(values)}],}},}},MatchFields:[]NodeSelectorRequirement{{}},}},}},}}"
    )
    assert str(failed.value) == (
        f"gather pool information: failed to perform node selection for slice broken: "
        f"failed to parse node selector {spelled}: nodeSelectorTerms[0].matchExpressions[0].{problem}"
    )
