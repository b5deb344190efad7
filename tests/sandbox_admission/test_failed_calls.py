"""Failed calls: the effect of failurePolicy, and the messages."""

import asyncio

import pytest
from aiohttp import web

from testbed.ports import free_ports


def failed(why):
    return f'Internal error occurred: failed calling webhook "a": {why}'


@pytest.fixture
def findings_of(validating, validate, attempt, pod, refusal):
    """The message of the refusal that a failed call leads to."""

    async def ask(**webhook):
        validating("a", **webhook)
        status = await refusal(validate(attempt(pod())))
        assert (status["code"], status["reason"]) == (500, "InternalError")
        assert status["details"] == {
            "causes": [{"message": status["message"].removeprefix("Internal error occurred: ")}]
        }
        return status["message"]

    return ask


def url(server, path="/a", host="localhost", timeout=10):
    return f'Post "https://{host}:{server.port}{path}?timeout={timeout}s"'


async def test_a_failed_call_refuses_by_default(findings_of, server):
    server.on("/a", lambda _: web.Response(status=500, text="boom"))
    assert await findings_of() == failed(
        'failed to call webhook: an error on the server ("boom") has prevented the request from succeeding'
    )


async def test_a_failed_call_is_ignored_where_it_may_be(annotations, validating, validate, attempt, pod, server):
    validating("a", failurePolicy="Ignore")
    server.on("/a", lambda _: web.Response(status=500))
    await validate(attempt(pod()))
    assert annotations["failed-open.validating.webhook.admission.k8s.io/round_0_index_0"] == ["a"]


async def test_a_mutating_call_that_fails_is_ignored_where_it_may_be(
    annotations, mutating, mutate, attempt, pod, server
):
    mutating("a", failurePolicy="Ignore")
    mutating("b")
    server.on("/a", lambda _: web.Response(status=500))
    await mutate(attempt(pod()))
    assert server.paths() == ["/a", "/b"]
    assert annotations["failed-open.mutation.webhook.admission.k8s.io/round_0_index_0"] == ["a"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        pytest.param({"status": 404}, "the server could not find the requested resource", id="404"),
        pytest.param({"status": 503}, "the server is currently unable to handle the request", id="503"),
        pytest.param({"status": 403, "text": "go away"}, "go away", id="403 keeps its text"),
        pytest.param(
            {"status": 302},
            "the server responded with the status code 302 but did not return more information",
            id="302",
        ),
        pytest.param(
            {"text": "<html>"},
            "couldn't get version/kind; json parse error: invalid character '<' looking for beginning of value",
            id="HTML",
        ),
        pytest.param(
            {"text": '{"kind"'}, "couldn't get version/kind; json parse error: unexpected end of JSON input", id="cut"
        ),
        pytest.param(
            {"text": "", "content_type": "application/json"},
            "0-length response with status code: 200 and content type: application/json; charset=utf-8",
            id="empty",
        ),
        pytest.param(
            {"status": 500, "text": '{"kind":"Status","status":"Failure","message":"a reason"}'},
            "a reason",
            id="Status",
        ),
    ],
)
async def test_invalid_answer_is_reported_as_by_client_go(findings_of, server, answer, why):
    server.on("/a", lambda _: web.Response(**answer))
    assert await findings_of() == failed(f"failed to call webhook: {why}")


async def test_a_webhook_that_does_not_answer_in_time_is_given_up(findings_of, server):
    never = asyncio.Event()
    server.on("/a", lambda _: never.wait())
    assert await findings_of(timeoutSeconds=1) == failed(
        f"failed to call webhook: {url(server, timeout=1)}: context deadline exceeded"
    )
    never.set()


async def test_a_webhook_that_is_not_there_is_reported_with_its_address(findings_of):
    (port,) = free_ports(1)
    where = {"clientConfig": {"url": f"https://127.0.0.1:{port}/a"}}
    assert await findings_of(**where) == failed(
        f'failed to call webhook: Post "https://127.0.0.1:{port}/a?timeout=10s": '
        f"dial tcp 127.0.0.1:{port}: connect: connection refused"
    )


async def test_a_certificate_of_another_authority_is_refused(findings_of, server, start_hooks, stranger):
    other = await start_hooks(issuer=stranger)
    other.authority = server.authority
    assert await findings_of(to=other) == failed(
        f"failed to call webhook: {url(other)}: tls: failed to verify certificate: "
        "x509: certificate signed by unknown authority"
    )


async def test_a_certificate_for_another_name_is_refused(findings_of, start_hooks):
    other = await start_hooks(names=["example.org"])
    assert await findings_of(to=other) == failed(
        f"failed to call webhook: {url(other)}: tls: failed to verify certificate: "
        "x509: certificate is not valid for any names, but wanted to match localhost"
    )


async def test_a_server_without_tls_is_refused(findings_of, start_hooks):
    plain = await start_hooks(tls=False)
    assert await findings_of(to=plain) == failed(
        f"failed to call webhook: {url(plain)}: http: server gave HTTP response to HTTPS client"
    )


@pytest.mark.parametrize("bundle", ["Cg==", "eA==", "%%%"])
async def test_a_bundle_without_certificates_fails_the_call(findings_of, server, bundle):
    message = await findings_of(clientConfig={"url": f"https://localhost:{server.port}/a", "caBundle": bundle})
    assert message == failed(
        "could not get REST client: unable to load root certificates: unable to parse bytes as PEM block"
    )
    assert server.calls == []


async def test_a_webhook_that_knows_no_version_of_reviews_is_not_called(findings_of, server):
    assert await findings_of(admissionReviewVersions=["v2"]) == failed(
        "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
    )


async def test_a_connection_that_is_cut_is_reported(findings_of, server):
    server.on("/a", "cut")
    assert await findings_of() == failed(f"failed to call webhook: {url(server)}: EOF")


@pytest.mark.parametrize("status", [429, 503])
async def test_webhook_with_retry_after_is_called_again(validating, validate, attempt, pod, server, status):
    answers = [web.Response(status=status, headers={"Retry-After": "0"}), {}]
    validating("a")
    server.on("/a", lambda _: answers.pop(0))
    await validate(attempt(pod()))
    uids = {call.request["uid"] for call in server.calls}
    assert (len(server.calls), len(uids)) == (2, 1)


async def test_a_service_is_called_by_its_name_at_the_address_that_it_has(
    make_admission, validating, attempt, pod, warnings, start_hooks
):
    behind = await start_hooks(names=["gpu-admission.gpu-system.svc"])
    admission = make_admission(resolve=lambda *_: ("127.0.0.1", behind.port))
    validating("a", to=behind)
    _by_service(admission, behind, "gpu-admission")
    await admission.validate(attempt(pod()), warnings.add)
    assert behind.calls[0].headers["host"] == "gpu-admission.gpu-system.svc"
    assert (behind.paths(), behind.calls[0].query) == (["/v"], {"timeout": "10s"})


async def test_the_certificate_of_a_service_is_for_its_name(
    make_admission, validating, attempt, pod, warnings, start_hooks, refusal
):
    behind = await start_hooks(names=["localhost", "127.0.0.1"])
    admission = make_admission(resolve=lambda *_: ("127.0.0.1", behind.port))
    validating("a", to=behind)
    _by_service(admission, behind, "gpu-admission")
    status = await refusal(admission.validate(attempt(pod()), warnings.add))
    assert status["message"] == failed(
        'failed to call webhook: Post "https://gpu-admission.gpu-system.svc:443/v?timeout=10s": '
        "tls: failed to verify certificate: "
        "x509: certificate is not valid for any names, but wanted to match gpu-admission.gpu-system.svc"
    )


async def test_a_service_that_does_not_exist_is_reported(
    admission, validating, validate, attempt, pod, server, refusal
):
    validating("a")
    _by_service(admission, server, "nobody")
    assert (await refusal(validate(attempt(pod()))))["message"] == failed(
        'failed to call webhook: Post "https://nobody.gpu-system.svc:443/v?timeout=10s": service "nobody" not found'
    )


def _by_service(admission, hooks, name):
    """Let the one webhook that is stored be called by a service."""
    (configuration,) = admission._objects.objects("ValidatingWebhookConfiguration")
    client = configuration["webhooks"][0]["clientConfig"]
    del client["url"]
    client["service"] = {"namespace": "gpu-system", "name": name, "path": "/v"}
