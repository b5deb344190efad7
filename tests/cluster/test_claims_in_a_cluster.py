"""Claims are made from the templates of converted pods, and devices are allocated."""

import pytest

from testbed import manifests
from testbed.waiting import until
from tests.cluster.bound_pods import bound, ours


def claims_of(cluster, team):
    if not cluster.makes_claims:
        pytest.skip("no kube-controller-manager runs here")
    return until(lambda: cluster.list("ResourceClaim", team), "the pod gets its claim")


def test_claim_is_made_from_the_template(cluster):
    team = cluster.namespace(dra="enabled")
    pod = cluster.create(manifests.pod(team, gpus=2)).object
    (claim,) = claims_of(cluster, team)
    (owner,) = claim["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", pod["metadata"]["uid"], True)
    (request,) = claim["spec"]["devices"]["requests"]
    assert request["exactly"] == {
        "deviceClassName": manifests.CLASS,
        "allocationMode": "ExactCount",
        "count": 2,
    }


def test_two_gpus_are_allocated_and_the_pod_gets_its_node(real):
    team = real.namespace(dra="enabled")
    real.create(manifests.pod(team, gpus=2, **ours())).object  # noqa: B018 - it is not refused
    node = bound(real, team)["spec"]["nodeName"]
    (claim,) = real.list("ResourceClaim", team)
    results = claim["status"]["allocation"]["devices"]["results"]
    assert [(each["request"], each["pool"], each["device"]) for each in results] == [
        ("main", node, "gpu-0"),
        ("main", node, "gpu-1"),
    ]


def test_init_container_uses_the_device_of_the_container_after_it(real):
    team = real.namespace(dra="enabled")
    document = manifests.pod(team, gpus=2, **ours())
    first = {"name": "fetch", "image": "registry.example/fetch:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    document["spec"]["initContainers"] = [first]
    real.create(document).object  # noqa: B018 - it is not refused
    bound(real, team)
    (claim,) = real.list("ResourceClaim", team)
    assert len(claim["status"]["allocation"]["devices"]["results"]) == 2


def test_condition_on_the_product_is_met_by_devices(real):
    team = real.namespace(dra="enabled")
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}
    real.create(manifests.pod(team, **ours(nodeSelector=labels))).object  # noqa: B018 - it is not refused
    bound(real, team)


def test_renamed_pod_gets_its_claim_from_the_scheduler(real):
    team = real.namespace(dra="enabled", dra_strategy="rename")
    if real.minor < 36:
        pytest.skip("the strategy rename needs Kubernetes 1.36")
    real.create(manifests.pod(team, **ours())).object  # noqa: B018 - it is not refused
    pod = bound(real, team)
    status = pod["status"]["extendedResourceClaimStatus"]
    assert [each["resourceName"] for each in status["requestMappings"]] == [
        "deviceclass.resource.kubernetes.io/gpu.nvidia.com"
    ]
    assert real.get("ResourceClaim", status["resourceClaimName"], team).accepted
