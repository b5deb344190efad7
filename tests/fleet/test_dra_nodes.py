"""Nodes with devices that a device plugin serves too, and those whose kubelet cannot read claims."""

import pytest

from policies.conversion.surroundings import node_problems
from policies.fleet.device_plugin import nodes_with_both, old_kubelets
from policies.kubernetes.objects import FieldPath
from tests.findings import plain_text
from webhook.cluster.manifests import ManifestsView


def node(name, kubelet="v1.36.0", **offers):
    status = {"nodeInfo": {"kubeletVersion": kubelet}, "allocatable": offers}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def published(name):
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}}],
        },
    }


def cluster(*objects, version="v1.34.2"):
    return ManifestsView([{"serverVersion": {"gitVersion": version}}, *objects])


def test_node_that_a_plugin_and_dra_serve_is_found():
    view = cluster(
        node("a", **{"nvidia.com/gpu": "8"}), published("a"), node("b", **{"nvidia.com/gpu": "8"}), node("c")
    )
    assert nodes_with_both(view) == ("a",)


def test_nothing_is_found_while_slices_are_unknown():
    assert nodes_with_both(cluster(node("a", **{"nvidia.com/gpu": "8"}))) == ()


def test_kubelet_before_the_served_version_is_found():
    view = cluster(node("a", "v1.33.4"), published("a"), node("b", "v1.34.0"), published("b"), node("c", "v1.33.4"))
    assert old_kubelets(view) == (("a", "v1.33.4"),)


@pytest.mark.parametrize("version", ["v1.33.4", "v1.32.0"])
def test_kubelet_of_an_older_server_is_right(version):
    assert old_kubelets(cluster(node("a", "v1.32.0"), published("a"), version=version)) == ()


def test_kubelets_of_an_unknown_server_are_not_judged():
    assert old_kubelets(ManifestsView([node("a", "v1.32.0"), published("a")])) == ()


def test_conversion_is_warned_of_old_kubelets():
    two = [each for name in ("a", "b") for each in (node(name, "v1.33.4"), published(name))]
    texts = [
        plain_text(finding)
        for view in (cluster(*two[:2]), cluster(*two))
        for finding in node_problems(view, FieldPath(["x"]))
    ]
    does_not = "which does not read claims of resource.k8s.io/v1; a pod with a claim would not start there"
    upgrade = "ask your administrator to upgrade these kubelets"
    assert texts == [
        f"x: a has kubelet v1.33.4, {does_not}; {upgrade}",
        f"x: a, b have kubelet v1.33.4 or older, {does_not}; {upgrade}",
    ]


@pytest.mark.parametrize(("names", "named"), [("abc", "a, b, c have "), ("abcd", "a, b, c and 1 more have ")])
def test_three_nodes_are_named(names, named):
    view = cluster(*(each for name in names for each in (node(name, "v1.33.4"), published(name))))
    (finding,) = node_problems(view, FieldPath(["x"]))
    assert finding.message.startswith(named)
