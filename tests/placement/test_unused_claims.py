"""Claims that no container refers to."""

import pytest

from policies.kubernetes.pods import Pod
from policies.placement.resource_requests import used_claims
from tests.findings import plain_text
from webhook.cluster.manifests import ManifestsView


def template(name, device_class):
    request = {"name": "device", "exactly": {"deviceClassName": device_class}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


VIEW = ManifestsView([template("gpu", "gpu.nvidia.com"), template("nic", "nic.example.com")])


def found(template="gpu", *, container=(), init_container=()):
    spec = {
        "resourceClaims": [{"name": "device", "resourceClaimTemplateName": template}],
        "initContainers": [{"name": "check", "resources": {"claims": list(init_container)}}],
        "containers": [{"name": "train", "resources": {"claims": list(container)}}],
    }
    return [plain_text(finding) for finding in used_claims(Pod.read({"spec": spec}), "team-a", VIEW)]


def test_claim_that_no_container_refers_to_is_reported_with_what_to_write():
    (text,) = found()
    assert text == (
        'spec.resourceClaims[0].resourceClaimTemplateName: no container refers to claim "device": the pod holds its devices, '
        "and no container gets them; write resources: {claims: [{name: device}]} in the container that uses the GPU"
    )


@pytest.mark.parametrize("place", ["container", "init_container"])
@pytest.mark.parametrize("reference", [{"name": "device"}, {"name": "device", "request": "device"}])
def test_claim_that_a_container_refers_to_is_used(place, reference):
    assert found(**{place: [reference]}) == []


def test_claim_is_not_reported_beside_a_misspelt_reference():
    assert found(container=[{"name": "devices"}]) == []


def test_claim_for_a_device_of_another_driver_needs_no_container():
    assert found("nic") == []


def test_claim_of_which_nothing_is_known_is_not_reported():
    assert found("missing") == []
