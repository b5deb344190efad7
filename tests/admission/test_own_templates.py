"""Templates of a pod that is being converted count before a cache shows them."""

import pytest

from policies.admission import review
from policies.kubernetes.names import DRA_LABEL
from policies.kubernetes.view import ChangedView
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

DEVICE_CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu.nvidia.com"},
    "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]},
}
QUOTA = {
    "apiVersion": "gpu-admission.io/v1alpha1",
    "kind": "GPUQuota",
    "metadata": {"name": "gpu", "namespace": "team-a"},
    "spec": {"limits": [{"name": "all", "gpus": 4}]},
}


def namespace(**labels):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": labels}}


CONVERTING = ManifestsView([namespace(**{DRA_LABEL: "enabled"}), DEVICE_CLASS, QUOTA])
OTHER = ManifestsView([namespace(), DEVICE_CLASS, QUOTA])
"""The same namespace without conversion."""


@pytest.fixture
def converted():
    """A converted pod that names the runtime class of GPUs."""
    amounts = {"nvidia.com/gpu": 1}
    container = {"name": "train", "image": "train:1", "resources": {"limits": amounts, "requests": dict(amounts)}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "team-a"},
        "spec": {"runtimeClassName": "nvidia", "containers": [container]},
    }
    decision = review(Request(pod, namespace="team-a", entry="convert-pods"), CONVERTING, DEFAULTS)
    assert len(decision.templates) == 1
    return decision.object


def rules(pod, view, entry, **fields):
    """The rules of the findings of one entry."""
    return [
        each.rule.id
        for each in review(Request(pod, namespace="team-a", entry=entry, **fields), view, DEFAULTS).findings
    ]


def test_access_counts_the_claims_of_a_pod_that_is_being_converted(converted):
    assert rules(converted, CONVERTING, "enforce-converted-pods") == []


@pytest.mark.parametrize("dry_run", [False, True])
def test_template_of_the_conversion_is_charged_without_being_read(converted, dry_run):
    request = Request(converted, namespace="team-a", entry="enforce-converted-pods", dry_run=dry_run)
    decision = review(request, CONVERTING, DEFAULTS)
    ((demand,),) = decision.charges[0].pieces.values()
    assert (decision.findings, demand.count) == ((), 1)


@pytest.mark.parametrize("dry_run", [False, True])
def test_template_that_a_record_invents_gives_no_access_and_is_not_charged(converted, dry_run):
    assert rules(converted, OTHER, "check-pods", dry_run=dry_run) == ["GA603", "GA505"]


def test_template_that_is_not_that_of_the_conversion_gives_no_access_and_is_read(converted):
    converted["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] = "gpu-0123456789abcdef"
    assert rules(converted, CONVERTING, "enforce-converted-pods") == ["GA603", "GA505"]


def test_template_that_the_view_shows_is_charged_as_it_is(converted):
    name = converted["spec"]["resourceClaims"][0]["resourceClaimTemplateName"]
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 5}}
    stored = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    seen = ChangedView(CONVERTING, {("ResourceClaimTemplate", "team-a", name): stored})
    (charge,) = review(Request(converted, namespace="team-a", entry="enforce-converted-pods"), seen, DEFAULTS).charges
    assert [demand.count for demands in charge.pieces.values() for demand in demands] == [5]
