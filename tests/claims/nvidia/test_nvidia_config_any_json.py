"""Any JSON in a config gets an answer."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.admission import review
from policies.rules.request import Request
from policies.rules.settings import GPUAdmissionPolicy
from testbed import libyaml
from tests.claims.parts import places, with_part
from tests.findings import labelled_text
from tests.properties import examples
from webhook.cluster.manifests import ManifestsView

DEVICES = """
requests:
- name: gpu
  exactly:
    deviceClassName: gpu.nvidia.com
    count: 2
    selectors: [{cel: {expression: 'device.attributes["gpu.nvidia.com"].type == "gpu"'}}]
- name: any
  firstAvailable:
  - {name: machine, deviceClassName: vfio.gpu.nvidia.com}
  - {name: slice, deviceClassName: mig.nvidia.com, allocationMode: All}
- {name: channel, exactly: {deviceClassName: compute-domain-default-channel.nvidia.com}}
config:
- requests: [gpu]
  opaque:
    driver: gpu.nvidia.com
    parameters:
      apiVersion: resource.nvidia.com/v1beta1
      kind: GpuConfig
      sharing:
        strategy: MPS
        mpsConfig: {defaultPinnedDeviceMemoryLimit: 4Gi, defaultPerDevicePinnedMemoryLimit: {"1": 1Gi}, multiUser: true}
- opaque:
    driver: gpu.nvidia.com
    parameters:
      apiVersion: resource.nvidia.com/v1beta1
      kind: GpuConfig
      sharing: {strategy: TimeSlicing, timeSlicingConfig: {interval: Long}}
- requests: [any/machine, any]
  opaque:
    driver: gpu.nvidia.com
    parameters: {apiVersion: resource.nvidia.com/v1beta1, kind: VfioDeviceConfig, iommu: {backendPolicy: LegacyOnly}}
- requests: [channel]
  opaque:
    driver: compute-domain.nvidia.com
    parameters: {apiVersion: resource.nvidia.com/v1beta1, kind: ComputeDomainChannelConfig, domainID: a, allocationMode: All}
"""
DOMAIN = {
    "apiVersion": "resource.nvidia.com/v1beta1",
    "kind": "ComputeDomain",
    "metadata": {"name": "imex", "namespace": "team-a", "uid": "a", "labels": {"a": "b"}},
    "spec": {"numNodes": 2, "channel": {"allocationMode": "All", "resourceClaimTemplate": {"name": "channel"}}},
}
CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu.nvidia.com"},
    "spec": {
        "selectors": [{"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}],
        "config": libyaml.load(DEVICES)["config"][:2],
    },
}
CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "gpu", "namespace": "team-a"},
    "spec": {"devices": libyaml.load(DEVICES)},
}

words = st.sampled_from(
    [
        "gpu",
        "any",
        "any/slice",
        "gpu.nvidia.com",
        "MPS",
        "GpuConfig",
        "kind",
        "sharing",
        "requests",
        "opaque",
        "1Gi",
        "",
    ]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8) | words
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words | st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def answered(document, cluster):
    group = document["apiVersion"].rpartition("/")[0]
    request = Request(document, operation="CREATE", group=group, kind=document["kind"], namespace="team-a")
    decision = review(request, ManifestsView(cluster, [document]), GPUAdmissionPolicy())
    assert all(labelled_text(finding) for finding in decision.findings)


@pytest.mark.parametrize("document", [CLAIM, CLASS, DOMAIN], ids=lambda document: document["kind"])
@given(data=st.data())
def test_any_json_in_the_place_of_a_part_of_a_config_is_answered(document, data):
    path = data.draw(st.sampled_from(sorted(places(document), key=str)))
    answered(with_part(document, path, data.draw(anything)), [CLASS, DOMAIN])


@pytest.mark.parametrize("other", [CLASS, DOMAIN], ids=lambda document: document["kind"])
@given(data=st.data())
@settings(max_examples=examples(60))
def test_any_json_in_the_cluster_is_answered(other, data):
    path = data.draw(st.sampled_from([path for path in sorted(places(other), key=str) if path[0] == "spec"]))
    cluster = [with_part(other, path, data.draw(anything))]
    for document in (CLAIM, DOMAIN):
        answered(document, cluster)
