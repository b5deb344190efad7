"""Explanations for users of one namespace: the right in RBAC, the namespace of the path, and what is not named."""

import asyncio
import json

import pytest

from tests.server.explain.rights import ACCOUNT, QUESTION, refused
from webhook.cluster.manifests import ManifestsView
from webhook.server.explain_gate import HEADER
from webhook.server.questions import MOST_OF_ONE_NAMESPACE, MOST_OF_ONE_USER, namespaced_path

ALICE = "alice"
PATH = namespaced_path("team-a")


@pytest.fixture(autouse=True)
def member(rights):
    """Alice may get explanations in `team-a`, and nothing else."""
    rights.members = {(ALICE, "team-a")}


async def ask(client, question=QUESTION, user=ALICE, path=PATH, header=HEADER):
    return await client.post(path, json.dumps(question).encode(), headers={header: f"Bearer {user}"})


async def test_member_of_a_namespace_gets_an_explanation(live):
    answer = await ask(live.explain_client)
    assert answer.status == 200
    (explanation,) = json.loads(answer.text)
    assert explanation["verdict"] == "fits"


@pytest.mark.parametrize("header", [HEADER, "Authorization"])
async def test_token_comes_in_either_header(live, header):
    assert (await ask(live.explain_client, header=header)).status == 200


async def test_header_that_passes_through_the_api_server_counts(live):
    headers = {"Authorization": f"Bearer {ALICE}", HEADER: "Bearer mallory"}
    answer = await live.explain_client.post(PATH, json.dumps(QUESTION).encode(), headers=headers)
    assert answer.status == 403


async def test_authorizer_is_asked_for_a_right_in_the_namespace(live, rights):
    await ask(live.explain_client)
    asked = [{key: value for key, value in spec.items() if key.endswith("Attributes")} for spec in rights.asked]
    explanations = {"group": "gpu-admission.io", "resource": "gpuexplanations", "version": "v1alpha1"}
    assert asked == [
        {"nonResourceAttributes": {"path": "/v1/explain", "verb": "post"}},
        {"resourceAttributes": {"verb": "get", "namespace": "team-a", **explanations}},
        {"resourceAttributes": {"verb": "list", "resource": "nodes"}},
    ]


@pytest.mark.parametrize("user", ["bob", "system:serviceaccount:team-b:default"])
async def test_refusal_names_the_right_and_how_to_grant_it(live, user):
    subject = "--user=bob" if user == "bob" else "--serviceaccount=team-b:default"
    assert refused(await ask(live.explain_client, user=user)) == (
        403,
        (
            f'The user "{user}" may not get gpuexplanations.gpu-admission.io in namespace team-a; an administrator allows '
            f"it with kubectl create rolebinding explain -n team-a --clusterrole=gpu-admission-explain-view {subject}.\n"
        ),
    )


async def test_right_in_one_namespace_is_none_in_another(live):
    assert (await ask(live.explain_client, path=namespaced_path("team-b"))).status == 403


async def test_right_in_a_namespace_is_none_for_everything(live):
    assert (await ask(live.explain_client, path="/v1/explain")).status == 403


async def test_member_is_refused_before_its_body_is_read(live, wire):
    connection = await wire(live.explain_port)
    await connection.send(
        b"POST /v1/namespaces/team-b/explain HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
        b"Content-Length: 99999999\r\nGpu-Admission-Authorization: Bearer alice\r\n\r\n"
    )
    assert (await connection.head()).startswith("HTTP/1.1 403 ")


@pytest.mark.parametrize(
    "question",
    [
        {"object": {**QUESTION["object"], "metadata": {"name": "gpu", "namespace": "team-b"}}},
        {**QUESTION, "namespace": "team-b"},
        {"kind": "pod", "name": "train", "namespace": "team-b"},
    ],
    ids=["in the object", "beside the object", "of a name"],
)
async def test_question_about_another_namespace_is_refused(live, question):
    assert refused(await ask(live.explain_client, question)) == (
        400,
        'The question is about namespace "team-b"; ask it at the path of that namespace.\n',
    )


async def test_template_of_a_workload_cannot_choose_another_namespace(live):
    template = {"metadata": {"namespace": "team-b"}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}
    (explanation,) = json.loads((await ask(live.explain_client, {"object": job})).text)
    assert explanation["label"] == "Job team-a/j"
    assert "team-b" not in json.dumps(explanation)


async def test_nodes_are_counted(live):
    (explanation,) = json.loads((await ask(live.explain_client)).text)
    assert all(group["nodes"] == [] for group in explanation["groups"])
    assert sum(group["count"] for group in explanation["groups"]) == explanation["nodes"] > 0
    assert "node-" not in json.dumps(explanation)


async def test_nodes_are_named_to_a_user_who_may_list_them(live, rights):
    rights.node_viewers = {ALICE}
    (explanation,) = json.loads((await ask(live.explain_client)).text)
    assert explanation["groups"][0]["nodes"]


async def test_user_with_the_wider_right_keeps_it(live):
    (explanation,) = json.loads((await ask(live.explain_client, user=ACCOUNT)).text)
    assert explanation["groups"][0]["nodes"]


async def test_missing_object_is_not_looked_for_in_other_namespaces(start_webhook, gate):
    claims = [{**QUESTION["object"], "metadata": {"name": "gpu", "namespace": "team-b"}}]
    live = await start_webhook(view=ManifestsView(claims), gate=gate)
    question = {"kind": "claim", "name": "gpu"}
    assert refused(await ask(live.explain_client, question)) == (
        404,
        "ResourceClaim gpu in namespace team-a not found.\n",
    )
    answer = await ask(live.explain_client, question, user=ACCOUNT)
    assert refused(answer)[1].endswith("; one is in namespace team-b.\n")


async def test_user_has_few_questions_at_a_time(live, monkeypatch):
    answering = asyncio.Event()

    async def answer(*_):
        await answering.wait()
        raise TimeoutError

    explainer = live.explain_calls._questions.explainer
    monkeypatch.setattr(type(explainer), "answer", answer)
    asked = [asyncio.create_task(ask(live.explain_client)) for _ in range(MOST_OF_ONE_USER + 1)]
    done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
    assert [refused(task.result()) for task in done] == [
        (429, "You have 2 questions here already; wait for their answers.\n")
    ]
    answering.set()
    await asyncio.gather(*asked)


async def test_users_of_a_namespace_have_few_questions_at_a_time(live, rights, monkeypatch):
    """Who may create service accounts in a namespace can be many users."""
    answering = asyncio.Event()

    async def answer(*_):
        await answering.wait()
        raise TimeoutError

    monkeypatch.setattr(type(live.explain_calls._questions.explainer), "answer", answer)
    users = [f"system:serviceaccount:team-a:{number}" for number in range(MOST_OF_ONE_NAMESPACE + 1)]
    rights.members = {*((user, "team-a") for user in users), (ALICE, "team-b")}
    asked = [asyncio.create_task(ask(live.explain_client, user=user)) for user in users]
    done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
    assert [refused(task.result()) for task in done] == [
        (429, "This namespace has 4 questions here already; ask again in a moment.\n")
    ]
    elsewhere = asyncio.create_task(ask(live.explain_client, path=namespaced_path("team-b")))
    assert not (await asyncio.wait([elsewhere], timeout=0.1))[0]
    answering.set()
    await asyncio.gather(*asked, elsewhere)


async def test_user_has_a_rate(live, monkeypatch):
    # However long the calls take, no token comes back.
    monkeypatch.setattr(live.explain_calls._questions._limits._rates, "_clock", lambda: 0.0)
    answers = [await ask(live.explain_client, {"kind": "pod", "name": "none"}) for _ in range(31)]
    assert {answer.status for answer in answers[:-1]} == {404}
    assert refused(answers[-1]) == (429, "You may ask 30 questions a minute; ask again in a moment.\n")
    assert answers[-1].headers["Retry-After"] == "2"
    assert (await ask(live.explain_client, user=ACCOUNT)).status == 200


PATHS = [
    "/",
    "/metrics",
    "/readyz",
    "/livez",
    "/convert-pods",
    "/check-pods",
    "/nodes",
    "/v1",
    "/v1/explain/",
    "/v1/namespaces/team-a",
]


@pytest.mark.parametrize("path", [*PATHS, "/v1/namespaces//explain", "/v1/namespaces/A/explain"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_port_answers_nothing_else(live, path, method):
    answer = await live.explain_client.request(method, path, headers={HEADER: f"Bearer {ACCOUNT}"})
    assert refused(answer) == (
        404,
        "This port answers POST /v1/explain and POST /v1/fit, also below /v1/namespaces/NAMESPACE, and nothing else.\n",
    )


@pytest.mark.parametrize("path", ["/v1/explain", PATH])
async def test_port_of_the_webhook_explains_nothing(live, path):
    assert (await ask(live.client, user=ACCOUNT, path=path)).status == 404
