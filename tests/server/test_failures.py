"""A webhook that cannot decide: the answer, and the log."""

import pytest

from policies.admission.webhooks import ENTRIES
from webhook.cluster.manifests import ManifestsView

FAIL = [name for name, entry in ENTRIES.items() if entry.failure_policy == "Fail"]
BLIND = "reapply"
"""The entry that compares two forms of a pod and looks at nothing else, so that no view can break it."""
IGNORE = [name for name, entry in ENTRIES.items() if entry.failure_policy == "Ignore" and name != BLIND]


class BrokenView(ManifestsView):
    """A view whose cache is broken."""

    def get(self, kind, name, namespace=""):
        raise KeyError(f"no cache of {kind}")

    def list(self, kind, namespace=""):
        raise KeyError(f"no cache of {kind}")

    def server_version(self):
        raise KeyError("no version")


class Clock:
    """A clock that a test sets."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class SlowView(ManifestsView):
    """A view in which every look takes seconds."""

    def __init__(self, clock, seconds):
        super().__init__()
        self._clock, self._seconds = clock, seconds

    def get(self, kind, name, namespace=""):
        self._clock.now += self._seconds
        return super().get(kind, name, namespace)

    def list(self, kind, namespace=""):
        self._clock.now += self._seconds
        return super().list(kind, namespace)


CLAIM = {"name": "gpu", "resourceClaimName": "mine"}
"""A claim that no entry can judge without looking it up."""

RESOURCE_CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "gpu", "namespace": "team-a"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
}
"""A claim that cannot be judged without a look at its class."""


@pytest.fixture
async def broken(start_webhook):
    return await start_webhook(view=BrokenView())


@pytest.fixture
def slow(start_webhook):
    """Start a webhook that takes so many seconds, at least, for a GPU pod."""

    async def start(seconds):
        clock = Clock()
        return await start_webhook(view=SlowView(clock, seconds), clock=clock)

    return start


@pytest.mark.parametrize("entry", FAIL)
async def test_fail_entry_refuses_under_the_id_of_its_log(broken, pod, review_of, lines, entry):
    response = await broken.client.ask(entry, review_of(pod()))
    (failure,) = lines(level="error")
    identifier = failure["failure"]
    assert response["allowed"] is False
    assert response["status"] == {
        "status": "Failure",
        "code": 500,
        "reason": "InternalError",
        "message": "no decision: the webhook failed; try again, and if that does not help, show your administrator "
        f"the id {identifier}, which the webhook's log has the details under",
    }
    assert failure["message"] == "no decision: the webhook failed"
    assert "KeyError: 'no cache of " in failure["trace"]
    assert "Traceback" not in str(response)


@pytest.mark.parametrize("entry", IGNORE)
async def test_ignore_entry_lets_pass_with_the_ids_of_its_log(broken, pod, review_of, lines, entry):
    documents = {
        "placement": pod(0, resourceClaims=[CLAIM]),
        "access": pod(0, runtimeClassName="gpu"),
        "guard-pods": pod(0, runtimeClassName="gpu"),
        "guard-changes": pod(0, runtimeClassName="gpu"),
        "workloads": {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"spec": pod(1)["spec"]}}},
        "claims": RESOURCE_CLAIM,
        "configuration": {"kind": "ConfigMap", "metadata": {"name": "time-slicing", "namespace": "gpu-operator"}},
        "opt-in": {"kind": "Namespace", "metadata": {"name": "a", "labels": {"gpu-admission.io/dra": "enabled"}}},
        "nodes": {"kind": "Node", "metadata": {"name": "a", "labels": {"nvidia.com/mig.config": "all-1g.10gb"}}},
    }
    document = documents.get(entry, pod())
    group, _, version = document.get("apiVersion", "v1").rpartition("/")
    kind = {"group": group, "version": version, "kind": document.get("kind", "Pod")}
    response = await broken.client.ask(entry, review_of(document, kind=kind))
    failures = lines(level="error")
    assert {failure["concern"] for failure in failures} <= {*ENTRIES[entry].concerns}
    assert len(failures) >= 1
    assert response["allowed"] is True
    assert " ".join(response["warnings"]).replace(" Warning: ", " ").split() == [
        word
        for failure in failures
        for word in (
            f"{entry}.gpu-admission.io has not reviewed this for {failure['concern']}: it failed; "
            f"the id in its log is {failure['failure']}"
        ).split()
    ]
    assert "patch" not in response


async def test_failure_has_a_line_among_the_decisions(broken, pod, review_of, lines):
    await broken.client.ask("convert-pods", review_of(pod(), "uid-9"))
    (line,) = lines(level="info")
    (failure,) = lines(level="error")
    assert (line["verdict"], line["uid"], line["failure"]) == ("failed", "uid-9", failure["failure"])


async def test_failures_have_ids_of_their_own(broken, pod, review_of, lines):
    for _ in range(3):
        await broken.client.ask("convert-pods", review_of(pod()))
    assert len({line["failure"] for line in lines(level="error")}) == 3


async def test_failures_are_counted(broken, pod, review_of):
    await broken.client.ask("place-pods", review_of(pod()))
    text = broken.metrics.exposition().text().decode()
    assert 'gpu_admission_requests_total{verdict="failed",webhook="place-pods"} 1.0' in text


async def test_pod_that_needs_no_look_passes_a_broken_view(broken, pod, review_of):
    assert (await broken.client.ask("convert-pods", review_of(pod(0))))["allowed"] is True


async def test_late_fail_entry_refuses(slow, pod, review_of, lines):
    webhook = await slow(9.6)
    response = await webhook.client.ask("convert-pods", review_of(pod()))
    (failure,) = lines(level="error")
    assert response["status"]["code"] == 500
    assert response["status"]["message"].startswith("no decision: the webhook ran out of time; try again, ")
    assert failure["failure"] in response["status"]["message"]
    assert "patch" not in response


async def test_late_ignore_entry_lets_pass(slow, pod, review_of, lines):
    webhook = await slow(9.6)
    response = await webhook.client.ask("place-pods", review_of(pod()))
    (failure,) = lines(level="error")
    assert response["warnings"] == [
        f"place-pods.gpu-admission.io has not reviewed this: it ran out of time; the id in its log is {failure['failure']}"
    ]


async def test_the_callers_timeout_counts(slow, pod, review_of):
    webhook = await slow(0.1)
    late = await webhook.client.ask("convert-pods", review_of(pod()), query="?timeout=100ms")
    in_time = await webhook.client.ask("convert-pods", review_of(pod()), query="?timeout=30s")
    assert late["status"]["code"] == 500
    assert in_time.get("status", {}).get("code") != 500


async def test_no_timeout_is_ten_seconds(slow, pod, review_of):
    webhook = await slow(9.6)
    assert (await webhook.client.ask("convert-pods", review_of(pod()), query=""))["status"]["code"] == 500


async def test_time_is_logged_in_milliseconds(slow, pod, review_of, lines):
    webhook = await slow(9.6)
    await webhook.client.ask("place-pods", review_of(pod()))
    (line,) = lines(level="info")
    assert line["milliseconds"] >= 9600
