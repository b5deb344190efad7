"""Calls that claim a controller made a stored claim for a pod: claim and pod both count."""

from datetime import UTC, datetime

import pytest

from tests.controllers.quotas.conftest import QuotaCaches
from tests.sandbox.faults import failing
from tests.server.quotas.quota_calls import CONTROLLER, OF_EXTENDED, OF_TEMPLATE, SCHEDULER, claim, later
from webhook.cluster.clockwork import Clockwork

ALL = {"name": "all", "gpus": 20}
BATCH = {"name": "batch", "selector": {"priorityClasses": ["batch"]}, "gpus": 20}


def renamed(document, name):
    return {**document, "metadata": {**document["metadata"], "name": name}}


@pytest.fixture
def count(api):
    """Count what there is, as the leader does."""
    leader = QuotaCaches(api, Clockwork(clock=lambda: 1000.0, now=lambda: datetime(2027, 1, 1, tzinfo=UTC)))
    return leader.count


@pytest.fixture
def stored(sandbox, train):
    """A pod of three GPUs, and a claim for four of which its author says that it was made for the pod."""

    def make(annotations):
        selector = {"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}
        device_class = {"metadata": {"name": "gpu.nvidia.com"}, "spec": {"selectors": [selector]}}
        sandbox.create({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", **device_class})
        pod = sandbox.create(train(3))
        made = claim(4, annotations=annotations)
        made["metadata"]["ownerReferences"][0]["uid"] = pod["metadata"]["uid"]
        return sandbox.create(made)

    return make


def used(namespace):
    return {limit["name"]: limit["used"] for limit in namespace.stored["status"]["limits"]}


@pytest.mark.parametrize("name", ["gpus", "another", "../gpus"])
@pytest.mark.parametrize("entry", ["enforce-quota", "check-pods"])
async def test_claim_that_was_counted_by_itself_is_not_counted_with_a_pod(
    serve, namespace, ask, stored, count, name, entry
):
    namespace.limit(ALL)
    made = stored(OF_EXTENDED)
    await count()
    assert used(namespace) == {"all": "7"}
    await ask(await serve(), renamed(made, name), entry, user=SCHEDULER)
    await count()
    assert used(namespace) == {"all": "7"}


async def test_claim_that_was_counted_by_itself_does_not_get_the_priority_class_of_a_pod(
    serve, namespace, ask, stored, count
):
    namespace.limit(ALL, BATCH)
    made = stored(OF_TEMPLATE)
    await count()
    assert used(namespace) == {"all": "7", "batch": "4"}
    await ask(await serve(), made, user=CONTROLLER)
    await count()
    assert used(namespace) == {"all": "7", "batch": "4"}


async def test_call_for_a_claim_that_is_stored_charges_nothing(serve, namespace, ask, stored):
    namespace.limit(ALL)
    response = await ask(await serve(), stored(OF_EXTENDED), user=SCHEDULER)
    assert response == {"uid": response["uid"], "allowed": True}
    assert namespace.charged == []


async def test_claim_that_a_cache_shows_already_is_not_read(serve, namespace, sandbox, shown, ask, stored):
    namespace.limit(ALL)
    made = stored(OF_EXTENDED)
    shown.append(made)
    webhook = await serve()
    before = len(sandbox.requests)
    assert (await ask(webhook, made, user=SCHEDULER))["allowed"]
    assert len(sandbox.requests) == before


async def test_claim_that_is_really_made_is_counted_with_its_pod_at_once(serve, namespace, sandbox, ask, stored, count):
    """Before the scheduler writes into the status of the pod which claim it made."""
    namespace.limit(ALL)
    made = stored(OF_EXTENDED)
    sandbox.remove("ResourceClaim", "gpus", "team-a")
    await count()
    assert (await ask(await serve(), made, user=SCHEDULER))["allowed"]
    assert namespace.taken == 4
    sandbox.create(made)
    await count()
    assert used(namespace) == {"all": "4"}


async def test_claim_that_may_or_may_not_be_stored_is_refused(serve, namespace, sandbox, ask, stored):
    namespace.limit(ALL)
    made = stored(OF_EXTENDED)
    webhook = await serve()
    sandbox.faults.add(failing(503), verb="GET", path="*/resourceclaims/gpus")
    later(await ask(webhook, made, user=SCHEDULER), 5)
    assert namespace.charged == []
