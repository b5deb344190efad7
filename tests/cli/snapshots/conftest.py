"""A sandbox with a cluster of GPUs in use, and commands that run against it."""

from __future__ import annotations

import asyncio
import json

import pytest

from testbed import libyaml
from tests.cli.quota_files import AWAY, EXAMPLES, ROOT
from tests.sandbox.faults import FaultySandbox

DEFINITIONS = ("gpuquotas.yaml", "gpuadmissionpolicies.yaml")
FOLDERS = ("cluster", "cluster-in-use")
SECRET = "hunter2"
LABELS = {"app": "acme-trainer", "acme.example/team": "acme-vision", "kueue.x-k8s.io/queue-name": "acme-queue"}


def container(name="main", **fields):
    return {"name": name, "image": "registry.acme.example/secret-project:1", **fields}


def gpu_pod(name="leftover", namespace="team-a", node="gpu-h100-01", labels=LABELS):
    """A pod that gets its GPU from the device plugin, and has a secret wherever one can be."""
    resources = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}
    env = [{"name": "ACME_TOKEN", "value": SECRET}, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": SECRET, "acme.example/token": SECRET}
    annotations["gpu-admission.io/ignore"] = "GA602 because acme needs it"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations, "labels": labels},
        "spec": {
            "containers": [container(env=env, args=["--token", SECRET], resources=resources)],
            "nodeSelector": {"acme.example/pool": "acme-pool"},
            "tolerations": [{"key": "acme.example/reserved", "value": "acme-vision", "effect": "NoSchedule"}],
            "imagePullSecrets": [{"name": "acme-registry"}],
            "volumes": [
                {
                    "name": "all",
                    "projected": {"sources": [{"secret": {"name": "acme-key"}}, {"configMap": {"name": "acme"}}]},
                },
                {"name": "csi", "csi": {"driver": "csi.example", "nodePublishSecretRef": {"name": "acme-csi"}}},
            ],
            **({"nodeName": node} if node else {}),
        },
        "status": {"phase": "Running" if node else "Pending"},
    }


def deployment(name="acme-serve", namespace="team-legacy"):
    template = gpu_pod()
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {**template["metadata"], "labels": labels}, "spec": template["spec"]},
        },
    }


def config_map(name, namespace="gpu-operator", **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


TIME_SLICING = "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 1}\n"


def objects():
    """What is in the cluster, beside the definitions of kinds."""
    files = [file for folder in FOLDERS for file in sorted((EXAMPLES / folder).glob("*.yaml"))]
    documents = [each for file in files if file.name != "version.yaml" for each in libyaml.load_all(file.read_text())]
    names = ("acme-web",)
    return [
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names),
        *(item for one in documents for item in one.get("items", [one])),
        gpu_pod(),
        gpu_pod("unplaced", node=""),
        gpu_pod("escaped", labels={}),
        deployment(),
        config_map("time-slicing-config", any=TIME_SLICING),
        config_map("licence", token=SECRET),
        config_map("settings", "acme-web", token=SECRET),
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "acme-pull", "namespace": "gpu-operator"},
            "stringData": {"token": SECRET},
        },
    ]


CLUSTER_POLICIES = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "clusterpolicies.nvidia.com"},
    "spec": {
        "group": "nvidia.com",
        "scope": "Cluster",
        "names": {"plural": "clusterpolicies", "kind": "ClusterPolicy"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


@pytest.fixture
def operator_elsewhere(sandbox):
    """The cluster with the GPU Operator in a namespace that no setting names."""
    sandbox.create(CLUSTER_POLICIES)
    sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "acme-nvidia"}})
    policy = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}}
    sandbox.create({**policy, "spec": {}, "status": {"namespace": "acme-nvidia", "state": "ready"}})
    sandbox.create(config_map("plugin", "acme-nvidia", any=TIME_SLICING))


@pytest.fixture
async def sandbox(tmp_path):
    """A sandbox with this cluster; its kubeconfig is in `sandbox.file`."""
    sandbox = FaultySandbox(seed=1)
    for name in DEFINITIONS:
        sandbox.create(libyaml.load((ROOT / "deploy" / "base" / "api" / name).read_text()))
    there = {each["metadata"]["name"] for each in sandbox.objects("Namespace")}
    for each in sorted(objects(), key=lambda each: each["kind"] != "Namespace"):
        if each["kind"] != "Namespace" or each["metadata"]["name"] not in there:
            sandbox.create(each)
    await sandbox.start()
    sandbox.file = tmp_path / "kubeconfig"
    sandbox.file.write_text(sandbox.kubeconfig())
    yield sandbox
    await sandbox.stop()


@pytest.fixture
def command(run):
    """Run a command in a separate process, while the sandbox answers."""

    async def command(*arguments):
        return await asyncio.to_thread(run, *arguments, **AWAY)

    return command


@pytest.fixture
def reported(command):
    """What a command prints as JSON."""

    async def reported(*arguments):
        done = await command(*arguments, "-o", "json")
        assert done.returncode in (0, 1), done.stderr
        return json.loads(done.stdout)

    return reported


@pytest.fixture
def taken(command, sandbox, tmp_path):
    """Take a snapshot; its folder."""

    async def taken(*arguments, name="snapshot"):
        folder = tmp_path / name
        done = await command("snapshot", "--kubeconfig", sandbox.file, *arguments, folder)
        assert done.returncode == 0, done.stderr
        return folder

    return taken
