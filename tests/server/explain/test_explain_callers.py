"""Callers of explanations in a live cluster: tokens, client certificates and the right in RBAC."""

import json

import pytest
from aiohttp import web

from tests.server.explain.rights import ACCOUNT, TOKENS, ask, refused
from webhook.server.explain_gate import LARGEST_TOKEN

NO_CREDENTIALS = (
    "Explanations are for users of the cluster only; call with a token, as in "
    'curl -H "Authorization: Bearer $(kubectl create token NAME)" with the name of a service account.\n'
)


NO_TOKEN = "The Authorization header holds no bearer token; send one, as in Authorization: Bearer TOKEN.\n"


async def test_user_whom_rbac_allows_it_gets_an_explanation(live):
    answer = await ask(live.explain_client, ACCOUNT)
    assert answer.status == 200
    assert json.loads(answer.text)[0]["verdict"] == "fits"


async def test_authorizer_gets_the_user_the_groups_and_the_path(live, rights):
    await ask(live.explain_client, f"{ACCOUNT},friends")
    assert rights.asked == [
        {
            "user": ACCOUNT,
            "groups": ["friends", "system:serviceaccounts", "system:serviceaccounts:team-a", "system:authenticated"],
            "uid": "",
            "extra": {},
            "nonResourceAttributes": {"path": "/v1/explain", "verb": "post"},
        }
    ]


async def test_uid_and_extra_of_the_user_are_sent_to_the_authorizer(live, api, rights):
    user = {"username": ACCOUNT, "uid": "u-1", "extra": {"example.com/scopes": ["a", "b"]}}

    async def answer(request, handler):
        review = {**await request.json(), "status": {"authenticated": True, "user": user}}
        return web.json_response(review, status=201)

    api.faults.add(answer, path=TOKENS)
    assert (await ask(live.explain_client, "a-token")).status == 200
    (spec,) = rights.asked
    assert (spec["user"], spec["groups"], spec["uid"]) == (ACCOUNT, [], "u-1")
    assert spec["extra"] == {"example.com/scopes": ["a", "b"]}


async def test_refusal_of_a_call_without_credentials_says_how_to_get_some(live, asked):
    answer = await ask(live.explain_client)
    assert refused(answer) == (401, NO_CREDENTIALS)
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert asked("tokenreviews") == asked("subjectaccessreviews") == 0


async def test_token_that_the_api_server_does_not_know_is_refused(live, asked):
    answer = await ask(live.explain_client, ",unknown")
    assert refused(answer) == (
        401,
        (
            "The API server does not know the bearer token, or it has expired; get another one, as from kubectl create "
            "token NAME.\n"
        ),
    )
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert asked("subjectaccessreviews") == 0


async def test_reason_why_a_token_is_not_accepted_is_for_the_log(live, lines):
    await ask(live.explain_client, ",unknown")
    (line,) = lines("gpu_admission.cluster", level="info")
    assert line["message"] == "the API server does not accept a bearer token: invalid bearer token"


@pytest.mark.parametrize(
    "header",
    ["Basic YTpi", "Bearer", "Bearer a b", ACCOUNT, "Bearer t\u00f6ken"],
    ids=["basic", "nothing", "two words", "no scheme", "umlaut"],
)
async def test_header_without_a_bearer_token_is_refused_at_once(live, asked, header):
    assert refused(await ask(live.explain_client, Authorization=header)) == (401, NO_TOKEN)
    assert asked("tokenreviews") == 0


async def test_two_tokens_are_refused(live, wire, client_context, asked):
    connection = await wire(live.explain_port)
    await connection.send(
        b"POST /v1/explain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
        b"Authorization: Bearer one\r\nAuthorization: Bearer two\r\n\r\n{}"
    )
    assert (await connection.head()).startswith("HTTP/1.1 401 ")
    assert asked("tokenreviews") == 0


async def test_token_of_sixteen_kibibytes_is_reviewed(live, asked):
    assert (await ask(live.explain_client, "t" * LARGEST_TOKEN)).status == 403
    assert asked("tokenreviews") == 1


async def test_absurd_token_is_refused_at_once(live, asked):
    assert refused(await ask(live.explain_client, "t" * (LARGEST_TOKEN + 1))) == (
        401,
        "The bearer token is too long: the maximum is 16 KiB.\n",
    )
    assert asked("tokenreviews") == 0


FORBIDDEN = (
    "The user {} may not see who holds which devices; an administrator allows it with kubectl create "
    "clusterrolebinding explain --clusterrole=gpu-admission-explain {}.\n"
)


@pytest.mark.parametrize(
    ("name", "subject"),
    [
        ("alice@example.com", "--user=alice@example.com"),
        ("oidc:bob;reboot", "--user='oidc:bob;reboot'"),
        ("system:serviceaccount:team-b:default", "--serviceaccount=team-b:default"),
        ("system:serviceaccount:team-b", "--user=system:serviceaccount:team-b"),
        ("system:node:a", "--user=system:node:a"),
    ],
)
async def test_refusal_of_a_user_without_the_right_names_the_binding(live, name, subject):
    assert refused(await ask(live.explain_client, name)) == (403, FORBIDDEN.format(json.dumps(name), subject))


async def test_very_long_name_is_cut(live):
    assert refused(await ask(live.explain_client, "n" * 300)) == (
        403,
        FORBIDDEN.format(json.dumps("n" * 253 + "..."), "--user=NAME"),
    )


async def test_caller_is_refused_before_its_body_is_read(live, wire):
    connection = await wire(live.explain_port)
    await connection.send(
        b"POST /v1/explain HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 99999999\r\n"
        b"Authorization: Bearer mallory\r\n\r\n"
    )
    assert (await connection.head()).startswith("HTTP/1.1 403 ")


async def test_client_certificate_is_no_user(live, client_of, client_context, asked):
    """A call through the API server's proxy comes over a connection of the API server."""
    client = await client_of(live.explain_port, client_context("kube-apiserver"))
    assert refused(await ask(client)) == (401, NO_CREDENTIALS)
    assert asked("subjectaccessreviews") == 0


async def test_right_to_explain_does_not_allow_entries_with_effects(live, pod, review_of):
    body = json.dumps(review_of(pod())).encode()
    answer = await live.client.post("/convert-pods", body, headers={"Authorization": f"Bearer {ACCOUNT}"})
    assert answer.status == 403
