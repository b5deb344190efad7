"""A GPUQuota in an API server in memory, and writers beside it."""

import asyncio
import contextlib
from fractions import Fraction
from pathlib import Path

import pytest

from policies.quota.ledger.ledger import Ledger
from policies.quota.ledger.open_charges import ALLOWANCE
from policies.quota.ledger.recount import Counted, Snapshot, recount
from policies.quota.ledger.status import charge_items
from policies.quota.limits.quota import parse_quota
from policies.rules.charges import OWN, Bill, Charge
from testbed import libyaml
from tests.sandbox.faults import FaultySandbox
from webhook.cluster.client import APIClient
from webhook.cluster.clockwork import Clockwork
from webhook.ledger.documents import LedgerKey
from webhook.ledger.writer import LedgerWriter

TEAM_A = LedgerKey.of_namespace("team-a")

CRD = Path(__file__).parents[2] / "deploy" / "base" / "api" / "gpuquotas.yaml"
QUOTAS = "/apis/gpu-admission.io/v1alpha1/namespaces/team-a/gpuquotas"


class Namespace:
    """The namespace `team-a` of a sandbox, with a GPUQuota whose limit `all` is eight GPUs."""

    def __init__(self, sandbox):
        self.sandbox = sandbox

    def make(self, hard=8, primed=True, **spec):
        document = {
            "apiVersion": "gpu-admission.io/v1alpha1",
            "kind": "GPUQuota",
            "metadata": {"name": "gpu", "namespace": "team-a"},
            "spec": {"limits": [{"name": "all", "gpus": hard}], **spec},
        }
        self.sandbox.create(document)
        if primed:
            self.count("1")

    def count(self, version, *shown):
        """Somebody else counts what there is."""
        pods = {each.uid: each for each in shown if each.kind == "Pod"}
        claims = {each.uid: each for each in shown if each.kind != "Pod"}
        stored = self.stored
        quota = parse_quota(stored)
        counted = recount(Ledger.read(stored), quota, Snapshot(pods, claims, version, version))
        self.sandbox.replace({**stored, "status": counted.status(quota, 1)})

    def allow(self, hard, **spec):
        """Somebody changes the spec."""
        self.sandbox.replace({**self.stored, "spec": {"limits": [{"name": "all", "gpus": hard}], **spec}})

    def garble(self):
        """A CRD without a schema lets through a spec that cannot be read."""
        crd = self.sandbox.get("CustomResourceDefinition", "gpuquotas.gpu-admission.io")
        loose = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        versions = [{**version, "schema": loose} for version in crd["spec"]["versions"]]
        self.sandbox.replace({**crd, "spec": {**crd["spec"], "versions": versions}})
        self.sandbox.replace({**self.stored, "spec": {"limits": "many"}})

    @property
    def stored(self):
        return self.sandbox.get("GPUQuota", "gpu", "team-a")

    @property
    def reserved(self):
        return sum((Fraction(limit["reserved"]) for limit in self.stored["status"]["limits"]), Fraction(0))

    @property
    def used(self):
        return sum((Fraction(limit["used"]) for limit in self.stored["status"]["limits"]), Fraction(0))

    @property
    def uids(self):
        items = charge_items(self.stored["status"])
        return [charge["uid"] for charge in items if charge["kind"] != ALLOWANCE]

    @property
    def allowance(self):
        """What a replica has reserved for charges that it writes later; None without one."""
        items = charge_items(self.stored["status"])
        return next((charge["pieces"][0]["amounts"] for charge in items if charge["kind"] == ALLOWANCE), None)

    def writes(self):
        return self.requests().count("update")

    def requests(self):
        """What was asked about the GPUQuota, in turn: get or update."""
        return [request.verb for request in self.sandbox.requests if request.resource == "gpuquotas"]


@pytest.fixture
async def sandbox():
    sandbox = FaultySandbox(seed=1)
    await sandbox.start()
    sandbox.create(libyaml.load(CRD.read_text()))
    sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
    yield sandbox
    await sandbox.stop()


@pytest.fixture
def namespace(sandbox):
    return Namespace(sandbox)


@pytest.fixture
async def writer(sandbox, tmp_path):
    """Make a writer: one for each replica."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(clockwork=None, **options):
            kubeconfig = tmp_path / "kubeconfig"
            kubeconfig.write_text(sandbox.kubeconfig())
            client = await APIClient.connect(str(kubeconfig), environ={})
            writer = LedgerWriter(client, clockwork=clockwork or Clockwork(), **options)
            stack.push_async_callback(client.close)
            stack.push_async_callback(writer.close)
            return writer

        yield make


@pytest.fixture
def hurried():
    """Time that passes as fast as anybody waits for it."""
    passed = [0.0]

    async def sleep(seconds):
        passed[0] += seconds
        await asyncio.sleep(0)

    return Clockwork(clock=lambda: passed[0], sleep=sleep)


def bill(gpus, limits=("all",)):
    amount = Fraction(gpus)
    most = {"gpus": amount, "devices": amount, "memory": Fraction(0)}
    return Bill(dict.fromkeys(limits, amount) if amount else {}, most)


@pytest.fixture(scope="session")
def pod():
    """What a pod with GPUs of its own is charged."""
    return lambda uid, gpus=1, name="": (
        lambda _quota: Charge(uid, "Pod", "team-a", name or f"pod-{uid}", {OWN: bill(gpus)})
    )


@pytest.fixture(scope="session")
def claim():
    """What a claim is charged that the scheduler makes for a pod's extended resources."""
    return lambda uid, gpus, pod: (
        lambda _quota: Charge(uid, "ResourceClaim", "team-a", f"claim-{uid}", {OWN: bill(gpus)}, (pod, OWN))
    )


@pytest.fixture(scope="session")
def shown():
    """A pod that a list shows, or a claim."""
    return lambda uid, gpus, kind="Pod", **more: Counted(uid, kind, uid, amounts={"all": Fraction(gpus)}, **more)


@pytest.fixture
def interrupt(sandbox):
    """Hold the next write of a ledger, or its next read, once it is done and before it is answered."""
    return lambda verb="PUT": Interrupted(sandbox, verb)


@pytest.fixture
def interrupted(interrupt):
    """Hold the next write of a ledger, once it is stored and before it is answered."""
    return interrupt()


class Interrupted:
    def __init__(self, sandbox, verb):
        self.is_written, self.go_on = asyncio.Event(), asyncio.Event()
        path = f"{QUOTAS}/gpu/status" if verb == "PUT" else f"{QUOTAS}/gpu"
        sandbox.faults.add(self.hold, verb=verb, path=path, count=1)

    async def hold(self, request, handler):
        answer = await handler(request)
        self.is_written.set()
        await self.go_on.wait()
        return answer
