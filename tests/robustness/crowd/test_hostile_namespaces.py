"""Expensive requests of one namespace, while others have their pods converted."""

import asyncio
import json
import threading

import aiohttp
import pytest

from policies.admission import judge, review
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from webhook.server import admission_review
from webhook.server.turns import LARGE_BODIES

GPU_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train", "namespace": "team-a"},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "train:1",
                "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}},
            }
        ]
    },
}
NOT_COMPARED = (
    "Review it with gpu-admission review, or create it again in a minute: not compared with the devices of the cluster: "
    'namespace "team-hostile" used up a share of the webhook\'s time; spec.devices [GA216]'
)


def claim(number=0, text=None):
    """A claim with a selector of its own that is expensive to compare."""
    text = text or f"lists.range(330).all(x, lists.range(330).all(y, x + y >= -{number}))"
    selectors = [{"cel": {"expression": text}}]
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "selectors": selectors}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "hostile", "namespace": "team-hostile"},
        "spec": {"devices": {"requests": [request]}},
    }


def review_of(document, group=""):
    kind = {"group": group, "version": "v1", "kind": document["kind"]}
    namespace = document["metadata"]["namespace"]
    request = {"uid": "1", "kind": kind, "namespace": namespace, "operation": "CREATE", "object": document}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


@pytest.fixture
async def ask():
    """Post a review, and return the response."""
    async with aiohttp.ClientSession() as session:

        async def post(served, entry, document, group=""):
            body = json.dumps(review_of(document, group))
            url = f"https://localhost:{served.port}/{entry}"
            headers = {"Content-Type": "application/json"}
            async with session.post(url, data=body, headers=headers, ssl=served.context) as answer:
                return (await answer.json(content_type=None))["response"]

        yield post


async def test_expensive_claims_run_aside_while_conversions_do_not(serve, ask, monkeypatch):
    threads, worked = {}, threading.local()

    def noted(step, view, settings):
        request = step.part.request
        threads.setdefault(request.namespace, []).append(threading.current_thread() is threading.main_thread())
        worked.seconds = getattr(worked, "seconds", 0.0) + (0.05 if request.namespace == "team-hostile" else 0.0005)
        return judge(step, view, settings)

    monkeypatch.setattr("webhook.server.driver.judge", noted)
    served = await serve()
    served.service._calls.admission._runner._work_clock = lambda: getattr(worked, "seconds", 0.0)

    async def be_hostile(number):
        for turn in range(4):
            await ask(served, "claims", claim(100 * number + turn), "resource.k8s.io")

    hostile = [asyncio.create_task(be_hostile(number)) for number in range(8)]
    for number in range(20):
        # Of another template each time, because pods of one are not reviewed again.
        pod = {**GPU_POD, "spec": {**GPU_POD["spec"], "terminationGracePeriodSeconds": number}}
        assert (await ask(served, "convert-pods", pod))["patch"]
    await asyncio.gather(*hostile)
    assert threads["team-a"] == [True] * 2 * 20
    assert threads["team-hostile"] == [True] * 2 + [False] * 30
    assert await served.metric("reviews_aside_total") == 30


async def test_claims_of_a_namespace_that_used_its_share_are_not_compared_and_reported_so(serve, ask):
    served = await serve()
    assert "warnings" not in await ask(
        served, "claims", claim(text='device.driver == "gpu.nvidia.com"'), "resource.k8s.io"
    )
    served.service._calls.admission._turns.charge(("team-hostile", "127.0.0.1"), 10)
    answer = await ask(served, "claims", claim(text='device.driver == "gpu.nvidia.com"'), "resource.k8s.io")
    assert answer["allowed"] is True
    assert NOT_COMPARED in " ".join(line.strip() for line in answer["warnings"])


async def test_static_validation_is_never_skipped(serve, ask):
    served = await serve()
    served.service._calls.admission._turns.charge(("team-hostile", "127.0.0.1"), 10)
    document = claim()
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": {"strategy": "None"}}
    document["spec"]["devices"]["config"] = [{"opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}]
    answer = await ask(served, "claims", document, "resource.k8s.io")
    assert answer["allowed"] is False
    assert "sharing.strategy" in answer["status"]["message"]


async def test_namespace_that_used_its_share_is_converted_as_ever(serve, ask):
    served = await serve()
    before = await ask(served, "convert-pods", GPU_POD)
    served.service._calls.admission._turns.charge(("team-a", "127.0.0.1"), 10)
    assert await ask(served, "convert-pods", GPU_POD) == before


async def test_request_that_cannot_wait_is_refused_for_now_and_does_not_pass(serve, ask):
    served = await serve()
    payer = ("team-hostile", "127.0.0.1")
    served.service._calls.admission._turns.charge(payer, 10)
    served.service._calls.admission._turns._is_taken = True  # by a review that does not end
    url = f"https://localhost:{served.port}/claims?timeout=100ms"
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            url,
            data=json.dumps(review_of(claim(), "resource.k8s.io")),
            headers={"Content-Type": "application/json"},
            ssl=served.context,
        ) as answer,
    ):
        response = (await answer.json(content_type=None))["response"]
    assert response["allowed"] is False
    assert response["status"]["code"] == 429
    assert response["status"]["details"] == {"retryAfterSeconds": 2}
    assert response["status"]["message"] == (
        "too many requests: this one was not reviewed in time, because others that take long came first; try again in 2 s"
    )


async def test_large_body_that_cannot_wait_is_refused_without_parsing_it(serve, monkeypatch):
    parsed = []
    monkeypatch.setattr("webhook.server.admission.decode", lambda *arguments, **_: parsed.append(arguments))
    served = await serve()
    turns = served.service._calls.admission._turns
    turns.charge((LARGE_BODIES, "127.0.0.1"), 10)
    turns._is_taken = True  # by a review that does not end
    beginning = '{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"0a1b-2c3d","object":"'
    url = f"https://localhost:{served.port}/claims?timeout=100ms"
    headers = {"Content-Type": "application/json"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=beginning + "x" * (256 << 10) + '"}}', headers=headers, ssl=served.context) as answer,
    ):
        response = (await answer.json(content_type=None))["response"]
    assert parsed == []
    assert (response["uid"], response["allowed"], response["status"]["code"]) == ("0a1b-2c3d", False, 429)


async def test_large_body_does_not_wait_for_those_of_a_namespace_that_used_more(serve, until, monkeypatch):
    decoded = []

    def decode(body, entry, **caller):
        request = admission_review.decode(body, entry, **caller)
        decoded.append(request.namespace)
        return request

    monkeypatch.setattr("webhook.server.admission.decode", decode)
    served = await serve()
    turns = served.service._calls.admission._turns
    turns.charge(("team-hostile", "127.0.0.1"), 1)
    turns._is_taken = True  # by a review that goes on
    url = f"https://localhost:{served.port}/workloads"
    headers = {"Content-Type": "application/json"}

    async def post(namespace):
        pods = '"resource":{"group":"","version":"v1","resource":"pods"}'
        body = (
            '{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"0a1b",'
            f'"kind":{{"group":"","version":"v1","kind":"Pod"}},{pods},"name":"x","namespace":"{namespace}",'
            f'"operation":"CREATE","object":{{"kind":"Pod","metadata":{{"annotations":{{"x":"{"x" * (256 << 10)}"}}}}}}}}}}'
        )
        async with session.post(url, data=body, headers=headers, ssl=served.context) as answer:
            assert answer.status == 200

    async with aiohttp.ClientSession() as session:
        posts = []
        for waiting, namespace in enumerate(["team-hostile"] * 3 + ["team-a"], start=1):
            posts.append(asyncio.create_task(post(namespace)))
            await until(lambda waiting=waiting: sum(map(len, turns._waiting.values())) == waiting)
        turns.release()
        await asyncio.gather(*posts)
    assert decoded == ["team-a", "team-hostile", "team-hostile", "team-hostile"]


def test_uncompared_claim_asks_no_device(cluster, monkeypatch):
    asked = []
    monkeypatch.setattr("policies.devices.effort.Effort.verdicts", lambda *arguments: asked.append(arguments))
    request = Request(
        claim(), group="resource.k8s.io", kind="ResourceClaim", namespace="team-hostile", entry="claims", compares=False
    )
    findings = review(request, cluster, DEFAULTS).findings
    assert asked == []
    assert [finding.rule.id for finding in findings] == ["GA216"]


def test_same_request_and_view_have_the_same_answer(cluster):
    request = Request(
        claim(), group="resource.k8s.io", kind="ResourceClaim", namespace="team-hostile", entry="claims", compares=False
    )
    assert review(request, cluster, DEFAULTS) == review(request, cluster, DEFAULTS)
