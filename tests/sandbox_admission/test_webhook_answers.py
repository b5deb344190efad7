"""Effects of webhook answers, with the exact messages."""

import base64
import json

import pytest
from aiohttp import web

AT = "admission.k8s.io/v1, Kind=AdmissionReview"


def failed(why):
    return f'Internal error occurred: failed calling webhook "a": {why}'


def invalid(why):
    return failed(f"received invalid webhook response: {why}")


@pytest.mark.parametrize(
    ("status", "message", "code", "reason"),
    [
        pytest.param(
            {"code": 403, "reason": "Forbidden", "message": "no\nreally"},
            'admission webhook "a" denied the request: no\nreally',
            403,
            "Forbidden",
            id="two lines",
        ),
        pytest.param(
            {"reason": "Forbidden"},
            'admission webhook "a" denied the request: Forbidden',
            400,
            "Forbidden",
            id="reason",
        ),
        pytest.param({}, 'admission webhook "a" denied the request without explanation', 400, None, id="nothing"),
        pytest.param(None, 'admission webhook "a" denied the request without explanation', 400, None, id="no status"),
        pytest.param({"code": 200, "message": "m"}, 'admission webhook "a" denied the request: m', 400, None, id="200"),
        pytest.param({"code": 500, "message": "m"}, 'admission webhook "a" denied the request: m', 500, None, id="500"),
    ],
)
async def test_a_denial_is_passed_on_with_the_name_before_it(
    validating, validate, attempt, pod, server, refusal, status, message, code, reason
):
    validating("a")
    server.on("/a", {"allowed": False, "status": status})
    reported = await refusal(validate(attempt(pod())))
    assert (reported["message"], reported["code"], reported.get("reason"), reported["status"]) == (
        message,
        code,
        reason,
        "Failure",
    )


async def test_a_denial_is_one_whatever_the_failure_policy_is(validating, validate, attempt, pod, server, refusal):
    validating("a", failurePolicy="Ignore")
    server.on("/a", {"allowed": False, "status": {"code": 500, "message": "m"}})
    assert (await refusal(validate(attempt(pod()))))["code"] == 500


async def test_details_of_a_denial_are_kept(mutating, mutate, attempt, pod, server, refusal):
    details = {"kind": "Pod", "name": "p", "causes": [{"field": "spec", "message": "bad"}], "retryAfterSeconds": 1}
    mutating("a")
    server.on("/a", {"allowed": False, "status": {"code": 422, "reason": "Invalid", "details": details}})
    assert (await refusal(mutate(attempt(pod()))))["details"] == details


async def test_warnings_are_shown_beside_a_denial(validating, validate, attempt, pod, server, refusal, warnings):
    validating("a")
    server.on("/a", {"allowed": False, "warnings": ["careful"]})
    await refusal(validate(attempt(pod())))
    assert warnings.texts == ["careful"]


async def test_warnings_of_validating_webhooks_come_in_list_order(validating, validate, attempt, pod, server, warnings):
    for name in ("b", "a"):
        validating(name)
        server.on(f"/{name}", {"warnings": [name]})
    await validate(attempt(pod()))
    assert warnings.texts == ["a", "b"]


async def test_audit_annotations_are_kept_under_the_name_of_the_webhook(
    annotations, validating, validate, attempt, pod, server
):
    validating("a")
    server.on("/a", {"auditAnnotations": {"decision": "d"}})
    await validate(attempt(pod()))
    assert annotations["a/decision"] == ["d"]


async def test_what_a_webhook_changed_is_noted(annotations, mutating, mutate, attempt, pod, server, patching):
    mutating("a", configuration="c")
    operation = {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}
    server.on("/a", patching(operation))
    await mutate(attempt(pod()))
    (patch,) = annotations["patch.webhook.admission.k8s.io/round_0_index_0"]
    (mutation,) = annotations["mutation.webhook.admission.k8s.io/round_0_index_0"]
    about = {"configuration": "c", "webhook": "a"}
    assert json.loads(patch) == {**about, "patch": [operation], "patchType": "JSONPatch"}
    assert json.loads(mutation) == {**about, "mutated": True}


@pytest.mark.parametrize(
    ("response", "message"),
    [
        pytest.param({"uid": "x"}, None, id="another uid"),
        pytest.param({"patch": "W10="}, "webhook returned response.patch but not response.patchType", id="no type"),
        pytest.param(
            {"patchType": "JSONPatch"}, "webhook returned response.patchType but not response.patch", id="no patch"
        ),
        pytest.param(
            {"patch": "W10=", "patchType": ""}, 'webhook returned invalid response.patchType of ""', id="empty"
        ),
    ],
)
async def test_invalid_response_is_a_failed_call(mutating, mutate, attempt, pod, server, refusal, response, message):
    mutating("a")
    server.on("/a", response)
    status = await refusal(mutate(attempt(pod())))
    uid = server.calls[0].request["uid"]
    assert status["message"] == invalid(message or f'expected response.uid="{uid}", got "x"')


@pytest.mark.parametrize(
    ("response", "message"),
    [
        pytest.param(
            {"allowed": "yes"},
            "json: cannot unmarshal string into Go struct field AdmissionResponse.response.allowed of type bool",
            id="wrong type",
        ),
        pytest.param(
            {"allowed": False, "status": {"code": "403"}},
            "json: cannot unmarshal string into Go struct field Status.response.status.code of type int32",
            id="wrong type in the status",
        ),
    ],
)
async def test_a_response_with_a_wrong_type_is_no_answer_at_all(
    mutating, mutate, attempt, pod, server, refusal, response, message
):
    mutating("a")
    server.on("/a", response)
    assert (await refusal(mutate(attempt(pod()))))["message"] == failed(f"failed to call webhook: {message}")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        pytest.param({"kind": "AdmissionReview"}, "webhook response was absent", id="no response"),
        pytest.param(
            {"response": {}, "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1"},
            f"expected webhook response of {AT}, got admission.k8s.io/v1beta1, Kind=AdmissionReview",
            id="another version",
        ),
        pytest.param({"response": {}}, f"expected webhook response of {AT}, got /, Kind=", id="no kind"),
    ],
)
async def test_a_document_that_is_no_review_is_a_failed_call(
    mutating, mutate, attempt, pod, server, refusal, document, message
):
    mutating("a")

    def answer(request):
        if "response" in document:
            document["response"]["uid"] = request["uid"]
        return web.json_response(document)

    server.on("/a", answer)
    assert (await refusal(mutate(attempt(pod()))))["message"] == invalid(message)


@pytest.mark.parametrize(
    ("response", "message"),
    [
        ({"patch": "W10="}, "validating webhook may not return response.patch"),
        ({"patchType": "JSONPatch"}, "validating webhook may not return response.patchType"),
    ],
)
async def test_a_validating_webhook_has_no_patch(
    validating, validate, attempt, pod, server, refusal, response, message
):
    validating("a")
    server.on("/a", response)
    assert (await refusal(validate(attempt(pod()))))["message"] == invalid(message)


def raw(text):
    return {"patchType": "JSONPatch", "patch": base64.b64encode(text.encode()).decode()}


@pytest.mark.parametrize(
    ("response", "why"),
    [
        pytest.param(
            raw('{"op": "add"}'),
            "received undecodable patch in webhook response: "
            "json: cannot unmarshal object into Go value of type jsonpatch.Patch",
            id="no list",
        ),
        pytest.param({**raw("[{}]"), "patchType": "Merge"}, 'unsupported patch type "Merge"', id="type"),
        pytest.param(
            {**raw(""), "patch": "%"},
            "failed to call webhook: illegal base64 data at input byte 0",
            id="base64",
        ),
    ],
)
async def test_a_patch_that_cannot_be_read_is_a_failed_call(
    mutating, mutate, attempt, pod, server, refusal, response, why
):
    mutating("a")
    server.on("/a", response)
    assert (await refusal(mutate(attempt(pod()))))["message"] == failed(why)


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize(
    ("operation", "why"),
    [
        pytest.param(
            {"op": "test", "path": "/spec/x", "value": 1}, "testing value /spec/x failed: test failed", id="test fails"
        ),
        pytest.param(
            {"op": "add", "path": "/metadata/labels/a", "value": "b"},
            'add operation does not apply: doc is missing path: "/metadata/labels/a": missing value',
            id="no parent",
        ),
        pytest.param({"op": "grow", "path": "/spec"}, "Unexpected kind: grow", id="unknown operation"),
        pytest.param(
            {"op": "replace", "path": "", "value": []},
            "couldn't get version/kind; json parse error: the patch leaves no JSON object",
            id="no object is left",
        ),
        pytest.param(
            {"op": "replace", "path": "", "value": {"a": 1}},
            "Object 'Kind' is missing in '{\"a\":1}'",
            id="no kind is left",
        ),
    ],
)
async def test_a_patch_that_does_not_apply_is_an_internal_error_whatever_the_failure_policy_is(
    mutating, mutate, attempt, pod, server, refusal, patching, operation, why, policy
):
    mutating("a", failurePolicy=policy)
    server.on("/a", patching(operation))
    status = await refusal(mutate(attempt(pod())))
    assert (status["code"], status["reason"], status["message"]) == (
        500,
        "InternalError",
        f"Internal error occurred: {why}",
    )


async def test_what_is_deleted_cannot_be_patched(mutating, mutate, attempt, pod, server, refusal, patching):
    mutating("a", rules=[{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"]}])
    server.on("/a", patching({"op": "add", "path": "/metadata/labels", "value": {}}))
    status = await refusal(mutate(attempt(None, "DELETE", old=pod())))
    assert status["message"] == (
        'Internal error occurred: admission webhook "a" attempted to modify the object, '
        "which is not supported for this operation"
    )


async def test_an_empty_patch_changes_nothing(mutating, mutate, attempt, pod, server):
    mutating("a", reinvocationPolicy="IfNeeded")
    server.on("/a", raw("[]"))
    await mutate(attempt(pod()))
    assert server.paths() == ["/a"]
