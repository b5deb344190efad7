"""A concern that fails open and takes all of its time: the call is still answered, by the concerns that fail closed."""

import pytest

from webhook.server.driver import Driver


@pytest.fixture
def delay(monkeypatch):
    """Have a concern work until its time is up; returns the clock of the server."""
    real, seconds = Driver._do, [1000.0]

    def delay(late):
        async def do(self, step, view, settings, run):
            if step.part.concern != late:
                return await real(self, step, view, settings, run)
            seconds[0] += run.deadline.remaining
            raise TimeoutError

        monkeypatch.setattr(Driver, "_do", do)
        return lambda: seconds[0]

    return delay


@pytest.mark.parametrize("query", ["?timeout=10s", "?timeout=1s"])
@pytest.mark.parametrize(
    ("entry", "concern", "namespace"),
    [
        ("convert-pods", "placement", "team-a"),
        ("check-pods", "access", "team-legacy"),
        ("check-pods", "quota", "team-legacy"),
    ],
)
async def test_late_concern_that_fails_open_leaves_the_answer(
    start_webhook, limited_cluster, delay, pod, review_of, entry, concern, namespace, query
):
    webhook = await start_webhook(limited_cluster, clock=delay(concern))
    response = await webhook.client.ask(entry, review_of(pod(namespace=namespace)), query)
    assert response["allowed"] is True
    assert (
        f"{entry}.gpu-admission.io has not reviewed this for {concern}: it ran out of time" in response["warnings"][0]
    )
    assert ("patch" in response) is (entry == "convert-pods")


async def test_late_quota_that_fails_open_does_not_refuse_a_converted_pod(
    start_webhook, limited_cluster, delay, pod, review_of
):
    webhook = await start_webhook(limited_cluster, clock=delay("quota"))
    response = await webhook.client.ask("enforce-converted-pods", review_of(pod(0)))
    assert response["allowed"] is True
    assert "for quota: it ran out of time" in response["warnings"][0]


async def test_late_quota_that_fails_closed_refuses(start_webhook, limited_cluster, delay, pod, review_of):
    webhook = await start_webhook(limited_cluster, clock=delay("quota"))
    response = await webhook.client.ask("enforce-quota", review_of(pod(namespace="team-legacy")))
    assert (response["allowed"], response["status"]["code"]) == (False, 500)
