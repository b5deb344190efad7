"""A PodGroup that shares a claim, its claim and its pods."""

from tests.fleet.fleet_objects import GPU, OTHER, claim, container, device_class, exactly, pod

ENTRY = {"name": "gpus", "resourceClaimTemplateName": "t"}


WITH_GPU, WITHOUT = exactly("gpu.nvidia.com"), exactly("nic")
CLASSES = (device_class("gpu.nvidia.com", GPU), device_class("nic", OTHER))


def group(entry=ENTRY):
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "ring", "namespace": "team-a", "uid": "g"},
        "spec": {"resourceClaims": [entry]},
        "status": {"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": "ring-gpus-x"}]},
    }


def made(*requests, uid="g"):
    owner = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "name": "ring",
        "uid": uid,
        "controller": True,
    }
    document = claim(*requests, name="ring-gpus-x")
    return {**document, "metadata": {**document["metadata"], "ownerReferences": [owner]}}


def member(group="ring"):
    main = container(claims=[{"name": "gpus"}])
    return pod(main, claims=[ENTRY], schedulingGroup={"podGroupName": group})
