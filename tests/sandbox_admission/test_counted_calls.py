"""Calls of webhooks are counted in the metrics of an API server, with its labels."""

import re

import pytest
from aiohttp import web

from webhook.sandbox.statuses import Refused

WEBHOOK, CONDITION = "apiserver_admission_webhook_", "apiserver_admission_match_condition_"


@pytest.fixture
def counted(admission):
    """The samples of a metric: their labels without the name of the webhook, and their values."""

    def counted(metric):
        lines = re.findall(rf"^{metric}\{{(.*)\}} (\S+)$", admission.metrics, re.MULTILINE)
        found = [(dict(re.findall(r'(\w+)="([^"]*)"', labels)), float(value)) for labels, value in lines]
        return [({key: value for key, value in labels.items() if key != "name"}, value) for labels, value in found]

    return counted


async def test_answered_calls_are_counted(counted, mutating, validating, mutate, validate, attempt, pod):
    mutating("a")
    validating("b")
    await mutate(attempt(pod()))
    await validate(attempt(pod()))
    common = {"operation": "CREATE", "rejected": "false"}
    assert counted(f"{WEBHOOK}request_total") == [
        ({"code": "200", "type": "admit", **common}, 1),
        ({"code": "200", "type": "validating", **common}, 1),
    ]
    assert [
        value for labels, value in counted(f"{WEBHOOK}admission_duration_seconds_bucket") if labels["le"] == "+Inf"
    ] == [1, 1]
    assert counted(f"{WEBHOOK}rejection_count") == counted(f"{WEBHOOK}fail_open_count") == []


@pytest.mark.parametrize(
    ("answer", "kind", "code"),
    [
        ({"allowed": False, "status": {"code": 403, "message": "no"}}, "no_error", "403"),
        ({"allowed": False}, "no_error", "400"),
        ("cut", "calling_webhook_error", "503"),
        (lambda _: web.Response(status=500), "calling_webhook_error", "500"),
        (lambda _: web.Response(text="{"), "calling_webhook_error", "503"),
    ],
)
async def test_refusals_are_counted_by_their_cause(
    counted, validating, validate, attempt, pod, server, answer, kind, code
):
    validating("a")
    server.on("/a", answer)
    with pytest.raises(Refused):
        await validate(attempt(pod()))
    assert counted(f"{WEBHOOK}rejection_count") == [
        ({"error_type": kind, "operation": "CREATE", "rejection_code": code, "type": "validating"}, 1)
    ]
    ((labels, _),) = counted(f"{WEBHOOK}request_total")
    assert (labels["code"], labels["rejected"]) == (code, "true")


async def test_patch_that_does_not_apply_is_an_error_of_the_api_server(
    counted, mutating, mutate, attempt, pod, server, patching
):
    mutating("a")
    server.on("/a", patching({"op": "remove", "path": "/spec/missing"}))
    with pytest.raises(Refused):
        await mutate(attempt(pod()))
    ((labels, _),) = counted(f"{WEBHOOK}rejection_count")
    assert (labels["error_type"], labels["rejection_code"]) == ("apiserver_internal_error", "0")


@pytest.mark.parametrize("phase", ["admit", "validating"])
async def test_calls_that_fail_open_are_counted(
    counted, mutating, validating, mutate, validate, attempt, pod, server, phase
):
    register, review = (mutating, mutate) if phase == "admit" else (validating, validate)
    register("a", failurePolicy="Ignore")
    server.on("/a", "cut")
    await review(attempt(pod()))
    assert counted(f"{WEBHOOK}fail_open_count") == [({"type": phase}, 1)]
    assert counted(f"{WEBHOOK}rejection_count") == []


@pytest.mark.parametrize(
    ("expression", "exclusions", "errors"),
    [("false", 1, 0), ("true", 0, 0), ("object.spec.missing == 1", 1, 1)],
)
async def test_match_conditions_are_counted(
    counted, validating, validate, attempt, pod, expression, exclusions, errors
):
    validating("a", failurePolicy="Ignore", matchConditions=[{"name": "ours", "expression": expression}])
    await validate(attempt(pod()))
    expected = {"kind": "webhook", "operation": "CREATE", "type": "validate"}
    for metric, count in (("exclusions_total", exclusions), ("evaluation_errors_total", errors)):
        assert counted(f"{CONDITION}{metric}") == ([(expected, count)] if count else [])


async def test_writes_of_other_kinds_are_no_exclusions(counted, validating, validate, attempt, pod):
    rules = [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}]
    validating("a", rules=rules, matchConditions=[{"name": "none", "expression": "false"}])
    await validate(attempt(pod()))
    assert counted(f"{CONDITION}exclusions_total") == []
