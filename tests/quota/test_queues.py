"""Queues of Kueue and Volcano: flavors that no node has, and names that no pod requests."""

from __future__ import annotations

import pytest

from policies.admission import review
from policies.kubernetes.workloads import group_of
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView


def node(name="gpu-1", offers=None, **labels):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"nvidia.com/gpu": "8"} if offers is None else offers},
    }


H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "pool": "h100"}
CLASS = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu.nvidia.com"}, "spec": {}}
NO_SLICES = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSliceList", "items": []}
CLUSTER = [node(**H100), CLASS, NO_SLICES]


def configuration(*classes, name="gpus"):
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "resources": {"deviceClassMappings": [{"name": name, "deviceClassNames": [*classes]}]},
    }


def findings(document, cluster=CLUSTER, reviewed=()):
    request = Request(document, group=group_of(document), kind=document["kind"], name="q")
    decision = review(request, ManifestsView(cluster, [*reviewed, document]), DEFAULTS)
    assert decision.not_reviewed == ""
    return [f"{each.path}: {each.message}; {each.remedy}" for each in decision.findings]


def flavor(name="h100", **labels):
    spec = {"nodeLabels": labels} if labels else {}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("labels", [H100, {"pool": "h100"}, {}])
def test_flavor_that_a_node_has_is_right(labels):
    assert findings(flavor(**labels)) == []


def test_flavor_of_an_unknown_product_names_what_nodes_have():
    (found,) = findings(flavor(**{"nvidia.com/gpu.product": "NVIDIA-H100"}))
    assert found == (
        'spec.nodeLabels[nvidia.com/gpu.product]: "NVIDIA-H100" is the nvidia.com/gpu.product of no node, so pods of this '
        'flavor stay Pending; write "NVIDIA-H100-80GB-HBM3"'
    )


def test_flavor_of_another_product_lists_what_nodes_have():
    (found,) = findings(flavor("b200", **{"nvidia.com/gpu.product": "NVIDIA-B200"}))
    assert found.endswith("; write what nodes have: NVIDIA-H100-80GB-HBM3")


def test_labels_of_different_nodes_are_no_flavor():
    cluster = [node("a", **H100), node("b", zone="b"), CLASS]
    (found,) = findings(flavor(pool="h100", zone="b"), cluster)
    assert found.startswith("spec.nodeLabels: no node has all of these labels: pool and zone")


@pytest.mark.parametrize("product", ["NVIDIA-H100", "NVIDIA-Z9000"])
def test_flavor_of_no_known_product_is_reported_without_nodes(product):
    (found,) = findings(flavor(**{"nvidia.com/gpu.product": product}), [])
    assert f'"{product}" is no known product of a GPU' in found


def test_flavor_of_a_known_product_is_right_without_nodes():
    assert findings(flavor(**{"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED"}), []) == []


def test_flavor_without_gpus_is_not_judged():
    assert findings(flavor("spot", pool="spot")) == []


def cluster_queue(*names, kind="ClusterQueue"):
    groups = [{"coveredResources": [*names], "flavors": []}]
    spec = {"resourceGroups": groups}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": "q"}, "spec": spec}


def volcano_queue(**amounts):
    spec = {"capability": amounts}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}, "spec": spec}


@pytest.mark.parametrize("name", ["cpu", "memory", "nvidia.com/gpu", "example.com/fpga", "whole-gpus"])
def test_queue_that_counts_what_pods_request_is_right(name):
    assert findings(cluster_queue(name)) == []


@pytest.mark.parametrize("kind", ["ClusterQueue", "Cohort"])
@pytest.mark.parametrize("name", ["requests.nvidia.com/gpu", "limits.nvidia.com/gpu", "nvidia.com/gpus"])
def test_queue_under_another_name_has_the_right_one(kind, name):
    (found,) = findings(cluster_queue("cpu", name, kind=kind))
    assert found.startswith("spec.resourceGroups[0].coveredResources[1]: ")
    assert 'write "nvidia.com/gpu"' in found


@pytest.mark.parametrize(
    "cluster", [(), [node(offers={"nvidia.com/gpu": "1", "nvidia.com/gpus": "1"}), CLASS, NO_SLICES]]
)
def test_misspelt_resource_has_the_right_name_also_without_a_cluster_unless_a_node_offers_it(cluster):
    found = findings(cluster_queue("nvidia.com/gpus"), cluster)
    assert [each.endswith('of this name; write "nvidia.com/gpu"') for each in found] == ([] if cluster else [True])


def test_resource_that_no_node_offers_is_reported():
    (found,) = findings(cluster_queue("nvidia.com/mig-1g.10gb"))
    assert "no node offers nvidia.com/mig-1g.10gb, and no DeviceClass stands for it" in found


def test_resource_that_becomes_a_claim_later_is_right():
    devices = [{"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}}]
    spec = {"driver": "gpu.nvidia.com", "nodeName": "gpu-1", "pool": {"name": "gpu-1", "resourceSliceCount": 1}}
    published = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {**spec, "devices": devices},
    }
    assert findings(cluster_queue("nvidia.com/gpu"), [node(offers={}, **H100), CLASS, published]) == []


def test_name_of_a_mapping_is_right_and_another_is_not():
    reviewed = [configuration("gpu.nvidia.com")]
    assert findings(cluster_queue("gpus"), reviewed=reviewed) == []
    (found,) = findings(cluster_queue("whole-gpu"), reviewed=reviewed)
    assert found.endswith(
        "no pod requests whole-gpu, and no entry of Kueue's deviceClassMappings has this name; write gpus"
    )


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("requests.nvidia.com/gpu", "nvidia.com/gpu"),
        ("gpu", "nvidia.com/gpu"),
        ("deviceclass/gpu.nvidia.con", "deviceclass/gpu.nvidia.com"),
        ("gpu.nvidia.com.deviceclass.resource.k8s.io/devices", "deviceclass/gpu.nvidia.com"),
    ],
)
def test_name_that_volcano_ignores_has_the_right_one(name, right):
    (found,) = findings(volcano_queue(**{name: 1}))
    assert f'write "{right}"' in found
    assert findings(volcano_queue(**{right: 1})) == []


def test_mapping_of_a_missing_class_is_reported():
    (found,) = findings(configuration("gpu.nvidia.com", "gpux.nvidia.com"))
    assert found == (
        'resources.deviceClassMappings[0].deviceClassNames[1]: there is no DeviceClass "gpux.nvidia.com", so nothing is '
        'counted; write "gpu.nvidia.com"'
    )


def test_mapping_in_a_config_map_is_reported_at_its_key():
    text = (
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nresources:\n"
        "  deviceClassMappings:\n  - {name: gpus, deviceClassNames: [gpux.nvidia.com]}\n"
    )
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kueue"}, "data": {"config.yaml": text}}
    (found,) = findings(document)
    assert found.startswith('data[config.yaml]: there is no DeviceClass "gpux.nvidia.com"')


@pytest.mark.parametrize("spec", [[], {"nodeLabels": 1}, {"resourceGroups": [1]}, {"capability": [1]}])
def test_odd_queue_is_no_error(spec):
    for document in (flavor(), cluster_queue(), volcano_queue(), configuration()):
        findings({**document, "spec": spec, "resources": spec})
