"""Node selector and required affinity together, as k8s.io/component-helpers/scheduling/corev1/nodeaffinity reads them."""

import pytest

from policies.kubernetes.nodes import NodeIndex, allocatable, labels_of

NODE = {
    "metadata": {"name": "a", "labels": {"zone": "z1", "gpu": "l40s"}},
    "status": {"allocatable": {"nvidia.com/gpu": "8", "cpu": 4, "nvidia.com/mig-1g.5gb": "0"}},
}
ZONE_1 = {"key": "zone", "operator": "In", "values": ["z1"]}
ZONE_2 = {"key": "zone", "operator": "In", "values": ["z2"]}
L40S = {"key": "gpu", "operator": "In", "values": ["l40s"]}
NAME_A = {"key": "metadata.name", "operator": "In", "values": ["a"]}
NAME_B = {"key": "metadata.name", "operator": "In", "values": ["b"]}


def pod_selects(spec, node):
    return NodeIndex([node]).select(spec) == 1


def affinity(*terms):
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"nodeSelector": None, "affinity": None},
        {"nodeSelector": {}, "affinity": {"nodeAffinity": None}},
        {"affinity": {"podAffinity": {}}},
        {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}},
        {"nodeSelector": {"zone": "z1"}},
        {"nodeSelector": {"zone": "z1", "gpu": "l40s"}},
        affinity({"matchExpressions": [ZONE_1]}),
        affinity({"matchExpressions": [ZONE_1, L40S]}),
        affinity({"matchExpressions": [ZONE_2]}, {"matchExpressions": [ZONE_1]}),
        affinity({}, {"matchExpressions": [ZONE_1]}),
        affinity({"matchExpressions": None, "matchFields": [NAME_A]}),
        affinity({"matchExpressions": [L40S], "matchFields": [NAME_A]}),
        affinity({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["b"]}]}),
        affinity({"matchExpressions": [{"key": "zone", "operator": "NotIn"}]}, {"matchExpressions": [ZONE_1]}),
        {"nodeSelector": {"zone": "z1"}, **affinity({"matchExpressions": [L40S]})},
    ],
)
def test_pod_may_run_on_the_node(spec):
    assert pod_selects(spec, NODE) is True


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"zone": "z2"}},
        {"nodeSelector": {"zone": "z1", "missing": ""}},
        affinity(),
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}},
        affinity({}),
        affinity({"matchExpressions": [], "matchFields": []}),
        affinity({"matchExpressions": [ZONE_1, ZONE_2]}),
        affinity({"matchExpressions": [ZONE_1], "matchFields": [NAME_B]}),
        affinity({"matchFields": [NAME_A, NAME_B]}),
        affinity({"matchExpressions": [{"key": "missing", "operator": "NotIn", "values": []}]}),
        affinity({"matchExpressions": [{"key": "zone", "operator": "Equals", "values": ["z1"]}]}),
        affinity({"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}),
        affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]}),
        affinity({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": []}]}),
        {"nodeSelector": {"zone": "z2"}, **affinity({"matchExpressions": [ZONE_1]})},
        {"nodeSelector": {"zone": "z1"}, **affinity({"matchExpressions": [ZONE_2]})},
    ],
)
def test_pod_may_not_run_on_the_node(spec):
    assert pod_selects(spec, NODE) is False


def test_field_may_name_a_node_longer_than_a_label_value():
    name = "node-" + "x" * 100
    spec = affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]})
    assert pod_selects(spec, {"metadata": {"name": name}}) is True


@pytest.mark.parametrize("node", [{}, {"metadata": None}, {"metadata": {"labels": None}}, {"metadata": {"labels": []}}])
def test_node_without_labels_has_none(node):
    assert labels_of(node) == {}
    assert pod_selects({}, node) is True
    assert pod_selects({"nodeSelector": {"zone": "z1"}}, node) is False


@pytest.mark.parametrize("value", [81559, True, None, 1.5, ["z1"], {"a": "b"}])
def test_label_that_is_not_text_is_none(value):
    node = {"metadata": {"name": "a", "labels": {"zone": "z1", "memory": value}}}
    assert labels_of(node) == {"zone": "z1"}
    assert pod_selects({"nodeSelector": {"zone": "z1"}}, node) is True
    for operator, selected in {"Exists": False, "DoesNotExist": True, "Gt": False, "Lt": False}.items():
        values = ["1"] if operator in ("Gt", "Lt") else []
        expression = {"key": "memory", "operator": operator, "values": values}
        assert pod_selects(affinity({"matchExpressions": [expression]}), node) is selected


def test_labels_that_are_text_are_not_copied():
    assert labels_of(NODE) is NODE["metadata"]["labels"]


@pytest.mark.parametrize(
    ("resource", "amount"),
    [("nvidia.com/gpu", "8"), ("cpu", "4"), ("nvidia.com/mig-1g.5gb", "0"), ("nvidia.com/missing", "0")],
)
def test_allocatable_is_text_and_0_where_there_is_none(resource, amount):
    assert allocatable(NODE, resource) == amount


@pytest.mark.parametrize("status", [None, {}, {"allocatable": None}, {"allocatable": {"nvidia.com/gpu": None}}])
def test_node_that_offers_nothing_offers_0(status):
    assert allocatable({"status": status}, "nvidia.com/gpu") == "0"
