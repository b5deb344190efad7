"""Statuses and events of bound pods that a real API server stores, and what the commands make of them."""

import json
from datetime import UTC, datetime

import pytest

from testbed import manifests
from tests.cluster.bound_pods import bound, ours
from tests.cluster.commands import command_output

NOT_REGISTERED = (
    "Failed to prepare dynamic resources: prepare dynamic resources: DRA driver gpu.nvidia.com is not registered"
)


@pytest.fixture
def started(real):
    """A namespace, its bound pod with a claim, and that claim, with what a kubelet and a driver would write."""
    team = real.namespace(dra="enabled")
    assert real.create(manifests.pod(team, gpus=1, **ours())).accepted
    pod = bound(real, team)
    (claim,) = [each for each in real.list("ResourceClaim", team) if each["status"].get("allocation")]
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    (used,) = pod["spec"]["containers"][0]["resources"]["claims"]
    resource = f"claim:{used['name']}/{used['request']}"
    health = {
        "resourceID": f"gpu.nvidia.com/{result['pool']}/{result['device']}",
        "health": "Unhealthy",
        "message": "XID 79",
    }
    statuses = {
        "containerStatuses": [
            {
                "name": pod["spec"]["containers"][0]["name"],
                "image": "x",
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {"waiting": {"reason": "ContainerCreating"}},
                "allocatedResourcesStatus": [{"name": resource, "resources": [health]}],
            }
        ]
    }
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    ready = {
        "type": "Ready",
        "status": "False",
        "reason": "LinkDown",
        "message": "no carrier",
        "lastTransitionTime": now,
    }
    of_device = {field: result[field] for field in ("driver", "pool", "device")}
    devices = {"devices": [{**of_device, "conditions": [ready], "networkData": {"interfaceName": "eth1"}}]}
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": team, "name": "train", "uid": pod["metadata"]["uid"]}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "train.1", "namespace": team},
        "involvedObject": about,
        "reason": "FailedPrepareDynamicResources",
        "message": NOT_REGISTERED,
        "type": "Warning",
        "count": 7,
        "lastTimestamp": now,
        "source": {"component": "kubelet"},
    }
    name = claim["metadata"]["name"]
    for stored in (
        real.patch("Pod", "train", team, body={"status": statuses}, subresource="status"),
        real.patch("ResourceClaim", name, team, body={"status": devices}, subresource="status"),
        real.create(event),
    ):
        assert stored.accepted, stored
    return team, result["device"]


def explained(real, team):
    arguments = ("pod/train", "-n", team, "--kubeconfig", real.kubeconfig, "-o", "json")
    (found,) = json.loads(command_output("explain", *arguments))
    return found


def test_event_and_statuses_are_stored_and_explained(real, started):
    team, device = started
    found = explained(real, team)
    assert found["verdict"] == "stuck"
    failure, unhealthy = found["obstacles"]
    assert "has no plugin of driver gpu.nvidia.com" in failure["sentence"]
    assert "(event FailedPrepareDynamicResources, 7 times)" in failure["sentence"]
    assert unhealthy["sentence"] == f"{device}: the kubelet reports it as unhealthy: XID 79"
    assert f"{device} of driver gpu.nvidia.com is eth1" in found["remarks"]


def test_usage_lists_the_pod_and_its_unhealthy_gpu(real, started):
    team, device = started
    found = json.loads(command_output("usage", "--kubeconfig", real.kubeconfig, "-n", team, "-o", "json"))
    (stuck,) = found["stuckPods"]
    assert (stuck["pod"], stuck["reasons"][0]["text"]) == ("train", "DRA driver gpu.nvidia.com is not registered")
    (holder,) = found["holders"]
    assert holder["problems"] == [f"{device}: the kubelet reports it as unhealthy: XID 79"]


def test_snapshot_has_the_event_and_gives_the_same_answer(real, started, tmp_path):
    team, _ = started
    folder = str(tmp_path / "snapshot")
    command_output("snapshot", folder, "--kubeconfig", real.kubeconfig)
    (offline,) = json.loads(command_output("explain", "--cluster", folder, "-n", team, "pod/train", "-o", "json"))
    live = explained(real, team)
    # The message of a driver about a device may be anything, and is not kept.
    assert [each["sentence"] for each in offline["obstacles"]] == [
        each["sentence"].removesuffix(": XID 79") for each in live["obstacles"]
    ]
