"""Claims are made from the templates of converted pods, and devices are allocated."""

import json

import pytest

from policies.conversion.templates import content_name
from testbed import manifests
from testbed.waiting import until
from tests.cluster.bound_pods import bound, ours
from tests.cluster.mixed_nodes import mig_class
from tests.cluster.scheduled_pods import beating


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


PARTS = "parts-1"
_APART = {"key": "example.com/parts", "effect": "NoSchedule"}


@pytest.fixture
def divided(real, background):
    """A node with a GPU that claims share by memory, and two MIG devices of another one; only pods of these tests run there."""
    if not real.schedules:
        pytest.skip("no kube-scheduler runs here")
    gpu = manifests.resource_slice(PARTS, 1)
    (whole,) = gpu["spec"]["devices"]
    common = {name: value for name, value in whole["attributes"].items() if name not in ("type", "uuid")}
    policy = {"default": "40Gi", "validRange": {"min": "1Mi", "max": "40Gi", "step": "1Mi"}}
    whole |= {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "40Gi", "requestPolicy": policy}}}
    for number in range(2):
        attributes = {**common, "type": {"string": "mig"}, "profile": {"string": "3g.40gb"}}
        capacity = {"memory": {"value": "40448Mi"}, "multiprocessors": {"value": "60"}}
        device = {"name": f"gpu-1-mig-3g40gb-9-{4 * number}", "attributes": attributes, "capacity": capacity}
        gpu["spec"]["devices"].append(device)
    made = [{**manifests.node(PARTS), "spec": {"taints": [_APART]}}, gpu, mig_class()]
    for document in made:
        real.belongings.add(document)
    beats = beating(real, background, [PARTS])
    yield real
    beats.cancel()
    for document in reversed(made):
        real.delete(document["kind"], document["metadata"]["name"])


def test_part_of_a_gpu_is_a_share_or_a_mig_device(divided):
    team = divided.namespace(dra="enabled")

    def pod(name, memory):
        tolerations = [{**_APART, "operator": "Exists"}]
        document = manifests.pod(team, name, nodeSelector={"kubernetes.io/hostname": PARTS}, tolerations=tolerations)
        document["metadata"]["annotations"] = {"gpu-admission.io/gpu-memory": memory}
        return document

    def is_known():
        stored = divided.create(pod("seen", "10Gi"), dry_run=True).object
        record = json.loads(stored["metadata"]["annotations"]["gpu-admission.io/converted"])
        return record["slices"] == ["share", "3g.40gb"]

    until(is_known, "the service has seen the devices", 60)
    for name, memory in (("first", "10Gi"), ("second", "10Gi"), ("third", "35Gi")):
        divided.create(pod(name, memory)).object  # noqa: B018 - it is not refused
        bound(divided, team, name)
    results = {}
    for claim in divided.list("ResourceClaim", team):
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        (owner,) = claim["metadata"]["ownerReferences"]
        amount = result.get("consumedCapacity", {}).get("memory")
        results[owner["name"]] = (result["request"], result["device"].partition("-mig-")[0], amount)
    assert results == {
        "first": ("main/share", "gpu-0", "10Gi"),
        "second": ("main/share", "gpu-0", "10Gi"),
        "third": ("main/mig-3g-40gb", "gpu-1", None),
    }
    templates = divided.list("ResourceClaimTemplate", team)
    assert {content_name(each["spec"]) for each in templates} == {each["metadata"]["name"] for each in templates}
