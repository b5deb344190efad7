"""The administrator changes the settings, and the service follows without a restart."""

import pytest

from testbed import manifests
from testbed.waiting import until

WRONG = {"nodeSelector": {"nvidia.com/gpu.count": "8"}}


@pytest.fixture
def configured(cluster):
    """A cluster whose settings are the defaults again when the scenario ends."""
    yield cluster
    cluster.delete("GPUAdmissionPolicy", "default")
    team = cluster.namespace(dra="enabled")
    until(lambda: refused(cluster, team), "the defaults hold again")
    cluster.tidy()


def refused(cluster, team):
    return not cluster.create(manifests.pod(team, **WRONG), dry_run=True).accepted


def severity(cluster, value):
    return cluster.configure(rules=[{"rule": "GA307", "severity": value}])


def test_severity_of_a_rule_changes_while_the_service_runs(configured):
    team = configured.namespace(dra="enabled")
    assert refused(configured, team)
    assert severity(configured, "warn").accepted
    until(lambda: not refused(configured, team), "the rule only warns")
    answer = configured.create(manifests.pod(team, **WRONG), dry_run=True)
    assert answer.object["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    text = " ".join(line.strip() for line in answer.warnings)
    assert "; spec.nodeSelector[nvidia.com/gpu.count] [GA307]" in text
    assert severity(configured, "deny").accepted
    until(lambda: refused(configured, team), "the rule refuses again")


def test_what_became_of_the_settings_is_written_into_their_status(configured):
    assert severity(configured, "warn").accepted

    def accepted():
        stored = configured.get("GPUAdmissionPolicy", "default").object
        conditions = stored.get("status", {}).get("conditions", [])
        assert stored.get("status", {}).get("observedGeneration") == stored["metadata"]["generation"], stored
        return [each["status"] for each in conditions if each["type"] == "Accepted"] == ["True"]

    until(accepted, "the settings are accepted", 50)


def test_refused_settings_change_nothing(configured):
    team = configured.namespace(dra="enabled")
    assert severity(configured, "warn").accepted
    until(lambda: not refused(configured, team), "the rule only warns")
    assert severity(configured, "never").code == 422
    assert not refused(configured, team)


def test_what_the_audit_found_is_written_into_their_status(configured):
    assert severity(configured, "warn").accepted

    def audited():
        return configured.get("GPUAdmissionPolicy", "default").object.get("status", {}).get("audit")

    assert "ready to convert" in until(audited, "the audit is told", 50)["summary"]
