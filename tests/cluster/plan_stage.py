"""The stage on which tests of `gpu-admission plan` make changes: manifests, two nodes, and what runs on them."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from testbed import manifests
from testbed.waiting import until
from tests.cluster.commands import command_output

GPU = "nvidia.com/gpu"
FIRST, SECOND = "test-node-1", "test-node-2"
CONFIG = "plan-config"
MIG = "nvidia.com/mig-1g.10gb"
WORKLOAD = "nvidia.com/gpu.workload.config"
KEPT, LOST, GAINED, CHANGED = "kept", "lost", "gained", "changed"


def pod(team, name, resource=GPU, amount=1, *, node="", **spec):
    """A pod that tolerates GPU nodes and requests a resource, on a node of the tests if one is named."""
    made = manifests.pod(team, name, **{"tolerations": [{"key": GPU, "operator": "Exists"}], **spec})
    made["spec"]["containers"][0]["resources"]["limits"] = {resource: str(amount)}
    if node:
        made["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node, **made["spec"].get("nodeSelector", {})}
    return made


def claiming(team, name, template="gpus", *, node=""):
    """A pod with a claim from a template."""
    made = pod(team, name, "cpu", node=node, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": template}])
    made["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    return made


def node_labels(name, **labels):
    """A manifest of a node with labels only; a null removes one."""
    written = {key.replace("__", "/"): value for key, value in labels.items()}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": written}}


def plugin_config(sharing, key="whole"):
    """The ConfigMap of the device plugin, with one more or changed document."""
    data = {"whole": "version: v1\n", key: yaml.safe_dump({"version": "v1", "sharing": sharing})}
    return manifests.config_map("gpu-operator", CONFIG, data)


def policy(strategy="mixed", **spec):
    """The ClusterPolicy of the scenarios."""
    config = {"devicePlugin": {"config": {"name": CONFIG, "default": "whole"}}, "mig": {"strategy": strategy}}
    return manifests.cluster_policy(**{**config, **spec})


def time_slicing(replicas, **options):
    return {"timeSlicing": {"resources": [{"name": GPU, "replicas": replicas}], **options}}


@dataclass
class Stage:
    """The two nodes of the tests, which scenarios change, and their namespace."""

    cluster: object
    team: str
    folder: Path
    pods: dict = field(default_factory=dict)

    def offer(self, node, labels=None, **resources):
        """What the device plugin and the labelling of a node would write."""
        amounts = {
            name.replace("__", "/"): None if amount is None else str(amount) for name, amount in resources.items()
        }
        if labels:
            assert self.cluster.patch("Node", node, body={"metadata": {"labels": labels}}).accepted
        body = {"status": {"allocatable": amounts, "capacity": amounts}}
        assert self.cluster.patch("Node", node, body=body, subresource="status").accepted

    def publish(self, node, devices):
        """What the DRA driver would publish for a node."""
        name = f"{node}-gpu.nvidia.com"
        assert self.cluster.patch("ResourceSlice", name, body={"spec": {"devices": devices}}).accepted

    def run(self, *pods):
        """Create pods, and wait until they have nodes; without a scheduler they are created on their nodes."""
        for each in pods:
            name, document = each["metadata"]["name"], each
            self.pods[name] = each
            if not self.cluster.schedules and (node := self.place_for(each)):
                document = {**each, "spec": {**each["spec"], "nodeName": node}}
            answer = self.cluster.create(document)
            assert answer.accepted, answer.object
        if self.cluster.schedules:
            for each in pods:
                self.verdict(each["metadata"]["name"])

    def place_for(self, pod):
        """The node that a pod names, if that offers what it requests."""
        node = pod["spec"].get("nodeSelector", {}).get("kubernetes.io/hostname")
        offered = self.cluster.get("Node", node).object["status"]["allocatable"] if node else {}
        return node if pod["spec"]["containers"][0]["resources"]["limits"].keys() <= offered.keys() else None

    def verdict(self, name):
        """True if the scheduler has found a node for a pod, false if it has not."""

        def look():
            found = self.cluster.get("Pod", name, self.team).object
            if found["spec"].get("nodeName"):
                return "bound"
            conditions = found.get("status", {}).get("conditions", [])
            return "waits" if any(each.get("reason") == "Unschedulable" for each in conditions) else ""

        return until(look, f"the scheduler has looked at {name}", 60) == "bound"

    def starts_again(self, *names):
        """How many of these pods start, after all of them ended and were created again."""
        for name in names:
            self.cluster.delete("Pod", name, self.team, gracePeriodSeconds=0)
        for name in names:
            until(lambda name=name: self.cluster.get("Pod", name, self.team).code == 404, f"{name} is gone")
        created = [name for name in names if self.cluster.create(self.pods[name]).accepted]
        return sum(self.verdict(name) for name in created)

    def plan(self, *documents, arguments=()):
        """The plan of a change, as JSON."""
        file = self.folder / "change.yaml"
        file.write_text(yaml.safe_dump_all(documents))
        files = [file] if documents else []
        options = ("--kubeconfig", self.cluster.kubeconfig, "-n", self.team, "-o", "json")
        text = command_output("plan", *options, *arguments, *files)
        found = json.loads(text)["plan"]
        assert found is not None, text
        return found

    def outcomes(self, plan):
        """The outcome of each pod."""
        changed = {pod: each["outcome"] for each in plan["fits"] for pod in each["pods"]}
        return {name: changed.get(f"{self.team}/{name}", KEPT) for name in self.pods}

    def apply(self, *documents):
        """Make the change, as kubectl does."""
        for document in documents:
            answer = self.cluster.apply(document)
            assert answer.accepted, answer.object

    def check(self, plan, before=()):
        """Create each pod again: it starts exactly if the plan says so.

        Args:
            plan: The plan.
            before: The pods that did not start before the change either.
        """
        if not self.cluster.schedules:
            return
        outcomes = self.outcomes(plan)
        waiting = {
            name for name, outcome in outcomes.items() if outcome == LOST or (outcome == KEPT and name in before)
        }
        # Those that start first, because a pod that ends leaves room that the plan did not count.
        for name in sorted(self.pods, key=lambda name: (name in waiting, name)):
            assert bool(self.starts_again(name)) is (name not in waiting), (name, outcomes[name])
