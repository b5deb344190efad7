"""The namespace `team-a` of a sandbox, and a webhook that charges what is created in it."""

import asyncio
from fractions import Fraction
from pathlib import Path

import pytest

from policies.quota.ledger.ledger import Ledger
from policies.quota.ledger.recount import Counted, Snapshot, recount
from policies.quota.ledger.status import charge_items
from policies.quota.limits.quota import parse_quota
from testbed import libyaml
from tests.sandbox.faults import FaultySandbox
from tests.server.quotas.quota_calls import example_cluster
from webhook.cluster.client import APIClient
from webhook.cluster.clockwork import Clockwork
from webhook.cluster.manifests import ManifestsView
from webhook.ledger.writer import LedgerWriter
from webhook.server.quota_keeper import HoldersSeen, QuotaKeeper

CRD = Path(__file__).parents[3] / "deploy" / "base" / "api" / "gpuquotas.yaml"


class Hurried:
    """Time that passes while somebody pauses, and takes none."""

    seconds = 0.0

    async def sleep(self, seconds):
        self.seconds += seconds
        await asyncio.sleep(0)


class Namespace:
    """`team-a` with a GPUQuota of eight GPUs, as the API server has it and as the webhook's view shows it."""

    def __init__(self, sandbox, shown):
        self.sandbox = sandbox
        self.shown = shown

    def limit(self, *limits, used=0, primed=True, **spec):
        """Make the quota; `used` of all of its limits is held by pods that were counted."""
        limits = limits or ({"name": "h100", "gpus": 8},)
        stored = self.sandbox.create(
            {
                "apiVersion": "gpu-admission.io/v1alpha1",
                "kind": "GPUQuota",
                "metadata": {"name": "gpu", "namespace": "team-a"},
                "spec": {"limits": list(limits), **spec},
            }
        )
        self.shown.append(stored)
        if primed:
            self.count(used)

    def count(self, used=0, pods=(), claims=()):
        """What the leader does: write what is used, with pods and claims by their uids."""
        stored = self.stored
        quota = parse_quota(stored)
        held = {limit.name: Fraction(used) for limit in quota.limits}
        seen = {"before": Counted("before", "Pod", "before", amounts=held)}
        seen |= {uid: Counted(uid, "Pod", uid, amounts=amounts) for uid, amounts in pods}
        ledger = recount(Ledger.read(stored), quota, Snapshot(seen, dict(claims), "1", "1"))
        self.sandbox.replace({**stored, "status": ledger.status(quota, 1)})

    @property
    def stored(self):
        return self.sandbox.get("GPUQuota", "gpu", "team-a")

    @property
    def taken(self):
        """What is used and reserved of the first limit."""
        limit = self.stored["status"]["limits"][0]
        return Fraction(limit["used"]) + Fraction(limit["reserved"])

    @property
    def charged(self):
        return [charge["uid"] for charge in charge_items(self.stored.get("status"))]


@pytest.fixture
async def sandbox():
    sandbox = FaultySandbox(seed=1)
    await sandbox.start()
    sandbox.create(libyaml.load(CRD.read_text()))
    sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
    yield sandbox
    sandbox.faults.clear()
    await sandbox.stop()


@pytest.fixture
def shown():
    """What the webhook's view shows beside the cluster of the examples."""
    return []


@pytest.fixture
def namespace(sandbox, shown):
    return Namespace(sandbox, shown)


@pytest.fixture
async def api(sandbox, tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(sandbox.kubeconfig())
    client = await APIClient.connect(str(kubeconfig), environ={})
    yield client
    await client.close()


@pytest.fixture
async def writer(api):
    hurried = Hurried()
    writer = LedgerWriter(api, clockwork=Clockwork(clock=lambda: hurried.seconds, sleep=hurried.sleep))
    yield writer
    await writer.close()


@pytest.fixture
def serve(start_webhook, api, writer, shown):
    """Start a webhook that charges; what its view shows is what was shown by then."""

    async def serve(view=None, *, trusts_view=lambda: False, **parts):
        if view is None:
            view = ManifestsView([*example_cluster(), *shown])
        counted = []
        keeper = QuotaKeeper(
            api,
            view,
            writer,
            HoldersSeen(view),
            trusts_view=trusts_view,
            count=lambda entry, outcome: counted.append((entry, outcome)),
        )
        webhook = await start_webhook(view, quotas=keeper, **parts)
        webhook.counted = counted
        return webhook

    return serve


@pytest.fixture
def train(pod):
    """A pod as validating webhooks see it, with its uid."""

    def make(gpus=2, uid="1", **spec):
        document = pod(gpus, **spec)
        return {**document, "metadata": {**document["metadata"], "uid": uid}}

    return make


@pytest.fixture
def of_template(train):
    """A pod whose GPUs come from the ResourceClaimTemplate `gpus`."""

    def make(uid="1"):
        claims = [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]
        return train(0, uid, resourceClaims=claims)

    return make


@pytest.fixture
def ask(review_of):
    """Ask about the creation of an object."""

    async def ask(webhook, document, entry="enforce-quota", *, user="alice", query="?timeout=10s", **request):
        group = "" if document["kind"] == "Pod" else "resource.k8s.io"
        kind = {"group": group, "version": "v1", "kind": document["kind"]}
        review = review_of(document, kind=kind, userInfo={"username": user}, **request)
        return await webhook.client.ask(entry, review, query)

    return ask
