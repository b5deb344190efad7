"""Requests that no entry reviews offline: the reason, and whose settings hold."""

from dataclasses import replace

import pytest

from policies.admission import review
from policies.rules.decision import Decision, Severity
from policies.rules.request import Request, UserInfo
from policies.rules.settings import DEFAULTS, Exemption, GPUAdmissionPolicy
from webhook.cluster.manifests import ManifestsView

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train", "namespace": "team-a"}, "spec": {}}
CONFIG = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "device-plugin", "namespace": "kube-system"},
    "data": {"any": "version: v1\nflags:\n  migStrategy: mixed\n  gdsEnabld: true\n"},
}


def test_subresource_that_no_rule_is_about_is_named():
    request = Request(POD, subresource="eviction", namespace="team-a")
    assert review(request, ManifestsView(), DEFAULTS).not_reviewed == (
        "no rule is about the subresource eviction of this kind"
    )


def test_quota_that_no_webhook_sees_is_only_reported_as_not_reviewed():
    quota = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": "kube-system"},
        "spec": {"limits": [{"name": "all", "gpus": 0.5}]},
    }
    request = Request(quota, group="gpu-admission.io", kind="GPUQuota", namespace="kube-system", name="gpu")
    assert [found.rule.id for found in review(request, ManifestsView(), DEFAULTS).findings] == ["GA705"]


@pytest.mark.parametrize("entry", ["convert-pods", "place-pods", "place-unconverted-pods", "enforce-converted-pods"])
def test_update_of_a_pod_passes_the_entries_for_new_pods(entry):
    request = Request(POD, POD, "UPDATE", namespace="team-a", entry=entry)
    assert review(request, ManifestsView(), DEFAULTS) == Decision(object=POD)


def test_subresource_of_a_claim_passes_the_entry_of_claims():
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": {"devices": {"requests": [1]}}}
    request = Request(claim, None, "UPDATE", "resource.k8s.io", "ResourceClaim", namespace="team-a", entry="claims")
    assert review(request, ManifestsView(), DEFAULTS).findings
    assert review(replace(request, subresource="status"), ManifestsView(), DEFAULTS).findings == ()


def test_update_of_a_claim_is_reviewed():
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "train"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
    }
    request = Request(claim, claim, "UPDATE", "resource.k8s.io", "ResourceClaim", namespace="team-a")
    decision = review(request, ManifestsView(), DEFAULTS)
    assert (decision.allowed, decision.not_reviewed) == (True, "")


@pytest.mark.parametrize(
    ("group", "kind", "remedy"),
    [
        ("argoproj.io", "Application", "review what it installs: the output of `helm template` or `kubectl kustomize`"),
        ("resource.k8s.io", "ResourceSlice", "if the cluster has it, give it with --cluster"),
    ],
)
def test_kind_that_is_no_workload_has_a_remedy_of_its_own(group, kind, remedy):
    request = Request({"spec": {"driver": "gpu.nvidia.com"}}, group=group, kind=kind, namespace="team-a")
    (found,) = review(request, ManifestsView(), DEFAULTS).findings
    assert found.remedy == remedy


@pytest.mark.parametrize(("user", "severity"), [("alice", Severity.AUDIT), ("bob", Severity.WARN)])
def test_exemption_of_a_user_holds_for_configuration_that_no_webhook_sees(user, severity):
    settings = GPUAdmissionPolicy(exemptions=(Exemption(("GA1*",), users=("alice",)),))
    request = Request(CONFIG, kind="ConfigMap", namespace="kube-system", user=UserInfo(user))
    (found,) = review(request, ManifestsView(), settings).findings
    assert (found.rule.id, found.severity) == ("GA135", severity)


@pytest.mark.parametrize(
    ("kind", "is_misspelled"), [("Deployments", True), ("DeploymentV2", False)], ids=["one-letter", "two-letters"]
)
def test_kind_with_a_word_more_than_a_known_one_is_not_taken_for_a_misspelling(kind, is_misspelled):
    containers = [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]
    document = {"apiVersion": "apps/v1", "kind": kind, "spec": {"template": {"spec": {"containers": containers}}}}
    request = Request(document, group="apps", kind=kind, namespace="team-a")
    (found,) = review(request, ManifestsView(), DEFAULTS).findings
    assert ("write kind: Deployment" in found.remedy) is is_misspelled
