"""Names that look like HTML are text, and names that a user must not see are in no part."""

import json

import html5lib
import pytest

from policies.analyses.audit import Survey, audit
from policies.rules.settings import DEFAULTS
from tests.pages.shown_cluster import shown_objects
from tests.pages.test_report_page import HOSTILE
from tests.server.ui.conftest import ALICE
from tests.usage.usage_objects import NOTHING, node, pod
from webhook.cluster.manifests import ManifestsView


def elements(html):
    tree = html5lib.parseFragment(html, namespaceHTMLElements=False)
    return list(tree.iter())


@pytest.fixture
async def hostile(start_ui):
    labels = {"nvidia.com/gpu.product": HOSTILE, HOSTILE: HOSTILE}
    pending = pod(HOSTILE, 9, node_name="", namespace="team-a")
    running = pod(f"{HOSTILE}2", 1, node_name=HOSTILE, namespace="team-a")
    objects = [*NOTHING, node(HOSTILE, gpus=1, labels=labels), pending, running]
    return await start_ui(view=ManifestsView(objects))


async def test_hostile_names_are_text_in_the_report(hostile):
    async with hostile.stream() as stream:
        parts = await stream.parts()
    found = [element for html in parts.values() for element in elements(html)]
    assert not {"img", "script"} & {element.tag for element in found}
    assert not [name for element in found for name in element.attrib if name.startswith("on") or name == "style"]
    assert HOSTILE in [element.text for element in found]


async def test_hostile_names_are_text_in_an_explanation(hostile):
    status, text = await hostile.ask({"kind": "pod", "namespace": "team-a", "name": HOSTILE})
    assert status == 200
    found = elements(json.loads(text)["html"])
    assert not {"img", "script"} & {element.tag for element in found}
    assert not [name for element in found for name in element.attrib if name.startswith("on") or name == "style"]


async def test_hostile_question_is_answered_as_plain_text(ui):
    status, text = await ui.ask({"kind": HOSTILE, "name": HOSTILE})
    assert (status, text.count(HOSTILE)) == (400, 1)
    async with ui.request("explain", "admin", body=json.dumps({"kind": "pod", "name": HOSTILE}).encode()) as answer:
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"


SECRET_NAMES = ("team-b", "team-c", "notebook", "chat", "web-1", "web-2", "second")
NODES = ("h100-01", "h100-02", "h100-03", "a100-mig", "t4-shared")


@pytest.mark.parametrize("sees_nodes", [False, True])
async def test_names_of_others_are_in_no_part(start_ui, rights, sees_nodes):
    rights.node_viewers = {ALICE} if sees_nodes else set()
    objects = shown_objects()
    view = ManifestsView(objects)
    survey = Survey(view, DEFAULTS)
    survey.add(objects)
    ui = await start_ui(view=view, audit=audit(view, DEFAULTS, survey))
    async with ui.stream(ALICE, "team-a") as stream:
        text = "".join((await stream.parts()).values())
    assert [name for name in SECRET_NAMES if name in text] == []
    assert [name for name in NODES if name in text] == ([*NODES] if sees_nodes else [])
    assert "train-0" in text


@pytest.mark.parametrize("sees_nodes", [False, True])
async def test_names_of_others_are_in_no_explanation(start_ui, rights, sees_nodes):
    rights.node_viewers = {ALICE} if sees_nodes else set()
    ui = await start_ui(view=ManifestsView(shown_objects()))
    status, text = await ui.ask({"kind": "pod", "name": "escaped"}, ALICE, "team-a")
    assert status == 200
    assert [name for name in SECRET_NAMES if name in text] == []
    assert sees_nodes or [name for name in NODES if name in text] == []
