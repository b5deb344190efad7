"""Settings in an API server: reloaded by a watch, with their status."""

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from policies.kubernetes.objects import lookup
from policies.rules.decision import Severity
from policies.rules.settings import DEFAULTS, RuleOverride
from testbed import libyaml
from webhook.cluster.answers import APIError
from webhook.cluster.client import MERGE_PATCH, APIClient
from webhook.cluster.clockwork import Clockwork
from webhook.cluster.live import LiveSettings
from webhook.cluster.resources import RESOURCES
from webhook.cluster.sync import Sync
from webhook.controllers.leading import PolicyStatus
from webhook.sandbox.server import Sandbox

ROOT = Path(__file__).parents[2]
CRD = ROOT / "deploy" / "base" / "api" / "gpuadmissionpolicies.yaml"
PAGE = (ROOT / "docs" / "settings.md").read_text()
POLICY = RESOURCES["GPUAdmissionPolicy"]
DEFAULT = POLICY.path(name="default")
MIDNIGHT = datetime(2027, 1, 1, tzinfo=UTC)
MUCH = (
    'Write one such as "40Gi": min-memory is "much", which is not a Kubernetes quantity; '
    "spec.placement.wishes[0].wish[min-memory]."
)
INSTEAD = (
    "Until this is fixed, each replica keeps the settings that it accepted last, and a new replica uses the "
    "built-in defaults."
)
WARN = {"rules": [{"rule": "GA307", "severity": "warn"}]}
INVALID = {"placement": {"wishes": [{"wish": {"min-memory": "much"}}]}}


def policy(spec):
    return {"apiVersion": POLICY.api_version, "kind": POLICY.kind, "metadata": {"name": "default"}, "spec": spec}


class Cluster:
    """A cluster with our CRD, a replica's view of it, and a leader that writes the status."""

    def __init__(self, sandbox, client):
        self.sandbox = sandbox
        self.client = client
        self.sync = Sync(client)
        self.settings = LiveSettings(self.sync.view)
        self.audit = None
        self.now = MIDNIGHT

    def leader(self, settings=None):
        clockwork = Clockwork(now=lambda: self.now)
        return PolicyStatus(self.client, settings or self.settings, lambda: self.audit, clockwork=clockwork)

    async def create(self, spec):
        return await self.shown(await self.client.post(POLICY.path(), policy(spec)))

    async def change(self, spec):
        body = {"spec": {**dict.fromkeys(("rules", "placement")), **spec}}
        return await self.shown(await self.client.patch(DEFAULT, body, content_type=MERGE_PATCH))

    async def shown(self, stored):
        """Wait until the watch has brought what is stored."""
        expected = lookup(stored, ("metadata", "generation")), lookup(stored, ("status",))
        while self.seen() != expected:  # noqa: ASYNC110 - a view tells nobody that it changed
            await asyncio.sleep(0)
        return stored

    def seen(self):
        found = self.sync.view.get(POLICY.kind, "default")
        return lookup(found, ("metadata", "generation")), lookup(found, ("status",))

    async def written(self, leader):
        """The status after a round of a leader."""
        await leader.round()
        stored = await self.client.get(DEFAULT)
        await self.shown(stored)
        return stored.get("status")

    def patches(self):
        return [asked for asked in self.sandbox.requests if (asked.verb, asked.subresource) == ("patch", "status")]


@pytest.fixture
async def cluster(tmp_path):
    async with contextlib.AsyncExitStack() as stack:
        sandbox = Sandbox(seed=1)
        await sandbox.start()
        stack.push_async_callback(sandbox.stop)
        sandbox.create(libyaml.load(CRD.read_text()))
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(sandbox.kubeconfig())
        client = await APIClient.connect(str(kubeconfig), environ={})
        stack.push_async_callback(client.close)
        cluster = Cluster(sandbox, client)
        stack.push_async_callback(cluster.sync.close)
        cluster.sync.start(["gpu-operator"])
        await cluster.sync.wait_for_first()
        yield cluster


def accepted(status):
    (condition,) = status["conditions"]
    return condition


async def test_settings_hold_as_soon_as_they_are_stored(cluster):
    assert cluster.settings() is DEFAULTS
    await cluster.create(WARN)
    assert cluster.settings().rules == (RuleOverride("GA307", Severity.WARN),)
    await cluster.change(INVALID)
    assert cluster.settings().rules == (RuleOverride("GA307", Severity.WARN),)
    (note,) = cluster.settings.notes()
    assert note.replace("generation 2", "generation 4").replace("generation 1", "generation 3") in PAGE
    await cluster.client.delete(DEFAULT)
    await cluster.shown(None)
    assert cluster.settings() is DEFAULTS


async def test_defaults_hold_where_the_crd_is_not_installed(cluster):
    cluster.sandbox.remove("CustomResourceDefinition", "gpuadmissionpolicies.gpu-admission.io")
    replica = Sync(cluster.client)
    replica.start(["gpu-operator"])
    await replica.wait_for_first()
    assert LiveSettings(replica.view)() is DEFAULTS
    await replica.close()


async def test_accepted_settings_are_said_to_be_in_use(cluster):
    await cluster.create(WARN)
    assert await cluster.written(cluster.leader()) == {
        "observedGeneration": 1,
        "conditions": [
            {
                "type": "Accepted",
                "status": "True",
                "observedGeneration": 1,
                "lastTransitionTime": "2027-01-01T00:00:00Z",
                "reason": "Valid",
                "message": "These settings are in use.",
            }
        ],
    }


async def test_refused_settings_are_said_to_be_with_every_problem(cluster):
    await cluster.create(INVALID)
    condition = accepted(await cluster.written(cluster.leader()))
    assert (condition["status"], condition["reason"], condition["message"]) == ("False", "Invalid", f"{MUCH} {INSTEAD}")
    assert condition["message"] in PAGE


async def test_rules_without_effect_are_in_the_message(cluster):
    await cluster.create({"rules": [{"rule": "GA999", "severity": "warn"}]})
    assert accepted(await cluster.written(cluster.leader()))["message"] == (
        "These settings are in use. "
        "Remove the entry, or name a rule that gpu-admission rules lists: rule GA999 does not exist in this version, so its "
        "severity has no effect; spec.rules[0].rule."
    )


async def test_message_has_room_for_many_problems(cluster):
    wishes = [{"wish": {"min-memory": "x" * 1000}} for _ in range(64)]
    await cluster.create({"placement": {"wishes": wishes}})
    message = accepted(await cluster.written(cluster.leader()))["message"]
    assert "And 44 more; gpu-admission review shows them all. Until" in message


async def test_time_of_the_condition_is_that_of_its_last_turn(cluster):
    leader = cluster.leader()
    await cluster.create(WARN)
    await cluster.written(leader)
    cluster.now += timedelta(hours=1)
    await cluster.change({"rules": []})
    same = await cluster.written(leader)
    assert (same["observedGeneration"], accepted(same)["observedGeneration"]) == (2, 2)
    assert accepted(same)["lastTransitionTime"] == "2027-01-01T00:00:00Z"
    await cluster.change(INVALID)
    assert accepted(await cluster.written(leader))["lastTransitionTime"] == "2027-01-01T01:00:00Z"


async def test_status_that_is_right_is_left_alone_by_every_leader(cluster):
    await cluster.create(WARN)
    await cluster.written(cluster.leader())
    await cluster.change(INVALID)
    cluster.settings()
    await cluster.written(cluster.leader())
    cluster.now += timedelta(hours=1)
    restarted = LiveSettings(cluster.sync.view)
    assert restarted.state.used != cluster.settings.state.used
    for leader in (cluster.leader(), cluster.leader(restarted)):
        await leader.round()
    assert len(cluster.patches()) == 2


async def test_audit_is_written_as_it_is_handed_over(cluster):
    await cluster.create(WARN)
    leader = cluster.leader()
    cluster.audit = {"time": "2027-01-01T00:00:00Z", "summary": "2 problems", "counts": {"a": 1, "b": 1}}
    assert (await cluster.written(leader))["audit"] == cluster.audit
    cluster.audit = {"time": "2027-01-01T01:00:00Z", "summary": "1 problem", "counts": {"b": 1}}
    assert (await cluster.written(leader))["audit"] == cluster.audit
    before, cluster.audit = cluster.audit, None
    assert (await cluster.written(cluster.leader()))["audit"] == before
    assert len(cluster.patches()) == 2


async def test_conditions_of_others_stay(cluster):
    theirs = {
        "type": "Synced",
        "status": "True",
        "reason": "Applied",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await cluster.create(WARN)
    path = POLICY.path(name="default", subresource="status")
    body = {"status": {"conditions": [theirs]}}
    await cluster.shown(await cluster.client.patch(path, body, content_type=MERGE_PATCH))
    first, second = (await cluster.written(cluster.leader()))["conditions"]
    assert (first, second["type"]) == (theirs, "Accepted")


async def test_nothing_is_written_where_there_is_nothing(cluster):
    await cluster.leader().round()
    assert cluster.patches() == []


@pytest.fixture
async def behind(cluster):
    """A leader whose view has stopped at generation 1."""
    await cluster.create(WARN)
    await cluster.sync.close()
    return cluster.leader()


async def test_settings_that_are_not_judged_yet_are_left_to_the_next_round(cluster, behind):
    await cluster.client.patch(DEFAULT, {"spec": INVALID}, content_type=MERGE_PATCH)
    await behind.round()
    assert cluster.patches() == []


async def test_settings_that_are_gone_are_left_alone(cluster, behind):
    await cluster.client.delete(DEFAULT)
    await behind.round()
    assert cluster.patches() == []


async def test_settings_that_were_made_again_are_left_to_the_next_round(cluster, behind):
    await cluster.client.delete(DEFAULT)
    await cluster.client.post(POLICY.path(), policy(INVALID))
    await behind.round()
    assert cluster.patches() == []


async def test_lost_race_is_left_to_the_next_round(cluster, behind):
    class Raced:
        """A client between whose read and write somebody else writes."""

        async def get(self, path):
            stored = await cluster.client.get(path)
            body = {"metadata": {"labels": {"team": "a"}}}
            await cluster.client.patch(path, body, content_type=MERGE_PATCH)
            return stored

        patch = staticmethod(cluster.client.patch)

    await PolicyStatus(Raced(), cluster.settings, lambda: None).round()
    assert "status" not in await cluster.client.get(DEFAULT)
    await behind.round()
    assert "status" in await cluster.client.get(DEFAULT)


async def test_refusal_is_raised_to_the_caller_of_rounds(cluster, behind):
    class Forbidden:
        async def get(self, path):
            raise APIError(403, "Forbidden", "no")

    with pytest.raises(APIError):
        await PolicyStatus(Forbidden(), cluster.settings, lambda: None).round()
