"""Waivers over HTTPS: silent in the answer, counted, and in the audit log."""

import re

import pytest

from policies.kubernetes.view import ChangedView
from tests.server.test_metrics_page import value

IGNORE = "gpu-admission.io/ignore"


@pytest.fixture
def waiving(pod):
    """Make a pod with an unknown annotation, which GA406 warns about, and with waivers."""

    def make(waivers, **options):
        document = pod(namespace="team-legacy", **options)
        document["metadata"]["annotations"] = {"gpu-admission.io/owner": "me", IGNORE: waivers}
        return document

    return make


async def test_waived_finding_is_in_the_audit_log_only(ask, waiving, review_of):
    response = await ask("place-pods", review_of(waiving("GA406 because another team reads it")))
    assert response["allowed"] is True
    assert "warnings" not in response
    assert response["auditAnnotations"] == {
        "findings": "GA406=warn",
        "waived": "GA406 because another team reads it",
    }


async def test_invalid_waiver_is_a_warning(ask, waiving, review_of):
    response = await ask("place-pods", review_of(waiving("GA406")))
    said = " ".join(line.strip() for line in response["warnings"])
    assert re.findall(r"\[(GA[0-9]{3})\]", said) == ["GA708", "GA406"]


async def test_unmatched_waiver_is_no_warning(ask, waiving, review_of):
    response = await ask("place-pods", review_of(waiving("GA406 because x; GA404 because x")))
    assert "warnings" not in response


async def test_refusal_says_that_it_cannot_be_ignored(ask, waiving, review_of):
    response = await ask("convert-pods", review_of(waiving("GA302 because x", gpus="0.5")))
    assert response["allowed"] is False
    assert any("GA302 is a refusal and cannot be ignored" in line for line in response["warnings"])


async def test_waived_findings_are_counted_by_rule(webhook, waiving, review_of):
    for _ in range(3):  # the answer to the third is known
        await webhook.client.ask("place-pods", review_of(waiving("GA406 because x")))
    assert value(webhook, "waived_total", webhook="place-pods", rule="GA406") == 3
    assert value(webhook, "findings_total", webhook="place-pods", rule="GA406", severity="warn") == 3


@pytest.mark.parametrize(("annotations", "is_warned"), [({}, True), ({IGNORE: "GA502 because x"}, False)])
async def test_warning_about_a_quota_can_be_waived(start_webhook, cluster, pod, review_of, annotations, is_warned):
    quota = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": "team-legacy"},
        "spec": {"mode": "Warn", "limits": [{"name": "all", "devices": 8}]},
    }
    webhook = await start_webhook(view=ChangedView(cluster, {("GPUQuota", "team-legacy", "gpu"): quota}))
    document = pod(9, namespace="team-legacy")
    document["metadata"]["annotations"] = annotations
    response = await webhook.client.ask("check-pods", review_of(document))
    assert "GA502=warn" in response["auditAnnotations"]["findings"]
    assert ("warnings" in response) is is_warned
