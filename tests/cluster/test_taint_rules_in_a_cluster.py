"""DeviceTaintRules: the pods that `plan` says will end beside those that the real controller ends.

The oracle is the eviction controller of kube-controller-manager: it deletes pods, and writes into the status of a rule how many.
"""

import json
import os
from datetime import datetime, timedelta

import pytest
import yaml

from testbed import manifests
from testbed.real_cluster import RealCluster
from testbed.waiting import until
from tests.cluster.commands import command_output
from tests.cluster.scheduled_pods import Scheduled, beating

GATES = ("DRADeviceTaints", "DRADeviceTaintRules")
API = "resource.k8s.io/v1beta2"
SINCE = 36
"""The minor version with this API."""
NODE = "taints-1"
SECONDS = 6
SLACK = timedelta(seconds=20)
EXISTS = {"key": "example.com/repair", "operator": "Exists"}
TOLERATIONS = {
    "plain": [],
    "for-ever": [{**EXISTS, "effect": "NoExecute"}],
    "for-seconds": [{**EXISTS, "effect": "NoExecute", "tolerationSeconds": SECONDS}],
    "without-effect": [{"operator": "Exists"}],
    "new-pods-only": [{**EXISTS, "effect": "NoSchedule"}],
    "other-key": [{"key": "example.com/other", "operator": "Exists", "effect": "NoExecute"}],
}
"""The tolerations of each pod's claim. One more pod, `extended`, has its GPU from an extended resource."""
EVERYTHING = {"plain": 0, "for-seconds": SECONDS, "without-effect": 0, "new-pods-only": 0, "other-key": 0}
"""The seconds after which each pod ends whose device gets the taint."""


@pytest.fixture(scope="module")
def _tainting(background, tmp_path_factory):
    if not os.environ.get("KUBEBUILDER_ASSETS"):
        pytest.skip("a control plane has to be started with feature gates: set KUBEBUILDER_ASSETS")
    options = {"feature_gates": GATES, "apis": [API]}
    cluster = RealCluster.of(background, os.environ, tmp_path_factory.mktemp("taints"), **options)
    try:
        cluster.begin()
        if cluster.minor < SINCE:
            pytest.skip(f"Kubernetes 1.{cluster.minor} does not serve DeviceTaintRules in {API}")
        if not cluster.schedules:
            pytest.skip("no kube-scheduler runs here")
        yield cluster
    finally:
        cluster.close()


class Tainted(Scheduled):
    """A node whose GPUs pods hold by claims with different tolerations."""

    def __init__(self, cluster, team):
        super().__init__(cluster, [team])
        self.team, self.pods, self.rule = team, [], None

    def run(self):
        """Create the pods, and wait until each is bound."""
        pods = [self._pod(name, tolerations) for name, tolerations in TOLERATIONS.items()]
        self.pods = [*pods, manifests.pod(self.team, "extended", nodeSelector={"kubernetes.io/hostname": NODE})]
        for each in self.pods:
            assert self.cluster.create(each).accepted
        until(lambda: self._bound() == len(self.pods), "the scheduler binds all pods", 60)

    def _bound(self):
        return sum("nodeName" in each["spec"] for each in self.cluster.list("Pod", self.team))

    def _pod(self, name, tolerations):
        template = manifests.template(self.team, name)
        template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["tolerations"] = tolerations
        assert self.cluster.create(template).accepted
        claims = [{"name": "gpu", "resourceClaimTemplateName": name}]
        pod = manifests.pod(self.team, name, resourceClaims=claims, nodeSelector={"kubernetes.io/hostname": NODE})
        pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
        return pod

    def device_of(self, pod):
        """The name of the device that a pod holds."""
        (claim,) = (
            each
            for each in self.cluster.list("ResourceClaim", self.team)
            if [owner["name"] for owner in each["metadata"]["ownerReferences"]] == [pod]
        )
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        return result["device"]

    def planned(self, rule):
        """The pods that `plan` says will end, each with the seconds until then."""
        arguments = ("plan", "--kubeconfig", self.cluster.kubeconfig, "-o", "json", "-")
        plan = json.loads(command_output(*arguments, stdin=yaml.safe_dump(rule)))["plan"]
        return {each["name"].rpartition("/")[2]: each["delaySeconds"] for each in plan["evicted"]}

    def apply(self, rule):
        """Create a rule; returns the pods that the controller has ended when it is done with it, each with the seconds."""
        self.rule = rule["metadata"]["name"]
        stored = self.cluster.create(rule).object
        condition = until(self._finished, "the controller is done with the rule", 90)
        added = _time(stored["spec"]["taint"]["timeAdded"])
        ended = {name: time - added for name, time in self._deletions().items()}
        said = condition.get("message", "")
        assert not ended or f"{len(ended)} pod" in said, said
        return ended

    def _finished(self):
        """The condition of the rule once no pod is left to end."""
        conditions = self.cluster.get("DeviceTaintRule", self.rule).object.get("status", {}).get("conditions", [])
        return next((each for each in conditions if each["status"] == "False"), None)

    def _deletions(self):
        """The time at which each pod was deleted; nodes without a kubelet keep them."""
        return {
            each["metadata"]["name"]: _time(each["metadata"]["deletionTimestamp"])
            - timedelta(seconds=each["metadata"].get("deletionGracePeriodSeconds", 0))
            for each in self.cluster.list("Pod", self.team)
            if "deletionTimestamp" in each["metadata"]
        }


def _time(text):
    return datetime.fromisoformat(text)


@pytest.fixture
def tainted(_tainting, background):
    cluster = _tainting
    cluster.service.start()
    node = manifests.node(NODE)
    made = [node, manifests.resource_slice(NODE, len(TOLERATIONS) + 2)]
    for document in made:
        cluster.belongings.add(document)
    beats = beating(cluster, background, [NODE])
    found = Tainted(cluster, cluster.namespace())
    try:
        found.run()
        yield found
    finally:
        beats.cancel()
        if found.rule:
            cluster.delete("DeviceTaintRule", found.rule)
        found.end(*found.pods)
        for document in reversed(made):
            cluster.delete(document["kind"], document["metadata"]["name"])
        cluster.delete("Lease", NODE, "kube-node-lease")
        cluster.tidy()


def rule(selector, effect="NoExecute"):
    selected = {} if selector is None else {"deviceSelector": selector}
    return {
        "apiVersion": API,
        "kind": "DeviceTaintRule",
        "metadata": {"name": "repair"},
        "spec": {**selected, "taint": {"key": "example.com/repair", "effect": effect}},
    }


@pytest.mark.parametrize(
    ("selector", "effect", "expected"),
    [
        ({"driver": "gpu.nvidia.com", "pool": NODE}, "NoExecute", EVERYTHING),
        ({}, "NoExecute", EVERYTHING),
        (None, "NoExecute", {}),
        ({"pool": "another"}, "NoExecute", {}),
        ({"pool": NODE}, "NoSchedule", {}),
        ({"pool": NODE}, "None", {}),
    ],
    ids=["pool", "everything", "no selector", "another pool", "NoSchedule", "None"],
)
def test_pods_end_exactly_if_plan_says_so(tainted, selector, effect, expected):
    wanted = rule(selector, effect)
    assert tainted.planned(wanted) == expected
    ended = tainted.apply(wanted)
    assert ended.keys() == expected.keys()
    early = [name for name, seconds in expected.items() if ended[name] < timedelta(seconds=seconds)]
    late = [name for name, seconds in expected.items() if ended[name] > timedelta(seconds=seconds) + SLACK]
    assert (early, late) == ([], [])


def test_rule_for_one_device_ends_the_pod_that_holds_it(tainted):
    wanted = rule({"driver": "gpu.nvidia.com", "pool": NODE, "device": tainted.device_of("plain")})
    assert tainted.planned(wanted) == {"plain": 0}
    assert tainted.apply(wanted).keys() == {"plain"}
