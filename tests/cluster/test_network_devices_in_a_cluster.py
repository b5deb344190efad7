"""Pods that wish network devices beside their GPUs: the real scheduler pairs devices of two drivers."""

import pytest

from testbed import manifests
from testbed.waiting import until
from tests.cluster.scheduled_pods import Scheduled, beating

NODE = "paired-node"
ROOT = "resource.kubernetes.io/pcieRoot"
CLASS = "paired-nic"
DRIVER = "nic.example.com"
GPU_ROOTS = ["pci0000:00", "pci0000:40", "pci0000:80"]
NIC_ROOTS = ["pci0000:80", "pci0000:c0", "pci0000:00"]


def with_roots(document, roots):
    for device, root in zip(document["spec"]["devices"], roots, strict=True):
        device["attributes"] = {**device["attributes"], ROOT: {"string": root}}
    return document


def nic_slice():
    document = manifests.resource_slice(NODE, 0)
    devices = [{"name": f"nic-{number}", "attributes": {}} for number in range(len(NIC_ROOTS))]
    document["metadata"]["name"] = f"{NODE}-nic"
    document["spec"] |= {"driver": DRIVER, "devices": devices}
    return with_roots(document, NIC_ROOTS)


def nic_class():
    document = manifests.device_class()
    document["metadata"]["name"] = CLASS
    document["spec"] = {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}
    return document


def wishing(team, name, gpus):
    document = manifests.pod(team, name, gpus=gpus, nodeSelector={"kubernetes.io/hostname": NODE})
    document["metadata"]["annotations"] = {"gpu-admission.io/nic": "aligned"}
    return document


@pytest.fixture
def paired(real, background):
    if not real.schedules:
        pytest.skip("no kube-scheduler runs here")
    node = manifests.node(NODE)
    node["metadata"]["labels"] |= {"kubernetes.io/hostname": NODE}
    made = [node, with_roots(manifests.resource_slice(NODE, len(GPU_ROOTS)), GPU_ROOTS), nic_slice(), nic_class()]
    for document in made:
        real.belongings.add(document)
    beats = beating(real, background, [NODE])
    team = real.namespace(dra="enabled")
    try:
        assert real.configure(conversion={"nic": {"deviceClass": CLASS}}).accepted
        until(lambda: is_converted(real, team), "pods get network devices")
        yield Scheduled(real, [team])
    finally:
        beats.cancel()
        real.belongings.empty(team)
        real.delete("GPUAdmissionPolicy", "default")
        for document in reversed(made):
            real.delete(document["kind"], document["metadata"]["name"])
        real.delete("Lease", NODE, "kube-node-lease")


def is_converted(cluster, team):
    return "resourceClaims" in cluster.create(wishing(team, "first", 1), dry_run=True).object["spec"]


def test_scheduler_gives_each_gpu_a_network_device_of_the_same_root(paired):
    (team,) = paired.teams
    assert paired.cluster.create(wishing(team, "train", 2)).accepted
    until(lambda: paired.cluster.get("Pod", "train", team).object["spec"].get("nodeName"), "the pod is bound", 60)
    (claim,) = paired.cluster.list("ResourceClaim", team)
    held = {each["request"]: each["device"] for each in claim["status"]["allocation"]["devices"]["results"]}
    roots = [
        (GPU_ROOTS[int(held[f"main-{number}"].rpartition("-")[2])], NIC_ROOTS[int(held[f"main-nic-{number}"][-1])])
        for number in range(2)
    ]
    assert sorted(roots) == [("pci0000:00", "pci0000:00"), ("pci0000:80", "pci0000:80")]
    paired.end({"metadata": {"name": "train", "namespace": team}})
    assert not paired.starts(wishing(team, "more", 3)), "three pairs of two"
