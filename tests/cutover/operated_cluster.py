"""A cluster whose operator, drivers and Helm are played, and the walk through the steps of a cutover.

What they do is what their sources say, not what the plan expects: github.com/NVIDIA/gpu-operator
controllers/nodelabeling_controller.go, state_manager.go, gpucluster_controller.go, internal/state/state_skel.go;
github.com/kubernetes-sigs/dra-driver-nvidia-gpu deployments/helm/dra-driver-nvidia-gpu; helm pkg/action.
"""

from __future__ import annotations

import copy
import json
import os
import shlex
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import yaml

from testbed import manifests
from testbed.commands import run_command
from testbed.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from testbed.api import API


GPU = "nvidia.com/gpu"
PLUGIN = "nvidia.com/gpu.deploy.device-plugin"
MIG_MANAGER = "nvidia.com/gpu.deploy.mig-manager"
DRA = "nvidia.com/gpu.deploy.dra-driver"
OPERATOR = "gpu-operator"
CLASSES = ("gpu.nvidia.com", "mig.nvidia.com")
_EXPRESSION = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == '{}'"


def definition(kind: str, plural: str, version: str) -> dict[str, Any]:
    """A CustomResourceDefinition of the operator, without its schema."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    served = {"name": version, "served": True, "storage": True, "subresources": {"status": {}}, "schema": schema}
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.nvidia.com"},
        "spec": {"group": "nvidia.com", "scope": "Cluster", "names": names, "versions": [served]},
    }


DEFINITIONS = (
    definition("ClusterPolicy", "clusterpolicies", "v1"),
    definition("GPUCluster", "gpuclusters", "v1alpha1"),
    definition("NVIDIADriver", "nvidiadrivers", "v1alpha1"),
)


def plugin_node(name: str, **labels: str) -> dict[str, Any]:
    """A node with two GPUs that the device plugin hands out."""
    node = manifests.node(name)
    del node["metadata"]["labels"]["nvidia.com/dra-kubelet-plugin"]
    node["metadata"]["labels"] |= {PLUGIN: "true", "nvidia.com/cuda.driver-version.full": "580.95.05", **labels}
    for amounts in ("allocatable", "capacity"):
        node["status"][amounts] = {**node["status"][amounts], GPU: "2"}
    return node


def device_class(name: str, **metadata: Any) -> dict[str, Any]:
    """A DeviceClass of the driver."""
    expression = _EXPRESSION.format(name.partition(".")[0])
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


@dataclass
class OperatedCluster:
    """A cluster with an operator of v26.3 and its ClusterPolicy."""

    api: API
    kubeconfig: Path
    folder: Path
    """Where commands run, and the files of the cutover are."""
    kubectl: Callable[..., None]
    nodes: tuple[str, ...]
    history: list[str] = field(default_factory=list)
    """The images of the operator before each upgrade."""

    def command(self, line: str) -> None:
        """Run a printed command, and let the operator and the drivers follow it."""
        program, *arguments = shlex.split(line)
        if program == "sh":
            script = (self.folder / arguments[0]).read_text()
            for each in script.splitlines():
                if each.startswith("kubectl "):
                    self.kubectl(*shlex.split(each)[1:])
        else:
            {"kubectl": self.kubectl, "helm": self._helm}[program](*arguments)
        self.operate()

    def check(self, line: str) -> tuple[int, str]:
        """The exit code and the output of a printed check."""
        program, *arguments = shlex.split(line)
        assert program == "gpu-admission"
        done = run_command(
            *arguments, cwd=self.folder, environment={**os.environ, "KUBECONFIG": str(self.kubeconfig), "NO_COLOR": "1"}
        )
        return done.returncode, done.stdout + done.stderr

    def plan(self) -> dict[str, Any]:
        """The plan of the cluster as it is now; its files are written."""
        code, text = self.check("gpu-admission cutover --write cutover -o json")
        assert code in (0, 1), text
        plan: dict[str, Any] = json.loads(text[text.index("{") : text.rindex("}") + 1])
        return plan

    def state(self) -> dict[str, Any]:
        """Everything that steps and ways back change."""
        nodes = {
            each["metadata"]["name"]: (
                each["metadata"]["labels"],
                each["spec"].get("unschedulable", False),
                each["status"]["allocatable"].get(GPU, "0"),
            )
            for each in self.api.list("Node")
        }
        specs = {
            kind: {each["metadata"]["name"]: each["spec"] for each in self.api.list(kind)}
            for kind in ("ClusterPolicy", "DeviceClass", "GPUCluster", "NVIDIADriver")
        }
        # Helm leaves the namespace that it creates.
        labels = {
            each["metadata"]["name"]: {
                key: value for key, value in each["metadata"].get("labels", {}).items() if "gpu" in key
            }
            for each in self.api.list("Namespace")
        }
        slices = sorted(each["metadata"]["name"] for each in self.api.list("ResourceSlice"))
        daemons = sorted(each["metadata"]["name"] for each in self.api.list("DaemonSet"))
        return copy.deepcopy(
            {
                "nodes": nodes,
                **specs,
                "namespaces": {name: found for name, found in labels.items() if found},
                "slices": slices,
                "daemons": daemons,
            }
        )

    def operate(self) -> None:
        """Do what the operator, the device plugin and the DRA driver do, until nothing changes any more."""
        policies, clusters = self.api.list("ClusterPolicy"), self.api.list("GPUCluster")
        if clusters and not policies:
            self._run_gpu_cluster(clusters[0])
        for name in CLASSES:
            found = self.api.get("DeviceClass", name)
            owners = found.body["metadata"].get("ownerReferences", []) if found.accepted else []
            if owners and not clusters:
                # The garbage collector of a real control plane may be faster.
                assert self.api.delete("DeviceClass", name).code in (HTTPStatus.OK, HTTPStatus.NOT_FOUND)
        selectors = [each["spec"]["template"]["spec"].get("nodeSelector", {}) for each in self.api.list("DaemonSet")]
        for name in self.nodes:
            labels = self.api.get("Node", name).object["metadata"]["labels"]
            if bool(policies) != bool(clusters):
                changed = self._operator_labels(labels, has_policy=bool(policies))
                if any(labels.get(key) != value for key, value in changed.items()):
                    labels = self._write(name, {"metadata": {"labels": changed}})["metadata"]["labels"]
            has_plugin = bool(policies) and labels.get(PLUGIN) == "true"
            amounts = {GPU: "2" if has_plugin else "0"}
            if self.api.get("Node", name).object["status"]["allocatable"].get(GPU) != amounts[GPU]:
                body = {"status": {"allocatable": amounts, "capacity": amounts}}
                assert self.api.patch("Node", name, body=body, subresource="status").accepted
            has_driver = any(labels.items() >= each.items() for each in selectors)
            self._publish(name, published=has_driver or (bool(clusters) and not policies and labels.get(DRA) == "true"))

    @staticmethod
    def _operator_labels(labels: dict[str, str], *, has_policy: bool) -> dict[str, str | None]:
        """The labels that the operator sets: values that exist are left, those of the other stack are removed."""
        if has_policy:
            return {PLUGIN: labels.get(PLUGIN) or "true", DRA: None}
        return {PLUGIN: None, MIG_MANAGER: None, DRA: labels.get(DRA) or "true"}

    def _write(self, node: str, body: dict[str, Any]) -> dict[str, Any]:
        stored: dict[str, Any] = self.api.patch("Node", node, body=body).object
        return stored

    def _run_gpu_cluster(self, cluster: dict[str, Any]) -> None:
        owner = {
            "apiVersion": cluster["apiVersion"],
            "kind": "GPUCluster",
            "name": cluster["metadata"]["name"],
            "uid": cluster["metadata"]["uid"],
        }
        for name in CLASSES:
            wanted = device_class(name, ownerReferences=[{**owner, "controller": True}])
            found = self.api.get("DeviceClass", name)
            if not found.accepted:
                assert self.api.create(wanted).accepted
            elif found.object["spec"] != wanted["spec"] or "ownerReferences" not in found.object["metadata"]:
                version = found.object["metadata"]["resourceVersion"]
                wanted["metadata"]["resourceVersion"] = version
                assert self.api.replace(wanted).accepted
        body = {"status": {"state": "ready", "namespace": OPERATOR}}
        assert self.api.patch("GPUCluster", owner["name"], body=body, subresource="status").accepted

    def _publish(self, node: str, *, published: bool) -> None:
        slice_ = manifests.resource_slice(node, 2)
        exists = self.api.get("ResourceSlice", slice_["metadata"]["name"]).accepted
        if published and not exists:
            assert self.api.create(slice_).accepted
        elif exists and not published:
            assert self.api.delete("ResourceSlice", slice_["metadata"]["name"]).accepted

    def _helm(self, *arguments: str) -> None:
        """Helm, as far as the charts of NVIDIA go: the objects that steps look at."""
        verb, *rest = arguments
        words = [
            each
            for number, each in enumerate(rest)
            if not each.startswith("-") and rest[number - 1] not in ("-n", "-f", "--set")
        ]
        release = words[0]
        namespace = rest[rest.index("-n") + 1]
        if verb == "uninstall":
            for name in CLASSES:
                self.api.delete("DeviceClass", name)
            assert self.api.delete("DaemonSet", f"{release}-kubelet-plugin", namespace).accepted
        elif verb == "upgrade" and "dra-driver-nvidia-gpu" in words[-1]:
            values = yaml.safe_load((self.folder / rest[rest.index("-f") + 1]).read_text())
            self._install_driver(release, namespace, values)
        elif verb == "upgrade":
            self.history.append(self._operator_image())
            self._set_operator("gpu-operator:v26.7.0")
        else:
            assert verb == "rollback", arguments
            self._set_operator(self.history.pop())

    def _install_driver(self, release: str, namespace: str, values: dict[str, Any]) -> None:
        assert values["gpuResourcesEnabledOverride"] is True, "the chart refuses to install"
        notes = {"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": namespace}
        for name in CLASSES:
            document = device_class(name, annotations=notes)
            if name == CLASSES[0]:
                document["spec"]["extendedResourceName"] = GPU
            self.api.create(document)
        if not self.api.get("Namespace", namespace).accepted:
            assert self.api.create(manifests.namespace(namespace, {})).accepted
        labels = {"app": release}
        container = {"name": "gpus", "image": "dra-driver-nvidia-gpu:v0.5.0"}
        template = {"metadata": {"labels": labels}, "spec": {**values["kubeletPlugin"], "containers": [container]}}
        daemon_set = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": f"{release}-kubelet-plugin", "namespace": namespace},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        }
        until(lambda: self.api.apply(daemon_set).accepted, "the DaemonSet is created")

    def _operator_image(self) -> str:
        found = self.api.get("Deployment", OPERATOR, OPERATOR).object
        return str(found["spec"]["template"]["spec"]["containers"][0]["image"])

    def _set_operator(self, image: str) -> None:
        deployment = manifests.deployment(OPERATOR, OPERATOR, 0)
        deployment["spec"]["template"]["spec"]["containers"] = [{"name": OPERATOR, "image": image}]
        answer = self.api.apply(deployment)
        assert answer.accepted, answer.message

    def begin(self) -> None:
        """The operator before the cutover."""
        self._set_operator("gpu-operator:v26.3.1")
        self.operate()


def walk(cluster: OperatedCluster) -> list[str]:
    """Take every step, its way back, and the step again; the ids of the steps.

    A check must fail before its step and after its way back, and succeed after the step; the way back must restore the
    cluster. Commands are run as they are printed.
    """
    first = cluster.plan()
    taken = []
    for step_id in [each["id"] for each in first["steps"]]:
        # Printed anew, as an administrator sees it who plans again after each step.
        (step,) = [
            each for each in (cluster.plan() if taken[-1:] != ["exchange"] else first)["steps"] if each["id"] == step_id
        ]
        before = cluster.state()
        code, text = cluster.check(step["check"])
        assert code == 1, f"the check of {step_id} succeeds before the step: {text}"
        for line in step["commands"]:
            cluster.command(line)
        code, text = cluster.check(step["check"])
        assert code == 0, text
        for line in step["back"]:
            cluster.command(line)
        code, text = cluster.check(step["check"])
        assert code == 1, f"the check of {step_id} succeeds after the way back: {text}"
        after = cluster.state()
        assert {key: after[key] for key in after if after[key] != before[key]} == {
            key: before[key] for key in before if after[key] != before[key]
        }, step_id
        for line in step["commands"]:
            cluster.command(line)
        code, text = cluster.check(step["check"])
        assert code == 0, text
        taken.append(step_id)
    return taken
