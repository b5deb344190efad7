import asyncio
import json

import pytest

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def watch(sandbox, api):
    """Follows a watch to its end; what happens while it runs is given as a function."""

    async def run(path=CONFIG_MAPS, meanwhile=None, **query):
        query = {"watch": "true", "timeoutSeconds": 20, **query}
        async with api.session.get(path, params=query) as response:
            assert response.status == 200
            if meanwhile is not None:
                meanwhile()
            return [json.loads(line) async for line in response.content]

    return run


def texts_of(events):
    return [(event["type"], event["object"]["metadata"].get("name")) for event in events]


async def test_watch_without_version_begins_with_what_exists(watch, sandbox, config_map):
    sandbox.create(config_map("b"))
    sandbox.create(config_map("a"))
    assert texts_of(await watch()) == [("ADDED", "a"), ("ADDED", "b")]


async def test_watch_from_a_version_tells_what_came_after(watch, sandbox, config_map):
    sandbox.create(config_map("a"))
    version = sandbox.create(config_map("b"))["metadata"]["resourceVersion"]
    sandbox.replace(config_map("a", data={"x": "1"}))
    sandbox.remove("ConfigMap", "b", "default")
    assert texts_of(await watch(resourceVersion=version)) == [("MODIFIED", "a"), ("DELETED", "b")]


async def test_watch_tells_what_happens_while_it_runs(watch, sandbox, config_map):
    events = await watch(meanwhile=lambda: sandbox.create(config_map("a")), resourceVersion="4")
    assert texts_of(events) == [("ADDED", "a")]
    assert events[0]["object"] == sandbox.get("ConfigMap", "a", "default")


async def test_deletion_has_a_version_of_its_own(watch, sandbox, config_map):
    sandbox.create(config_map("a"))
    (event,) = await watch(meanwhile=lambda: sandbox.remove("ConfigMap", "a", "default"), resourceVersion="5")
    assert (event["type"], event["object"]["metadata"]["resourceVersion"]) == ("DELETED", "6")


async def test_watch_leaves_out_other_namespaces_and_kinds(watch, sandbox, config_map, pod):
    sandbox.create(config_map("a", "kube-public"))
    sandbox.create(pod())
    assert await watch(resourceVersion="4") == []


async def test_what_comes_into_the_selection_is_added_and_what_leaves_it_deleted(watch, sandbox, config_map):
    sandbox.create(config_map("a"))
    for labels in ({"app": "x"}, {"app": "x", "more": "1"}, {}):
        sandbox.replace(config_map("a", labels=labels))
    events = await watch(resourceVersion="5", labelSelector="app=x")
    assert texts_of(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    # It is shown as it was while it was selected, under the version in which it left: Kubernetes 1.36.2.
    left = events[-1]["object"]["metadata"]
    assert (left["labels"], left["resourceVersion"]) == ({"app": "x", "more": "1"}, "8")


async def test_bookmark_comes_at_the_end(watch, sandbox, pod):
    sandbox.create(pod())
    (event,) = await watch(resourceVersion="4", allowWatchBookmarks="true")
    assert event == {
        "type": "BOOKMARK",
        "object": {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": "5"},
        },
    }


async def test_bookmarks_come_in_between(watch):
    events = await watch(resourceVersion="4", allowWatchBookmarks="true", timeoutSeconds=118)
    assert [event["type"] for event in events] == ["BOOKMARK", "BOOKMARK"]


async def test_bookmarks_are_sent_only_on_request(watch):
    assert await watch(resourceVersion="4", timeoutSeconds=118) == []


async def test_watch_from_a_forgotten_version_is_reported_410_by_an_event(watch, sandbox, config_map):
    sandbox.create(config_map())
    sandbox.forget()
    (event,) = await watch(resourceVersion="4")
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert event["object"]["message"] == "too old resource version: 4 (5)"


async def test_watch_from_the_version_of_the_last_forgotten_change_goes_on(watch, sandbox, config_map):
    version = sandbox.create(config_map())["metadata"]["resourceVersion"]
    sandbox.forget()
    assert await watch(resourceVersion=version) == []


async def test_initial_events_end_with_a_bookmark(watch, sandbox, config_map):
    sandbox.create(config_map("a"))
    events = await watch(
        sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true", timeoutSeconds=5
    )
    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK", "BOOKMARK"]
    assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_initial_events_without_a_match_are_422(api):
    answer = await api.get(CONFIG_MAPS, watch="true", sendInitialEvents="true")
    assert answer.message == (
        'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting'
        " resourceVersionMatch to NotOlderThan"
    )


async def test_many_changes_arrive_in_order(watch, sandbox, config_map):
    def write():
        for number in range(500):
            sandbox.create(config_map(f"c-{number:03}"))

    events = await watch(meanwhile=write, resourceVersion="4")
    assert texts_of(events) == [("ADDED", f"c-{number:03}") for number in range(500)]


async def test_watcher_that_goes_leaves_nothing_behind(api, sandbox, config_map):
    async with api.session.get(CONFIG_MAPS, params={"watch": "true"}) as response:
        response.close()
    sandbox.create(config_map("a"))
    assert (await api.get(f"{CONFIG_MAPS}/a")).code == 200


async def test_history_keeps_only_its_latest_changes(config_map):
    from webhook.sandbox.server import Sandbox
    from webhook.sandbox.store import TooOldError

    sandbox = Sandbox(history=10)
    for number in range(40):
        sandbox.create(config_map(f"c-{number}"))
    history = sandbox._cluster.store.collection(sandbox._cluster.kinds.find("ConfigMap")).history
    assert len(history.after(30)) == 14
    with pytest.raises(TooOldError):
        history.after(4)


async def test_stop_ends_watches(api, sandbox):
    async with api.session.get(CONFIG_MAPS, params={"watch": "true"}) as response:
        async with asyncio.timeout(60):
            await sandbox.stop()
        assert response.status == 200
