"""A resource with several versions is read in the one that the API server serves, also after an upgrade."""

import pytest

from policies.devices.device_taint_rules import TAINT_RULE_VERSIONS
from policies.devices.pod_groups import POD_GROUP_VERSIONS
from webhook.cluster.answers import APIError
from webhook.cluster.lists import get_object, list_all
from webhook.cluster.reflector import Reflector
from webhook.cluster.resources import RESOURCES
from webhook.cluster.store import Store

GROUP = RESOURCES["PodGroup"]
PATH = "/apis/scheduling.k8s.io/{}"


@pytest.fixture
def store():
    return Store(GROUP)


@pytest.fixture
def reflector(api, client, store, clock):
    return Reflector(client, GROUP, store, pace=clock.pace)


def serve(api, *versions):
    """Serve PodGroups in these versions only."""
    api.not_served = {PATH.format(each) for each in POD_GROUP_VERSIONS if each not in versions}


def paths(api):
    return [request.path for request in api.requests]


async def read_until_synced(reflector, store):
    """Turns until the store is synced; the number of turns that were refused."""
    refused = 0
    while await reflector.turn() == 0 and store.state != "synced":
        refused += 1
    return refused


@pytest.mark.parametrize(
    ("kind", "versions"), [("PodGroup", POD_GROUP_VERSIONS), ("DeviceTaintRule", TAINT_RULE_VERSIONS)]
)
def test_versions_are_those_of_the_table(kind, versions):
    assert RESOURCES[kind].versions == tuple(versions)


@pytest.mark.parametrize(("version", "refused"), [("v1beta1", 0), ("v1alpha3", 1), ("v1alpha2", 2)])
async def test_first_served_version_is_watched(api, reflector, store, version, refused):
    api.put("ring")
    serve(api, version)
    assert await read_until_synced(reflector, store) == refused
    (group,) = store.list()
    assert (group["apiVersion"], group["metadata"]["name"]) == (f"scheduling.k8s.io/{version}", "ring")


async def test_upgrade_that_drops_a_version_is_followed_at_once(api, reflector, store, caplog):
    api.put("ring")
    serve(api, "v1alpha2")
    await read_until_synced(reflector, store)
    serve(api, "v1beta1", "v1alpha3")
    assert await reflector.turn() == 0
    assert store.state == "synced"
    await reflector.turn()
    (group,) = store.list()
    assert group["apiVersion"] == "scheduling.k8s.io/v1beta1"
    assert (
        "cached podgroups.scheduling.k8s.io are read in scheduling.k8s.io/v1beta1: the API server no longer serves v1alpha2"
        in caplog.messages
    )


async def test_kind_that_is_served_in_no_version_any_more_is_given_up_with_a_warning(api, reflector, store, caplog):
    serve(api, "v1alpha2")
    await read_until_synced(reflector, store)
    serve(api)
    pauses = [await reflector.turn() for _ in range(12)]
    assert pauses == [0, 0, 1, 0, 0, 2, 0, 0, 4, 0, 0, 75]
    assert store.state == "absent"
    assert ("WARNING", "cached podgroups.scheduling.k8s.io are absent") in [
        (each.levelname, each.message.partition(":")[0]) for each in caplog.records
    ]


async def test_watch_that_is_refused_in_every_version_is_not_tried_without_a_pause(api, reflector, store, answers):
    async def no_watch(server, request, *, is_watch):
        return answers.status(404, "NotFound", "no watch") if is_watch else None

    api.faults.extend([no_watch] * 12)
    assert [await reflector.turn() for _ in range(6)] == [0, 0, 1, 0, 0, 2]


async def test_list_is_of_the_first_served_version(api, client):
    api.put("ring")
    serve(api, "v1alpha3", "v1alpha2")
    (group,) = await list_all(client, GROUP)
    assert group["apiVersion"] == "scheduling.k8s.io/v1alpha3"


async def test_version_that_was_served_is_tried_first(api, client):
    serve(api, "v1alpha2")
    await list_all(client, GROUP)
    api.requests.clear()
    await list_all(client, GROUP)
    assert paths(api) == ["/apis/scheduling.k8s.io/v1alpha2/podgroups"]


async def test_list_of_a_kind_that_is_not_served_raises(api, client):
    serve(api)
    with pytest.raises(APIError) as raised:
        await list_all(client, GROUP)
    assert raised.value.is_not_found


async def test_object_is_read_in_the_served_version(api, client):
    serve(api, "v1alpha2")
    await get_object(client, GROUP, "ring", "team-a")
    assert paths(api)[-1] == "/apis/scheduling.k8s.io/v1alpha2/namespaces/team-a/podgroups/ring"


async def test_error_of_one_version_is_not_hidden_by_another(api, client, answers):
    async def refuse(server, request, *, is_watch):
        return answers.status(403, "Forbidden", "no groups for you")

    api.faults.append(refuse)
    with pytest.raises(APIError, match="no groups for you"):
        await get_object(client, GROUP, "ring", "team-a")
    assert len(api.requests) == 1
