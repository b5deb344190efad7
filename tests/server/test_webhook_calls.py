"""Answers to the reviews of an API server."""

import base64
import json

import jsonpatch
import pytest

from policies.admission.webhooks import ENTRIES
from policies.rules.decision import Severity
from policies.rules.settings import Conversion, GPUAdmissionPolicy, Placement, RuleOverride
from webhook.server.guarded_site import KEEP_ALIVE


def patched(document, response):
    return jsonpatch.apply_patch(document, json.loads(base64.b64decode(response["patch"])))


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("uid", ["0a1b2c3d-0000-4000-8000-00000000000f", "ü\n\u2028", "x" * 5000])
async def test_uid_comes_back(ask, pod, review_of, entry, uid):
    response = await ask(entry, review_of(pod(), uid))
    assert response["uid"] == uid


async def test_gpu_pod_is_converted(ask, pod, review_of):
    document = pod()
    response = await ask("convert-pods", review_of(document))
    assert (response["allowed"], response["patchType"]) == (True, "JSONPatch")
    admitted = patched(document, response)
    assert admitted["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "1"},
        "requests": {"cpu": "1"},
        "claims": [{"name": "gpu", "request": "main"}],
    }
    assert (
        response["auditAnnotations"]["template"] == admitted["spec"]["resourceClaims"][0]["resourceClaimTemplateName"]
    )


async def test_pod_without_gpu_passes_as_it_is(ask, pod, review_of):
    assert await ask("convert-pods", review_of(pod(0), "uid-1")) == {"uid": "uid-1", "allowed": True}


async def test_placement_tolerates(start_webhook, pod, review_of):
    document = pod(namespace="team-legacy")
    webhook = await start_webhook(settings=GPUAdmissionPolicy(placement=Placement(tolerate_gpu_nodes="Always")))
    admitted = patched(document, await webhook.client.ask("place-pods", review_of(document)))
    assert admitted["spec"]["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


async def test_placement_changes_no_pod_without_opt_in(ask, pod, review_of):
    response = await ask("place-pods", review_of(pod(namespace="team-legacy")))
    assert response == {"uid": response["uid"], "allowed": True}


async def test_converted_pod_passes_the_check(ask, pod, review_of):
    document = pod()
    admitted = patched(document, await ask("convert-pods", review_of(document)))
    assert await ask("enforce-converted-pods", review_of(admitted, "uid-2")) == {"uid": "uid-2", "allowed": True}


async def test_preview_warns_and_converts_nothing(ask, pod, review_of):
    document = pod(namespace="team-preview")
    response = await ask("place-pods", review_of(document))
    assert set(response) == {"uid", "allowed", "warnings"}
    assert response["warnings"][0].startswith("would be converted to ResourceClaimTemplate gpu-")


async def test_refusal_is_forbidden_with_path_remedy_and_rule(ask, pod, review_of):
    assert await ask("convert-pods", review_of(pod("0.5"), "uid-3")) == {
        "uid": "uid-3",
        "allowed": False,
        "status": {
            "status": "Failure",
            "code": 403,
            "reason": "Forbidden",
            "message": 'Request a whole number of GPUs, or a MIG device such as nvidia.com/mig-1g.10gb: "0.5" is not a whole '
            "number of devices; spec.containers[0].resources.limits[nvidia.com/gpu] [GA302]",
        },
        "auditAnnotations": {"findings": "GA302=deny"},
    }


async def test_dry_run_is_answered_like_any_other(ask, pod, review_of):
    wet = await ask("convert-pods", review_of(pod()))
    assert await ask("convert-pods", review_of(pod(), dryRun=True)) == wet


async def test_update_passes(ask, pod, review_of):
    review = review_of(pod(2), "uid-4", operation="UPDATE", oldObject=pod())
    assert await ask("convert-pods", review) == {"uid": "uid-4", "allowed": True}


async def test_delete_passes(ask, pod, review_of):
    review = review_of(pod(), "uid-5", operation="DELETE", object=None, oldObject=pod())
    assert await ask("enforce-converted-pods", review) == {"uid": "uid-5", "allowed": True}


async def test_settings_hold(start_webhook, pod, review_of):
    webhook = await start_webhook(settings=GPUAdmissionPolicy(rules=(RuleOverride("GA302", Severity.WARN),)))
    response = await webhook.client.ask("convert-pods", review_of(pod("0.5")))
    assert response["allowed"] is True
    assert response["warnings"][-1].endswith("spec.containers[0].resources.limits[nvidia.com/gpu] [GA302]")


async def test_warnings_fit_into_headers(start_webhook, pod, review_of):
    webhook = await start_webhook(settings=GPUAdmissionPolicy(conversion=Conversion(schedulers=("volcano\n",))))
    response = await webhook.client.ask("convert-pods", review_of(pod()))
    assert all(len(warning) <= 120 and warning.isprintable() for warning in response["warnings"])


async def test_query_is_no_part_of_the_path(ask, pod, review_of):
    response = await ask("convert-pods", review_of(pod()), query="?timeout=1m0s&other=1")
    assert response["allowed"] is True


async def test_content_type_may_have_parameters(webhook, pod, review_of):
    body = json.dumps(review_of(pod())).encode()
    answer = await webhook.client.post("/convert-pods", body, content_type="application/json; charset=utf-8")
    assert answer.response["allowed"] is True


async def test_large_review_is_answered(ask, pod, review_of):
    document = pod()
    document["metadata"]["annotations"] = {"large": "x" * 7_000_000}
    assert (await ask("convert-pods", review_of(document)))["allowed"] is True


async def test_connection_is_used_again(webhook, pod, review_of):
    for _ in range(5):
        await webhook.client.ask("convert-pods", review_of(pod()))
    assert len(webhook.runner.server.connections) == 1


async def test_http_1_1_is_spoken(webhook, wire):
    connection = await wire(webhook.port)
    await connection.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    head = await connection.head()
    assert head.startswith("HTTP/1.1 404 ")
    assert "connection" not in head.lower()


def test_idle_connections_outlive_the_api_servers_patience():
    assert KEEP_ALIVE > 90
