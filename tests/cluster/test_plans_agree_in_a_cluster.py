"""Generated changes: the answers of `plan` beside NVIDIA's components and the real scheduler.

After a change, the nodes of the scenario show what NVIDIA's own components were seen to write for that state. Each pod is
then created again while all others run on, and the scheduler must bind it exactly if the plan says so.
"""

import json
import os
import random
from collections import Counter

import pytest
import yaml

from testbed import manifests
from tests.cluster.commands import command_output
from tests.cluster.mixed_nodes import mig_class
from tests.cluster.nvidia_states import STRATEGIES, objects, policy, states
from tests.cluster.plan_stage import node_labels
from tests.cluster.scheduled_pods import Scheduled, beating

SEED = int(os.environ.get("PLANS_SEED", "0")) or random.randrange(1, 10**6)
CHANGES = int(os.environ.get("PLANS", "6"))
PODS = 10
NODES = ("state-1", "state-2", "state-dra")
GPU = "nvidia.com/gpu"
PRODUCT = "NVIDIA-H100-80GB-HBM3"
_STARTS = {"kept": None, "lost": False, "gained": True, "changed": True}
"""True if a pod starts after the change; None if as before."""


class States(Scheduled):
    """Nodes whose states change, and pods on them."""

    def __init__(self, cluster, team, seed):
        super().__init__(cluster, [team])
        self.team, self.chance = team, random.Random(seed)
        self.strategy = self.chance.choice(STRATEGIES)
        known = states(self.strategy)
        self.states = {name: self.chance.choice(known) for name in NODES}
        self.pods, self.running, self.held = {}, {}, {}

    def show(self):
        """Write what the components make of the states."""
        for name, state in self.states.items():
            labels, resources = state.facts(self.strategy)
            hands_out = not name.endswith("-dra")
            node = self.cluster.get("Node", name).object
            gone = {
                key: None
                for key in node["metadata"]["labels"]
                if key.startswith(("nvidia.com/gpu.", "nvidia.com/mig")) and key not in labels
            }
            choice = {"nvidia.com/device-plugin.config": state.sharing, "nvidia.com/mig.config": state.layout}
            own = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.deploy.device-plugin": str(hands_out).lower()}
            body = {"metadata": {"labels": {**gone, **labels, **choice, **own}}}
            assert self.cluster.patch("Node", name, body=body).accepted
            offered = resources if hands_out else {}
            old = {key: None for key in node["status"]["allocatable"] if key.startswith("nvidia.com/")}
            amounts = {**old, **{key: str(count) for key, count in offered.items()}}
            status = {"status": {"allocatable": amounts, "capacity": amounts}}
            assert self.cluster.patch("Node", name, body=status, subresource="status").accepted
            self._publish(name, [] if hands_out else state.slices)

    def _publish(self, node, slices):
        for document in self.cluster.list("ResourceSlice"):
            if document["spec"].get("nodeName") == node:
                self.cluster.delete("ResourceSlice", document["metadata"]["name"])
        for number, document in enumerate(slices):
            pool = {**document["spec"]["pool"], "name": node}
            spec = {**document["spec"], "nodeName": node, "pool": pool}
            made = {**document, "metadata": {"name": f"{node}-{number}"}, "spec": spec}
            self.cluster.belongings.add(made)

    def generate(self):
        """Create pods, and remember which of them run where."""
        for number in range(PODS):
            pod = self._pod(f"pod-{number}")
            self.pods[pod["metadata"]["name"]] = pod
        for name, pod in self.pods.items():
            if self.starts(pod):
                self.running[name] = self.cluster.get("Pod", name, self.team).object
                self.held[name] = self._devices_of(self.running[name])
                if self._is_refused(pod):
                    self.end(self.running.pop(name))

    def _devices_of(self, pod):
        """Node and name of each device that the claims of a pod have."""
        claims = [each["resourceClaimName"] for each in pod["status"].get("resourceClaimStatuses", ())]
        allocated = [
            self.cluster.get("ResourceClaim", name, self.team).object["status"]["allocation"] for name in claims
        ]
        return {(each["pool"], each["device"]) for found in allocated for each in found["devices"]["results"]}

    def _pod(self, name):
        chance, resources = self.chance, {}
        pod = manifests.pod(self.team, name)
        container = pod["spec"]["containers"][0]
        # Alike pods would be one line of the plan.
        container["name"] = name
        match chance.randrange(4):
            case 0 | 1:
                resources[GPU] = str(chance.choice((1, 1, 2, 4, 8)))
            case 2:
                profile = chance.choice(("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb"))
                ending = chance.choice(("", "", ".shared"))
                resources[f"nvidia.com/mig-{profile}{ending}"] = str(chance.choice((1, 2, 8)))
            case 3:
                template = chance.choice(("gpu-1", "gpu-4", "mig-1", "mig-8"))
                pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": template}]
                container["resources"] = {"claims": [{"name": "gpu"}]}
        container["resources"] = {"limits": resources, **({} if resources else container["resources"])}
        if resources and chance.random() < 0.4:
            label, value = chance.choice(
                (
                    ("nvidia.com/gpu.product", PRODUCT),
                    ("nvidia.com/gpu.product", f"{PRODUCT}-SHARED"),
                    ("nvidia.com/gpu.product", f"{PRODUCT}-MIG-1g.10gb"),
                    ("nvidia.com/gpu.replicas", "4"),
                    ("nvidia.com/mig-1g.10gb.memory", "9856"),
                    ("nvidia.com/mig-1g.10gb.multiprocessors", "16"),
                )
            )
            pod["spec"]["nodeSelector"] = {label: value}
        return pod

    def change(self):
        """Choose a change: returns its documents and further arguments of the command."""
        self.before = dict(self.states), self.strategy
        node = self.chance.choice(NODES)
        match self.chance.randrange(6):
            case 0 | 1 | 2:
                to = self.chance.choice(states(self.strategy))
                self.states[node] = to
                labels = {"nvidia.com/mig.config": to.layout, "nvidia.com/device-plugin.config": to.sharing}
                return [node_labels(node, **labels)], ()
            case 3:
                others = [each for each in STRATEGIES if each != self.strategy]
                to = next((each for each in others if all(state.facts(each) for state in self.states.values())), None)
                if to is not None:
                    self.strategy = to
                    return [policy(to)], ()
                return self.change()
            case 4:
                return [{**node_labels(node), "spec": {"unschedulable": True}}], ()
            case _:
                return [], ("--delete", "deviceclass/mig.nvidia.com")

    def plan(self, documents, arguments):
        """The plan of a change by the names of the pods; None if the change is refused, as the components would fail."""
        options = ("--kubeconfig", self.cluster.kubeconfig, "-n", self.team, "-o", "json")
        files = ["-"] if documents else []
        text = command_output("plan", *options, *arguments, *files, stdin=yaml.safe_dump_all(documents))
        found = json.loads(text)["plan"]
        if found is None:
            assert "the device plugin would exit" in text
            return None
        outcomes = {pod: each for each in found["fits"] for pod in each["pods"]}
        return {name: outcomes.get(f"{self.team}/{name}", {"outcome": "kept"}) for name in self.pods}

    def apply(self, documents, arguments):
        """Make the change, and show what becomes of it."""
        for document in documents:
            answer = self.cluster.apply(document)
            assert answer.accepted, answer.object
        if arguments:
            assert self.cluster.delete("DeviceClass", "mig.nvidia.com").accepted
        self.show()

    def disagreements(self, outcomes):
        """The pods that start although the plan says that they do not, and the reverse."""
        wrong = []
        self.end(*(pod for name, pod in self.pods.items() if name not in self.running))
        for name, pod in self.pods.items():
            self.end(pod)
            is_bound, outcome = bool(self.starts(pod)), outcomes[name]["outcome"]
            starts = is_bound and not self._is_refused(pod)
            expected = _STARTS.get(outcome, starts)
            if outcome == "kept" and is_bound and self._is_refused(pod, *self.before):
                expected = starts  # the scheduler may choose that node, as before the change
            if starts is not (name in self.running if expected is None else expected):
                wrong.append((name, outcomes[name], "starts" if starts else "does not start", pod["spec"]))
            self.end(pod)
            if name in self.running:
                self._restore(pod, self.running[name])
        return wrong

    def _is_refused(self, pod, states=None, strategy=None):
        """True if the device plugin of the node refuses a bound pod; now, or with other states."""
        node = self.cluster.get("Pod", pod["metadata"]["name"], self.team).object["spec"]["nodeName"]
        limits = pod["spec"]["containers"][0]["resources"].get("limits", {})
        state = (states or self.states).get(node) if not node.endswith("-dra") else None
        return state is not None and any(state.refuses(strategy or self.strategy, *item) for item in _amounts(limits))

    def _restore(self, pod, was):
        """Give a pod the place back that it had, unless its devices exist no longer: then it holds none of the new ones."""
        node = was["spec"]["nodeName"]
        slices = [each["spec"] for each in self.cluster.list("ResourceSlice")]
        exist = {(each["pool"]["name"], device["name"]) for each in slices for device in each.get("devices", ())}
        if not self.held[was["metadata"]["name"]] <= exist:
            return
        if "resourceClaims" not in pod["spec"] and "extendedResourceClaimStatus" not in was.get("status", {}):
            again = {**pod, "spec": {**pod["spec"], "nodeName": node}}
            assert self.cluster.create(again).accepted
            return
        there = {"nodeSelector": {"kubernetes.io/hostname": node}, "tolerations": [{"operator": "Exists"}]}
        if not self.starts({**pod, "spec": {**pod["spec"], **there}}):
            self.end(pod)


@pytest.fixture
def states_of_nodes(real, background):
    """Makes the nodes, configuration and pods of a seed."""
    if not real.schedules:
        pytest.skip("no kube-scheduler runs here")
    beats = beating(real, background, NODES)
    made = [{**manifests.node(name), "spec": {}} for name in NODES]
    made.append(mig_class())
    for document in made:
        real.belongings.add(document)
    _keep_plugin_off(real, "false")

    def state(seed):
        found = States(real, real.namespace(), seed)
        for name, number, kind in (("gpu-1", 1, ""), ("gpu-4", 4, ""), ("mig-1", 1, "mig"), ("mig-8", 8, "mig")):
            document = manifests.template(found.team, name, number)
            if kind:
                exactly = document["spec"]["spec"]["devices"]["requests"][0]["exactly"]
                exactly["deviceClassName"] = "mig.nvidia.com"
            assert real.create(document).accepted
        _delete_configuration(real)
        found.show()
        for document in objects(found.strategy):
            answer = real.apply(document)
            assert answer.accepted, answer.message
        found.generate()
        return found

    yield state
    beats.cancel()
    _keep_plugin_off(real, None)
    for document in reversed(made):
        real.delete(document["kind"], document["metadata"]["name"])
    _delete_configuration(real)
    for document in real.list("ResourceSlice"):
        if document["spec"].get("nodeName") in NODES:
            real.delete("ResourceSlice", document["metadata"]["name"])


def _amounts(limits):
    return [(name, int(amount)) for name, amount in limits.items()]


def _delete_configuration(cluster):
    """Delete the ClusterPolicy first, because a ConfigMap that it names is kept."""
    for document in reversed(objects("none")):
        metadata = document["metadata"]
        cluster.delete(document["kind"], metadata["name"], metadata.get("namespace", ""))


def _keep_plugin_off(cluster, value):
    """Set or remove the label that keeps the device plugin off the nodes of other tests, whose GPUs claims get."""
    for name in cluster.nodes:
        body = {"metadata": {"labels": {"nvidia.com/gpu.deploy.device-plugin": value}}}
        assert cluster.patch("Node", name, body=body).accepted


@pytest.mark.timeout(2400)
def test_pods_start_after_changes_exactly_if_the_plan_says_so(states_of_nodes, real):
    wrong, refused, answers = [], 0, Counter()
    for number in range(CHANGES):
        stage = states_of_nodes(SEED + number)
        before = repr(stage.states), stage.strategy
        documents, arguments = stage.change()
        outcomes = stage.plan(documents, arguments)
        if outcomes is None:
            refused += 1
        else:
            answers.update(each["outcome"] for each in outcomes.values())
            stage.apply(documents, arguments)
            found = stage.disagreements(outcomes)
            wrong += [(SEED + number, before, documents, arguments, found)] if found else []
        real.tidy()
        for name in NODES:
            assert real.patch("Node", name, body={"spec": {"unschedulable": None}}).accepted
        real.belongings.add(mig_class(), may_exist=True)
    assert not wrong, f"seed {SEED}: {len(wrong)} of {CHANGES} changes: {json.dumps(wrong, indent=1)}"
    assert refused * 2 < CHANGES or CHANGES < 10, f"seed {SEED}: {refused} of {CHANGES} changes are refused"
    assert answers["unknown"] * 10 <= answers.total(), f"seed {SEED}: too much is unknown: {answers}"
