"""The decision of a review that refuses after earlier entries changed the object."""

import copy

import pytest

from policies.admission import review
from policies.kubernetes.names import DRA_LABEL
from policies.rules.request import Request
from policies.rules.settings import Access, GPUAdmissionPolicy
from webhook.cluster.manifests import ManifestsView

SETTINGS = GPUAdmissionPolicy(access=Access(mode="deny"))
NAMESPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "team-a", "labels": {DRA_LABEL: "enabled"}},
}
DEVICE_CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu.nvidia.com"},
    "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]},
}


def reviewed(env):
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "team-a"},
        "spec": {
            "containers": [
                {
                    "name": "train",
                    "env": env,
                    "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}},
                }
            ]
        },
    }
    request = Request(copy.deepcopy(pod), namespace="team-a")
    return pod, review(request, ManifestsView([NAMESPACE, DEVICE_CLASS]), SETTINGS)


@pytest.fixture
def accepted():
    return reviewed([])


@pytest.fixture
def refused():
    """The access entry, which comes after conversion, refuses."""
    return reviewed([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}])


def test_pod_that_is_accepted_is_converted(accepted):
    pod, decision = accepted
    assert decision.allowed
    assert decision.patch
    assert decision.templates
    assert decision.object != pod


def test_pod_that_is_refused_after_its_conversion_gets_no_patch_and_no_template(refused):
    pod, decision = refused
    assert [finding.rule.id for finding in decision.denials] == ["GA602"]
    assert decision.patch == ()
    assert decision.templates == ()
    assert decision.object == pod
