"""Namespaces without a GPUQuota cost no call to the API server, as long as the cache of GPUQuotas can be trusted."""

import pytest

from tests.server.quotas.quota_calls import ENTRIES, example_cluster
from webhook.cluster.manifests import ManifestsView
from webhook.server import driver

NO_QUOTAS = [
    {"apiVersion": "gpu-admission.io/v1alpha1", "kind": kind, "items": []}
    for kind in ("GPUQuotaList", "ClusterGPUQuotaList")
]


def calls(sandbox):
    return [each for each in sandbox.requests if each.resource == "gpuquotas"]


@ENTRIES
async def test_pod_of_an_unlimited_namespace_is_admitted_without_a_read(serve, sandbox, ask, train, entry):
    webhook = await serve(ManifestsView([*example_cluster(), *NO_QUOTAS]), trusts_view=lambda: True)
    before = len(sandbox.requests)
    response = await ask(webhook, train(200), entry)
    assert response == {"uid": response["uid"], "allowed": True}
    assert webhook.counted == [(entry, "no_quota")]
    assert len(sandbox.requests) == before


async def test_pod_is_charged_if_the_view_is_not_trusted(serve, namespace, sandbox, ask, train):
    namespace.limit(used=8)
    webhook = await serve(ManifestsView([*example_cluster(), *NO_QUOTAS]), trusts_view=lambda: False)
    assert (await ask(webhook, train(1)))["allowed"] is False
    assert calls(sandbox)


async def test_pod_is_charged_if_quotas_are_unknown(serve, namespace, ask, train):
    namespace.limit(used=8)
    webhook = await serve(ManifestsView(example_cluster()), trusts_view=lambda: True)
    assert (await ask(webhook, train(1)))["allowed"] is False


async def test_pod_is_charged_if_the_view_shows_the_quota(serve, namespace, shown, ask, train):
    namespace.limit(used=8)
    webhook = await serve(ManifestsView([*example_cluster(), *shown]), trusts_view=lambda: True)
    assert (await ask(webhook, train(1)))["allowed"] is False


async def test_quota_that_appears_during_the_other_concerns_holds(serve, namespace, ask, train, monkeypatch):
    view = ManifestsView([*example_cluster(), *NO_QUOTAS])
    webhook, real = await serve(view, trusts_view=lambda: True), driver.judge

    def judge(step, seen, settings):
        if step.part.concern == "access":
            namespace.limit(used=8)
            view.__init__([*example_cluster(), *namespace.shown])
        return real(step, seen, settings)

    monkeypatch.setattr(driver, "judge", judge)
    assert (await ask(webhook, train(1)))["allowed"] is False


@pytest.mark.parametrize("dry_run", [True, False])
async def test_outcome_is_counted_unless_it_is_a_dry_run(serve, ask, train, dry_run):
    webhook = await serve(ManifestsView([*example_cluster(), *NO_QUOTAS]), trusts_view=lambda: True)
    assert (await ask(webhook, train(2), dryRun=dry_run))["allowed"] is True
    assert len(webhook.counted) == (not dry_run)
