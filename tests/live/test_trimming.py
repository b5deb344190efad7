"""The parts of an object that are kept, with equal parts kept once."""

import orjson
import pytest

from tests.explain.conftest import taint_rule
from webhook.cluster.resources import RESOURCES
from webhook.cluster.store import Sharing
from webhook.cluster.trimmed import trim_for
from webhook.cluster.watched_kinds import watched_kinds

METADATA = {
    "name": "any",
    "namespace": "team-a",
    "uid": "1",
    "resourceVersion": "7",
    "generation": 3,
    "creationTimestamp": "2026-11-22T00:00:00Z",
    "labels": {"app": "train"},
    "annotations": {
        "gpu-admission.io/converted": "{}",
        "other": "text",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    },
    "managedFields": [{"manager": "kubectl"}],
    "ownerReferences": [{"kind": "ReplicaSet", "controller": True}],
}
KINDS = sorted({each.kind for each in watched_kinds(["gpu-operator"])})


def trimmed(kind, document, sharing=None):
    return trim_for(RESOURCES[kind], sharing or Sharing())(document)


def pod(*, claims=(), app="train", phase="Running", init=None, **limits):
    container = {
        "name": "main",
        "image": "any:v1",
        "env": [{"name": "A", "value": "b"}],
        "resources": {"limits": {name.replace("__", "/"): amount for name, amount in limits.items()}},
    }
    spec = {"containers": [container], "volumes": [{"name": "v"}], "nodeName": "a"}
    spec |= {"resourceClaims": list(claims)} if claims else {}
    spec |= {"initContainers": [{**container, "resources": {"requests": init}}]} if init else {}
    return {
        "metadata": {**METADATA, "labels": {"app": app}},
        "spec": spec,
        "status": {"phase": phase, "podIP": "10.0.0.1"},
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_says_what_it_is_and_who_wrote_it_is_dropped(kind):
    document = {"metadata": METADATA, "spec": {"containers": [], "resourceClaims": [{"name": "gpu"}]}, "status": {}}
    found = trimmed(kind, document)
    assert (found["kind"], found["apiVersion"]) == (kind, RESOURCES[kind].api_version)
    # Their status names the generation that it is of, and that of a quota is written over the version that was read.
    quotas = {key: {"generation", "resourceVersion"} for key in ("ClusterGPUQuota", "GPUQuota", "GPUQuotaGroup")}
    reported = {"GPUAdmissionPolicy": {"generation"}, **quotas}.get(kind, set())
    assert found["metadata"].keys() & {"name", "uid", "managedFields", "resourceVersion", "generation"} == {
        "name",
        "uid",
        *reported,
    }


def test_object_is_not_changed_by_trimming():
    document = {"metadata": METADATA, "spec": {"taints": [], "podCIDR": "10.0.0.0/8"}}
    before = orjson.dumps(document)
    trimmed("Node", document)
    assert orjson.dumps(document) == before


def test_node_keeps_what_places_pods():
    document = {
        "metadata": METADATA,
        "spec": {"taints": [{"key": "a"}], "unschedulable": True, "podCIDR": "10.0.0.0/8"},
        "status": {
            "allocatable": {"cpu": "1"},
            "capacity": {"cpu": "2"},
            "images": [{"names": ["a"]}],
            "conditions": [{"lastHeartbeatTime": "now"}],
            "nodeInfo": {"kubeletVersion": "v1.36.2", "machineID": "1"},
        },
    }
    found = trimmed("Node", document)
    assert found["spec"] == {"taints": [{"key": "a"}], "unschedulable": True}
    assert found["status"] == {
        "allocatable": {"cpu": "1"},
        "capacity": {"cpu": "2"},
        "nodeInfo": {"kubeletVersion": "v1.36.2"},
    }


@pytest.mark.parametrize(
    "document",
    [
        pod(nvidia__com="1"),
        pod(**{"nvidia.com__gpu": "1"}),
        pod(**{"example.com__other": "1"}),
        pod(init={"nvidia.com/gpu": "1"}),
        pod(claims=[{"name": "gpu"}]),
        pod(app="gpu-operator"),
    ],
    ids=[
        "a name with a slash",
        "nvidia.com/gpu",
        "another resource",
        "an init container's",
        "a claim",
        "the operator's",
    ],
)
def test_pod_that_may_get_a_gpu_is_kept(document):
    assert trimmed("Pod", document)["metadata"]["name"] == "any"


@pytest.mark.parametrize(
    "document",
    [
        pod(),
        pod(cpu="1", memory="1Gi"),
        pod(**{"nvidia.com__gpu": "1"}, phase="Succeeded"),
        pod(**{"nvidia.com__gpu": "1"}, phase="Failed"),
        {"metadata": METADATA},
    ],
    ids=["nothing asked", "a processor", "succeeded", "failed", "no spec"],
)
def test_pod_that_gets_no_gpu_is_not_kept(document):
    assert trimmed("Pod", document) is None


def test_pod_keeps_what_it_requests():
    found = trimmed("Pod", pod(**{"nvidia.com__gpu": "1"}))
    assert found["spec"] == {
        "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        "nodeName": "a",
    }
    assert found["status"] == {"phase": "Running"}


def test_pod_keeps_the_schedulers_verdict_and_what_it_was_told_itself():
    told = {"type": "gpu-admission.io/Schedulable", "status": "False", "reason": "NoNodeFits", "message": "why"}
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/40 nodes"}
    moment = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    document = pod(**{"nvidia.com__gpu": "1"}, phase="Pending")
    document["status"]["conditions"] = [
        {**scheduled, **moment},
        {"type": "Ready", "status": "False"},
        {**told, **moment},
        7,
    ]
    document["spec"]["schedulingGates"] = [{"name": "a/b"}]
    found = trimmed("Pod", document)
    assert found["status"]["conditions"] == [
        {"type": "PodScheduled", "status": "False"},
        {"type": "gpu-admission.io/Schedulable", "reason": "NoNodeFits", "message": "why"},
    ]
    assert found["spec"]["schedulingGates"] == [{"name": "a/b"}]


UNHEALTHY = [{"name": "nvidia.com/gpu", "resources": [{"resourceID": "GPU-1", "health": "Unhealthy"}]}]


def test_pod_keeps_failed_starts_and_unhealthy_devices():
    document = pod(**{"nvidia.com/gpu": "2"})
    waiting = {
        "name": "main",
        "image": "any:v1",
        "state": {"waiting": {"reason": "CreateContainerError", "message": "x"}},
    }
    healthy = {"resourceID": "GPU-2", "health": "Healthy"}
    resources = [{"name": "nvidia.com/gpu", "resources": [*UNHEALTHY[0]["resources"], healthy]}]
    document["status"] |= {
        "containerStatuses": [{**waiting, "allocatedResourcesStatus": resources}],
        "initContainerStatuses": [{"name": "init", "state": {"terminated": {"exitCode": 0}}}],
        "conditions": [{"type": "PodReadyToStartContainers", "status": "True", "lastTransitionTime": "2026"}],
    }
    assert trimmed("Pod", document)["status"] == {
        "phase": "Running",
        "conditions": [{"type": "PodReadyToStartContainers", "status": "True"}],
        "containerStatuses": [
            {"name": "main", "state": {"waiting": waiting["state"]["waiting"]}, "allocatedResourcesStatus": UNHEALTHY}
        ],
    }


def test_status_of_healthy_containers_is_not_kept():
    document = pod(**{"nvidia.com/gpu": "1"})
    healthy = [{"name": "nvidia.com/gpu", "resources": [{"resourceID": "GPU-2", "health": "Healthy"}]}]
    document["status"]["containerStatuses"] = [
        {"name": "main", "state": {"running": {"startedAt": "2026"}}, "allocatedResourcesStatus": healthy}
    ]
    assert trimmed("Pod", document)["status"] == {"phase": "Running"}


def test_claim_keeps_what_drivers_report_of_devices():
    kept = {
        "driver": "dra.net",
        "pool": "a",
        "device": "nic-0",
        "conditions": [{"type": "Ready", "status": "False", "reason": "LinkDown", "message": "x"}],
        "networkData": {"interfaceName": "eth1", "ips": ["10.0.0.5/24"]},
    }
    dropped = {"conditions": [{**kept["conditions"][0], "lastTransitionTime": "2026"}], "data": {"mtu": 9000}}
    claim = {"metadata": METADATA, "spec": {}, "status": {"devices": [{**kept, **dropped}]}}
    assert trimmed("ResourceClaim", claim)["status"]["devices"] == [kept]


def test_pod_keeps_what_quotas_count_it_by():
    document = pod(**{"nvidia.com__gpu": "1"})
    reported = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "train-gpu"}]}
    reported |= {"extendedResourceClaimStatus": {"resourceClaimName": "train-extended", "requestMappings": []}}
    document["spec"]["priorityClassName"] = "batch"
    document["status"] |= reported
    found = trimmed("Pod", document)
    assert found["spec"]["priorityClassName"] == "batch"
    assert found["status"] == {"phase": "Running", **reported}


def test_claim_keeps_for_which_pod_it_was_made():
    said = {"resource.kubernetes.io/pod-claim-name": "gpu", "resource.kubernetes.io/extended-resource-claim": "true"}
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": "train", "uid": "1", "controller": True}]
    metadata = {**METADATA, "annotations": {**said, "other": "text"}, "ownerReferences": owners}
    found = trimmed("ResourceClaim", {"metadata": metadata, "spec": {}})["metadata"]
    assert (found["annotations"], found["ownerReferences"]) == (said, owners)


def test_quota_is_kept_whole():
    document = {"metadata": METADATA, "spec": {"limits": [{"name": "all", "gpus": 8}]}, "status": {"openCharges": "[]"}}
    found = trimmed("GPUQuota", document)
    assert (found["spec"], found["status"]) == (document["spec"], document["status"])


def test_image_is_kept_of_the_operators_pod():
    (container,) = trimmed("Pod", pod(app="gpu-operator"))["spec"]["containers"]
    assert container["image"] == "any:v1"


def test_annotations_of_ours_are_kept():
    assert trimmed("Pod", pod(**{"nvidia.com__gpu": "1"}))["metadata"]["annotations"] == {
        "gpu-admission.io/converted": "{}"
    }


def test_policy_of_the_operator_is_kept_but_for_kubectls_copy():
    found = trimmed("ClusterPolicy", {"metadata": METADATA, "spec": {"driver": {}}, "status": {"state": "ready"}})
    assert found["metadata"]["annotations"] == {"gpu-admission.io/converted": "{}", "other": "text"}
    assert (found["spec"], found["status"]) == ({"driver": {}}, {"state": "ready"})


def test_slice_is_kept_whole():
    device = {
        "name": "gpu-0",
        "attributes": {"type": {"string": "gpu"}, "uuid": {"string": "GPU-0"}},
        "capacity": {"memory": {"value": "81559Mi"}},
        "taints": [{"key": "a", "effect": "NoSchedule"}],
    }
    spec = {"driver": "gpu.nvidia.com", "nodeName": "a", "pool": {"name": "a"}, "devices": [device, device]}
    assert trimmed("ResourceSlice", {"metadata": METADATA, "spec": spec})["spec"] == spec


def test_claim_keeps_what_it_holds():
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "a", "device": "gpu-0", "shareID": "1"}
    allocation = {"devices": {"results": [result], "config": [{}]}, "nodeSelector": {"nodeSelectorTerms": []}}
    reserved = [{"resource": "pods", "name": "train", "uid": "1"}]
    document = {
        "metadata": METADATA,
        "spec": {"devices": {"requests": []}},
        "status": {"allocation": allocation, "reservedFor": reserved},
    }
    assert trimmed("ResourceClaim", document)["status"] == {
        "allocation": {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": []}},
        "reservedFor": [{"resource": "pods", "name": "train"}],
    }


def test_rule_keeps_its_spec_and_the_proof_that_it_is_applied():
    rule = taint_rule("NoExecute", taint={"timeAdded": "2026-11-30T10:00:00Z"}, device="gpu-0")
    conditions = [{"type": "EvictionInProgress", "status": "True", "message": "1 pod needs to be evicted"}]
    kept = trimmed("DeviceTaintRule", {**rule, "status": {"conditions": conditions}})
    assert (kept["spec"], kept["status"]) == (rule["spec"], {"conditions": [{"type": "EvictionInProgress"}]})


def test_equal_parts_of_two_objects_are_one():
    sharing = Sharing()
    first, second = (trimmed("Pod", pod(**{"nvidia.com__gpu": "1"}), sharing) for _ in range(2))
    assert first["spec"]["containers"] is second["spec"]["containers"]
    assert first["spec"]["nodeName"] is second["spec"]["nodeName"]


@pytest.mark.parametrize(
    ("one", "other"), [([1], [True]), ([1], [1.0]), ([None], [False]), ({"a": "1"}, {"a": 1})], ids=str
)
def test_parts_that_only_compare_as_equal_stay_apart(one, other):
    sharing = Sharing()
    sharing.part(one)
    assert repr(sharing.part(other)) == repr(other)


def test_part_that_is_seen_again_and_again_stays_known():
    sharing = Sharing(most=4)
    often = sharing.part({"key": "often"})
    for number in range(100):
        sharing.part({"key": f"once {number}"})
        assert sharing.part({"key": "often"}) is often


def test_part_that_is_seen_once_is_forgotten():
    sharing = Sharing(most=4)
    once = sharing.part({"key": "once"})
    for number in range(9):
        sharing.part({"key": number})
    assert sharing.part({"key": "once"}) is not once


def test_part_that_is_nested_too_deep_to_compare_is_kept():
    deep = {}
    for _ in range(400):
        deep = {"parameters": deep}
    spec = {"devices": {"config": [{"opaque": deep}]}}
    assert trimmed("ResourceClaimTemplate", {"metadata": METADATA, "spec": spec})["spec"] is spec


def test_pods_of_one_template_share_labels_and_claims_share_annotations():
    sharing = Sharing()
    first, second = (trimmed("Pod", orjson.loads(orjson.dumps(pod(nvidia_com__gpu="1"))), sharing) for _ in range(2))
    assert first["metadata"]["labels"] is second["metadata"]["labels"]
    first, second = (
        trimmed("ResourceClaim", {"metadata": orjson.loads(orjson.dumps(METADATA))}, sharing) for _ in range(2)
    )
    assert first["metadata"]["annotations"] is second["metadata"]["annotations"]


def test_a_claim_shares_the_name_of_its_pod():
    sharing = Sharing()
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "train-0", "uid": "pod-uid", "controller": True}
    claim = {"metadata": {"name": "train-0-gpu", "ownerReferences": [owner]}, "status": {}}
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "train-0"}]
    asking = pod(nvidia_com__gpu="1")
    asking["metadata"] |= {"name": "train-0", "uid": "pod-uid"}
    kept_claim, kept_pod = (
        trimmed(kind, orjson.loads(orjson.dumps(each)), sharing)
        for kind, each in (("ResourceClaim", claim), ("Pod", asking))
    )
    kept_owner = kept_claim["metadata"]["ownerReferences"][0]
    assert kept_owner == owner
    assert kept_owner["name"] is kept_pod["metadata"]["name"] is kept_claim["status"]["reservedFor"][0]["name"]
    assert kept_owner["uid"] is kept_pod["metadata"]["uid"]
