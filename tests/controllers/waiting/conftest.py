"""Pods that wait for GPUs in a sandbox, caches that a test updates, and the leader's task that writes to them."""

import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry

from policies.rules.settings import DEFAULTS, Explanations, GPUAdmissionPolicy
from tests.controllers.caches import Caches
from tests.sandbox.faults import FaultySandbox
from webhook.cluster.client import APIClient
from webhook.cluster.clockwork import Clockwork
from webhook.cluster.resources import NEW_EVENT
from webhook.controllers.metrics import WaitingMetrics
from webhook.controllers.waiting_round import WaitingExplainer, WaitingRound, WaitingWriter

KINDS = ("Namespace", "Node", "DeviceClass", "ResourceSlice", "Pod", "ResourceClaim", "ResourceClaimTemplate")
ON = GPUAdmissionPolicy(explain=Explanations(on_pods=True))
TYPE = "gpu-admission.io/Schedulable"


class Leader(Caches):
    """What a leader has seen of the cluster, and its task."""

    def __init__(self, client, team):
        self.clockwork = Clockwork(clock=lambda: team.seconds, now=lambda: team.now, sleep=team.sleep)
        super().__init__(client, KINDS, self.clockwork.clock)
        self.registry = CollectorRegistry()
        self.settings = ON
        metrics = WaitingMetrics(self.registry)
        self.writer = WaitingWriter(client, metrics, "replica-1", self.clockwork)
        self.explainer = WaitingExplainer(self.view, self.clockwork.clock)
        self.task = WaitingRound(self.view, lambda: self.settings, self.explainer, self.writer, metrics, self.clockwork)

    def switch_off(self):
        self.settings = DEFAULTS

    async def round(self):
        """See everything, and do a round."""
        await self.see()
        await self.task.round()

    def sample(self, name, **labels):
        return self.registry.get_sample_value(name, labels)


class Team:
    """What there is in the cluster."""

    def __init__(self, sandbox):
        self.sandbox = sandbox
        self.seconds = 1000.0
        self.began = datetime.now(UTC) + timedelta(minutes=1)

    @property
    def now(self):
        return self.began + timedelta(seconds=self.seconds - 1000)

    async def sleep(self, seconds):
        self.seconds += seconds

    def node(self, name, gpus=0, devices=0, **spec):
        amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
        self.sandbox.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name},
                "spec": spec,
                "status": {"allocatable": amounts, "capacity": amounts},
            }
        )
        if devices:
            self.sandbox.create(_slice(name, devices))

    def pod(self, name, gpus=1, claim="", **spec):
        resources = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus and not claim else {}
        spec = {"containers": [{"name": "main", "image": "train", "resources": resources}], **spec}
        if claim:
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": claim}]
        return self.sandbox.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "team-a", "uid": f"uid-{name}"},
                "spec": spec,
                "status": {"phase": "Pending", "conditions": [REJECTED]},
            }
        )

    def template(self, name, count):
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": count}}
        return self.sandbox.create(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaimTemplate",
                "metadata": {"name": name, "namespace": "team-a"},
                "spec": {"spec": {"devices": {"requests": [request]}}},
            }
        )

    def change(self, name, spec=None, **status):
        stored = self.stored(name)
        self.sandbox.replace(
            {**stored, "spec": {**stored["spec"], **(spec or {})}, "status": {**stored["status"], **status}}
        )

    def bind(self, name, node):
        """As the scheduler and a kubelet do it, which keep conditions of others."""
        others = [each for each in self.stored(name)["status"]["conditions"] if each["type"] == TYPE]
        scheduled = {"type": "PodScheduled", "status": "True"}
        self.change(name, {"nodeName": node}, phase="Running", conditions=[scheduled, *others])

    def stored(self, name):
        return self.sandbox.get("Pod", name, "team-a")

    def condition(self, name):
        """Status, reason and message of our condition of a pod; None without it."""
        found = [each for each in self.stored(name)["status"].get("conditions", ()) if each["type"] == TYPE]
        return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else None

    @property
    def writes(self):
        """The names of the pods whose status was patched, in order."""
        return [each.name for each in self.sandbox.requests if each.verb == "patch" and each.subresource == "status"]


REJECTED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}


def _slice(node, count):
    devices = [{"name": f"gpu-{number}", "attributes": {"type": {"string": "gpu"}}} for number in range(count)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpu.nvidia.com"},
        "spec": {"driver": "gpu.nvidia.com", "nodeName": node, "pool": pool, "devices": devices},
    }


@pytest.fixture
async def team():
    sandbox = FaultySandbox(seed=1)
    for name in ("team-a", "team-b"):
        sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    sandbox.create(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu.nvidia.com"},
            "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]},
        }
    )
    await sandbox.start()
    yield Team(sandbox)
    await sandbox.stop()


@pytest.fixture
async def make_leader(team, tmp_path):
    """Make a replica that leads."""
    async with contextlib.AsyncExitStack() as stack:

        async def make():
            kubeconfig = tmp_path / "kubeconfig"
            kubeconfig.write_text(team.sandbox.kubeconfig())
            client = await APIClient.connect(str(kubeconfig), environ={})
            stack.push_async_callback(client.close)
            return Leader(client, team)

        yield make


@pytest.fixture
async def leader(make_leader):
    return await make_leader()


@pytest.fixture
def events(team, leader):
    """The events of a pod, as the API server has stored them."""

    async def events(name):
        found = await leader.client.get(NEW_EVENT.path("team-a"))
        return [each for each in found["items"] if each["regarding"]["name"] == name]

    return events
