"""Requests for more GPUs than the largest node has, with that node and its number."""

import pytest

from policies.analyses.explain import explain
from policies.fleet.device_plugin import largest_of_class
from policies.kubernetes.pods import Pod
from policies.outcome import questions
from policies.placement.resource_requests import node_findings
from policies.rules.settings import DEFAULTS
from tests.findings import labelled_text

GPU = "nvidia.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/"


def findings_of(pod, view):
    found = node_findings(pod, "team-a", view, DEFAULTS)
    # The containers refer to no claim, which is another finding.
    return [labelled_text(finding) for finding in found if finding.rule.id != "GA415"]


def finding(wanted, most, node, resource=GPU, container="containers[0]"):
    return (
        f"spec.{container}.resources.limits[{resource}]: the pod requests {wanted} in all, and no node has more than {most} "
        f"({node}); request at most {most} per pod, and use more pods [GA414]"
    )


def device_class(name="gpu.nvidia.com", resource=GPU, kind="gpu"):
    expression = f'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "{kind}"'
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"extendedResourceName": resource, "selectors": [{"cel": {"expression": expression}}]},
    }


def resource_slice(count, node="big", **device):
    attributes = {"type": {"string": "gpu"}, "productName": {"string": "NVIDIA H200"}}
    devices = [{"name": f"gpu-{number}", "attributes": attributes, **device} for number in range(count)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": node},
        "spec": {"driver": "gpu.nvidia.com", "nodeName": node, "pool": pool, "devices": devices},
    }


@pytest.fixture
def nodes(node):
    """One node with 8 GPUs, and two with 4."""
    return [node("f1", name, offers={GPU: amount}) for name, amount in (("c", "4"), ("b", "8"), ("a", "4"))]


def test_largest_node_is_named(pod, cluster, nodes):
    assert findings_of(pod({GPU: 100}), cluster(*nodes)) == [finding(100, 8, "b")]


def test_first_of_equal_nodes_is_named(pod, cluster, node):
    equal = [node("f1", name, offers={GPU: "8"}) for name in ("b", "a")]
    assert findings_of(pod({GPU: 9}), cluster(*equal)) == [finding(9, 8, "a")]


def test_as_many_as_the_largest_node_has_are_fine(pod, cluster, nodes):
    assert findings_of(pod({GPU: 8}), cluster(*nodes)) == []


def test_containers_count_together(cluster, nodes):
    containers = [{"name": name, "resources": {"limits": {GPU: 6}}} for name in ("one", "another")]
    document = {"metadata": {"name": "a"}, "spec": {"containers": containers}}
    assert findings_of(Pod.read(document), cluster(*nodes)) == [finding(12, 8, "b")]


def test_init_containers_hand_their_gpus_on(cluster, nodes):
    container = {"name": "main", "resources": {"limits": {GPU: 6}}}
    spec = {"containers": [container], "initContainers": [{**container, "name": "init"}]}
    assert findings_of(Pod.read({"metadata": {"name": "a"}, "spec": spec}), cluster(*nodes)) == []


def test_mig_devices_count_by_their_name(pod, cluster, node):
    mig = node("f2", "mig", offers={"nvidia.com/mig-1g.5gb": "3"})
    resource = "nvidia.com/mig-1g.5gb"
    assert findings_of(pod({resource: 4}), cluster(mig)) == [finding(4, 3, "mig", resource)]


def test_shares_count_as_they_are_offered(pod, cluster, node):
    shared = node("f4", "shared", offers={GPU: "32"})
    assert findings_of(pod({GPU: 33}), cluster(shared)) == [finding(33, 32, "shared")]


def test_pod_that_gets_one_share_at_most_gets_that_warning_alone(pod, cluster):
    (text,) = findings_of(pod({GPU: 100}), cluster("f5"))
    assert text.endswith("[GA412]")


def test_unadvertised_resource_is_reported(pod, cluster, nodes):
    (text,) = findings_of(pod({"nvidia.com/mig-1g.5gb": 100}), cluster(*nodes))
    assert text.endswith("[GA413]")


@pytest.mark.parametrize("resource", [GPU, f"{IMPLICIT}gpu.nvidia.com"])
def test_unknown_nodes_are_no_reason(pod, cluster, resource):
    assert findings_of(pod({resource: 100}), cluster(device_class(), resource_slice(8))) == []


def test_devices_of_a_class_count_as_well(pod, cluster, nodes):
    view = cluster(*nodes, device_class(), resource_slice(16))
    assert findings_of(pod({GPU: 16}), view) == []
    assert findings_of(pod({GPU: 17}), view) == [finding(17, 16, "big")]


def test_devices_of_a_class_by_its_own_name(pod, cluster, nodes):
    resource = f"{IMPLICIT}gpu.nvidia.com"
    view = cluster(*nodes, device_class(), resource_slice(6))
    assert findings_of(pod({resource: 7}), view) == [finding(7, 6, "big", resource)]


def test_devices_that_pods_share_have_no_number(pod, cluster, nodes):
    view = cluster(*nodes, device_class(), resource_slice(1, allowMultipleAllocations=True))
    assert findings_of(pod({GPU: 17}), view) == []


def test_class_of_which_no_devices_are_known_has_no_number(pod, cluster, nodes):
    assert findings_of(pod({GPU: 17}), cluster(*nodes, device_class())) == []


def template(name, count, **fields):
    exactly = {"deviceClassName": "gpu.nvidia.com", "count": count, **fields}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}},
    }


def claiming(*templates):
    return [{"name": f"c{number}", "resourceClaimTemplateName": name} for number, name in enumerate(templates)]


TOGETHER = (
    'spec.resourceClaims: the claims request 10 devices of class "gpu.nvidia.com" in all, and no node has more than 8 (big); '
    "request at most 8 per pod, and use more pods [GA414]"
)


@pytest.mark.parametrize(
    ("templates", "expected"),
    [
        ([template("a", 5)], [TOGETHER]),
        ([template("a", 4)], []),
        ([template("a", 9)], []),
        ([template("a", 5, adminAccess=True)], []),
        ([], []),
    ],
    ids=["more than a node", "as many as a node", "one too large alone", "admin access", "unseen"],
)
def test_claims_of_a_pod_count_together(pod, cluster, templates, expected):
    view = cluster(device_class(resource=None), resource_slice(8), *templates)
    assert findings_of(pod(resourceClaims=claiming("a", "a")), view) == expected


def test_claim_with_two_names_counts_once(pod, cluster):
    claim = {**template("a", 5), "kind": "ResourceClaim", "spec": template("a", 5)["spec"]["spec"]}
    twice = [{"name": name, "resourceClaimName": "a"} for name in ("one", "another")]
    view = cluster(device_class(resource=None), resource_slice(8), claim)
    assert findings_of(pod(resourceClaims=twice), view) == []


def test_explanation_does_not_repeat_it(pod, cluster, nodes):
    asked = {"apiVersion": "v1", "kind": "Pod", **pod({GPU: 100}).document}
    view = cluster(*nodes)
    (question,) = questions(asked, "team-a", view, DEFAULTS)
    assert explain(question, view, DEFAULTS).warnings == ()


GPUS = "gpu.nvidia.com"


@pytest.mark.parametrize(
    ("objects", "largest"),
    [
        pytest.param([device_class(), resource_slice(4), resource_slice(8, "bigger")], ("bigger", 8), id="largest"),
        pytest.param([device_class()], None, id="slices unknown"),
        pytest.param([device_class(name="other"), resource_slice(8)], None, id="class unknown"),
        pytest.param([device_class(kind="mig"), resource_slice(8)], None, id="no such device"),
        pytest.param([device_class(), resource_slice(8, allowMultipleAllocations=True)], None, id="shared"),
    ],
)
def test_largest_node_of_a_class_is_found(cluster, objects, largest):
    assert largest_of_class(GPUS, cluster(*objects)) == largest
