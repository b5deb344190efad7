"""One reflector with a server that misbehaves: its next request, and the objects in its store."""

import asyncio
import dataclasses

import pytest
from aiohttp import web

from webhook.cluster import reflector as module
from webhook.cluster.reflector import Reflector
from webhook.cluster.resources import RESOURCES
from webhook.cluster.store import Store

NODE = RESOURCES["Node"]


@pytest.fixture
def small_pages(monkeypatch):
    monkeypatch.setattr(module, "PAGE", 2)


def names(store):
    return sorted(item["metadata"]["name"] for item in store.list())


async def test_turn_lists_and_then_watches_from_there(api, reflector, store):
    api.put("a")
    await reflector.turn()
    assert names(store) == ["a"]
    assert store.state == "synced"
    assert api.queries == [
        {"limit": "100"},
        {"allowWatchBookmarks": "true", "resourceVersion": "10001", "timeoutSeconds": "360", "watch": "true"},
    ]


async def test_watch_is_resumed_after_the_server_ended_it(api, reflector, store):
    api.put("a")
    assert await reflector.turn() == 0
    api.put("b")
    api.remove("a")
    assert await reflector.turn() == 0
    assert names(store) == ["b"]
    assert [query.get("resourceVersion") for query in api.queries] == [None, "10001", "10001"]


async def test_selectors_go_with_every_request(api, client, store, clock):
    await Reflector(client, NODE, store, query={"labelSelector": "gpu in (a, b)"}, pace=clock.pace).turn()
    assert [query["labelSelector"] for query in api.queries] == ["gpu in (a, b)"] * 2


async def test_namespace_is_part_of_the_path(api, client, clock):
    pods = RESOURCES["Pod"]
    await Reflector(client, pods, Store(pods), namespace="gpu-operator", pace=clock.pace).turn()
    assert {request.path for request in api.requests} == {"/api/v1/namespaces/gpu-operator/pods"}


async def test_list_is_read_page_by_page(api, reflector, store, small_pages):
    for name in "abcde":
        api.put(name)
    await reflector.turn()
    assert names(store) == [*"abcde"]
    assert [query.get("limit") for query in api.queries] == ["2", "2", "2", None]


async def test_list_with_an_expired_continue_token_is_read_at_once(api, reflector, store, faults, small_pages):
    async def no_fault(*args, is_watch):
        return None

    for name in "abcde":
        api.put(name)
    api.faults.extend([no_fault, faults.gone])
    await reflector.turn()
    assert names(store) == [*"abcde"]
    assert [query.get("limit") for query in api.queries] == ["2", "2", None, None]


async def test_list_that_has_no_end_is_given_up(api, reflector, store):
    async def same_token(server, request, *, is_watch):
        return web.json_response({"metadata": {"resourceVersion": "1", "continue": "x"}, "items": []})

    api.faults.extend([same_token] * 2)
    await reflector.turn()
    assert store.state == "waiting"
    assert store.reason == "GET /api/v1/nodes: the list of nodes does not end"


@pytest.mark.parametrize("document", [[], {}, {"metadata": {"resourceVersion": ""}}, {"items": 5}], ids=str)
async def test_error_says_that_an_answer_is_not_a_list(api, reflector, store, document):
    async def odd(server, request, *, is_watch):
        return web.json_response(document)

    api.faults.append(odd)
    assert await reflector.turn() == 1.0
    assert store.reason == "GET /api/v1/nodes: expected a list of nodes"


async def test_null_items_are_an_empty_list(api, reflector, store):
    async def null(server, request, *, is_watch):
        return web.json_response({"metadata": {"resourceVersion": "10000"}, "items": None})

    api.faults.append(null)
    await reflector.turn()
    assert store.state == "synced"


@pytest.mark.parametrize("fault", ["gone", "gone_in_stream", "garbage", "login_page", "back_in_time"])
async def test_list_is_taken_again_after(api, reflector, store, faults, fault):
    api.put("a")
    api.put("b")
    await reflector.turn()
    api.faults.append(getattr(faults, fault))
    assert await reflector.turn() == 1.0
    assert store.state == "stale"
    api.remove("a")
    await reflector.turn()
    assert names(store) == ["b"]
    assert store.state == "synced"
    assert sum("watch" not in query for query in api.queries) == 2


@pytest.mark.parametrize("fault", ["too_many", "internal", "html", "reset"])
async def test_watch_is_resumed_without_a_list_after(api, reflector, store, faults, fault):
    api.put("a")
    await reflector.turn()
    api.put("b")
    api.faults.append(getattr(faults, fault))
    await reflector.turn()
    assert store.state == "stale"
    await reflector.turn()
    assert names(store) == ["a", "b"]
    assert store.state == "synced"
    assert sum("watch" not in query for query in api.queries) == 1


async def test_line_that_is_cut_off_is_requested_again(api, reflector, store, faults):
    await reflector.turn()
    for name in "abc":
        api.put(name)
    api.faults.append(faults.reset)
    await reflector.turn()
    assert names(store) == ["a", "b"]
    await reflector.turn()
    assert names(store) == ["a", "b", "c"]
    assert [query.get("resourceVersion") for query in api.queries[2:]] == ["10000", "10002"]


async def test_server_that_refuses_three_times_is_requested_a_list(api, reflector, store, faults):
    await reflector.turn()
    api.restore()
    api.faults.extend([faults.internal] * 3)
    for _ in range(4):
        await reflector.turn()
    assert store.state == "synced"
    assert store.resource_version == "9900"


async def test_history_that_went_back_is_logged_and_believed(api, reflector, store, faults, caplog):
    api.put("a")
    await reflector.turn()
    api.restore()
    api.faults.append(faults.gone)
    await reflector.turn()
    await reflector.turn()
    assert store.get("", "a")["metadata"]["resourceVersion"] == "9900"
    assert (
        "resourceVersion of cached nodes decreased from 10001 to 9900; was etcd restored from a backup?"
        in caplog.messages
    )


async def test_bookmark_moves_where_the_watch_goes_on(api, reflector, faults):
    api.faults.extend([faults.bookmark, faults.bookmark])
    await reflector.turn()
    api.version = 10_040
    api.faults.append(faults.bookmark)
    await reflector.turn()
    await reflector.turn()
    assert api.queries[-1]["resourceVersion"] == "10040"


async def test_bookmark_of_the_past_means_a_new_list(api, reflector, store, faults):
    api.put("a")
    await reflector.turn()
    api.restore()
    api.faults.append(faults.bookmark)
    await reflector.turn()
    assert store.reason == "GET /api/v1/nodes, watching: resourceVersion 9900 after 10001 is older"


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"type": "ADDED"},
        {"type": "ADDED", "object": {"metadata": {"name": "a"}}},
        {"type": "ADDED", "object": {"metadata": {"resourceVersion": "99999"}}},
        {"type": "WONDER", "object": {"metadata": {"name": "a", "resourceVersion": "99999"}}},
        {"type": ["ADDED"], "object": []},
        {"type": "BOOKMARK", "object": None},
    ],
    ids=str,
)
async def test_invalid_event_leads_to_a_new_list(api, reflector, store, answers, event):
    async def odd(server, request, *, is_watch):
        return await answers.stream(request, event) if is_watch else None

    await reflector.turn()
    api.faults.append(odd)
    await reflector.turn()
    assert store.state == "stale"
    assert "invalid event of type" in store.reason
    await reflector.turn()
    assert store.state == "synced"


@pytest.mark.parametrize(("code", "state"), [(403, "forbidden"), (404, "absent")])
async def test_resource_that_cannot_be_had_is_requested_every_minute_or_so(api, reflector, store, answers, code, state):
    async def refuse(server, request, *, is_watch):
        return answers.status(code, "", "no nodes for you")

    api.faults.extend([refuse, refuse])
    assert await reflector.turn() == 75
    assert (store.state, store.reason, names(store)) == (state, "no nodes for you", [])
    assert await reflector.turn() == 75
    api.put("a")
    await reflector.turn()
    assert (store.state, names(store)) == ("synced", ["a"])


@pytest.mark.parametrize(("code", "state"), [(403, "forbidden"), (404, "absent")])
async def test_what_could_be_read_is_given_up_at_the_fourth_refusal(api, reflector, store, answers, code, state):
    async def refuse(server, request, *, is_watch):
        return answers.status(code, "", "not yet")

    api.put("a")
    await reflector.turn()
    api.faults.extend([refuse] * 4)
    for pause in (1, 2, 4):
        assert await reflector.turn() == pause
        assert (store.state, store.reason, names(store)) == ("stale", "not yet", ["a"])
    assert await reflector.turn() == 75
    assert (store.state, names(store)) == (state, [])


async def test_refusals_of_an_api_server_that_starts_pass(api, reflector, store, answers, faults):
    async def refuse(server, request, *, is_watch):
        return answers.status(403, "", "not yet")

    api.put("a")
    await reflector.turn()
    api.faults.extend([*[faults.html] * 5, refuse, refuse, refuse, faults.html, refuse])
    for _ in range(10):
        await reflector.turn()
        assert (store.state, names(store)) == ("stale", ["a"])
    for _ in range(2):
        await reflector.turn()
        assert (store.state, names(store)) == ("synced", ["a"])
        api.faults.extend([refuse] * 3)
        for _ in range(3):
            await reflector.turn()
        assert store.state == "stale"


async def test_api_that_is_not_served_is_absent(api, reflector, store):
    async def not_served(server, request, *, is_watch):
        return web.Response(status=404, text="404 page not found\n")

    api.faults.append(not_served)
    await reflector.turn()
    assert store.state == "absent"


async def test_404_of_a_proxy_does_not_make_a_resource_absent(api, reflector, store):
    async def backend(server, request, *, is_watch):
        return web.Response(status=404, text="default backend - 404")

    api.faults.append(backend)
    await reflector.turn()
    assert store.state == "waiting"


async def test_pauses_grow_and_have_an_end(api, reflector, faults):
    api.faults.extend([faults.html] * 8)
    assert [await reflector.turn() for _ in range(8)] == [1, 2, 4, 8, 16, 30, 30, 30]


async def test_retry_after_is_waited_for(api, reflector, faults):
    api.faults.append(faults.too_many)
    assert await reflector.turn() == 8.0


async def test_failure_after_a_long_watch_is_the_first_one_again(api, client, store, clock, faults):
    def an_hour_passes():
        clock.now += 3600 * (store.state == "synced")

    reflector = Reflector(client, NODE, store, on_state=an_hour_passes, pace=clock.pace)
    await reflector.turn()
    api.faults.extend([faults.html] * 4 + [faults.reset])
    assert [await reflector.turn() for _ in range(5)] == [1, 2, 4, 8, 1]


async def test_list_that_took_long_and_failed_is_no_long_watch(api, client, store, clock, faults):
    class Slow:
        async def get(self, *args, **options):
            clock.now += 3600
            return await client.get(*args, **options)

    api.faults.extend([faults.html] * 3)
    reflector = Reflector(Slow(), NODE, store, pace=clock.pace)
    assert [await reflector.turn() for _ in range(3)] == [1, 2, 4]


async def test_watch_that_is_ended_at_once_is_no_reason_to_hurry(api, client, store, clock):
    reflector = Reflector(client, NODE, store, pace=dataclasses.replace(clock.pace, brief=1.0))
    assert [await reflector.turn() for _ in range(3)] == [1, 2, 4]
    assert store.state == "synced"


@pytest.fixture
def impatient(client, store, clock):
    """A reflector that opens a watch again after a moment without a byte."""
    return Reflector(client, NODE, store, pace=dataclasses.replace(clock.pace, silence=0.05))


@pytest.fixture
def silence(api, answers):
    """Let the next watch be accepted, and send these events and nothing more."""
    released = asyncio.Event()

    def queue(*events):
        async def silent(server, request, *, is_watch):
            if not is_watch:
                server.faults.appendleft(silent)
                return None
            await answers.stream(request, *events, end=False)
            await released.wait()
            return web.Response()

        api.faults.append(silent)

    yield queue
    released.set()


async def test_silent_watch_is_opened_again_where_it_ended(api, impatient, store, silence):
    silence()
    assert await impatient.turn() == 0.0
    assert store.state == "synced"
    api.put("new")
    await impatient.turn()
    assert [query.get("watch") for query in api.queries] == [None, "true", "true"]
    assert store.get("", "new") is not None


async def test_second_silent_watch_in_a_row_is_followed_by_a_list(api, impatient, store, silence):
    silence(), silence()
    await impatient.turn(), await impatient.turn()
    api.put("held-back")
    await impatient.turn()
    assert [query.get("watch") for query in api.queries] == [None, "true", "true", None, "true"]
    assert store.get("", "held-back") is not None


async def test_watch_that_sent_a_bookmark_is_not_the_second_silent_one(api, impatient, silence):
    silence(), silence(api.moment())
    await impatient.turn(), await impatient.turn(), await impatient.turn()
    assert impatient.lists == 1


async def test_silent_watch_that_cannot_be_opened_again_leaves_the_store_stale(api, impatient, store, silence, faults):
    silence()
    await impatient.turn()
    api.faults.append(faults.reset)
    await impatient.turn()
    assert store.state == "stale"


async def test_store_is_synced_again_as_soon_as_the_server_agrees_to_a_watch(api, client, clock, answers, faults):
    states, opened, released = [], asyncio.Event(), asyncio.Event()

    async def silent(server, request, *, is_watch):
        response = await answers.stream(request, end=False)
        await released.wait()
        return response

    def note():
        states.append(store.state)
        if states == ["synced", "stale", "synced"]:
            opened.set()

    store = Store(NODE)
    reflector = Reflector(client, NODE, store, on_state=note, pace=clock.pace)
    await reflector.turn()
    api.faults.extend([faults.html, silent])
    await reflector.turn()
    turn = asyncio.create_task(reflector.turn())
    await opened.wait()
    assert store.state == "synced"
    released.set()
    await turn


async def test_defect_in_trimming_is_logged_and_does_not_end_the_reflector(api, client, clock, caplog):
    def trim(item):
        raise KeyError("spec")

    store = Store(NODE, trim)
    api.put("a")
    reflector = Reflector(client, NODE, store, pace=clock.pace)
    assert await reflector.turn() == 1.0
    assert (store.state, store.reason) == ("waiting", "a defect, KeyError: 'spec'")
    assert "cannot keep cached nodes up to date because of a defect" in caplog.messages


async def test_same_trouble_is_logged_once(api, reflector, faults, caplog):
    api.faults.extend([faults.internal] * 3)
    for _ in range(3):
        await reflector.turn()
    assert [message for message in caplog.messages if "nodes" in message] == [
        "cached nodes are waiting: etcdserver: leader changed"
    ]


async def test_run_sleeps_between_turns_until_cancelled(api, client, store, clock, faults):
    rested = asyncio.Event()

    async def sleep(seconds):
        clock.slept.append(seconds)
        if len(clock.slept) == 3:
            rested.set()
            await asyncio.Event().wait()

    api.faults.extend([faults.html, faults.html])
    clockwork = dataclasses.replace(clock.pace.clockwork, sleep=sleep)
    pace = dataclasses.replace(clock.pace, clockwork=clockwork)
    running = asyncio.create_task(Reflector(client, NODE, store, pace=pace).run())
    await rested.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert clock.slept == [1.0, 2.0, 0.0]
