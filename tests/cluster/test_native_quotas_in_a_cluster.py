"""ResourceQuotas of Kubernetes refuse claims as `refused_claims` says, in the same words."""

from __future__ import annotations

import pytest

from policies.devices.native_quotas import refused_claims, refused_pod
from policies.devices.resource_claims import Claim
from testbed import manifests
from testbed.waiting import until
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.resources import RESOURCES

DEVICES = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
CLAIMS = "count/resourceclaims.resource.k8s.io"
RESOURCE = "requests.nvidia.com/gpu"
IMPLICIT = "requests.deviceclass.resource.kubernetes.io/gpu.nvidia.com"
LIMITS = [
    {DEVICES: "3"},
    {CLAIMS: "1"},
    {RESOURCE: "3"},
    {IMPLICIT: "3"},
    {DEVICES: "3", CLAIMS: "1", RESOURCE: "3", IMPLICIT: "3"},
    {DEVICES: "8", RESOURCE: "1"},
    {"mig.nvidia.com.deviceclass.resource.k8s.io/devices": "0"},
]
REQUESTS = [{"count": 2}, {"count": 4}, {"allocationMode": "All"}]


@pytest.fixture
def limited(real):
    """Make a namespace with a ResourceQuota, which counts."""
    if not real.makes_pods:
        pytest.skip("no kube-controller-manager runs here, which counts for quotas")
    if real.minor < 36:
        pytest.skip("claims count as extended resources since Kubernetes 1.36")

    def make(hard, **labels):
        team = real.namespace(**labels)
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "native", "namespace": team},
            "spec": {"hard": hard},
        }
        assert real.create(quota).accepted
        counted(real, team, dict.fromkeys(hard, "0"))
        return team

    return make


def counted(real, team, used):
    def look():
        (quota,) = real.list("ResourceQuota", team)
        assert quota.get("status", {}).get("used") == used
        return True

    until(look, "the quota counts")


def seen(real, team):
    """The cluster as rules see it."""
    namespaces = {"ResourceQuota": team, "ResourceClaim": team, "Pod": team, "DeviceClass": ""}
    lists = [
        {"kind": f"{kind}List", "apiVersion": RESOURCES[kind].api_version, "items": real.list(kind, namespace)}
        for kind, namespace in namespaces.items()
    ]
    return ManifestsView([*lists, {"serverVersion": {"gitVersion": f"v1.{real.minor}.0"}}])


def claim(team, name, fields):
    made = manifests.claim(team, name, "true")
    made["spec"]["devices"]["requests"][0]["exactly"] = {"deviceClassName": manifests.CLASS, **fields}
    return made


def refusal(answer):
    """The words of the quota in an answer; empty if it is accepted."""
    return "" if answer.accepted else answer.message.partition(" is forbidden: ")[2]


@pytest.mark.parametrize("hard", LIMITS, ids=lambda hard: "-".join(each.partition(".")[0] for each in hard))
def test_claims_are_refused_as_predicted(real, limited, hard):
    team = limited(hard)
    predictions, answers = [], []
    for number, fields in enumerate(REQUESTS):
        made = claim(team, f"claim-{number}", fields)
        refused = refused_claims([Claim(made)], {"metadata": {"name": "none"}}, team, seen(real, team))
        predictions.append("".join(each.text for each in refused))
        answers.append(refusal(real.create(made)))
    assert answers == predictions


def test_pods_are_refused_as_predicted(real, limited):
    team = limited({RESOURCE: "3", "pods": "9"})
    predictions, answers = [], []
    for number, gpus in enumerate((2, 2, 1)):
        made = manifests.pod(team, f"pod-{number}", gpus=gpus)
        predictions.append("".join(each.text for each in refused_pod(made, team, seen(real, team))))
        answers.append(refusal(real.create(made)))
    assert answers == predictions
    assert [bool(each) for each in answers] == [False, True, False]


def test_converted_pod_waits_for_a_claim_that_is_refused_as_the_warning_says(real, limited):
    team = limited({DEVICES: "1"}, dra="enabled")
    answer = real.create(manifests.pod(team, gpus=2))
    assert answer.accepted
    text = f"exceeded quota: native, requested: {DEVICES}=2, limited: {DEVICES}=1"
    assert text in " ".join(" ".join(answer.warnings).split())

    def look():
        expected = f"exceeded quota: native, requested: {DEVICES}=2, used: {DEVICES}=0, limited: {DEVICES}=1"
        return [event for event in real.list("Event", team) if expected in event["message"]]

    until(look, "Kubernetes reports that the quota refuses the claim")
    assert real.list("ResourceClaim", team) == []
