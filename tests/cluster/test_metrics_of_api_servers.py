"""The metrics of API servers that the alerts, the objectives and `doctor` use exist, with their labels."""

import re
from http import HTTPStatus

import pytest

from testbed import manifests
from testbed.waiting import until
from tests.deploy.test_alerts_and_dashboard import API_SERVERS

METRICS = {
    "apiserver_admission_match_condition_evaluation_errors_total": {"name"},
    "apiserver_admission_webhook_admission_duration_seconds_bucket": {"name", "type", "operation", "rejected", "le"},
    "apiserver_admission_webhook_admission_duration_seconds_count": {"name", "type", "operation", "rejected"},
    "apiserver_admission_webhook_fail_open_count": {"name", "type"},
    "apiserver_admission_webhook_rejection_count": {"name", "type", "operation", "error_type", "rejection_code"},
    "apiserver_admission_webhook_request_total": {"name", "type", "operation", "code", "rejected"},
}
BOUND = "0.1"
"""Of the objective for latency, in seconds."""
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def webhook(name, team, expression):
    """A configuration with a webhook that fails open, for the pods of a namespace."""
    review = {
        "name": f"{name}.gpu-admission.io",
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": team}},
        "matchConditions": [{"name": "condition", "expression": expression}],
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": team},
        "webhooks": [review],
    }


def samples_of(real):
    """Names and labels of all samples about webhooks and their conditions."""
    text = real.api.request("GET", "/metrics").object
    lines = re.findall(r"^(apiserver_admission_\w+)\{(.*)\} ", text, re.MULTILINE)
    return [(name, dict(re.findall(r'(\w+)="([^"]*)"', labels))) for name, labels in lines]


@pytest.fixture
def condition_error(real):
    """A condition of a webhook that ends with an error, as of an object that is too expensive."""
    team, name = real.namespace(), "condition-error"
    created = real.api.request("POST", CONFIGURATIONS, body=webhook(name, team, "object.metadata.labels['x'] == 'y'"))
    assert created.code == HTTPStatus.CREATED

    def is_counted():
        real.create(manifests.pod(team), dry_run=True)
        metric = "apiserver_admission_match_condition_evaluation_errors_total"
        return any(found == metric and f"{name}." in labels["name"] for found, labels in samples_of(real))

    try:
        until(is_counted, "the API server evaluates the condition")
    finally:
        assert real.api.request("DELETE", f"{CONFIGURATIONS}/{team}").code == HTTPStatus.OK


@pytest.fixture
def samples(real, condition_error):
    """Names and labels of what the API server counted after calls that were answered, and calls that failed."""
    team, elsewhere = real.namespace(dra="enabled"), real.namespace()
    assert real.create(manifests.pod(team)).accepted
    real.service.stop()
    try:
        assert real.create(manifests.pod(team)).code == 500
        assert real.create(manifests.pod(elsewhere)).accepted
    finally:
        real.service.start()
    return samples_of(real)


def test_api_servers_count_calls_of_webhooks(samples):
    assert METRICS.keys() >= API_SERVERS
    for metric, labels in METRICS.items():
        found = [each for name, each in samples if name == metric and each["name"].endswith(".gpu-admission.io")]
        assert found, metric
        assert all(labels <= each.keys() for each in found), metric
    errors = {each["error_type"] for name, each in samples if name == "apiserver_admission_webhook_rejection_count"}
    assert "calling_webhook_error" in errors
    assert BOUND in {each["le"] for name, each in samples if "le" in each and name in METRICS}
