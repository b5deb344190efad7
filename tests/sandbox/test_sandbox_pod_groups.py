"""PodGroups and their claims in the sandbox, by feature gates."""

import asyncio
import contextlib

import aiohttp
import pytest

from tests.sandbox.conftest import Client
from webhook.sandbox.server import Sandbox

GATES = ("GenericWorkload", "DRAWorkloadResourceClaims")
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
ENTRY = {"name": "gpu", "resourceClaimTemplateName": "one"}
GROUP = {
    "apiVersion": "scheduling.k8s.io/v1alpha2",
    "kind": "PodGroup",
    "metadata": {"name": "ring"},
    "spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": [ENTRY]},
}
TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "one", "namespace": "default"},
    "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}},
}


def member(name, entry=ENTRY):
    containers = [{"name": "main", "image": "cuda", "resources": {"claims": [{"name": entry["name"]}]}}]
    spec = {"containers": containers, "resourceClaims": [entry], "schedulingGroup": {"podGroupName": "ring"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
async def served():
    """A client of a sandbox with these gates."""
    async with contextlib.AsyncExitStack() as stack:

        async def served(*gates, objects=(), upgrade=""):
            sandbox = Sandbox(seed=1, feature_gates=gates)
            for document in (TEMPLATE, *objects):
                sandbox.create(document)
            if upgrade:
                sandbox.upgrade(upgrade)
            await sandbox.start()
            stack.push_async_callback(sandbox.stop)
            return Client(await stack.enter_async_context(aiohttp.ClientSession(sandbox.url)))

        yield served


async def reported_names(api, path):
    """The claims that an object is told of, once it is."""
    while True:
        found = (await api.get(path)).body["status"].get("resourceClaimStatuses")
        if found:
            return {each["name"]: each["resourceClaimName"] for each in found}
        await asyncio.sleep(0)


async def test_no_gate_serves_no_groups(served):
    api = await served()
    assert (await api.get(GROUPS)).code == 404
    stored = await api.post(PODS, member("first"))
    assert (stored.code, "schedulingGroup" in stored.body["spec"]) == (201, False)


async def test_groups_without_the_gate_of_claims_have_none(served):
    api = await served("GenericWorkload")
    stored = await api.post(GROUPS, GROUP)
    assert (stored.code, "resourceClaims" in stored.body["spec"]) == (201, False)
    assert (await api.post(PODS, member("first"))).body["spec"]["schedulingGroup"] == {"podGroupName": "ring"}
    assert (await reported_names(api, f"{PODS}/first")).keys() == {"gpu"}


async def test_group_has_one_claim_for_all_its_pods(served):
    api = await served(*GATES)
    assert (await api.post(GROUPS, GROUP)).code == 201
    for name in ("first", "second"):
        assert (await api.post(PODS, member(name))).code == 201
    reported = [await reported_names(api, path) for path in (f"{GROUPS}/ring", f"{PODS}/first", f"{PODS}/second")]
    (claim,) = (await api.get(CLAIMS)).body["items"]
    assert reported == [{"gpu": claim["metadata"]["name"]}] * 3
    (owner,) = claim["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["name"]) == ("scheduling.k8s.io/v1alpha2", "PodGroup", "ring")


async def test_pod_waits_for_its_group(served):
    api = await served(*GATES)
    await api.post(PODS, member("first"))
    await api.post(PODS, {**member("other"), "spec": {**member("other")["spec"], "schedulingGroup": None}})
    await reported_names(api, f"{PODS}/other")
    assert "resourceClaimStatuses" not in (await api.get(f"{PODS}/first")).body["status"]
    await api.post(GROUPS, GROUP)
    assert await reported_names(api, f"{PODS}/first") == await reported_names(api, f"{GROUPS}/ring")


async def test_pod_that_is_read_before_its_group_has_a_claim_is_read_again_later(served):
    api = await served(*GATES, objects=[member("first"), GROUP])
    assert await reported_names(api, f"{PODS}/first") == await reported_names(api, f"{GROUPS}/ring")


async def test_claim_that_is_not_the_groups_is_the_pods_own(served):
    api = await served(*GATES)
    await api.post(GROUPS, GROUP)
    await api.post(PODS, member("first", {**ENTRY, "name": "own"}))
    own = await reported_names(api, f"{PODS}/first")
    assert own["own"] not in (await reported_names(api, f"{GROUPS}/ring")).values()


async def test_claims_of_a_group_do_not_change(served):
    api = await served(*GATES)
    await api.post(GROUPS, GROUP)
    answer = await api.merge(f"{GROUPS}/ring", {"spec": {"resourceClaims": []}})
    assert answer.code == 422


async def test_upgraded_server_serves_groups_in_the_versions_that_it_has(served):
    api = await served(*GATES, objects=[GROUP], upgrade="1.37.0")
    assert (await api.get(GROUPS)).code == 404
    for version in ("v1beta1", "v1alpha3"):
        stored = await api.get(f"{GROUPS.replace('v1alpha2', version)}/ring")
        assert (stored.body["apiVersion"], stored.body["spec"]["resourceClaims"]) == (
            f"scheduling.k8s.io/{version}",
            [ENTRY],
        )


async def test_upgraded_server_without_the_gate_serves_no_groups(served):
    api = await served(upgrade="1.37.0")
    assert (await api.get(GROUPS.replace("v1alpha2", "v1beta1"))).code == 404
