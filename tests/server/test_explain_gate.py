"""Who gets explanations in a live cluster: whom the API server knows, and whom RBAC allows it."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from certs import issue_serving
from tests.sandbox.faults import FaultySandbox, dropped, failing, html, too_many
from webhook.cluster.client import APIClient
from webhook.cluster.clockwork import Clockwork
from webhook.cluster.reviews import SubjectAccess, TokenAuthenticator
from webhook.cluster.shared_reviews import MOST_PENDING
from webhook.server.delegated_gate import LARGEST_TOKEN, DelegatedGate

PATH = "/v1/explain"
ACCOUNT = "system:serviceaccount:team-a:dashboard"
OURS = "system:serviceaccount:gpu-admission:gpu-admission"
QUESTION = {
    "object": {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "gpu", "namespace": "team-a"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
    }
}
TOKENS, ACCESS = "*/tokenreviews", "*/subjectaccessreviews"
NO_CREDENTIALS = (
    "/v1/explain tells who holds which devices and answers only to users of the cluster; call with a token, as in "
    'curl -H "Authorization: Bearer $(kubectl create token NAME)" with the name of a service account.\n'
)
NO_TOKEN = "The Authorization header holds no bearer token; send one, as in Authorization: Bearer TOKEN.\n"
AWAY = (
    "The API server could not be asked who you are and what you may; ask again in a moment, or look for the reason in "
    "this server's log.\n"
)
LATE = "The API server did not say before the call's timeout who you are and what you may; ask again in a moment.\n"


class Rights:
    """What the sandbox's authorizer grants, and what it was asked."""

    def __init__(self):
        self.names = {ACCOUNT}
        self.asked = []

    def __call__(self, spec):
        self.asked.append(spec)
        return spec["user"] in self.names


class Clock:
    """A clock that stands until it is moved on; and a rest that takes no time."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def rights():
    return Rights()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def api(rights, authority):
    """An API server over TLS."""
    server = FaultySandbox(seed=1, allows=rights)
    pair = issue_serving(authority, ["127.0.0.1"], now=datetime.now(UTC))
    await server.start(tls=pair, authority=authority.certificate_pem)
    yield server
    await server.stop()


@pytest.fixture
async def gate(api, clock, tmp_path):
    file = tmp_path / "kubeconfig"
    file.write_text(api.kubeconfig(OURS))
    client = await APIClient.connect(str(file))
    clockwork = Clockwork(clock=clock)
    yield DelegatedGate(TokenAuthenticator(client, clockwork=clockwork), SubjectAccess(client, clockwork=clockwork))
    await client.close()


@pytest.fixture
async def live(start_webhook, gate):
    """A webhook that asks the API server about callers, and verifies their certificates."""
    return await start_webhook(gate=gate, allowed=["kube-apiserver"])


@pytest.fixture
def asked(api):
    """How often the API server was asked for a review."""

    def count(plural):
        return sum((each.verb, each.resource) == ("create", plural) for each in api.requests)

    return count


async def ask(client, token=None, query="", **headers):
    headers |= {} if token is None else {"Authorization": f"Bearer {token}"}
    return await client.post(PATH + query, json.dumps(QUESTION).encode(), headers=headers)


def refused(answer):
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    return answer.status, answer.text


async def test_user_whom_rbac_allows_it_gets_an_explanation(live):
    answer = await ask(live.client, ACCOUNT)
    assert answer.status == 200
    assert json.loads(answer.text)[0]["verdict"] == "fits"


async def test_authorizer_is_asked_about_the_user_with_groups_and_the_path(live, rights):
    await ask(live.client, f"{ACCOUNT},friends")
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
    assert (await ask(live.client, "a-token")).status == 200
    (spec,) = rights.asked
    assert (spec["user"], spec["groups"], spec["uid"]) == (ACCOUNT, [], "u-1")
    assert spec["extra"] == {"example.com/scopes": ["a", "b"]}


async def test_refusal_of_a_call_without_credentials_says_how_to_get_some(live, asked):
    answer = await ask(live.client)
    assert refused(answer) == (401, NO_CREDENTIALS)
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert asked("tokenreviews") == asked("subjectaccessreviews") == 0


async def test_token_that_the_api_server_does_not_know_is_refused(live, asked):
    answer = await ask(live.client, ",nobody")
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
    await ask(live.client, ",nobody")
    (line,) = lines("gpu_admission.cluster", level="info")
    assert line["message"] == "the API server does not accept a bearer token: invalid bearer token"


@pytest.mark.parametrize(
    "header",
    ["Basic YTpi", "Bearer", "Bearer a b", ACCOUNT, "Bearer t\u00f6ken"],
    ids=["basic", "nothing", "two words", "no scheme", "umlaut"],
)
async def test_header_without_a_bearer_token_is_refused_at_once(live, asked, header):
    assert refused(await ask(live.client, Authorization=header)) == (401, NO_TOKEN)
    assert asked("tokenreviews") == 0


async def test_two_tokens_are_none(live, wire, client_context, asked):
    connection = await wire(live.port)
    await connection.send(
        b"POST /v1/explain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
        b"Authorization: Bearer one\r\nAuthorization: Bearer two\r\n\r\n{}"
    )
    assert (await connection.head()).startswith("HTTP/1.1 401 ")
    assert asked("tokenreviews") == 0


async def test_token_of_sixteen_kibibytes_is_asked_about(live, asked):
    assert (await ask(live.client, "t" * LARGEST_TOKEN)).status == 403
    assert asked("tokenreviews") == 1


async def test_absurd_token_is_refused_at_once(live, asked):
    assert refused(await ask(live.client, "t" * (LARGEST_TOKEN + 1))) == (
        401,
        "The bearer token is longer than 16 KiB, and no cluster makes such; send the one you were given.\n",
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
    assert refused(await ask(live.client, name)) == (403, FORBIDDEN.format(json.dumps(name), subject))


async def test_very_long_name_is_cut(live):
    assert refused(await ask(live.client, "n" * 300)) == (
        403,
        FORBIDDEN.format(json.dumps("n" * 253 + "..."), "--user=NAME"),
    )


async def test_caller_is_refused_before_its_body_is_read(live, wire):
    connection = await wire(live.port)
    await connection.send(
        b"POST /v1/explain HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 99999999\r\n"
        b"Authorization: Bearer mallory\r\n\r\n"
    )
    assert (await connection.head()).startswith("HTTP/1.1 403 ")


@pytest.fixture
def context_of(client_context, client_authority, tmp_path):
    """A TLS context that shows a certificate with a name and organizations."""

    def build(name, *organizations):
        now, key = datetime.now(UTC), ec.generate_private_key(ec.SECP256R1())
        attributes = [(NameOID.ORGANIZATION_NAME, each) for each in organizations] + [(NameOID.COMMON_NAME, name)]
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(*each) for each in attributes]))
            .issuer_name(client_authority.chain[0].subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .sign(client_authority.private_key, SHA256())
        )
        file = tmp_path / "user.pem"
        file.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            + certificate.public_bytes(Encoding.PEM)
        )
        context = client_context()
        context.load_cert_chain(file)
        return context

    return build


async def test_client_certificate_stands_for_a_user_and_groups(live, client_of, context_of, rights, asked):
    rights.names = {"alice"}
    client = await client_of(live.port, context_of("alice", "admins", "team-a"))
    assert (await ask(client)).status == 200
    (spec,) = rights.asked
    assert (spec["user"], spec["groups"]) == ("alice", ["admins", "team-a", "system:authenticated"])
    assert asked("tokenreviews") == 0


async def test_client_certificate_is_no_right(live, client_of, context_of):
    client = await client_of(live.port, context_of("kube-apiserver"))
    assert refused(await ask(client)) == (403, FORBIDDEN.format('"kube-apiserver"', "--user=kube-apiserver"))


async def test_client_certificate_goes_before_a_token(live, client_of, context_of):
    client = await client_of(live.port, context_of("alice"))
    assert refused(await ask(client, ACCOUNT))[1].startswith('The user "alice" may not ')


async def test_right_to_explain_is_none_to_call_entries_with_effects(live, pod, review_of):
    body = json.dumps(review_of(pod())).encode()
    answer = await live.client.post("/conversion", body, headers={"Authorization": f"Bearer {ACCOUNT}"})
    assert answer.status == 403


async def test_answers_hold_for_ten_seconds(live, clock, asked):
    for clock.seconds in (0, 9.9, 10, 19.9):
        assert (await ask(live.client, ACCOUNT)).status == 200
    assert asked("tokenreviews") == asked("subjectaccessreviews") == 2


async def test_refusals_hold_for_ten_seconds(live, clock, rights, asked):
    rights.names = set()
    assert (await ask(live.client, ACCOUNT)).status == 403
    rights.names = {ACCOUNT}
    clock.seconds = 9.9
    assert (await ask(live.client, ACCOUNT)).status == 403
    clock.seconds = 10
    assert (await ask(live.client, ACCOUNT)).status == 200
    assert asked("subjectaccessreviews") == 2


async def test_withdrawn_right_is_gone_after_ten_seconds(live, clock, rights):
    assert (await ask(live.client, ACCOUNT)).status == 200
    rights.names = set()
    clock.seconds = 10
    assert (await ask(live.client, ACCOUNT)).status == 403


async def test_one_user_s_right_is_not_another_s(live):
    assert (await ask(live.client, ACCOUNT)).status == 200
    assert (await ask(live.client, f"{ACCOUNT}x")).status == 403


async def test_equal_calls_at_a_time_are_one_review(live, api, asked):
    gate = asyncio.Event()

    async def held(request, handler):
        await gate.wait()
        return await handler(request)

    fault = api.faults.add(held, path=TOKENS)
    calls = [asyncio.create_task(ask(live.client, ACCOUNT)) for _ in range(5)]
    while not fault.hits:  # noqa: ASYNC110 - the sandbox sets no event
        await asyncio.sleep(0)
    gate.set()
    assert [answer.status for answer in await asyncio.gather(*calls)] == [200] * 5
    assert asked("tokenreviews") == asked("subjectaccessreviews") == 1


@pytest.mark.parametrize("path", [TOKENS, ACCESS])
@pytest.mark.parametrize("fault", [failing(500), failing(403, "no"), html(502)], ids=["500", "403", "a proxy"])
async def test_api_server_that_does_not_answer_is_no_right(live, api, path, fault):
    api.faults.add(fault, path=path)
    answer = await ask(live.client, ACCOUNT)
    assert refused(answer) == (503, AWAY)
    assert answer.headers["Retry-After"] == "1"


async def test_api_server_that_is_away_is_unavailable_and_asked_again(live, api):
    await api.stop()
    assert refused(await ask(live.client, ACCOUNT)) == (503, AWAY)


@pytest.mark.parametrize("path", [TOKENS, ACCESS])
async def test_connection_that_breaks_off_once_is_not_noticed(live, api, path):
    api.faults.add(dropped(), path=path, count=1)
    assert (await ask(live.client, ACCOUNT)).status == 200


async def test_failure_is_not_kept(live, api):
    api.faults.add(failing(), path=TOKENS, count=1)
    assert (await ask(live.client, ACCOUNT)).status == 503
    assert (await ask(live.client, ACCOUNT)).status == 200


async def test_pause_that_the_api_server_wants_is_passed_on(live, api):
    api.faults.add(too_many(retry_after=7), path=ACCESS)
    assert (await ask(live.client, ACCOUNT)).headers["Retry-After"] == "7"


async def test_reason_of_a_failure_is_for_the_log(live, api, lines):
    api.faults.add(failing(403, "tokenreviews is forbidden"), path=TOKENS)
    await ask(live.client, ACCOUNT)
    first, second = lines(level="warning")
    assert first["message"] == "the API server could not identify or authorize a caller: tokenreviews is forbidden"
    assert second["message"] == f"turned down: {AWAY[:-1]}"


async def test_api_server_that_takes_too_long_is_not_waited_for(live, api):
    gate = asyncio.Event()

    async def held(request, handler):
        await gate.wait()
        return await handler(request)

    api.faults.add(held, path=ACCESS)
    answer = await ask(live.client, ACCOUNT, "?timeout=200ms")
    assert refused(answer) == (503, LATE)
    assert answer.headers["Retry-After"] == "1"
    gate.set()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (TOKENS, None),
        (TOKENS, "authenticated"),
        (TOKENS, {"authenticated": True}),
        (TOKENS, {"authenticated": True, "user": {"username": ""}}),
        (TOKENS, {"authenticated": True, "user": {"username": ACCOUNT, "groups": "all"}}),
        (ACCESS, None),
        (ACCESS, {"allowed": "yes"}),
    ],
)
async def test_answer_that_says_nothing_is_no_right(live, api, path, status):
    async def answer(request, handler):
        return web.json_response({**await request.json(), "status": status}, status=201)

    api.faults.add(answer, path=path)
    answer = await ask(live.client, ACCOUNT)
    assert refused(answer) == (503, AWAY)


async def test_denial_goes_before_an_allowance(live, api):
    async def answer(request, handler):
        return web.json_response({**await request.json(), "status": {"allowed": True, "denied": True}}, status=201)

    api.faults.add(answer, path=ACCESS)
    assert (await ask(live.client, ACCOUNT)).status == 403


async def test_authorizer_that_cannot_tell_is_a_line_of_the_log(live, api, lines):
    async def answer(request, handler):
        status = {"allowed": False, "evaluationError": "webhook is away\nnow"}
        return web.json_response({**await request.json(), "status": status}, status=201)

    api.faults.add(answer, path=ACCESS)
    await ask(live.client, ACCOUNT)
    (line,) = lines("gpu_admission.cluster", level="warning")
    assert line["message"] == "an authorizer failed: webhook is away now"


async def test_made_up_tokens_reach_the_api_server_a_few_at_a_time(live, api, until):
    gate, under_way = asyncio.Event(), []

    async def held(request, handler):
        under_way.append(request)
        await gate.wait()
        return await handler(request)

    api.faults.add(held, path=TOKENS)
    calls = [asyncio.create_task(ask(live.client, f"t{number}", "?timeout=30s")) for number in range(MOST_PENDING + 1)]
    (turned_away,), rest = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    await until(lambda: len(under_way) >= 4)
    assert refused(turned_away.result()) == (
        503,
        "Too many token and access reviews are pending; try again in a moment.\n",
    )
    assert len(under_way) == 4
    for call in rest:
        call.cancel()
    await asyncio.wait(rest)
    gate.set()


async def test_tokens_are_in_no_line_of_the_log(live, api, caplog):
    caplog.set_level("DEBUG")
    for token in (f"{ACCOUNT},s3cret", "mallory,s3cret", ",s3cret"):
        await ask(live.client, token)
    api.faults.add(failing(), path=TOKENS)
    await ask(live.client, "other,s3cret")
    assert caplog.records
    assert "s3cret" not in "".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)


async def test_user_is_in_the_line_of_the_log(live, lines):
    await ask(live.client, ACCOUNT)
    (line,) = lines(message="explained")
    assert line["user"] == ACCOUNT


async def test_callers_are_counted_by_what_was_found_out(live, api):
    await ask(live.client)
    await ask(live.client, "mallory")
    await ask(live.client, ACCOUNT)
    await ask(live.client, ACCOUNT)
    api.faults.add(failing(), path=TOKENS)
    await ask(live.client, "other")
    text = live.metrics.text().decode()
    counted = {"allowed": 2, "unauthenticated": 1, "forbidden": 1, "unavailable": 1}
    for outcome, count in counted.items():
        assert f'gpu_admission_explanation_callers_total{{outcome="{outcome}"}} {count}.0' in text
    assert 'gpu_admission_explanations_total{outcome="turned_down"} 2.0' in text
    assert 'gpu_admission_explanations_total{outcome="unavailable"} 1.0' in text


async def test_api_server_is_requested_nothing_but_reviews(live, api):
    await ask(live.client, ACCOUNT)
    assert {(each.user, each.verb, each.group, each.resource) for each in api.requests} == {
        (OURS, "create", "authentication.k8s.io", "tokenreviews"),
        (OURS, "create", "authorization.k8s.io", "subjectaccessreviews"),
    }
