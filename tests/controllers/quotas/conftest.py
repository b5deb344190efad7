"""The namespace `team-a` of a sandbox, caches that a test updates, and the counter of its quota."""

import contextlib
from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from policies.quota.ledger.status import charge_items
from policies.rules.charges import Bill, Charge
from policies.rules.settings import DEFAULTS
from testbed import libyaml
from tests.controllers.caches import Caches
from tests.ledger.conftest import TEAM_A
from tests.sandbox.faults import FaultySandbox
from webhook.cluster.client import APIClient
from webhook.cluster.clockwork import Clockwork
from webhook.controllers.metrics import QuotaMetrics
from webhook.controllers.presence import Presences
from webhook.controllers.quota_round import QuotaRound
from webhook.ledger.writer import LedgerWriter

API = Path(__file__).parents[3] / "deploy" / "base" / "api"
KINDS = ("Namespace", "Node", "DeviceClass", "ResourceSlice", "Pod", "PodGroup", "ResourceClaim")
QUOTAS = ("GPUQuota", "ClusterGPUQuota", "GPUQuotaGroup")
H100, T4 = ("NVIDIA-H100-80GB-HBM3", 81920), ("Tesla-T4", 15360)
UNITS = ("gpus", "memory", "devices")


class QuotaCaches(Caches):
    """What one replica has seen of the cluster, and the round that it would do if it led."""

    def __init__(self, client, clockwork):
        super().__init__(client, (*KINDS, *QUOTAS), clockwork.clock)
        self.registry = CollectorRegistry()
        self.writer = LedgerWriter(client)
        self.settings = DEFAULTS
        self.round = QuotaRound(
            client,
            self.view,
            lambda: self.settings,
            self.writer,
            lambda: self.stores,
            QuotaMetrics(self.registry),
            Presences(client, "gpu-admission", clock=clockwork.clock),
            clockwork=clockwork,
        )

    async def count(self):
        """See everything, and do a round."""
        await self.see()
        await self.round.round()

    async def count_what_was_seen(self):
        """Do a round on the caches as they are, while their watches are open."""
        self.hear()
        await self.round.round()

    async def charge(self, uid, pieces, kind="Pod", name=None, of=None, group=None):
        """Charge an object, and its PodGroup with a piece of one GPU."""
        bills = {
            piece: Bill({"all": Fraction(gpus)}, {unit: Fraction(gpus if unit != "memory" else 0) for unit in UNITS})
            for piece, gpus in pieces.items()
        }
        one = Bill({"all": Fraction(1)}, {"gpus": Fraction(1), "memory": Fraction(0), "devices": Fraction(1)})
        shared = Charge(group, "PodGroup", "team-a", group, {"gpu": one}) if group else None
        charge = Charge(uid, kind, "team-a", name or uid, bills, of, shared)
        return await self.writer.charge(TEAM_A, lambda _quota: charge, enforced=True)

    def sample(self, name, **labels):
        return self.registry.get_sample_value(name, labels)


class Team:
    """What there is in `team-a`."""

    def __init__(self, sandbox):
        self.sandbox = sandbox
        self.seconds = 1000.0

    def quota(self, *limits, **spec):
        document = {
            "apiVersion": "gpu-admission.io/v1alpha1",
            "kind": "GPUQuota",
            "metadata": {"name": "gpu", "namespace": "team-a"},
            "spec": {"limits": list(limits) or [{"name": "all", "gpus": 8}], **spec},
        }
        stored = self.stored
        if stored is None:
            return self.sandbox.create(document)
        generation = stored["metadata"]["generation"] + 1
        metadata = {**stored["metadata"], "generation": generation}
        return self.sandbox.replace({**stored, "metadata": metadata, "spec": document["spec"]})

    def node(self, name, product, gpus=8):
        labels = {"nvidia.com/gpu.product": product[0], "nvidia.com/gpu.memory": str(product[1])}
        amounts = {"nvidia.com/gpu": str(gpus)}
        self.sandbox.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": labels},
                "status": {"allocatable": amounts, "capacity": amounts},
            }
        )

    def pod(self, name, gpus=1, node="", phase="", claims=(), priority="", uid=None, group=""):
        resources = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
        spec = {"containers": [{"name": "main", "image": "train", "resources": resources}]}
        spec |= {"nodeName": node} if node else {}
        spec |= {"priorityClassName": priority} if priority else {}
        spec |= {"resourceClaims": list(claims)} if claims else {}
        spec |= {"schedulingGroup": {"podGroupName": group}} if group else {}
        return self.sandbox.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "team-a", "uid": uid or name},
                "spec": spec,
                "status": {"phase": phase or "Pending"},
            }
        )

    def pod_group(self, name, uid=None):
        """A PodGroup whose pods share the claim `gpu`, from the template `one`."""
        return self.sandbox.create(
            {
                "apiVersion": "scheduling.k8s.io/v1alpha2",
                "kind": "PodGroup",
                "metadata": {"name": name, "namespace": "team-a", "uid": uid or name},
                "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]},
            }
        )

    def claim(self, name, count=1, pod="", piece="", extended=False, owner=()):
        metadata = {"name": name, "namespace": "team-a", "uid": name}
        if pod:
            owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": pod, "controller": True, **dict(owner)}
            said = {"extended-resource-claim": "true"} if extended else {"pod-claim-name": piece}
            metadata["ownerReferences"] = [owner]
            metadata["annotations"] = {f"resource.kubernetes.io/{key}": text for key, text in said.items()}
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": count}}
        return self.sandbox.create(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": metadata,
                "spec": {"devices": {"requests": [request]}},
            }
        )

    def findings_of(self, pod, **status):
        """Write into a pod's status."""
        stored = self.sandbox.get("Pod", pod, "team-a")
        self.sandbox.replace({**stored, "status": {**stored["status"], **status}})

    @property
    def stored(self):
        return self.sandbox.get("GPUQuota", "gpu", "team-a")

    @property
    def status(self):
        return self.stored["status"]

    @property
    def amounts(self):
        """By limit, what is used and what is reserved."""
        return {each["name"]: (each.get("used"), each["reserved"]) for each in self.status["limits"]}

    @property
    def charged(self):
        return {each["uid"]: [piece["name"] for piece in each["pieces"]] for each in charge_items(self.status)}

    def condition(self, kind):
        (found,) = (each for each in self.status["conditions"] if each["type"] == kind)
        return found["status"], found["reason"], found["message"]

    def requests(self, verb, resource):
        return sum(each.verb == verb and each.resource == resource for each in self.sandbox.requests)


@pytest.fixture
async def team():
    sandbox = FaultySandbox(seed=1, feature_gates=["GenericWorkload", "DRAWorkloadResourceClaims"])
    for kind in QUOTAS:
        sandbox.create(libyaml.load((API / f"{kind.lower()}s.yaml").read_text()))
    sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
    selector = {
        "cel": {"expression": "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"}
    }
    sandbox.create(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu.nvidia.com"},
            "spec": {"selectors": [selector]},
        }
    )
    await sandbox.start()
    yield Team(sandbox)
    await sandbox.stop()


@pytest.fixture
async def replica(team, tmp_path, midnight):
    """Make the part of a replica that counts."""
    async with contextlib.AsyncExitStack() as stack:

        async def make():
            kubeconfig = tmp_path / "kubeconfig"
            kubeconfig.write_text(team.sandbox.kubeconfig())
            client = await APIClient.connect(str(kubeconfig), environ={})
            clockwork = Clockwork(
                clock=lambda: team.seconds, now=lambda: midnight + timedelta(seconds=team.seconds - 1000)
            )
            caches = QuotaCaches(client, clockwork)
            stack.push_async_callback(client.close)
            stack.push_async_callback(caches.writer.close)
            return caches

        yield make


@pytest.fixture
async def leader(replica):
    return await replica()
