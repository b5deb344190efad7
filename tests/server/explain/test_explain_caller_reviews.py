"""TokenReviews and SubjectAccessReviews for explanations: cached, shared, and failures of the API server."""

import asyncio

import pytest
from aiohttp import web

from tests.sandbox.faults import dropped, failing, html, too_many
from tests.server.explain.rights import ACCESS, ACCOUNT, OURS, TOKENS, ask, refused
from webhook.cluster.caller_reviews import MOST_PENDING

AWAY = (
    "The API server could not identify or authorize you; try again in a moment, or look for the reason in "
    "this server's log.\n"
)


LATE = "The API server did not authenticate and authorize you in time; try again in a moment.\n"


async def test_answers_hold_for_ten_seconds(live, clock, asked):
    for clock.seconds in (0, 9.9, 10, 19.9):
        assert (await ask(live.explain_client, ACCOUNT)).status == 200
    assert asked("tokenreviews") == asked("subjectaccessreviews") == 2


async def test_refusals_hold_for_ten_seconds(live, clock, rights, asked):
    rights.names = set()
    assert (await ask(live.explain_client, ACCOUNT)).status == 403
    rights.names = {ACCOUNT}
    clock.seconds = 9.9
    assert (await ask(live.explain_client, ACCOUNT)).status == 403
    clock.seconds = 10
    assert (await ask(live.explain_client, ACCOUNT)).status == 200
    assert asked("subjectaccessreviews") == 2


async def test_withdrawn_right_is_gone_after_ten_seconds(live, clock, rights):
    assert (await ask(live.explain_client, ACCOUNT)).status == 200
    rights.names = set()
    clock.seconds = 10
    assert (await ask(live.explain_client, ACCOUNT)).status == 403


async def test_one_user_s_right_is_not_another_s(live):
    assert (await ask(live.explain_client, ACCOUNT)).status == 200
    assert (await ask(live.explain_client, f"{ACCOUNT}x")).status == 403


async def test_equal_calls_at_a_time_are_one_review(live, api, asked):
    gate = asyncio.Event()

    async def held(request, handler):
        await gate.wait()
        return await handler(request)

    fault = api.faults.add(held, path=TOKENS)
    calls = [asyncio.create_task(ask(live.explain_client, ACCOUNT)) for _ in range(5)]
    while not fault.hits:  # noqa: ASYNC110 - the sandbox sets no event
        await asyncio.sleep(0)
    gate.set()
    assert [answer.status for answer in await asyncio.gather(*calls)] == [200] * 5
    assert asked("tokenreviews") == asked("subjectaccessreviews") == 1


@pytest.mark.parametrize("path", [TOKENS, ACCESS])
@pytest.mark.parametrize("fault", [failing(500), failing(403, "no"), html(502)], ids=["500", "403", "a proxy"])
async def test_api_server_that_does_not_answer_is_no_right(live, api, path, fault):
    api.faults.add(fault, path=path)
    answer = await ask(live.explain_client, ACCOUNT)
    assert refused(answer) == (503, AWAY)
    assert answer.headers["Retry-After"] == "1"


async def test_api_server_that_is_away_is_unavailable_and_asked_again(live, api):
    await api.stop()
    assert refused(await ask(live.explain_client, ACCOUNT)) == (503, AWAY)


@pytest.mark.parametrize("path", [TOKENS, ACCESS])
async def test_connection_that_breaks_off_once_is_not_noticed(live, api, path):
    api.faults.add(dropped(), path=path, count=1)
    assert (await ask(live.explain_client, ACCOUNT)).status == 200


async def test_failure_is_not_kept(live, api):
    api.faults.add(failing(), path=TOKENS, count=1)
    assert (await ask(live.explain_client, ACCOUNT)).status == 503
    assert (await ask(live.explain_client, ACCOUNT)).status == 200


async def test_pause_that_the_api_server_wants_is_passed_on(live, api):
    api.faults.add(too_many(retry_after=7), path=ACCESS)
    assert (await ask(live.explain_client, ACCOUNT)).headers["Retry-After"] == "7"


async def test_reason_of_a_failure_is_for_the_log(live, api, lines):
    api.faults.add(failing(403, "tokenreviews is forbidden"), path=TOKENS)
    await ask(live.explain_client, ACCOUNT)
    first, second = lines(level="warning")
    assert first["message"] == "the API server could not identify or authorize a caller: tokenreviews is forbidden"
    assert second["message"] == f"turned down: {AWAY[:-1]}"


async def test_api_server_that_takes_too_long_is_not_waited_for(live, api):
    gate = asyncio.Event()

    async def held(request, handler):
        await gate.wait()
        return await handler(request)

    api.faults.add(held, path=ACCESS)
    answer = await ask(live.explain_client, ACCOUNT, "?timeout=200ms")
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
    answer = await ask(live.explain_client, ACCOUNT)
    assert refused(answer) == (503, AWAY)


async def test_denial_goes_before_an_allowance(live, api):
    async def answer(request, handler):
        return web.json_response({**await request.json(), "status": {"allowed": True, "denied": True}}, status=201)

    api.faults.add(answer, path=ACCESS)
    assert (await ask(live.explain_client, ACCOUNT)).status == 403


async def test_error_of_the_authorizer_is_logged(live, api, lines):
    async def answer(request, handler):
        status = {"allowed": False, "evaluationError": "webhook is away\nnow"}
        return web.json_response({**await request.json(), "status": status}, status=201)

    api.faults.add(answer, path=ACCESS)
    await ask(live.explain_client, ACCOUNT)
    (line,) = lines("gpu_admission.cluster", level="warning")
    assert line["message"] == "an authorizer failed: webhook is away now"


async def test_made_up_tokens_reach_the_api_server_a_few_at_a_time(live, api, until):
    gate, under_way = asyncio.Event(), []

    async def held(request, handler):
        under_way.append(request)
        await gate.wait()
        return await handler(request)

    api.faults.add(held, path=TOKENS)
    calls = [
        asyncio.create_task(ask(live.explain_client, f"t{number}", "?timeout=30s"))
        for number in range(MOST_PENDING + 1)
    ]
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
        await ask(live.explain_client, token)
    api.faults.add(failing(), path=TOKENS)
    await ask(live.explain_client, "other,s3cret")
    assert caplog.records
    assert "s3cret" not in "".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)


async def test_user_is_in_the_line_of_the_log(live, lines):
    await ask(live.explain_client, ACCOUNT)
    (line,) = lines(message="explained")
    assert line["user"] == ACCOUNT


async def test_callers_are_counted_by_what_was_found_out(live, api):
    await ask(live.explain_client)
    await ask(live.explain_client, "mallory")
    await ask(live.explain_client, ACCOUNT)
    await ask(live.explain_client, ACCOUNT)
    api.faults.add(failing(), path=TOKENS)
    await ask(live.explain_client, "other")
    text = live.metrics.exposition().text().decode()
    counted = {"allowed": 2, "unauthenticated": 1, "forbidden": 1, "unavailable": 1}
    for outcome, count in counted.items():
        assert f'gpu_admission_explanation_callers_total{{outcome="{outcome}"}} {count}.0' in text
    assert 'gpu_admission_explanations_total{outcome="turned_down"} 2.0' in text
    assert 'gpu_admission_explanations_total{outcome="unavailable"} 1.0' in text


async def test_api_server_is_requested_nothing_but_reviews(live, api):
    await ask(live.explain_client, ACCOUNT)
    assert {(each.user, each.verb, each.group, each.resource) for each in api.requests} == {
        (OURS, "create", "authentication.k8s.io", "tokenreviews"),
        (OURS, "create", "authorization.k8s.io", "subjectaccessreviews"),
    }
