"""`gpu-admission migrate --prove`, compared with a real scheduler: 200 pods by the device plugin, and by claims."""

import json
from functools import partial
from random import Random

import pytest
import yaml

from testbed import libyaml
from testbed.waiting import until
from tests.cluster.commands import command_output

PODS = 200
POOL = {"test.gpu-admission.io/pool": "migration"}
DRIVER = "gpu.nvidia.com"
NODES = {
    # Product as NVIDIA's driver names it, its family, compute capability, memory in MiB, and the GPUs of each node.
    "NVIDIA H100 80GB HBM3": ("Hopper", "9.0", 81559, (8, 8, 4)),
    "NVIDIA A100-SXM4-40GB": ("Ampere", "8.0", 40960, (8, 4)),
    "Tesla T4": ("Turing", "7.5", 15360, (1, 1, 2)),
}


def hardware():
    """Name, product and number of GPUs of each node."""
    return [
        (f"migration-{number}-{index}", product, gpus)
        for number, (product, (*_, sizes)) in enumerate(NODES.items())
        for index, gpus in enumerate(sizes)
    ]


def node(name, product, gpus):
    family, compute, memory, _ = NODES[product]
    major, minor = compute.split(".")
    labels = {
        **POOL,
        "kubernetes.io/hostname": name,
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": product.replace(" ", "-"),
        "nvidia.com/gpu.family": family.lower(),
        "nvidia.com/gpu.memory": str(memory),
        "nvidia.com/gpu.compute.major": major,
        "nvidia.com/gpu.compute.minor": minor,
        "nvidia.com/cuda.driver-version.full": "580.95.05",
        "nvidia.com/cuda.driver-version.major": "580",
    }
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "nodeInfo": {"kubeletVersion": "v1.36.2"},
        },
    }


def resource_slice(name, product, gpus):
    """As NVIDIA's driver publishes it."""
    family, compute, memory, _ = NODES[product]
    attributes = {
        "type": {"string": "gpu"},
        "productName": {"string": product},
        "architecture": {"string": family},
        "cudaComputeCapability": {"version": f"{compute}.0"},
        "driverVersion": {"version": "580.95.5"},
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-{DRIVER}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": f"{memory}Mi"}}}
                for number in range(gpus)
            ],
        },
    }


def conditions(random):
    """What a pod says of its GPU: a node selector, or affinity."""
    selector = random.choice(
        [
            {},
            {},
            {"nvidia.com/gpu.product": random.choice([*NODES]).replace(" ", "-")},
            {"nvidia.com/gpu.product": "NVIDIA-H100"},
            {"nvidia.com/gpu.family": random.choice(["hopper", "ampere", "turing", "volta"])},
            {"nvidia.com/gpu.memory": random.choice(["81559", "40960"])},
            {"nvidia.com/gpu.compute.major": random.choice(["9", "8", "7"])},
            {"nvidia.com/cuda.driver-version.full": random.choice(["580.95.05", "550.0.0"])},
        ]
    )
    # No kubelet renews the Leases of these nodes, so they count as unreachable after a minute.
    unreachable = {"key": "node.kubernetes.io/unreachable", "operator": "Exists"}
    spec = {"nodeSelector": {**POOL, **selector}, "tolerations": [unreachable]}
    if random.random() < 0.3:
        key, operator, values = random.choice(
            [
                ("nvidia.com/gpu.memory", "Gt", ["40000"]),
                ("nvidia.com/gpu.memory", "Lt", ["40000"]),
                ("nvidia.com/gpu.product", "NotIn", ["Tesla-T4"]),
                ("nvidia.com/gpu.family", "In", ["hopper", "turing"]),
            ]
        )
        terms = [{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]
        spec["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        }
    return spec


def workload(team, name, gpus, spec):
    """A Deployment without pods: its template is what is compared."""
    container = {
        "name": "main",
        "image": "registry.example/train:1",
        "resources": {
            "requests": {"cpu": "1"},
            "limits": {"nvidia.com/gpu": gpus},
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": team},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], **spec}},
        },
    }


def pod_of(deployment, name):
    template = deployment["spec"]["template"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": deployment["metadata"]["namespace"], **template["metadata"]},
        "spec": template["spec"],
    }


def scheduled(cluster, pod):
    """True if the scheduler binds the pod, which is then removed again."""
    answer = cluster.create(pod)
    assert answer.accepted, answer
    team, name = pod["metadata"]["namespace"], pod["metadata"]["name"]

    def verdict():
        found = cluster.get("Pod", name, team).object
        if found["spec"].get("nodeName"):
            return "bound"
        conditions = found.get("status", {}).get("conditions", ())
        assert any((each["type"], each.get("reason")) == ("PodScheduled", "Unschedulable") for each in conditions), (
            found
        )
        return "unschedulable"

    is_bound = until(verdict, f"the scheduler decides on {name}", 60) == "bound"
    cluster.delete("Pod", name, team, gracePeriodSeconds=0)
    until(partial(_is_gone, cluster, name, team), f"{name} is gone")
    return is_bound


def _is_gone(cluster, name, team):
    return cluster.get("Pod", name, team).code == 404 and not cluster.list("ResourceClaim", team)


@pytest.fixture
def migrating(real):
    """The cluster with nodes of its own, until the scenario ends."""
    if not real.schedules or not real.makes_pods:
        pytest.skip("no kube-scheduler and kube-controller-manager run here")
    for each in hardware():
        real.belongings.add(node(*each))
    yield real
    for name, product, gpus in hardware():
        real.delete("Node", name)
        real.delete("ResourceSlice", resource_slice(name, product, gpus)["metadata"]["name"])


@pytest.mark.timeout(900)
def test_proof_equals_what_the_scheduler_does_before_and_after(migrating, tmp_path):
    real = migrating
    random, team = Random(20), real.namespace()
    deployments = [
        workload(team, f"w-{number:03}", random.choice([1, 1, 2, 4, 5, 8, 9]), conditions(random))
        for number in range(PODS)
    ]
    for each in deployments:
        assert real.create(each).accepted
    command_output("snapshot", "--kubeconfig", real.kubeconfig, tmp_path / "cluster", codes=(0,))
    proof = json.loads(
        command_output("migrate", "--prove", "--cluster", tmp_path / "cluster", "-n", team, "-o", "json")
    )
    cells = {each["workload"].rpartition("/")[2]: each for each in proof["workloads"]}
    assert len(cells) == PODS
    before = {each["metadata"]["name"]: scheduled(real, pod_of(each, "before")) for each in deployments}

    (tmp_path / "manifests.yaml").write_text(yaml.safe_dump_all(deployments))
    migrated = command_output("migrate", "--cluster", tmp_path / "cluster", "-o", "yaml", tmp_path / "manifests.yaml")
    for name, product, gpus in hardware():
        amounts = {"nvidia.com/gpu": None}
        body = {"status": {"allocatable": amounts, "capacity": amounts}}
        assert real.patch("Node", name, body=body, subresource="status").accepted
        real.belongings.add(resource_slice(name, product, gpus))
    documents = [each for each in libyaml.load_all(migrated) if each]
    for each in documents:
        if each["kind"] == "ResourceClaimTemplate":
            assert real.create({**each, "metadata": {**each["metadata"], "namespace": team}}).accepted
    after = {
        each["metadata"]["name"]: scheduled(real, pod_of(each, "after"))
        for each in documents
        if each["kind"] == "Deployment"
    }
    expected = {
        name: "lost" if before[name] and not after[name] else "gained" if after[name] and not before[name] else "kept"
        for name in before
    }
    said = {name: cells[name]["fit"]["outcome"] for name in before if not cells[name]["left"]}
    assert said == {name: outcome for name, outcome in expected.items() if not cells[name]["left"]}
    assert len(said) > PODS * 0.9
    assert {True, False} == {*before.values()} == {*after.values()}
