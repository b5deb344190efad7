"""A pod goes through the functions that docs/architecture.md lists."""

import base64
import json
import pkgutil
import re
import sys
import threading
from pathlib import Path

import jsonpatch
import pytest

from tests.server.quotas.quota_calls import example_cluster, team_a
from webhook.cluster.manifests import ManifestsView
from webhook.server.template_keeper import TemplateKeeper

PAGE = Path(__file__).parents[3] / "docs" / "architecture.md"
PATH = re.findall(r"^\| \d+ \| `(/[a-z-]+)` \| `([\w.]+)` \|", PAGE.read_text(), re.MULTILINE)
ENTRIES = list(dict.fromkeys(entry for entry, _ in PATH))


def code_of(name):
    """The code of a function by its dotted name."""
    return pkgutil.resolve_name(name).__code__


@pytest.fixture
def called():
    """The code of each function that is called, in any thread."""
    called = []

    def note(frame, event, _):
        if event == "call":
            called.append(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    yield called
    sys.setprofile(None)
    threading.setprofile(None)


def test_path_of_the_page_has_at_most_fifteen_functions():
    assert 10 <= len(PATH) <= 15


async def test_path_of_the_page_is_the_path_of_a_pod(serve, namespace, api, train, ask, called):
    namespace.limit()
    view = ManifestsView([*example_cluster(), team_a(dra="enabled"), namespace.stored])
    webhook = await serve(view, templates=TemplateKeeper(api, view))
    pod = train(volumes=[{"name": "data", "hostPath": {"path": "/data"}}])
    for entry in ENTRIES:
        called.clear()
        response = await ask(webhook, pod, entry.removeprefix("/"))
        assert response["allowed"], response
        calls = iter(called)
        for name in [name for of, name in PATH if of == entry]:
            assert code_of(name) in calls, f"docs/architecture.md: {entry} does not call {name} at this place"
        pod = jsonpatch.apply_patch(pod, json.loads(base64.b64decode(response.get("patch", "W10="))))
    assert namespace.charged == ["1"]
