"""The metrics of API servers that the alerts, the objectives and `doctor` use exist, with their labels."""

import base64
import re
from datetime import UTC, datetime
from http import HTTPStatus

import pytest
from aiohttp import web

from certs import issue_serving, make_authority
from policies.entries import ENTRIES
from testbed import manifests
from testbed.waiting import until
from tests.deploy.test_alerts_and_dashboard import API_SERVERS
from webhook.server.admission_response import encode_failure
from webhook.server.admission_review import decode
from webhook.server.tls import server_context

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
CONFIGURATION = "ValidatingWebhookConfiguration"


@pytest.fixture
def webhook(real):
    """Add a webhook for the pods of a namespace, which has the name of one of ours; returns the namespace."""
    added = []

    def add(name, client, **more):
        team = real.namespace()
        review = {
            "name": f"{name}.gpu-admission.io",
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": team}},
            "clientConfig": client,
            "failurePolicy": "Ignore",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **more,
        }
        kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": CONFIGURATION}
        real.belongings.add({**kind, "metadata": {"name": team}, "webhooks": [review]})
        added.append(team)
        return team

    yield add
    for team in added:
        real.api.delete(CONFIGURATION, team)


def samples_of(real):
    """Names and labels of all samples about webhooks and their conditions."""
    text = real.api.request("GET", "/metrics").object
    lines = re.findall(r"^(apiserver_admission_\w+)\{(.*)\} ", text, re.MULTILINE)
    return [(name, dict(re.findall(r'(\w+)="([^"]*)"', labels))) for name, labels in lines]


def labels_of(real, metric, name):
    """The labels of a metric's samples for one webhook."""
    return [labels for found, labels in samples_of(real) if found == metric and labels["name"].startswith(f"{name}.")]


@pytest.fixture
def condition_error(real, webhook):
    """A condition of a webhook ends with an error, as with an object that is too expensive."""
    condition = {"name": "condition", "expression": "object.metadata.labels['x'] == 'y'"}
    team = webhook("condition-error", {"url": "https://127.0.0.1:1/"}, matchConditions=[condition])

    def is_counted():
        real.create(manifests.pod(team), dry_run=True)
        return labels_of(real, "apiserver_admission_match_condition_evaluation_errors_total", "condition-error")

    until(is_counted, "the API server evaluates the condition")


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


@pytest.fixture
def failing(background):
    """The client configuration of a server that answers as our webhooks do if a review fails."""

    async def fail(call):
        request = decode(await call.read())
        return web.json_response(encode_failure(ENTRIES["convert-pods"], request, "failed", "4f1c09aa"))

    async def listen():
        now = datetime.now(UTC)
        authority = make_authority("failing reviews", now=now)
        await runner.setup()
        context = server_context(issue_serving(authority, ["127.0.0.1"], now=now))
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        bundle = base64.b64encode(authority.certificate_pem).decode()
        return {"url": f"https://127.0.0.1:{runner.addresses[0][1]}/", "caBundle": bundle}

    app = web.Application()
    app.router.add_post("/", fail)
    runner = web.AppRunner(app)
    yield background.run(listen())
    background.run(runner.cleanup())


def test_failed_review_is_a_rejection_with_code_500(real, webhook, failing):
    if real.control_plane is None:
        pytest.skip("the API servers of KUBECONFIG may not reach this machine")
    team = webhook("failed-review", failing)

    def counted():
        assert real.create(manifests.pod(team), dry_run=True).code == HTTPStatus.INTERNAL_SERVER_ERROR
        return labels_of(real, "apiserver_admission_webhook_rejection_count", "failed-review")

    (labels,) = until(counted, "the API server calls the webhook")
    assert (labels["error_type"], labels["rejection_code"]) == ("no_error", "500")
