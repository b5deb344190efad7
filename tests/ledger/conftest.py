"""A GPUQuota in an API server in memory, and writers beside it."""

import contextlib
from fractions import Fraction
from pathlib import Path

import pytest
import yaml

from policies.quota.charges import OWN, Bill, Charge
from policies.quota.ledger import Ledger
from policies.quota.quota import parse_quota
from policies.quota.recount import Snapshot, recount
from webhook.cluster.client import APIClient
from webhook.ledger.writer import LedgerWriter
from webhook.sandbox.server import Sandbox

CRD = Path(__file__).parents[2] / "deploy" / "base" / "api" / "gpuquotas.yaml"


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
        stored = self.sandbox.create(document)
        if primed:
            quota = parse_quota(stored)
            counted = recount(Ledger.read(stored), quota, Snapshot({}, {}, "1", "1"))
            self.sandbox.replace({**stored, "status": counted.status(quota, 1)})

    @property
    def stored(self):
        return self.sandbox.get("GPUQuota", "gpu", "team-a")

    @property
    def reserved(self):
        return sum((Fraction(limit["reserved"]) for limit in self.stored["status"]["limits"]), Fraction(0))

    @property
    def uids(self):
        return [charge["uid"] for charge in self.stored["status"]["charges"]]

    def writes(self):
        return sum(request.subresource == "status" for request in self.sandbox.requests)


@pytest.fixture
async def sandbox():
    sandbox = Sandbox(seed=1)
    await sandbox.start()
    sandbox.create(yaml.safe_load(CRD.read_text()))
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

        async def make():
            kubeconfig = tmp_path / "kubeconfig"
            kubeconfig.write_text(sandbox.kubeconfig())
            client = await APIClient.connect(str(kubeconfig), environ={})
            writer = LedgerWriter(client)
            stack.push_async_callback(client.close)
            stack.push_async_callback(writer.close)
            return writer

        yield make


def pod(uid, gpus=1):
    """What a pod with GPUs of its own is charged."""
    amount = Fraction(gpus)
    most = {"gpus": amount, "devices": amount, "memory": Fraction(0)}
    return lambda _quota: Charge(uid, "Pod", "team-a", f"pod-{uid}", {OWN: Bill({"all": amount}, most)})


@pytest.fixture(name="pod", scope="session")
def _pod():
    return pod
