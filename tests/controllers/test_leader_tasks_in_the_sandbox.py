"""The leader's tasks in the sandbox: election, repairing, sweeping."""

import asyncio
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry

from policies.kubernetes.names import UNUSED_SINCE
from policies.rules.settings import DEFAULTS
from webhook.cluster.answers import APIError
from webhook.cluster.client import APIClient
from webhook.cluster.clockwork import Clockwork
from webhook.cluster.resources import RESOURCES
from webhook.controllers.elector import Elector, Timing
from webhook.controllers.metrics import ControllerMetrics, PeriodicTask, run_tasks
from webhook.controllers.template_upkeep import TemplateRepair, TemplateSweep
from webhook.sandbox.server import Sandbox
from webhook.server.template_keeper import TemplateKeeper

TEMPLATE, LEASE = RESOURCES["ResourceClaimTemplate"], RESOURCES["Lease"]
QUICK = Timing(lease=1, renew=0.6, retry=0.05)


@pytest.fixture
async def client(tmp_path):
    sandbox = Sandbox(seed=1)
    await sandbox.start()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(sandbox.kubeconfig())
    client = await APIClient.connect(str(kubeconfig), environ={})
    for name in ("team-a", "gpu-admission"):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await client.post(RESOURCES["Namespace"].path(), body)
    yield client
    await client.close()
    await sandbox.stop()


@pytest.fixture
def metrics():
    return ControllerMetrics(CollectorRegistry())


async def test_leader_repairs_and_gives_the_lease_back(client, metrics, view_of, gpu_pod, convert):
    pod, template = convert(gpu_pod())
    view = view_of(pod)
    repair = TemplateRepair(TemplateKeeper(client, view), view, lambda: DEFAULTS, metrics)
    repaired = asyncio.Event()

    async def once():
        await repair.round()
        repaired.set()

    tasks = [PeriodicTask("templates-repair", once, 60)]
    elector = Elector(client, ("gpu-admission", "leader"), "a", lambda: run_tasks(tasks, metrics), timing=QUICK)
    election = asyncio.create_task(elector.run())
    await repaired.wait()
    stored = await client.get(TEMPLATE.path("team-a", template.name))
    assert stored["spec"] == template.spec
    assert (await client.get(LEASE.path("gpu-admission", "leader")))["spec"]["holderIdentity"] == "a"
    election.cancel()
    await asyncio.wait({election})
    assert (await client.get(LEASE.path("gpu-admission", "leader")))["spec"]["holderIdentity"] == ""


async def test_unused_template_is_marked_and_after_the_grace_deleted(
    client, metrics, view_of, gpu_pod, convert, midnight
):
    _, template = convert(gpu_pod())
    moments = [midnight]
    clockwork = Clockwork(now=lambda: moments[-1])
    path = TEMPLATE.path("team-a", template.name)
    await TemplateKeeper(client, view_of(kinds=("Namespace",))).ensure([template], _in_ten_seconds())

    async def sweep():
        view = view_of(await client.get(path))
        await TemplateSweep(client, view, lambda: DEFAULTS, metrics, timedelta(hours=1), clockwork=clockwork).round()

    await sweep()
    assert (await client.get(path))["metadata"]["annotations"] == {UNUSED_SINCE: "2027-01-01T00:00:00Z"}
    moments.append(midnight + timedelta(hours=1))
    await sweep()
    with pytest.raises(APIError) as raised:
        await client.get(path)
    assert raised.value.is_not_found


def _in_ten_seconds():
    from webhook.server.turns import Deadline

    return Deadline.start(Clockwork().clock, "10s")
