"""Requests and their answers: good ones, refusals, and what something in front of the API server says."""

import asyncio
import json

import pytest
from aiohttp import web

from webhook.cluster.answers import APIError, BadAnswer, Unreachable
from webhook.cluster.client import JSON_PATCH


@pytest.fixture
def answering(api, client):
    """A client of a server that gives this answer, once."""

    def answer_with(answer):
        async def give(server, request, *, is_watch):
            server.body = await request.read()
            return answer

        api.faults.append(give)
        return client

    return answer_with


async def test_get_gives_raw_json(api, client):
    api.put("a")
    page = await client.get("/api/v1/nodes", {"limit": "1"})
    assert page["items"][0]["metadata"]["name"] == "a"


async def test_request_carries_token_and_says_who_asks(api, client):
    await client.get("/api/v1/nodes")
    headers = api.requests[0].headers
    assert headers["Authorization"] == "Bearer secret"
    assert headers["User-Agent"].startswith("gpu-admission/")
    assert headers["Accept"] == "application/json"


async def test_query_is_quoted(api, answering):
    await answering(web.json_response({})).get(
        "/api/v1/nodes", {"labelSelector": "a in (b,c),d!=e+f&g", "continue": "eyJ2=="}
    )
    assert api.queries == [{"labelSelector": "a in (b,c),d!=e+f&g", "continue": "eyJ2=="}]


async def test_path_is_sent_as_it_is(api, client):
    await client.get("/api/v1/nodes/a%20b")
    assert api.requests[0].raw_path == "/api/v1/nodes/a%20b"


@pytest.mark.parametrize(
    ("method", "content_type"),
    [("post", "application/json"), ("put", "application/json"), ("patch", "application/merge-patch+json")],
)
async def test_body_is_sent_as_json(api, answering, method, content_type):
    client = answering(web.json_response({"done": True}, status=201))
    assert await getattr(client, method)("/api/v1/nodes", {"é": 1}, {"dryRun": "All"}) == {"done": True}
    request = api.requests[0]
    assert (request.method, request.content_type) == (method.upper(), content_type)
    assert json.loads(api.body) == {"é": 1}
    assert request.query["dryRun"] == "All"


async def test_json_patch_is_sent_as_one(api, answering):
    client = answering(web.json_response({}))
    await client.patch("/api/v1/nodes/a", [{"op": "test", "path": "/x", "value": 1}], content_type=JSON_PATCH)
    assert api.requests[0].content_type == "application/json-patch+json"


async def test_delete_may_have_a_body(api, answering):
    await answering(web.json_response({})).delete("/api/v1/nodes/a", {"preconditions": {"uid": "u"}})
    assert json.loads(api.body) == {"preconditions": {"uid": "u"}}


async def test_delete_without_a_body_sends_none(api, answering):
    await answering(web.json_response({})).delete("/api/v1/nodes/a")
    assert api.body == b""


async def test_empty_answer_is_none(answering):
    assert await answering(web.Response(status=200)).get("/api/v1/nodes") is None


@pytest.mark.parametrize(
    ("code", "reason", "named"),
    [
        (404, "NotFound", "is_not_found"),
        (403, "Forbidden", "is_forbidden"),
        (409, "AlreadyExists", "already_exists"),
        (409, "Conflict", "is_conflict"),
        (410, "Expired", "is_gone"),
        (429, "TooManyRequests", "is_too_many_requests"),
    ],
)
async def test_status_is_raised_in_the_servers_words(answering, answers, code, reason, named):
    with pytest.raises(APIError, match=r"^the words$") as caught:
        await answering(answers.status(code, reason, "the words")).get("/api/v1/nodes/a")
    properties = ["is_not_found", "is_forbidden", "already_exists", "is_conflict", "is_gone", "is_too_many_requests"]
    assert [name for name in properties if getattr(caught.value, name)] == [named]
    assert (caught.value.code, caught.value.reason, caught.value.message) == (code, reason, "the words")


@pytest.mark.parametrize(
    ("headers", "details", "seconds"),
    [
        ({"Retry-After": "3"}, {}, 3.0),
        ({}, {"retryAfterSeconds": 2}, 2.0),
        ({"Retry-After": "3"}, {"retryAfterSeconds": 2}, 3.0),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, {}, None),
        ({}, {"retryAfterSeconds": "soon"}, None),
    ],
    ids=str,
)
async def test_retry_after_is_passed_on(answering, answers, headers, details, seconds):
    with pytest.raises(APIError) as caught:
        await answering(answers.status(429, "TooManyRequests", "slow down", headers, **details)).get("/api/v1/nodes")
    assert caught.value.retry_after == seconds


async def test_odd_status_still_has_a_code_and_words(answering):
    odd = {"kind": "Status", "code": "bad", "reason": 5, "message": None, "details": []}
    with pytest.raises(APIError, match=r"^503 Service Unavailable$") as caught:
        await answering(web.json_response(odd, status=503)).get("/api/v1/nodes")
    assert (caught.value.code, caught.value.reason) == (503, "")


async def test_plain_text_of_the_api_server_is_an_error_of_it(api, answering):
    text = web.Response(status=429, text="Too many requests, please try again later.\n", headers={"Retry-After": "1"})
    with pytest.raises(APIError) as caught:
        await answering(text).get("/api/v1/nodes")
    assert str(caught.value) == f"GET /api/v1/nodes at {api.url}: Too many requests, please try again later."
    assert (caught.value.is_too_many_requests, caught.value.retry_after) == (True, 1.0)


async def test_404_of_an_api_that_is_not_served_is_not_found(answering):
    with pytest.raises(APIError) as caught:
        await answering(web.Response(status=404, text="404 page not found\n")).get("/apis/no/v1/things")
    assert caught.value.is_not_found


@pytest.mark.parametrize(
    "answer",
    [
        lambda: web.Response(status=404, text="default backend - 404"),
        lambda: web.Response(status=404, text="<html>no</html>", content_type="text/html"),
        lambda: web.json_response({"message": "no Route matched"}, status=404),
        lambda: web.Response(status=404),
    ],
    ids=["ingress", "html", "gateway", "empty"],
)
async def test_404_of_something_else_says_nothing_about_objects(answering, answer):
    with pytest.raises(Unreachable, match="something in front of the API server answered"):
        await answering(answer()).get("/api/v1/nodes/a")


async def test_html_is_quoted(api, answering):
    page = web.Response(status=502, text="<html>Bad\n Gateway</html>", content_type="text/html")
    with pytest.raises(Unreachable) as caught:
        await answering(page).get("/api/v1/nodes")
    assert str(caught.value) == (
        f"GET /api/v1/nodes at {api.url}: 502 Bad Gateway, with text/html: '<html>Bad Gateway</html>' instead of a "
        "Kubernetes Status; something in front of the API server answered"
    )


async def test_redirect_is_not_followed(api, answering):
    login = web.Response(status=302, headers={"Location": "https://login.example.com/"})
    with pytest.raises(Unreachable, match=r"302 Found to https://login\.example\.com/, with an empty"):
        await answering(login).get("/api/v1/nodes")
    assert len(api.requests) == 1


async def test_good_answer_that_is_no_json_is_a_bad_one(api, answering):
    with pytest.raises(BadAnswer) as caught:
        await answering(web.Response(text="<p>Log in</p>", content_type="text/html")).get("/api/v1/nodes")
    assert str(caught.value) == (f"GET /api/v1/nodes at {api.url}: expected JSON, got text/html: '<p>Log in</p>'")


async def test_error_says_that_an_answer_broke_off(api, client):
    async def break_off(server, request, *, is_watch):
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "100"})
        await response.prepare(request)
        await response.write(b'{"items":')
        request.transport.close()
        return response

    api.faults.append(break_off)
    with pytest.raises(Unreachable) as caught:
        await client.get("/api/v1/nodes")
    assert str(caught.value) == f"GET /api/v1/nodes at {api.url}: the connection broke off"


async def test_server_that_does_not_answer_is_left(api, client):
    released = asyncio.Event()

    async def hang(server, request, *, is_watch):
        await released.wait()

    api.faults.append(hang)
    with pytest.raises(Unreachable) as caught:
        await client.get("/api/v1/nodes", timeout=0.05)
    released.set()
    assert str(caught.value) == f"GET /api/v1/nodes at {api.url}: no answer within 0.05 seconds"


async def test_error_says_that_a_connection_was_refused(connecting, kubeconfig_of, api_serving):
    async with api_serving() as closed:
        url = closed.url
    async with connecting(kubeconfig_of(url)) as client:
        with pytest.raises(Unreachable) as caught:
            await client.get("/version")
    assert str(caught.value) == f"GET /version at {url}: no connection: Connection refused"


async def test_name_that_does_not_exist_is_named(connecting, kubeconfig_of):
    async with connecting(kubeconfig_of("http://nowhere.invalid:1")) as client:
        with pytest.raises(Unreachable) as caught:
            await client.get("/version")
    assert str(caught.value) == ("GET /version at http://nowhere.invalid:1: cannot resolve the name nowhere.invalid")


async def test_path_of_the_server_goes_before_every_path(api, connecting, kubeconfig_of):
    async with connecting(kubeconfig_of(f"{api.url}/k8s/clusters/c-1/")) as client:
        await client.get("/api/v1/nodes")
    assert api.requests[0].path == "/k8s/clusters/c-1/api/v1/nodes"


async def test_many_requests_share_a_bounded_number_of_connections(api, client):
    together, most, released = 0, 0, asyncio.Event()

    async def count(server, request, *, is_watch):
        nonlocal together, most
        together += 1
        most = max(most, together)
        if together == 32:
            released.set()
        await released.wait()
        together -= 1

    api.faults.extend([count] * 80)
    await asyncio.gather(*(client.get("/api/v1/nodes") for _ in range(80)))
    assert most == 32


async def test_watches_do_not_wait_for_requests(api, client):
    released, hanging = asyncio.Event(), asyncio.Semaphore(0)

    async def hang(server, request, *, is_watch):
        hanging.release()
        await released.wait()

    api.faults.extend([hang] * 32)
    requests = [asyncio.create_task(client.get("/api/v1/nodes")) for _ in range(32)]
    for _ in range(32):
        await hanging.acquire()
    events = [event async for event in client.watch("/api/v1/nodes", {"resourceVersion": "10000"}, read_timeout=5)]
    released.set()
    await asyncio.gather(*requests)
    assert events == []
