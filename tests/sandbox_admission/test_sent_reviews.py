"""The AdmissionReview that a webhook gets, and how it is sent."""

import uuid

import pytest


@pytest.fixture
def question(validating, validate, server):
    """The call that an attempt leads to."""

    async def ask(attempt, **webhook):
        every = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
        validating("a", rules=[every], **webhook)
        await validate(attempt)
        return server.calls[-1]

    return ask


async def test_review_of_a_create_is_complete(question, attempt, pod):
    document = pod()
    call = await question(attempt(document))
    uid = call.request["uid"]
    pods = {"group": "", "version": "v1", "resource": "pods"}
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    assert str(uuid.UUID(uid)) == uid
    assert call.review == {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": uid,
            "kind": kind,
            "resource": pods,
            "requestKind": kind,
            "requestResource": pods,
            "name": "p",
            "namespace": "team-a",
            "operation": "CREATE",
            "userInfo": {"username": "alice", "uid": "u-1", "groups": ["system:authenticated"]},
            "object": document,
            "oldObject": None,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    }


async def test_a_name_that_is_not_known_yet_is_left_out(question, attempt, pod):
    call = await question(attempt(pod(), name=""))
    assert "name" not in call.request


async def test_a_delete_has_only_the_old_object(question, attempt, pod):
    call = await question(attempt(None, "DELETE", old=pod()))
    assert (call.request["object"], call.request["oldObject"]) == (None, pod())


async def test_an_update_has_both_objects(question, attempt, pod):
    call = await question(attempt(pod(labels={"a": "b"}), "UPDATE", old=pod()))
    assert (call.request["object"], call.request["oldObject"]) == (pod(labels={"a": "b"}), pod())


async def test_the_time_out_is_reported_in_the_query(question, attempt, pod):
    call = await question(attempt(pod()), timeoutSeconds=7)
    assert call.query == {"timeout": "7s"}


async def test_the_body_is_json_and_json_is_accepted(question, attempt, pod):
    headers = (await question(attempt(pod()))).headers
    assert (headers["content-type"], headers["accept"]) == ("application/json", "application/json, */*")


async def test_connections_are_kept(validating, validate, attempt, pod, server):
    validating("a")
    for _ in range(3):
        await validate(attempt(pod()))
    assert len({call.connection for call in server.calls}) == 1


@pytest.mark.parametrize(("effects", "asked"), [("None", True), ("NoneOnDryRun", True)])
async def test_a_dry_run_asks_webhooks_without_side_effects(question, attempt, pod, effects, asked):
    call = await question(attempt(pod(), dry_run=True), sideEffects=effects)
    assert call.request["dryRun"] is asked


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_a_dry_run_is_refused_where_a_webhook_has_side_effects(
    validating, validate, attempt, pod, server, refusal, policy
):
    validating("a", sideEffects="Some", failurePolicy=policy)
    status = await refusal(validate(attempt(pod(), dry_run=True)))
    assert (status["code"], status["reason"]) == (400, "BadRequest")
    assert status["message"] == 'admission webhook "a" does not support dry run'
    assert server.calls == []
