"""The metrics of API servers that the alerts, the objectives and `doctor` use exist, with their labels; in the sandbox, too."""

import re

import pytest

from testbed import manifests

METRICS = {
    "apiserver_admission_match_condition_exclusions_total": {"name", "type", "operation", "kind"},
    "apiserver_admission_webhook_admission_duration_seconds_bucket": {"name", "type", "operation", "rejected", "le"},
    "apiserver_admission_webhook_admission_duration_seconds_count": {"name", "type", "operation", "rejected"},
    "apiserver_admission_webhook_fail_open_count": {"name", "type"},
    "apiserver_admission_webhook_rejection_count": {"name", "type", "operation", "error_type", "rejection_code"},
    "apiserver_admission_webhook_request_total": {"name", "type", "operation", "code", "rejected"},
}
BOUND = "0.1"
"""Of the objective for latency, in seconds."""


@pytest.fixture
def samples(cluster):
    """Names and labels of what the API server counted after calls that were answered, and calls that failed."""
    team, elsewhere = cluster.namespace(dra="enabled"), cluster.namespace()
    assert cluster.create(manifests.pod(team)).accepted
    cluster.service.stop()
    try:
        assert cluster.create(manifests.pod(team)).code == 500
        assert cluster.create(manifests.pod(elsewhere)).accepted
    finally:
        cluster.service.start()
    text = cluster.api.request("GET", "/metrics").object
    lines = re.findall(r"^(apiserver_admission_(?:webhook|match_condition)_\w+)\{(.*)\} ", text, re.MULTILINE)
    return [(name, dict(re.findall(r'(\w+)="([^"]*)"', labels))) for name, labels in lines]


def test_api_servers_count_calls_of_webhooks(samples):
    for metric, labels in METRICS.items():
        found = [each for name, each in samples if name == metric and each["name"].endswith(".gpu-admission.io")]
        assert found, metric
        assert all(labels == each.keys() for each in found), metric
    errors = {each["error_type"] for name, each in samples if name == "apiserver_admission_webhook_rejection_count"}
    assert "calling_webhook_error" in errors
    assert BOUND in {each["le"] for name, each in samples if "le" in each and name in METRICS}


def test_failed_calls_are_counted_with_their_code(samples):
    calls = [each for name, each in samples if name.endswith("webhook_request_total")]
    assert {(each["name"], each["rejected"], each["code"]) for each in calls} >= {
        ("convert-pods.gpu-admission.io", "true", "503"),
        ("check-pods.gpu-admission.io", "false", "503"),
    }
