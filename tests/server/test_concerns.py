"""Concerns of one call: what happens to the others, and to the object, when one of them fails."""

import base64
import json

import pytest

from policies.rules.decision import Decision
from webhook.server import driver

LOST = "the cache is gone"


@pytest.fixture
def break_concern(monkeypatch):
    """Have concerns raise an error whenever they are asked; the others answer as ever."""
    real = driver.judge

    def break_concern(*broken, error=None):
        def judge(step, view, settings):
            if step.part.concern in broken:
                raise error or KeyError(LOST)
            return real(step, view, settings)

        monkeypatch.setattr(driver, "judge", judge)

    return break_concern


def paths(response):
    return {operation["path"] for operation in json.loads(base64.b64decode(response["patch"]))}


def value(server, name, **labels):
    return server.metrics.registry.get_sample_value(f"gpu_admission_{name}", labels)


async def test_placement_that_fails_leaves_the_conversion(webhook, break_concern, pod, review_of, lines):
    break_concern("placement")
    response = await webhook.client.ask("convert-pods", review_of(pod()))
    (failure,) = lines(level="error")
    assert response["allowed"] is True
    assert "/spec/resourceClaims" in paths(response)
    assert response["warnings"] == [
        "convert-pods.gpu-admission.io has not reviewed this for placement: it failed; the id in its log is "
        + failure["failure"]
    ]
    assert response["auditAnnotations"]["failure"] == failure["failure"]
    assert failure["concern"] == "placement"


async def test_concern_that_is_late_is_logged_without_a_traceback(webhook, break_concern, pod, review_of, lines):
    break_concern("conversion", error=TimeoutError())
    await webhook.client.ask("convert-pods", review_of(pod()))
    (failure,) = lines(level="error")
    assert (failure["message"], "trace" in failure) == ("no decision: the webhook ran out of time", False)


async def test_placement_that_is_late_leaves_the_conversion(webhook, break_concern, pod, review_of):
    break_concern("placement", error=TimeoutError())
    response = await webhook.client.ask("convert-pods", review_of(pod()))
    (warning,) = response["warnings"]
    assert "/spec/resourceClaims" in paths(response)
    assert warning.startswith("convert-pods.gpu-admission.io has not reviewed this for placement: it ran out of time; ")


async def test_severities_that_fail_fail_their_concern_only(webhook, monkeypatch, pod, review_of):
    def finish(*_):
        raise KeyError(LOST)

    monkeypatch.setattr(driver, "finish", finish)
    document = pod(namespace="team-preview")
    document["metadata"]["annotations"] = {"gpu-admission.io/owner": "me"}
    response = await webhook.client.ask("place-pods", review_of(document))
    assert [line.split(":")[0].split()[-1] for line in response["warnings"]] == ["preview", "placement"]


async def test_conversion_that_fails_refuses(webhook, break_concern, pod, review_of):
    break_concern("conversion")
    response = await webhook.client.ask("convert-pods", review_of(pod()))
    assert (response["allowed"], response["status"]["code"]) == (False, 500)


async def test_preview_that_fails_leaves_the_placement(webhook, break_concern, pod, review_of):
    break_concern("preview")
    document = pod(namespace="team-preview")
    document["metadata"]["annotations"] = {"gpu-admission.io/product": "Tesla-T4"}
    response = await webhook.client.ask("place-pods", review_of(document))
    assert "/spec/tolerations" in paths(response)
    assert "for preview" in response["warnings"][0]


async def test_two_concerns_that_fail_have_two_warnings(webhook, break_concern, pod, review_of, lines):
    break_concern("access", "quota")
    response = await webhook.client.ask("check-pods", review_of(pod(namespace="team-legacy")))
    failures = [line["failure"] for line in lines(level="error")]
    assert response["allowed"] is True
    assert [warning.rpartition(" ")[2] for warning in response["warnings"]] == failures
    assert response["auditAnnotations"]["failure"] == ", ".join(failures)


async def test_concern_that_fails_is_counted(webhook, break_concern, pod, review_of):
    break_concern("placement")
    await webhook.client.ask("convert-pods", review_of(pod()))
    assert value(webhook, "concerns_skipped_total", webhook="convert-pods", concern="placement") == 1
    assert value(webhook, "requests_total", webhook="convert-pods", verdict="failed") == 1
    assert value(webhook, "conversions_total", outcome="converted") == 1


async def test_refusal_by_one_concern_ends_the_call(webhook, monkeypatch, pod, review_of):
    asked = []

    def judge(step, view, settings):
        asked.append(step.part.concern)
        return real(step, view, settings)

    real = driver.judge
    monkeypatch.setattr(driver, "judge", judge)
    response = await webhook.client.ask("enforce-quota", review_of(pod()))
    assert response["allowed"] is False
    assert "[GA321]" in response["status"]["message"]
    assert asked == ["conversion-check"]


@pytest.mark.parametrize(
    ("entry", "seconds"),
    [
        ("convert-pods", {"conversion": 9.5, "placement": 9.25}),
        ("enforce-quota", {"conversion-check": 9.5, "access": 4.625, "quota": 9.5}),
        ("check-pods", {"access": 4.625, "quota": 9.25}),
    ],
)
async def test_concern_that_fails_open_takes_an_equal_part_of_the_time(
    start_webhook, limited_cluster, monkeypatch, pod, review_of, entry, seconds
):
    given = {}

    async def do(self, step, view, settings, run):
        given[step.part.concern] = run.deadline.remaining
        step.decision = Decision(object=step.part.request.object)

    monkeypatch.setattr(driver.Driver, "_do", do)
    webhook = await start_webhook(limited_cluster, clock=lambda: 1000.0)
    await webhook.client.ask(entry, review_of(pod()), "?timeout=10s")
    assert given == seconds
