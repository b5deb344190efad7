"""Failures that API servers count without a failed call: of conditions, and of reviews; in the sandbox, too."""

import base64
import re
from datetime import UTC, datetime
from http import HTTPStatus

import pytest
from aiohttp import web

from certs import issue_serving, make_authority
from policies.admission.webhooks import ENTRIES
from testbed import manifests
from testbed.waiting import until
from tests.cluster.test_metrics_of_api_servers import METRICS
from tests.deploy.test_alerts_and_dashboard import API_SERVERS
from webhook.server.admission_review import decode, encode_failure
from webhook.server.tls import server_context

CONFIGURATION = "ValidatingWebhookConfiguration"
CONDITION_ERRORS = "apiserver_admission_match_condition_evaluation_errors_total"


@pytest.fixture
def webhook(cluster):
    """Add a webhook for the pods of a namespace; returns the namespace."""
    added = []

    def add(name, client, **more):
        team = cluster.namespace()
        review = {
            "name": f"{name}.example.com",
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": team}},
            "clientConfig": client,
            "failurePolicy": "Ignore",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **more,
        }
        kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": CONFIGURATION}
        cluster.belongings.add({**kind, "metadata": {"name": team}, "webhooks": [review]})
        added.append(team)
        return team

    yield add
    for team in added:
        cluster.api.delete(CONFIGURATION, team)


def samples_of(cluster):
    """Names and labels of all samples about webhooks and their conditions."""
    text = cluster.api.request("GET", "/metrics").object
    lines = re.findall(r"^(apiserver_admission_\w+)\{(.*)\} ", text, re.MULTILINE)
    return [(name, dict(re.findall(r'(\w+)="([^"]*)"', labels))) for name, labels in lines]


def labels_of(cluster, metric, name):
    """The labels of a metric's samples for one webhook."""
    return [
        labels for found, labels in samples_of(cluster) if found == metric and labels["name"].startswith(f"{name}.")
    ]


def test_error_of_a_condition_is_counted(cluster, webhook):
    """As with an object that is too expensive to evaluate."""
    condition = {"name": "condition", "expression": "object.metadata.labels['x'] == 'y'"}
    team = webhook("condition-error", {"url": "https://127.0.0.1:1/"}, matchConditions=[condition])

    def counted():
        cluster.create(manifests.pod(team), dry_run=True)
        return labels_of(cluster, CONDITION_ERRORS, "condition-error")

    (labels,) = until(counted, "the API server evaluates the condition")
    assert labels["name"] == "condition-error.example.com"


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


def test_failed_review_is_a_rejection_with_code_500(cluster, webhook, failing):
    if cluster.is_real and cluster.control_plane is None:
        pytest.skip("the API servers of KUBECONFIG may not reach this machine")
    team = webhook("failed-review", failing)

    def counted():
        assert cluster.create(manifests.pod(team), dry_run=True).code == HTTPStatus.INTERNAL_SERVER_ERROR
        return labels_of(cluster, "apiserver_admission_webhook_rejection_count", "failed-review")

    (labels,) = until(counted, "the API server calls the webhook")
    assert (labels["error_type"], labels["rejection_code"]) == ("no_error", "500")


def test_metrics_of_the_alerts_are_looked_at():
    assert METRICS.keys() | {CONDITION_ERRORS} >= API_SERVERS
