"""The number of further objects that fit, over HTTPS."""

import json

from policies.analyses.explain import Headroom, headroom
from policies.kubernetes.objects import json_document
from policies.rules.settings import DEFAULTS
from tests.server.explain.calls import CLAIM, answered, plain
from webhook.server.questions import namespaced_path

PATH = "/v1/fit"


async def ask(client, question, path=PATH):
    return await client.post(path, json.dumps(question).encode())


async def test_posted_pod_is_answered_as_in_the_command(caller, cluster, pod):
    (found,) = answered(await ask(caller, {"object": pod()}))
    assert found == json_document(headroom(pod(), "team-a", cluster, DEFAULTS), Headroom)
    assert (found["label"], found["more"]) == ("pod team-a/train", found["now"])


async def test_member_of_a_namespace_is_answered_at_its_path(caller, pod):
    (found,) = answered(await ask(caller, {"object": pod()}, namespaced_path("team-a", "fit")))
    assert found["headline"].endswith(f"the nodes have room for {found['now']}")


async def test_stranger_gets_no_answer(guarded, client_of, client_context):
    client = await client_of(guarded.explain_port, client_context("mallory"))
    assert "answers known clients only" in plain(await ask(client, {"object": CLAIM}), 403)


async def test_object_without_pods_is_refused(caller):
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "team-a"}}
    assert plain(await ask(caller, {"object": document}), 400).startswith("Objects of this kind are not scheduled; ask")
