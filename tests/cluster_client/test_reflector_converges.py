"""After any failures in any order, the store has the objects of the server."""

import asyncio
import tempfile
from pathlib import Path
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties import examples
from webhook.cluster import reflector as module
from webhook.cluster.reflector import Reflector
from webhook.cluster.resources import RESOURCES
from webhook.cluster.store import Store

NODE = RESOURCES["Node"]

NAMES = st.sampled_from("abcdef")
CHANGES = st.one_of(
    st.tuples(st.just("put"), NAMES, st.sampled_from(["1", "2"])),
    st.tuples(st.just("remove"), NAMES, st.just("")),
    st.tuples(st.sampled_from(["compact", "restore"]), st.just(""), st.just("")),
    st.tuples(
        st.just("fault"),
        st.sampled_from(
            [
                "gone",
                "gone_in_stream",
                "too_many",
                "internal",
                "html",
                "login_page",
                "garbage",
                "reset",
                "bookmark",
                "back_in_time",
                "compacted",
            ]
        ),
        st.just(""),
    ),
    st.just(("turn", "", "")),
)
QUIET_TURNS = 8
"""More than any sequence of failures needs."""


def change(api, faults, what, name, value):
    match what:
        case "put":
            api.put(name, value=value)
        case "remove" if name in api.objects:
            api.remove(name)
        case "compact":
            api.compact()
        case "restore":
            api.restore()
        case "fault":
            api.faults.append(getattr(faults, name))


async def quiet(api, reflector):
    api.faults.clear()
    for _ in range(QUIET_TURNS):
        await reflector.turn()


def shown(store):
    return {item["metadata"]["name"]: item["metadata"]["labels"] for item in store.list()}


@settings(max_examples=examples(40))
@given(changes=st.lists(CHANGES, max_size=30))
def test_store_equals_the_server_once_it_is_quiet(changes, faults, api_serving, connecting_in, kubeconfig_of, clocks):
    async def story():
        async with api_serving() as api, connecting_in(Path(folder), kubeconfig_of(api.url)) as client:
            api.bookmarks = True
            store = Store(NODE)
            reflector = Reflector(client, NODE, store, pace=clocks().pace)
            for step in changes:
                change(api, faults, *step)
                if step[0] == "restore":
                    # Seen while the server is still behind; once it is ahead again, nobody can tell, which is why
                    # etcd's manual has restored clusters bump their revision.
                    await quiet(api, reflector)
                if step[0] == "turn":
                    before = store.version, shown(store), store.state
                    assert await reflector.turn() <= 127
                    after = store.version, shown(store), store.state
                    assert before[1:] == after[1:] or before[0] < after[0]
            api.put("last")
            await quiet(api, reflector)
            assert store.state == "synced"
            assert shown(store) == {name: item["metadata"]["labels"] for name, item in api.objects.items()}

    with tempfile.TemporaryDirectory() as folder, patch.object(module, "PAGE", 2):
        asyncio.run(story())
